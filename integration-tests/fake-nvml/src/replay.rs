//! Recorded telemetry as a value: one column of a CSV file becomes a staircase over seconds.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;
use crate::value::{Answer, Seconds};

/// Which numbers of which file, and how they become the field's unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The file; a relative path is taken from the scenario file's directory.
    pub file: String,
    /// The column with the numbers. What follows a number in its cell (`MiB`, `%`, `W`) is ignored; a cell without one answers NoData.
    pub column: Column,
    /// The column with the time stamps (`2025-09-24T03:48:33.493Z`, `2026/04/25 16:06:06.780`, or plain seconds). Default: the first.
    #[serde(default)]
    pub time_column: Column,
    /// Keep only rows where this column holds this number (one GPU out of several).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<(Column, f64)>,
    /// Multiplied into each number: 1048576 for MiB, 1000 for W.
    #[serde(default = "one")]
    pub scale: f64,
    /// How many recorded seconds pass in one real second.
    #[serde(default = "one")]
    pub speed: f64,
    /// Begin again at the end instead of holding the last row.
    #[serde(default)]
    pub repeat: bool,
}

/// A column by its heading or, for files without one, by its place from 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Column {
    /// By place.
    Place(usize),
    /// By heading.
    Heading(String),
}

impl Default for Column {
    fn default() -> Self {
        Self::Place(0)
    }
}

impl From<usize> for Column {
    fn from(place: usize) -> Self {
        Self::Place(place)
    }
}

impl From<&str> for Column {
    fn from(heading: &str) -> Self {
        Self::Heading(heading.into())
    }
}

fn one() -> f64 {
    1.0
}

impl Replay {
    /// All rows of one column, in the file's own unit.
    pub fn new(file: impl Into<String>, column: impl Into<Column>) -> Self {
        Self { file: file.into(), column: column.into(), time_column: Column::default(), only: None, scale: 1.0, speed: 1.0, repeat: false }
    }

    pub(crate) fn load(&self, directory: &Path) -> Result<Seconds, String> {
        let path = directory.join(&self.file);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("replay of {}: {error}", path.display()))?;
        self.steps(&text).map_err(|error| format!("replay of {}: {error}", path.display()))
    }

    fn steps(&self, text: &str) -> Result<Seconds, String> {
        if self.speed <= 0.0 {
            return Err("\"speed\" must be above 0".into());
        }
        let header: Vec<&str> = text.lines().next().unwrap_or_default().split(',').map(str::trim).collect();
        let place = |column: &Column| match column {
            Column::Place(place) => Ok(*place),
            Column::Heading(heading) => {
                header.iter().position(|cell| cell == heading).ok_or_else(|| format!("no column {heading:?} in {header:?}"))
            }
        };
        let (number_at, time_at) = (place(&self.column)?, place(&self.time_column)?);
        let only = self.only.as_ref().map(|(column, wanted)| place(column).map(|at| (at, *wanted))).transpose()?;

        let mut steps: Vec<(f64, Answer)> = Vec::new();
        let mut first = None;
        for line in text.lines() {
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            // A heading has no time stamp and so drops out here.
            let Some(time) = cells.get(time_at).and_then(|cell| seconds_of(cell)) else { continue };
            if only.is_some_and(|(at, wanted)| cells.get(at).and_then(|cell| leading_number(cell)) != Some(wanted)) {
                continue;
            }
            let second = (time - *first.get_or_insert(time)) / self.speed;
            let answer = match cells.get(number_at).and_then(|cell| leading_number(cell)) {
                Some(number) => Answer::Number((number * self.scale).round().max(0.0) as u64),
                None => Answer::Error(ErrorCode::NoData),
            };
            // Two rows of one instant: the later one is what the recorder saw last.
            match steps.last_mut() {
                Some(last) if last.0 >= second => last.1 = answer,
                _ => steps.push((second, answer)),
            }
        }
        let end = steps.last().ok_or("no row fits")?.0;
        let repeat_every = (self.repeat && end > 0.0).then_some(end);
        Ok(Seconds { seconds: steps, repeat_every })
    }
}

fn leading_number(cell: &str) -> Option<f64> {
    let end = cell.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(cell.len());
    cell.get(..end)?.parse().ok()
}

/// Seconds on some scale of the file's own; only differences are used.
fn seconds_of(cell: &str) -> Option<f64> {
    if let Ok(seconds) = cell.parse::<f64>() {
        return Some(seconds);
    }
    let mut parts = cell.trim_end_matches('Z').split(['-', '/', 'T', ' ', ':']).filter(|part| !part.is_empty());
    let mut whole = || parts.next()?.parse::<i64>().ok();
    let (year, month, day, hour, minute) = (whole()?, whole()?, whole()?, whole()?, whole()?);
    let second: f64 = parts.next()?.parse().ok()?;
    // Days since 0000-03-01 in the proleptic Gregorian calendar: March first makes the leap day the last of its year.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day;
    Some(((days * 24 + hour) * 60 + minute) as f64 * 60.0 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_one_gpu_becomes_a_staircase() {
        let text = "timestamp,gpu_index,power_W\n2025-12-31T23:59:59.500Z,0, 38.5\n2025-12-31T23:59:59.500Z,1, 99\n\
                    2026-01-01T00:00:00.000Z,0, 40 W\n2026-01-01T00:00:01.500Z,0,\n";
        let mut replay = Replay::new("x.csv", "power_W");
        replay.only = Some(("gpu_index".into(), 0.0));
        replay.scale = 1000.0;
        let steps = replay.steps(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(steps.seconds, vec![(0.0, 38_500.into()), (0.5, 40_000.into()), (2.0, ErrorCode::NoData.into())]);
    }

    #[test]
    fn a_file_without_a_heading_is_read_by_place() {
        let text = "2026/02/28 23:59:59, 7 %, 2 MiB\n2026/03/01 00:00:01, 8 %, 3 MiB\n";
        let mut replay = Replay::new("x.csv", 2);
        replay.scale = 1048576.0;
        let steps = replay.steps(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(steps.seconds, vec![(0.0, 2_097_152.into()), (2.0, 3_145_728.into())]);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(Replay::new("x.csv", "watts").steps("timestamp,power_W\n").is_err_and(|error| error.contains("watts")));
        assert!(Replay::new("x.csv", 1).steps("timestamp,power_W\n").is_err());
    }
}
