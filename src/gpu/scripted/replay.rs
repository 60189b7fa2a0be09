//! Recorded telemetry, played back at the speed at which it was recorded.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::csv::{Columns, Row};
use crate::gpu::{GpuLost, GpuSource};
use crate::model::{GpuDevice, GpuReading, GpuSlowReading};

/// Larger files are not read: hours of readings fit.
const MOST_BYTES: u64 = 64 << 20;

/// More devices than that are no recording of one host.
const MOST_DEVICES: usize = 256;

/// What is taken for the time between two rows of a device in a file without times.
const USUAL_INTERVAL: Duration = Duration::from_secs(1);

/// Why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read the recording {}: {source}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is too large.
    #[error("the recording {} is larger than 64 MiB: cut out the part to be played, with the header line before it", path.display())]
    TooLarge {
        /// Which one.
        path: PathBuf,
    },
    /// Its first line names no column that is known.
    #[error(
        "the first line of {} names no usable column. It must be a header such as nvidia-smi writes: \
         nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu --format=csv -l 1",
        path.display()
    )]
    NoColumns {
        /// Which one.
        path: PathBuf,
    },
    /// No row could be read.
    #[error("{} holds no row that can be read ({malformed} malformed)", path.display())]
    NoRows {
        /// Which one.
        path: PathBuf,
        /// Rows that could not be read.
        malformed: usize,
    },
}

/// A recording, played back from the first reading on. When it is over the devices are lost: the last value is not repeated. Between two
/// rows of the recording nothing is known, so a reading then has no fields.
#[derive(Debug)]
pub struct Replay {
    devices: Vec<GpuDevice>,
    tracks: Vec<Track>,
    malformed_rows: usize,
    began: Option<Instant>,
}

/// The readings of one device, by the time since the recording began.
#[derive(Debug, Default)]
struct Track {
    rows: Vec<(Duration, GpuReading)>,
    next: usize,
}

impl Replay {
    /// Reads the whole recording.
    ///
    /// # Errors
    /// [`ReplayError`] when nothing in it can be played. Rows that are malformed are skipped and counted.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let read_error = |source| ReplayError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        File::open(path).map_err(read_error)?.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(read_error)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(ReplayError::TooLarge { path: path.to_owned() });
        }
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty());
        let columns = lines.next().and_then(Columns::parse).ok_or_else(|| ReplayError::NoColumns { path: path.to_owned() })?;
        let mut malformed_rows = 0;
        let mut by_index: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
        for line in lines {
            let Some(row) = columns.row(line) else {
                malformed_rows += 1;
                continue;
            };
            if by_index.len() >= MOST_DEVICES && !by_index.contains_key(&row.index) {
                malformed_rows += 1;
                continue;
            }
            by_index.entry(row.index).or_default().push(row);
        }
        let Some(origin) = by_index.values().flatten().map(|row| row.time.unwrap_or_default()).min() else {
            return Err(ReplayError::NoRows { path: path.to_owned(), malformed: malformed_rows });
        };
        // The name alone: a path may say more than people want to show.
        let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let mut replay = Self { devices: Vec::new(), tracks: Vec::new(), malformed_rows, began: None };
        for (index, rows) in by_index {
            replay.devices.push(device(index, &rows, &file, columns.has_timestamp()));
            let (track, out_of_order) = Track::new(&rows, origin);
            replay.malformed_rows += out_of_order;
            replay.tracks.push(track);
        }
        Ok(replay)
    }

    /// Rows that could not be read, or whose time lies before that of the row above: they are not played.
    #[must_use]
    pub fn malformed_rows(&self) -> usize {
        self.malformed_rows
    }

    /// How long the recording is.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.tracks.iter().filter_map(|track| track.rows.last()).map(|(at, _)| *at).max().unwrap_or_default()
    }

    fn read_at(&mut self, device: usize, now: Instant) -> Result<GpuReading, GpuLost> {
        let elapsed = now.saturating_duration_since(*self.began.get_or_insert(now));
        self.tracks.get_mut(device).ok_or(GpuLost)?.read_at(elapsed)
    }
}

impl Track {
    /// Also gives the number of rows that were left out since their time lies before that of the row above.
    fn new(rows: &[Row], origin: Duration) -> (Self, usize) {
        let mut track = Self::default();
        let mut out_of_order = 0;
        for (number, row) in (0_u32..).zip(rows) {
            let at = match row.time {
                Some(time) => time.saturating_sub(origin),
                None => USUAL_INTERVAL.saturating_mul(number),
            };
            if track.rows.last().is_some_and(|(last, _)| *last > at) {
                out_of_order += 1;
            } else {
                track.rows.push((at, row.reading));
            }
        }
        (track, out_of_order)
    }

    /// The newest row that has been reached and was not given before.
    fn read_at(&mut self, elapsed: Duration) -> Result<GpuReading, GpuLost> {
        let reached = self.rows.partition_point(|(at, _)| *at <= elapsed);
        if self.next >= self.rows.len() {
            return Err(GpuLost);
        }
        if reached <= self.next {
            return Ok(GpuReading::default());
        }
        self.next = reached;
        Ok(self.rows[reached - 1].1)
    }
}

impl GpuSource for Replay {
    fn devices(&self) -> &[GpuDevice] {
        &self.devices
    }

    fn read(&mut self, device: usize) -> Result<GpuReading, GpuLost> {
        self.read_at(device, Instant::now())
    }

    fn read_slow(&mut self, device: usize) -> Result<GpuSlowReading, GpuLost> {
        match self.tracks.get(device) {
            Some(track) if track.next < track.rows.len() => Ok(GpuSlowReading::default()),
            _ => Err(GpuLost),
        }
    }
}

fn device(index: u32, rows: &[Row], file: &str, timed: bool) -> GpuDevice {
    let recorded = |field: fn(&Row) -> Option<&String>| rows.iter().find_map(field).cloned();
    let what = recorded(|row| row.name.as_ref()).unwrap_or_else(|| "a recording".to_owned());
    let assumed = if timed { "" } else { ", one row a second since it has no timestamps" };
    GpuDevice {
        // Never the recorded UUID alone: that is another device's identity.
        id: format!("GPU-simulated-replay-{}", recorded(|row| row.uuid.as_ref()).unwrap_or_else(|| index.to_string())),
        index,
        name: format!("Simulated GPU (replays {what})"),
        vendor: super::VENDOR.to_owned(),
        memory_limit_bytes: rows.iter().filter_map(|row| row.memory_total).max(),
        simulated: Some(format!("replays {file}{assumed}")),
        ..GpuDevice::default()
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn replay(text: &str) -> Result<Replay, ReplayError> {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("gpu.csv");
        std::fs::write(&path, text).expect("write");
        Replay::open(&path)
    }

    #[test]
    fn rows_are_given_once_and_the_end_is_the_end() {
        let mut replay = replay("time,utilization_percent\n100,10\n101,20\n102,30\n").expect("playable");
        let began = Instant::now();
        let mut at = |ms| replay.read_at(0, began + Duration::from_millis(ms)).map(|reading| reading.utilization);
        assert_eq!(at(0), Ok(Some(0.1)));
        assert_eq!(at(500), Ok(None), "nothing is known between two rows");
        assert_eq!(at(1000), Ok(Some(0.2)));
        assert_eq!(at(2500), Ok(Some(0.3)));
        assert_eq!(at(2600), Err(GpuLost), "the last value is not repeated");
        assert_eq!(replay.read_slow(0), Err(GpuLost));
        assert_eq!(replay.read(1), Err(GpuLost));
    }

    #[test]
    fn a_late_reading_gets_the_newest_row() {
        let mut replay = replay("time,utilization_percent\n0,10\n1,20\n2,30\n3,40\n").expect("playable");
        let began = Instant::now();
        assert_eq!(replay.read_at(0, began).expect("row").utilization, Some(0.1));
        assert_eq!(replay.read_at(0, began + Duration::from_millis(2100)).expect("row").utilization, Some(0.3));
    }

    #[test]
    fn malformed_rows_are_counted() {
        let text = "\u{feff}timestamp, index, memory.used [MiB]\r\n2025/01/01 00:00:01.000, 0, 5 MiB\r\nrubbish\r\n\
                    2025/01/01 00:00:02.000, 1, 6 MiB\r\n2025/01/01 00:00:00.000, 1, 7 MiB\r\n";
        let replay = replay(text).expect("playable");
        assert_eq!(replay.malformed_rows(), 2, "one is rubbish, one goes back in time");
        assert_eq!(replay.devices().iter().map(|device| device.index).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(replay.devices()[1].id, "GPU-simulated-replay-1");
        assert_eq!(replay.devices()[1].simulated.as_deref(), Some("replays gpu.csv"));
        assert_eq!(replay.duration(), Duration::from_secs(2));
    }

    #[test]
    fn what_cannot_be_played_says_why() {
        assert!(matches!(replay(""), Err(ReplayError::NoColumns { .. })));
        assert!(matches!(replay("2026/04/25 16:06:06.780, 0 %, 2 MiB\n"), Err(ReplayError::NoColumns { .. })));
        assert!(matches!(replay("time,power_W\nx,y\n"), Err(ReplayError::NoRows { malformed: 1, .. })));
        assert!(matches!(Replay::open(Path::new("/nonexistent.csv")), Err(ReplayError::Read { .. })));
    }
}
