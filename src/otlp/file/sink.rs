//! Writes the lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::{FileError, current_path, rotated_path, rotation_number};
use crate::model::{Signal, Span};
use crate::otlp::encode::{Encoder, Request};

/// Size at which a file is put away and a new one begun: 100 MiB.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 100 * 1024 * 1024;

/// A line buffer that grew beyond this is given back: it counts as the training's memory.
const KEPT_BUFFER_BYTES: usize = 1024 * 1024;

/// Writes requests as lines of OTLP/JSON. The directory is made with mode 0700, files with 0600; symbolic links are not followed.
///
/// After an error the sink can be used further: each write begins anew, so that a disk that is full for a while costs only what
/// came meanwhile.
#[derive(Debug)]
pub struct FileSink {
    directory: PathBuf,
    max_file_bytes: u64,
    files: [Option<OpenFile>; 3],
    line: Vec<u8>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    bytes: u64,
    /// Something stands after the last newline: a line torn by a crash or a full disk.
    is_torn: bool,
}

impl FileSink {
    /// A sink for this directory, with files of at most [`DEFAULT_MAX_FILE_BYTES`]. Nothing is touched before the first write.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), max_file_bytes: DEFAULT_MAX_FILE_BYTES, files: [None, None, None], line: Vec::new() }
    }

    /// Sets the size at which a file is put away; a single longer line still becomes one file.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_file_bytes = bytes.max(1);
        self
    }

    /// Where the files are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directory and opens the three files, to find out early whether that works.
    ///
    /// # Errors
    ///
    /// What [`write`](Self::write) would return. The sink can be used all the same.
    pub fn prepare(&mut self) -> Result<(), FileError> {
        Signal::ALL.into_iter().try_for_each(|signal| self.open(signal).map(|_| ()))
    }

    /// Appends one request as one line. A request without items writes nothing.
    ///
    /// # Errors
    ///
    /// If the directory or file cannot be made or written to. None of the request's items are in the file then: the caller counts
    /// them ([`items`](crate::otlp::encode::items)) as lost. What comes next is tried again.
    pub fn write<R: Request>(&mut self, request: &R) -> Result<(), FileError> {
        if request.items() == 0 {
            return Ok(());
        }
        self.write_line(R::SIGNAL, |line| request.write_json(line))
    }

    /// Appends these spans as one line: what [`write`](Self::write) does with the encoder's request of them, for half the cost.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub fn write_spans(&mut self, encoder: &Encoder, spans: &[Span]) -> Result<(), FileError> {
        if spans.is_empty() {
            return Ok(());
        }
        self.write_line(Signal::Traces, |line| encoder.write_traces_json(spans, line))
    }

    fn write_line(&mut self, signal: Signal, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), FileError> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        // Room for a newline in front, in case the file ends in a torn line.
        line.push(b'\n');
        write(&mut line);
        line.push(b'\n');
        let result = self.append(signal, &line);
        if line.capacity() <= KEPT_BUFFER_BYTES {
            self.line = line;
        }
        result
    }

    fn append(&mut self, signal: Signal, line: &[u8]) -> Result<(), FileError> {
        let max_file_bytes = self.max_file_bytes;
        let file = self.open(signal)?;
        if file.bytes > 0 && file.bytes.saturating_add(line.len() as u64) > max_file_bytes {
            self.put_away(signal);
        }
        let file = self.open(signal)?;
        let line = if file.is_torn { line } else { &line[1..] };
        match file.append(line) {
            Ok(()) => Ok(()),
            Err(source) => {
                // Opened anew by the next write, which then sees what the file is like.
                self.files[signal as usize] = None;
                Err(FileError::Write { path: current_path(&self.directory, signal), source })
            }
        }
    }

    /// The open file of a signal; opened anew if somebody has deleted it, since what is written to it then is lost.
    fn open(&mut self, signal: Signal) -> Result<&mut OpenFile, FileError> {
        let slot = &mut self.files[signal as usize];
        if slot.as_ref().is_some_and(|open| is_deleted(&open.file)) {
            *slot = None;
        }
        match slot {
            Some(open) => Ok(open),
            None => Ok(slot.insert(open_file(&self.directory, signal)?)),
        }
    }

    /// Renames the current file to the next number. If that fails the file just grows on: a long file is better than lost lines.
    fn put_away(&mut self, signal: Signal) {
        let next = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| rotation_number(entry.file_name().to_str()?, signal))
            .max()
            .unwrap_or(0)
            .saturating_add(1);
        let target = rotated_path(&self.directory, signal, next);
        // Never over another file: renaming would replace it without a word.
        if fs::symlink_metadata(&target).is_err() && fs::rename(current_path(&self.directory, signal), target).is_ok() {
            self.files[signal as usize] = None;
        }
    }
}

impl OpenFile {
    /// Appends the line as a whole or not at all, as far as the system lets.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < line.len() {
            match self.file.write(&line[written..]) {
                Ok(0) => return Err(self.take_back(written, io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.take_back(written, error)),
            }
        }
        self.bytes += line.len() as u64;
        self.is_torn = false;
        Ok(())
    }

    /// Cuts off the part of a line that was written, unless somebody else has written to the file meanwhile.
    fn take_back(&mut self, written: usize, error: io::Error) -> io::Error {
        let length = self.file.metadata().map(|metadata| metadata.len());
        if written > 0 && length.is_ok_and(|length| length == self.bytes + written as u64) {
            // If this fails too, the next write finds the torn line and begins with a newline.
            let _ = self.file.set_len(self.bytes);
        }
        error
    }
}

fn open_file(directory: &Path, signal: Signal) -> Result<OpenFile, FileError> {
    make_directory(directory)?;
    let path = current_path(directory, signal);
    let mut file = match open_options().open(&path) {
        Ok(file) => file,
        Err(_) if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink()) => {
            return Err(FileError::NotOurs { path, what: "a symbolic link" });
        }
        Err(source) => return Err(FileError::Open { path, source }),
    };
    let metadata = file.metadata().map_err(|source| FileError::Open { path: path.clone(), source })?;
    if !metadata.is_file() {
        return Err(FileError::NotOurs { path, what: "no regular file" });
    }
    let is_torn = ends_within_a_line(&mut file).map_err(|source| FileError::Open { path, source })?;
    Ok(OpenFile { file, bytes: metadata.len(), is_torn })
}

fn make_directory(directory: &Path) -> Result<(), FileError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(directory).map_err(|source| FileError::Directory { path: directory.to_owned(), source })?;
    // The directories above are the user's affair; this one is ours, and a link in its place is somebody's trap.
    match fs::symlink_metadata(directory) {
        Ok(metadata) if metadata.is_symlink() => Err(FileError::NotOurs { path: directory.to_owned(), what: "a symbolic link" }),
        Ok(_) => Ok(()),
        Err(source) => Err(FileError::Directory { path: directory.to_owned(), source }),
    }
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // O_NONBLOCK has no meaning for files; it keeps a named pipe in their place from blocking forever.
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    options
}

/// Whether the last line of the file has no end.
fn ends_within_a_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(unix)]
fn is_deleted(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
}

#[cfg(not(unix))]
fn is_deleted(_: &File) -> bool {
    // An open file cannot be deleted there.
    false
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests;
