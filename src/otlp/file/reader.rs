//! Reads the lines back, whoever wrote them: the sink or a collector.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

use super::decode::{self, ResourceSeries, ResourceSpans};
use super::{FileError, current_path, rotated_path, rotation_number};
use crate::model::Signal;
use crate::otlp::encode::Request;

/// A longer line is no request that anybody sends, and would take the reader's memory.
const MAX_LINE_BYTES: u64 = 256 * 1024 * 1024;

/// The files of one run.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
    /// Oldest first.
    files: [Vec<PathBuf>; 3],
}

/// Finds the files in a directory. Files of other names are no affair of ours.
///
/// # Errors
///
/// If the directory cannot be read. One without files is no error: see [`Directory::is_empty`].
pub fn read_directory(path: &Path) -> Result<Directory, FileError> {
    let error = |source| FileError::Read { path: path.to_owned(), source };
    let mut numbers: [Vec<u64>; 3] = Default::default();
    for entry in fs::read_dir(path).map_err(error)? {
        let name = entry.map_err(error)?.file_name();
        for signal in Signal::ALL {
            if let Some(number) = name.to_str().and_then(|name| rotation_number(name, signal)) {
                numbers[signal as usize].push(number);
            }
        }
    }
    let files = Signal::ALL.map(|signal| {
        let numbers = &mut numbers[signal as usize];
        numbers.sort_unstable();
        let mut files: Vec<PathBuf> = numbers.iter().map(|number| rotated_path(path, signal, *number)).collect();
        files.extend(Some(current_path(path, signal)).filter(|current| current.exists()));
        files
    });
    Ok(Directory { path: path.to_owned(), files })
}

impl Directory {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is no file of any signal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(Vec::is_empty)
    }

    /// The files of a signal, oldest first.
    #[must_use]
    pub fn files(&self, signal: Signal) -> &[PathBuf] {
        &self.files[signal as usize]
    }

    /// When a file was last written to.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        self.files.iter().flatten().filter_map(|file| fs::metadata(file).ok()?.modified().ok()).max()
    }

    /// All spans, in the order in which they were written, in groups of one process each.
    #[must_use]
    pub fn spans(&self) -> Decoded<ExportTraceServiceRequest, ResourceSpans> {
        Decoded { requests: self.requests(), decode: decode::spans, ready: Vec::new().into_iter() }
    }

    /// All points of gauges and sums, in the order in which they were written, in groups of one process each.
    #[must_use]
    pub fn series(&self) -> Decoded<ExportMetricsServiceRequest, ResourceSeries> {
        Decoded { requests: self.requests(), decode: decode::series, ready: Vec::new().into_iter() }
    }

    /// All requests of a signal, in the order in which they were written.
    #[must_use]
    pub fn requests<R: Request>(&self) -> Requests<R> {
        Requests { files: self.files(R::SIGNAL).to_vec().into_iter(), current: None, skipped: 0, problems: Vec::new(), of: PhantomData }
    }
}

/// Reads requests line by line. What is no request is skipped and counted, a file that cannot be read is reported: neither ends it.
#[derive(Debug)]
pub struct Requests<R> {
    files: std::vec::IntoIter<PathBuf>,
    current: Option<(PathBuf, BufReader<File>)>,
    skipped: u64,
    problems: Vec<FileError>,
    of: PhantomData<R>,
}

impl<R> Requests<R> {
    /// Lines so far that are no request of this signal, such as one torn by a crash.
    #[must_use]
    pub fn skipped_lines(&self) -> u64 {
        self.skipped
    }

    /// Files so far that could not be read (to their end).
    #[must_use]
    pub fn problems(&self) -> &[FileError] {
        &self.problems
    }

    /// The next line of the next file; empty at the end of a file.
    fn next_line(&mut self, line: &mut Vec<u8>) -> Option<()> {
        line.clear();
        let (path, reader) = match &mut self.current {
            Some(current) => current,
            None => {
                let path = self.files.next()?;
                match open(&path) {
                    Ok(reader) => self.current.insert((path, reader)),
                    Err(source) => {
                        self.problems.push(FileError::Read { path, source });
                        return Some(());
                    }
                }
            }
        };
        match reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', line) {
            Ok(0) => self.current = None,
            Ok(_) => {
                if line.len() as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
                    // The rest of it comes as a line of its own, which is skipped just so.
                    line.clear();
                    self.skipped += 1;
                }
            }
            Err(source) => {
                let path = path.clone();
                self.current = None;
                self.problems.push(FileError::Read { path, source });
            }
        }
        Some(())
    }
}

impl<R: Request> Iterator for Requests<R> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        let mut line = Vec::new();
        loop {
            self.next_line(&mut line)?;
            let text = line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice::<R>(text) {
                // A line of another signal, or of something else, reads as a request of nothing.
                Ok(request) if request.items() > 0 => return Some(request),
                Ok(_) | Err(_) => self.skipped += 1,
            }
        }
    }
}

/// Reads what requests of `R` hold, in the model's words.
#[derive(Debug)]
pub struct Decoded<R, T> {
    requests: Requests<R>,
    decode: fn(R) -> Vec<T>,
    ready: std::vec::IntoIter<T>,
}

impl<R, T> Decoded<R, T> {
    /// Lines so far that are no request of this signal, such as one torn by a crash.
    #[must_use]
    pub fn skipped_lines(&self) -> u64 {
        self.requests.skipped_lines()
    }

    /// Files so far that could not be read (to their end).
    #[must_use]
    pub fn problems(&self) -> &[FileError] {
        self.requests.problems()
    }
}

impl<R: Request, T> Iterator for Decoded<R, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Some(next) = self.ready.next() {
                return Some(next);
            }
            self.ready = (self.decode)(self.requests.next()?).into_iter();
        }
    }
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Keeps a named pipe in the file's place from blocking forever.
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no regular file"));
    }
    Ok(BufReader::with_capacity(256 * 1024, file))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
