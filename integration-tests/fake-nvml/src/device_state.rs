//! What a device answers: the scenario's values, what mirrors the process, and the counters that grow between readings.

use std::collections::HashMap;

use crate::driver::Driver;
use crate::error_code::ErrorCode;
use crate::field::Field;
use crate::model::Origin;
use crate::process_mirror::{self, CpuMeter};
use crate::value::Value;

/// What has a value of its own and so counts its readings on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Field(Field),
    FieldValue(u32),
    MigMemory(u32),
    Process(usize),
}

#[derive(Debug)]
pub(crate) struct DeviceState {
    born: f64,
    meter: CpuMeter,
    readings: HashMap<Key, u64>,
    last: HashMap<Key, u64>,
    counters: HashMap<Field, Counter>,
}

/// A counter that is the integral of a rate.
#[derive(Debug, Clone, Copy)]
struct Counter {
    total: f64,
    at: f64,
    /// The meter's reading then, for a rate that mirrors the process.
    busy: f64,
}

const COUNTERS: [Field; 3] = [Field::EnergyMj, Field::PcieTxBytes, Field::PcieRxBytes];

impl DeviceState {
    pub(crate) fn new(now: f64) -> Self {
        Self { born: now, meter: CpuMeter::new(now), readings: HashMap::new(), last: HashMap::new(), counters: HashMap::new() }
    }

    /// A new scenario begins with its first answers; counters go on.
    pub(crate) fn forget_readings(&mut self) {
        self.readings.clear();
        self.last.clear();
    }
}

impl Driver {
    fn state(&mut self, gpu: u32) -> Result<&mut DeviceState, ErrorCode> {
        self.devices.get_mut(gpu as usize).ok_or(ErrorCode::InvalidArgument)
    }

    fn origin(&self, gpu: u32, field: Field) -> Result<Origin, ErrorCode> {
        self.scenario.devices.get(gpu as usize).map(|device| device.origin(field)).ok_or(ErrorCode::InvalidArgument)
    }

    /// What the device reports now.
    pub(crate) fn read(&mut self, gpu: u32, field: Field) -> Result<u64, ErrorCode> {
        match self.origin(gpu, field)? {
            Origin::Value(value) => self.read_value(gpu, Key::Field(field), &value),
            Origin::SameAs(other) => self.read(gpu, other),
            Origin::IntegralOf { rate, per_rate_second } => self.count(gpu, field, rate, per_rate_second),
        }
    }

    /// As [`Driver::read`], for what NVML reports in 32 bits.
    pub(crate) fn read_u32(&mut self, gpu: u32, field: Field) -> Result<u32, ErrorCode> {
        self.read(gpu, field).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(crate) fn read_value(&mut self, gpu: u32, key: Key, value: &Value) -> Result<u64, ErrorCode> {
        let second = self.second();
        let state = self.state(gpu)?;
        let reading = state.readings.entry(key).or_default();
        let answer = value.at(second, *reading);
        *reading += 1;
        let answer = match (answer, value) {
            (Some(answer), _) => answer,
            (None, Value::Mirror(mirrored)) => self.mirrored(gpu, key, mirrored.mirror.base),
            (None, _) => Err(ErrorCode::NoData),
        };
        if let Ok(number) = answer {
            self.state(gpu)?.last.insert(key, number);
        }
        answer
    }

    fn mirrored(&mut self, gpu: u32, key: Key, base: u64) -> Result<u64, ErrorCode> {
        match key {
            Key::Field(Field::EnergyMj) => self.count(gpu, Field::EnergyMj, Field::PowerMw, 1.0).map(|energy| base + energy),
            Key::Field(field @ (Field::UtilizationGpuPercent | Field::PowerMw | Field::PowerInstantMw | Field::PowerAverageMw)) => {
                let now = self.now();
                let share = self.state(gpu)?.meter.read(now).share;
                self.by_share(gpu, field, base, share)
            }
            Key::Field(Field::MemoryUsedBytes) => {
                let total = self.read(gpu, Field::MemoryTotalBytes)?;
                let reserved = self.read(gpu, Field::MemoryReservedBytes).unwrap_or(0);
                Ok((base + process_mirror::resident_bytes()?).min(total.saturating_sub(reserved)))
            }
            Key::MigMemory(_) | Key::Process(_) => Ok(base + process_mirror::resident_bytes()?),
            Key::Field(_) | Key::FieldValue(_) => Err(ErrorCode::NotSupported),
        }
    }

    fn by_share(&self, gpu: u32, field: Field, base: u64, share: f64) -> Result<u64, ErrorCode> {
        let device = self.scenario.devices.get(gpu as usize).ok_or(ErrorCode::InvalidArgument)?;
        if field == Field::UtilizationGpuPercent {
            return Ok((base + (share * 100.0).round() as u64).min(100));
        }
        let (idle, max) = device.mirrored_power_mw();
        Ok(base + idle + (max.saturating_sub(idle) as f64 * share).round() as u64)
    }

    /// Brings a counter up to now and reads it.
    fn count(&mut self, gpu: u32, counter: Field, rate: Field, per_rate_second: f64) -> Result<u64, ErrorCode> {
        let (now, started) = (self.now(), self.started);
        let device = self.scenario.devices.get(gpu as usize).ok_or(ErrorCode::InvalidArgument)?;
        let (idle, max) = device.mirrored_power_mw();
        // A card whose power cannot be read still draws some; a link whose rate cannot be read is taken as silent.
        let instead = if rate == Field::PowerMw { idle } else { 0 };
        let rate_value = match device.origin(rate) {
            Origin::Value(value) => value,
            _ => return Err(ErrorCode::NotSupported),
        };
        let state = self.state(gpu)?;
        let begun = Counter { total: 0.0, at: state.born, busy: 0.0 };
        let before = *state.counters.get(&counter).unwrap_or(&begun);
        let reading = state.meter.read(now);
        let (area, at) = if let Value::Mirror(mirrored) = &rate_value {
            // Up to the end of the meter's last window and not beyond, or the counter would fall when a guess proved too high.
            let at = reading.at.max(before.at);
            let busy = (reading.busy - before.busy).max(0.0);
            let idle_mw = (mirrored.mirror.base + idle) as f64;
            (idle_mw * (at - before.at) + max.saturating_sub(idle) as f64 * busy, at)
        } else {
            let area = rate_value.integral(before.at - started, now - started, instead).unwrap_or_else(|| {
                let last = state.last.get(&Key::Field(rate)).copied().unwrap_or(instead);
                last as f64 * (now - before.at)
            });
            (area, now)
        };
        let after = Counter { total: before.total + area * per_rate_second, at, busy: reading.busy };
        state.counters.insert(counter, after);
        Ok(after.total as u64)
    }

    /// Brings all counters up to now, before another scenario takes over.
    pub(crate) fn settle_counters(&mut self) {
        for gpu in 0..self.devices.len() as u32 {
            for counter in COUNTERS {
                if let Ok(Origin::IntegralOf { rate, per_rate_second }) = self.origin(gpu, counter) {
                    let _ = self.count(gpu, counter, rate, per_rate_second);
                }
            }
        }
    }

    /// What the device reported at a time that is past, for the driver's own sample buffers. Counts as no reading.
    pub(crate) fn read_past(&self, gpu: u32, field: Field, time: f64) -> Result<u64, ErrorCode> {
        let state = self.devices.get(gpu as usize).ok_or(ErrorCode::InvalidArgument)?;
        match self.origin(gpu, field)? {
            Origin::SameAs(other) => self.read_past(gpu, other, time),
            Origin::Value(Value::Mirror(mirrored)) => self.by_share(gpu, field, mirrored.mirror.base, state.meter.share_at(time)),
            Origin::Value(value) => {
                let asked = state.readings.get(&Key::Field(field)).map_or(0, |readings| readings.saturating_sub(1));
                value.at(time - self.started, asked).unwrap_or(Err(ErrorCode::NoData))
            }
            Origin::IntegralOf { .. } => Err(ErrorCode::NotSupported),
        }
    }

    /// Closes the meter's window, so that [`Driver::read_past`] knows what the process did until now.
    pub(crate) fn refresh_meter(&mut self, gpu: u32) -> Result<(), ErrorCode> {
        let now = self.now();
        self.state(gpu)?.meter.read(now);
        Ok(())
    }
}
