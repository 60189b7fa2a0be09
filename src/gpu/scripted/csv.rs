//! Recorded telemetry as text: which column is what, and what a row says.
//!
//! Columns are named as by `nvidia-smi --query-gpu=… --format=csv` (`memory.used [MiB]`), with or without units, or plainly
//! (`utilization_gpu_percent`, `power_W`).

use std::time::Duration;

use crate::gpu::plausible;
use crate::model::GpuReading;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Timestamp,
    Index,
    Uuid,
    Name,
    MemoryUsed,
    MemoryTotal,
    MemoryReserved,
    Utilization,
    MemoryBandwidth,
    Power,
    Energy,
    Temperature,
    Fan,
    SmClock,
    MemoryClock,
}

/// The columns of a file, in its order, each with the unit that its header gives; `None` for those that are not used.
#[derive(Debug)]
pub(super) struct Columns(Vec<Option<(Column, Unit)>>);

/// What a number must be multiplied with: bytes, watts, MHz, percent, joules.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Unit(f64);

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Seconds and nanoseconds since some fixed time.
    pub(super) time: Option<Duration>,
    /// The device, where the file says which.
    pub(super) index: u32,
    pub(super) uuid: Option<String>,
    pub(super) name: Option<String>,
    pub(super) memory_total: Option<u64>,
    pub(super) reading: GpuReading,
}

impl Columns {
    /// Reads a header. `None` when no column of it holds a reading: it is none then.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let columns: Vec<_> = split(header).iter().map(|name| column(name)).collect();
        columns.iter().flatten().any(|(column, _)| column.is_reading()).then_some(Self(columns))
    }

    pub(super) fn has_timestamp(&self) -> bool {
        self.0.iter().flatten().any(|(column, _)| *column == Column::Timestamp)
    }

    /// Reads a row. `None` when it is malformed: too short or too long, or with something that is neither a number nor a known word
    /// for "not available" where a number belongs.
    pub(super) fn row(&self, line: &str) -> Option<Row> {
        let cells = split(line);
        if cells.len() != self.0.len() {
            return None;
        }
        let mut row = Row { time: None, index: 0, uuid: None, name: None, memory_total: None, reading: GpuReading::default() };
        let (mut used, mut reserved) = (None, None);
        for (cell, column) in cells.iter().zip(&self.0) {
            let Some((column, unit)) = column else { continue };
            match column {
                Column::Timestamp => row.time = Some(super::timestamp::parse(cell)?),
                Column::Index => row.index = cell.parse().ok()?,
                Column::Uuid => row.uuid = text(cell),
                Column::Name => row.name = text(cell),
                _ => {
                    let Some(value) = number(cell, *unit)? else { continue };
                    let reading = &mut row.reading;
                    match column {
                        Column::MemoryUsed => used = bytes(value),
                        Column::MemoryTotal => row.memory_total = bytes(value).and_then(plausible::memory_limit_bytes),
                        Column::MemoryReserved => reserved = bytes(value),
                        Column::Utilization => reading.utilization = plausible::share(value),
                        Column::MemoryBandwidth => reading.memory_bandwidth_utilization = plausible::share(value),
                        Column::Power => reading.power_w = plausible::power_w(value),
                        Column::Energy => reading.energy_j = (value >= 0.0).then_some(value),
                        Column::Temperature => reading.temperature_c = plausible::temperature_c(value),
                        Column::Fan => reading.fan_speed_ratio = plausible::fan_ratio(value),
                        Column::SmClock => reading.sm_clock_hz = plausible::clock_hz(value),
                        Column::MemoryClock => reading.memory_clock_hz = plausible::clock_hz(value),
                        Column::Timestamp | Column::Index | Column::Uuid | Column::Name => {}
                    }
                }
            }
        }
        row.reading.memory_used_bytes = used.and_then(|used| plausible::memory_bytes(used, row.memory_total));
        row.reading.memory_reserved_bytes = reserved.and_then(|reserved| plausible::memory_bytes(reserved, row.memory_total));
        Some(row)
    }
}

impl Column {
    fn is_reading(self) -> bool {
        !matches!(self, Self::Timestamp | Self::Index | Self::Uuid | Self::Name | Self::MemoryTotal)
    }
}

fn column(header: &str) -> Option<(Column, Unit)> {
    let lower = header.to_ascii_lowercase();
    let (name, unit) = match lower.split_once('[') {
        Some((name, unit)) => (name.trim(), unit.trim_end_matches(']').trim()),
        None => plain_unit(lower.trim()),
    };
    let column = match name {
        "timestamp" | "time" => Column::Timestamp,
        "index" | "gpu_index" | "gpu" => Column::Index,
        "uuid" | "gpu_uuid" => Column::Uuid,
        "name" | "gpu_name" => Column::Name,
        "memory.used" | "memory_used" => Column::MemoryUsed,
        "memory.total" | "memory_total" => Column::MemoryTotal,
        "memory.reserved" | "memory_reserved" => Column::MemoryReserved,
        "utilization.gpu" | "utilization_gpu" | "utilization" => Column::Utilization,
        "utilization.memory" | "utilization_memory" => Column::MemoryBandwidth,
        "power.draw" | "power_draw" | "power" => Column::Power,
        "energy" | "total_energy" => Column::Energy,
        "temperature.gpu" | "temperature_gpu" | "temperature" => Column::Temperature,
        "fan.speed" | "fan_speed" | "fan" => Column::Fan,
        "clocks.current.sm" | "clocks.sm" | "clock_sm" => Column::SmClock,
        "clocks.current.memory" | "clocks.mem" | "clock_memory" => Column::MemoryClock,
        _ => return None,
    };
    let unit = factor(unit).or_else(|| usual_unit(column))?;
    Some((column, unit))
}

/// Splits the unit off a plain name: `power_W`, `memory_used_MiB`.
fn plain_unit(name: &str) -> (&str, &str) {
    match name.rsplit_once('_') {
        Some((front, unit)) if factor(unit).is_some() => (front, unit),
        _ => (name, ""),
    }
}

/// The unit that nvidia-smi uses where the file names none.
fn usual_unit(column: Column) -> Option<Unit> {
    match column {
        Column::MemoryUsed | Column::MemoryTotal | Column::MemoryReserved => factor("mib"),
        _ => Some(Unit(1.0)),
    }
}

fn factor(unit: &str) -> Option<Unit> {
    let factor = match unit {
        "%" | "percent" | "w" | "mhz" | "c" | "j" | "b" | "bytes" => 1.0,
        "mw" | "mj" => 1e-3,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(Unit(factor))
}

/// `Some(None)` for a value that the device did not give, `None` for what is no number at all. A unit beside the number counts more than
/// that of the header.
#[allow(clippy::option_option, reason = "absent and malformed are two things")]
fn number(cell: &str, unit: Unit) -> Option<Option<f64>> {
    let lower = cell.trim_matches(['[', ']']).trim().to_ascii_lowercase();
    if matches!(
        lower.as_str(),
        "" | "n/a" | "not supported" | "unknown error" | "gpu is lost" | "not found" | "insufficient permissions" | "gpu requires reset"
    ) {
        return Some(None);
    }
    let (number, unit) = match lower.split_once(char::is_whitespace) {
        Some((number, name)) => (number, factor(name.trim())?),
        None => match lower.strip_suffix('%') {
            Some(number) => (number, unit),
            None => (lower.as_str(), unit),
        },
    };
    let value = number.parse::<f64>().ok()? * unit.0;
    value.is_finite().then_some(Some(value))
}

fn bytes(value: f64) -> Option<u64> {
    (value >= 0.0).then_some(value as u64)
}

fn text(cell: &str) -> Option<String> {
    (!cell.is_empty() && !cell.starts_with('[')).then(|| cell.to_owned())
}

/// Cells of a line, without the space around them; a cell in quotes may hold commas.
fn split(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            _ => {
                if let Some(cell) = cells.last_mut() {
                    cell.push(character);
                }
            }
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn nvidia_smi_with_units_and_without() {
        let with = Columns::parse(
            "index, name, utilization.gpu [%], memory.total [MiB], memory.used [MiB], power.draw [W], clocks.current.sm [MHz]",
        );
        let with = with.expect("a header").row("2, \"GPU, big\", 37 %, 100 MiB, 40 MiB, 31.50 W, 1980 MHz").expect("a row");
        let without = Columns::parse("index, name, utilization.gpu, memory.total, memory.used, power.draw, clocks.sm");
        let without = without.expect("a header").row("2, \"GPU, big\", 37, 100, 40, 31.5, 1980").expect("a row");
        assert_eq!(with, without);
        assert_eq!((with.index, with.name.as_deref(), with.memory_total), (2, Some("GPU, big"), Some(100 << 20)));
        assert_eq!(with.reading.utilization, Some(0.37));
        assert_eq!(with.reading.memory_used_bytes, Some(40 << 20));
        assert_eq!(with.reading.power_w, Some(31.5));
        assert_eq!(with.reading.sm_clock_hz, Some(1_980_000_000));
    }

    #[test]
    fn plain_names() {
        let columns = Columns::parse("timestamp,gpu_index,temperature_C,utilization_gpu_percent,power_W").expect("a header");
        let row = columns.row("2025-09-24T03:48:33.493Z,1, 60, 100, 422.55").expect("a row");
        assert_eq!((row.index, row.reading.temperature_c, row.reading.utilization), (1, Some(60.0), Some(1.0)));
        assert_eq!(row.reading.power_w, Some(422.55));
        assert_eq!(row.reading.memory_used_bytes, None, "no such column");
    }

    #[test]
    fn not_available_is_absent_and_nonsense_is_malformed() {
        let columns = Columns::parse("memory.used [MiB], power.draw [W], utilization.gpu [%]").expect("a header");
        let row = columns.row("[N/A], [Not Supported], 101 %").expect("a row");
        assert_eq!(row.reading, GpuReading::default());
        for malformed in ["1 MiB, 2 W", "1 MiB, 2 W, 3 %, 4", "abc, 2 W, 3 %", "1 parsec, 2 W, 3 %", "nan, 2 W, 3 %", ""] {
            assert_eq!(columns.row(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn a_header_without_readings_is_none() {
        assert!(Columns::parse("timestamp, index, name, memory.total [MiB]").is_none());
        assert!(Columns::parse("2026/04/25 16:06:06.780, 0 %, 0 %, 2 MiB, 20146 MiB, 27, 11.64 W").is_none());
        assert!(Columns::parse("").is_none());
    }
}
