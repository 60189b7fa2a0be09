//! Functions that report one number, or a few that belong together.

use super::{device, gpu, gpu_selecting};
use crate::abi::{Handle, Memory, MemoryV2, Out, Utilization, ViolationTime, struct_version};
use crate::device_state::Key;
use crate::driver::Driver;
use crate::error_code::ErrorCode;
use crate::field::Field;
use crate::target::Target;

impl Driver {
    /// Total, reserved and used bytes of a GPU or a MIG device.
    fn memory(&mut self, target: Target) -> Result<[u64; 3], ErrorCode> {
        let (gpu, device) = self.device(target)?;
        match target {
            Target::Mig(_, mig) => {
                let slice = device.mig.get(mig as usize).ok_or(ErrorCode::InvalidArgument)?.clone();
                let used = self.read_value(gpu, Key::MigMemory(mig), &slice.memory_used_bytes)?;
                Ok([slice.total_bytes(), 0, used])
            }
            _ => Ok([
                self.read(gpu, Field::MemoryTotalBytes)?,
                self.read(gpu, Field::MemoryReservedBytes)?,
                self.read(gpu, Field::MemoryUsedBytes)?,
            ]),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo(handle: Handle, memory: Out<Memory>) -> u32 {
    device("nvmlDeviceGetMemoryInfo", handle, |driver, target| {
        let [total, reserved, used] = driver.memory(target)?;
        // This form knows no "reserved" and counts it as used.
        memory.set(Memory { total, free: total.saturating_sub(reserved + used), used: reserved + used })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: Handle, memory: Out<MemoryV2>) -> u32 {
    device("nvmlDeviceGetMemoryInfo_v2", handle, |driver, target| {
        let version = memory.get()?.version;
        if version != struct_version::<MemoryV2>(2) {
            return Err(ErrorCode::ArgumentVersionMismatch);
        }
        let [total, reserved, used] = driver.memory(target)?;
        memory.set(MemoryV2 { version, total, reserved, free: total.saturating_sub(reserved + used), used })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(handle: Handle, utilization: Out<Utilization>) -> u32 {
    gpu("nvmlDeviceGetUtilizationRates", handle, |driver, gpu| {
        let of_gpu = driver.read_u32(gpu, Field::UtilizationGpuPercent)?;
        let of_memory = driver.read_u32(gpu, Field::UtilizationMemoryPercent)?;
        utilization.set(Utilization { gpu: of_gpu, memory: of_memory })
    })
}

fn one(function: &'static str, handle: Handle, out: Out<u32>, field: Field) -> u32 {
    gpu(function, handle, |driver, gpu| out.set(driver.read_u32(gpu, field)?))
}

fn one_long(function: &'static str, handle: Handle, out: Out<u64>, field: Field) -> u32 {
    gpu(function, handle, |driver, gpu| out.set(driver.read(gpu, field)?))
}

/// One of several quantities by a number; a number too high is the caller's mistake.
fn selected(function: &'static str, handle: Handle, selector: u32, out: Out<u32>, fields: &[Field]) -> u32 {
    gpu_selecting(function, handle, selector, |driver, gpu| {
        let field = fields.get(selector as usize).ok_or(ErrorCode::InvalidArgument)?;
        out.set(driver.read_u32(gpu, *field)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(handle: Handle, power: Out<u32>) -> u32 {
    one("nvmlDeviceGetPowerUsage", handle, power, Field::PowerMw)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEnergyConsumption(handle: Handle, energy: Out<u64>) -> u32 {
    one_long("nvmlDeviceGetTotalEnergyConsumption", handle, energy, Field::EnergyMj)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEnforcedPowerLimit(handle: Handle, limit: Out<u32>) -> u32 {
    one("nvmlDeviceGetEnforcedPowerLimit", handle, limit, Field::PowerLimitMw)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementLimit(handle: Handle, limit: Out<u32>) -> u32 {
    one("nvmlDeviceGetPowerManagementLimit", handle, limit, Field::PowerLimitMw)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(handle: Handle, sensor: u32, temperature: Out<u32>) -> u32 {
    selected("nvmlDeviceGetTemperature", handle, sensor, temperature, &[Field::TemperatureCelsius])
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFanSpeed(handle: Handle, speed: Out<u32>) -> u32 {
    one("nvmlDeviceGetFanSpeed", handle, speed, Field::FanSpeedPercent)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFanSpeed_v2(handle: Handle, fan: u32, speed: Out<u32>) -> u32 {
    gpu_selecting("nvmlDeviceGetFanSpeed_v2", handle, fan, |driver, gpu| {
        let percent = driver.read_u32(gpu, Field::FanSpeedPercent)?;
        if fan >= driver.read_u32(gpu, Field::Fans)? {
            return Err(ErrorCode::InvalidArgument);
        }
        speed.set(percent)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetNumFans(handle: Handle, fans: Out<u32>) -> u32 {
    one("nvmlDeviceGetNumFans", handle, fans, Field::Fans)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(handle: Handle, clock: u32, mhz: Out<u32>) -> u32 {
    let fields = [Field::ClockGraphicsMhz, Field::ClockSmMhz, Field::ClockMemoryMhz, Field::ClockVideoMhz];
    selected("nvmlDeviceGetClockInfo", handle, clock, mhz, &fields)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxClockInfo(handle: Handle, clock: u32, mhz: Out<u32>) -> u32 {
    let fields = [Field::MaxClockGraphicsMhz, Field::MaxClockSmMhz, Field::MaxClockMemoryMhz, Field::MaxClockVideoMhz];
    selected("nvmlDeviceGetMaxClockInfo", handle, clock, mhz, &fields)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPerformanceState(handle: Handle, state: Out<u32>) -> u32 {
    one("nvmlDeviceGetPerformanceState", handle, state, Field::PerformanceState)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(handle: Handle, reasons: Out<u64>) -> u32 {
    one_long("nvmlDeviceGetCurrentClocksThrottleReasons", handle, reasons, Field::ThrottleReasons)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(handle: Handle, reasons: Out<u64>) -> u32 {
    one_long("nvmlDeviceGetCurrentClocksEventReasons", handle, reasons, Field::ThrottleReasons)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetViolationStatus(handle: Handle, policy: u32, status: Out<ViolationTime>) -> u32 {
    gpu_selecting("nvmlDeviceGetViolationStatus", handle, policy, |driver, gpu| {
        let violation_time_ns = match policy {
            0 => driver.read(gpu, Field::ViolationPowerNs)?,
            1 => driver.read(gpu, Field::ViolationThermalNs)?,
            2..=5 | 10 | 11 => 0,
            _ => return Err(ErrorCode::InvalidArgument),
        };
        let reference_time_us = driver.wall_us(driver.now());
        status.set(ViolationTime { reference_time_us, violation_time_ns })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEccMode(handle: Handle, current: Out<u32>, pending: Out<u32>) -> u32 {
    gpu("nvmlDeviceGetEccMode", handle, |driver, gpu| {
        let enabled = driver.read_u32(gpu, Field::EccEnabled)?;
        current.set(enabled)?;
        pending.set(enabled)
    })
}

fn ecc_field(error_type: u32, counter: u32) -> Result<Field, ErrorCode> {
    match (error_type, counter) {
        (0, 0) => Ok(Field::EccCorrectedVolatile),
        (0, 1) => Ok(Field::EccCorrectedAggregate),
        (1, 0) => Ok(Field::EccUncorrectedVolatile),
        (1, 1) => Ok(Field::EccUncorrectedAggregate),
        _ => Err(ErrorCode::InvalidArgument),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEccErrors(handle: Handle, error_type: u32, counter: u32, count: Out<u64>) -> u32 {
    gpu("nvmlDeviceGetTotalEccErrors", handle, |driver, gpu| count.set(driver.read(gpu, ecc_field(error_type, counter)?)?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryErrorCounter(handle: Handle, error_type: u32, counter: u32, location: u32, count: Out<u64>) -> u32 {
    const DEVICE_MEMORY: u32 = 2;
    const LOCATIONS: u32 = 8;
    gpu_selecting("nvmlDeviceGetMemoryErrorCounter", handle, location, |driver, gpu| {
        let total = driver.read(gpu, ecc_field(error_type, counter)?)?;
        match location {
            // All errors are taken to have happened there, so that the parts add up to the total.
            DEVICE_MEMORY => count.set(total),
            0..LOCATIONS => count.set(0),
            _ => Err(ErrorCode::InvalidArgument),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieThroughput(handle: Handle, counter: u32, kb_per_second: Out<u32>) -> u32 {
    let fields = [Field::PcieTxKbPerSecond, Field::PcieRxKbPerSecond];
    selected("nvmlDeviceGetPcieThroughput", handle, counter, kb_per_second, &fields)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieReplayCounter(handle: Handle, replays: Out<u32>) -> u32 {
    one("nvmlDeviceGetPcieReplayCounter", handle, replays, Field::PcieReplays)
}
