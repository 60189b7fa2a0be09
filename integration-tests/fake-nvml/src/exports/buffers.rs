//! Functions that fill a caller's array: processes, the driver's own samples, field values.

use super::{device, gpu, gpu_selecting};
use crate::abi::{
    FieldValue, Handle, Out, ProcessInfo, ProcessUtilization, Sample, VALUE_TYPE_UNSIGNED_INT, VALUE_TYPE_UNSIGNED_LONG_LONG,
};
use crate::device_state::Key;
use crate::driver::{Began, Driver};
use crate::error_code::ErrorCode;
use crate::field::Field;
use crate::function::FIELD_VALUE;
use crate::scenario::{Process, ProcessKind};
use crate::target::Target;
use crate::value::Value;

const NOT_AVAILABLE: u64 = u64::MAX;
const NO_INSTANCE: u32 = u32::MAX;

impl Driver {
    /// The processes on a device that are there now, each with its place in the scenario.
    fn present_processes(&self, target: Target) -> Result<Vec<(usize, Process)>, ErrorCode> {
        let (_, device) = self.device(target)?;
        let second = self.second();
        let mut processes: Vec<Process> = device.processes.clone();
        if let (Some(_), true) = (&device.mirror, processes.is_empty()) {
            processes.push(Process::own(Value::mirror(0)));
        }
        let is_there = |process: &Process| {
            process.from_second.is_none_or(|from| second >= from)
                && process.until_second.is_none_or(|until| second < until)
                && match target {
                    Target::Mig(_, mig) => process.mig == Some(mig),
                    _ => true,
                }
        };
        Ok(processes.into_iter().enumerate().filter(|(_, process)| is_there(process)).collect())
    }

    fn process_infos(&mut self, target: Target, kind: ProcessKind) -> Result<Vec<ProcessInfo>, ErrorCode> {
        let (gpu, _) = self.device(target)?;
        let processes = self.present_processes(target)?;
        let of_kind = processes.into_iter().filter(|(_, process)| process.kind == kind);
        of_kind
            .map(|(place, process)| {
                let used_gpu_memory = match &process.memory_bytes {
                    Some(value) => self.read_value(gpu, Key::Process(place), value)?,
                    None => NOT_AVAILABLE,
                };
                Ok(ProcessInfo {
                    pid: process.pid.unwrap_or_else(std::process::id),
                    used_gpu_memory,
                    gpu_instance_id: process.mig.map_or(NO_INSTANCE, |mig| mig + 1),
                    compute_instance_id: process.mig.map_or(NO_INSTANCE, |_| 0),
                })
            })
            .collect()
    }
}

fn processes(function: &'static str, handle: Handle, count: Out<u32>, infos: Out<ProcessInfo>, kind: ProcessKind) -> u32 {
    device(function, handle, |driver, target| infos.fill(count, &driver.process_infos(target, kind)?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(handle: Handle, count: Out<u32>, infos: Out<ProcessInfo>) -> u32 {
    processes("nvmlDeviceGetComputeRunningProcesses_v3", handle, count, infos, ProcessKind::Compute)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(handle: Handle, count: Out<u32>, infos: Out<ProcessInfo>) -> u32 {
    processes("nvmlDeviceGetGraphicsRunningProcesses_v3", handle, count, infos, ProcessKind::Graphics)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(handle: Handle, count: Out<u32>, infos: Out<ProcessInfo>) -> u32 {
    processes("nvmlDeviceGetMPSComputeRunningProcesses_v3", handle, count, infos, ProcessKind::Mps)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetProcessUtilization(handle: Handle, samples: Out<ProcessUtilization>, count: Out<u32>, last_seen_us: u64) -> u32 {
    gpu("nvmlDeviceGetProcessUtilization", handle, |driver, gpu| {
        let time_stamp_us = driver.wall_us(driver.now());
        let processes = driver.present_processes(Target::Gpu(gpu))?;
        let newer = processes.iter().filter_map(|(_, process)| {
            let sm_percent = process.sm_percent.filter(|_| time_stamp_us > last_seen_us)?;
            let pid = process.pid.unwrap_or_else(std::process::id);
            Some(ProcessUtilization { pid, time_stamp_us, sm_percent, memory_percent: 0, encoder_percent: 0, decoder_percent: 0 })
        });
        let newer: Vec<_> = newer.collect();
        if newer.is_empty() {
            count.set(0)?;
            return Err(ErrorCode::NotFound);
        }
        samples.fill(count, &newer)
    })
}

/// How often the driver takes samples by itself, and how many it keeps.
const SAMPLES_KEPT: u64 = 120;
const POWER_SAMPLE_SECONDS: f64 = 0.02;
const UTILIZATION_SAMPLE_SECONDS: f64 = 1.0 / 6.0;

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSamples(
    handle: Handle,
    kind: u32,
    last_seen_us: u64,
    value_type: Out<u32>,
    count: Out<u32>,
    samples: Out<Sample>,
) -> u32 {
    gpu_selecting("nvmlDeviceGetSamples", handle, kind, |driver, gpu| {
        let (field, interval) = match kind {
            0 => (Field::PowerMw, POWER_SAMPLE_SECONDS),
            1 => (Field::UtilizationGpuPercent, UTILIZATION_SAMPLE_SECONDS),
            2 => (Field::UtilizationMemoryPercent, UTILIZATION_SAMPLE_SECONDS),
            5 => (Field::ClockSmMhz, POWER_SAMPLE_SECONDS),
            6 => (Field::ClockMemoryMhz, POWER_SAMPLE_SECONDS),
            3 | 4 | 7..=9 => return Err(ErrorCode::NotSupported),
            _ => return Err(ErrorCode::InvalidArgument),
        };
        driver.refresh_meter(gpu)?;
        let newest = (driver.now() / interval) as u64;
        let mut buffer = Vec::new();
        for number in newest.saturating_sub(SAMPLES_KEPT) + 1..=newest {
            let time = number as f64 * interval;
            let time_stamp_us = driver.wall_us(time);
            if time_stamp_us > last_seen_us {
                buffer.push(Sample { time_stamp_us, value: driver.read_past(gpu, field, time)? });
            }
        }
        value_type.set(VALUE_TYPE_UNSIGNED_INT)?;
        if buffer.is_empty() {
            count.set(0)?;
            return Err(ErrorCode::NotFound);
        }
        if samples.is_null() {
            return count.set(buffer.len() as u32);
        }
        // A sample taken since the caller asked for the number: it has room for the older ones, and asks for this one the next time.
        buffer.truncate(count.get()? as usize);
        count.set(buffer.len() as u32)?;
        samples.slice(buffer.len())?.copy_from_slice(&buffer);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFieldValues(handle: Handle, count: i32, values: Out<FieldValue>) -> u32 {
    gpu("nvmlDeviceGetFieldValues", handle, |driver, gpu| {
        let count = usize::try_from(count).map_err(|_| ErrorCode::InvalidArgument)?;
        if count == 0 {
            return Err(ErrorCode::InvalidArgument);
        }
        for value in values.slice(count)? {
            let began = Began::now();
            let (value_type, answer) = driver.field_value(gpu, value.field_id);
            let result = answer.err().unwrap_or(ErrorCode::Success);
            value.time_stamp_us = driver.wall_us(driver.now()) as i64;
            value.latency_us = 1;
            value.value_type = value_type;
            value.result = result.code();
            value.value = answer.unwrap_or(0);
            driver.log(FIELD_VALUE, Some(&value.field_id), Target::Gpu(gpu), result, began);
        }
        Ok(())
    })
}

impl Driver {
    fn field_value(&mut self, gpu: u32, id: u32) -> (u32, Result<u64, ErrorCode>) {
        let given = self.scenario.devices.get(gpu as usize).and_then(|device| device.field_values.get(&id)).cloned();
        if let Some(value) = given {
            return (VALUE_TYPE_UNSIGNED_LONG_LONG, self.read_value(gpu, Key::FieldValue(id), &value));
        }
        let (value_type, field) = match id {
            3 => (VALUE_TYPE_UNSIGNED_LONG_LONG, Field::EccCorrectedVolatile),
            4 => (VALUE_TYPE_UNSIGNED_LONG_LONG, Field::EccUncorrectedVolatile),
            5 => (VALUE_TYPE_UNSIGNED_LONG_LONG, Field::EccCorrectedAggregate),
            6 => (VALUE_TYPE_UNSIGNED_LONG_LONG, Field::EccUncorrectedAggregate),
            82 => (VALUE_TYPE_UNSIGNED_INT, Field::MemoryTemperatureCelsius),
            83 => (VALUE_TYPE_UNSIGNED_LONG_LONG, Field::EnergyMj),
            94 => (VALUE_TYPE_UNSIGNED_INT, Field::PcieReplays),
            185 => (VALUE_TYPE_UNSIGNED_INT, Field::PowerAverageMw),
            186 => (VALUE_TYPE_UNSIGNED_INT, Field::PowerInstantMw),
            190 => (VALUE_TYPE_UNSIGNED_INT, Field::PowerLimitMw),
            197 => (VALUE_TYPE_UNSIGNED_LONG_LONG, Field::PcieTxBytes),
            198 => (VALUE_TYPE_UNSIGNED_LONG_LONG, Field::PcieRxBytes),
            _ => return (VALUE_TYPE_UNSIGNED_LONG_LONG, Err(ErrorCode::NotSupported)),
        };
        (value_type, self.read(gpu, field))
    }
}
