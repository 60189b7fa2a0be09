//! MIG: a GPU cut into devices of their own.

use super::{device, gpu, gpu_selecting};
use crate::abi::{Attributes, Handle, Out};
use crate::driver::Driver;
use crate::error_code::ErrorCode;
use crate::model::{MIB, slice_of};
use crate::target::Target;

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(handle: Handle, current: Out<u32>, pending: Out<u32>) -> u32 {
    gpu("nvmlDeviceGetMigMode", handle, |driver, gpu| {
        let (_, device) = driver.device(Target::Gpu(gpu))?;
        if device.model.facts().max_mig_devices == 0 {
            return Err(ErrorCode::NotSupported);
        }
        let mode = u32::from(!device.mig.is_empty());
        current.set(mode)?;
        pending.set(mode)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxMigDeviceCount(handle: Handle, count: Out<u32>) -> u32 {
    gpu("nvmlDeviceGetMaxMigDeviceCount", handle, |driver, gpu| {
        let (_, device) = driver.device(Target::Gpu(gpu))?;
        count.set(device.model.facts().max_mig_devices)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(handle: Handle, index: u32, out: Out<Handle>) -> u32 {
    gpu_selecting("nvmlDeviceGetMigDeviceHandleByIndex", handle, index, |driver, gpu| {
        let (_, device) = driver.device(Target::Gpu(gpu))?;
        if index >= device.model.facts().max_mig_devices {
            return Err(ErrorCode::InvalidArgument);
        }
        if index as usize >= device.mig.len() {
            return Err(ErrorCode::NotFound);
        }
        out.set(Handle::of(Target::Mig(gpu, index)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle: Handle, out: Out<Handle>) -> u32 {
    device("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle, |_, target| match target {
        Target::Mig(gpu, _) => out.set(Handle::of(Target::Gpu(gpu))),
        _ => Err(ErrorCode::InvalidArgument),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceIsMigDeviceHandle(handle: Handle, is_mig: Out<u32>) -> u32 {
    device("nvmlDeviceIsMigDeviceHandle", handle, |_, target| is_mig.set(u32::from(matches!(target, Target::Mig(..)))))
}

/// Instance ids are one more than the place, as on cards where id 0 is the whole GPU.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceId(handle: Handle, id: Out<u32>) -> u32 {
    device("nvmlDeviceGetGpuInstanceId", handle, |_, target| match target {
        Target::Mig(_, mig) => id.set(mig + 1),
        _ => Err(ErrorCode::NotSupported),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeInstanceId(handle: Handle, id: Out<u32>) -> u32 {
    device("nvmlDeviceGetComputeInstanceId", handle, |_, target| match target {
        Target::Mig(..) => id.set(0),
        _ => Err(ErrorCode::NotSupported),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetAttributes_v2(handle: Handle, attributes: Out<Attributes>) -> u32 {
    device("nvmlDeviceGetAttributes_v2", handle, |driver, target| attributes.set(driver.attributes(target)?))
}

impl Driver {
    fn attributes(&self, target: Target) -> Result<Attributes, ErrorCode> {
        let (_, device) = self.device(target)?;
        let Target::Mig(_, mig) = target else { return Err(ErrorCode::NotSupported) };
        let mig = device.mig.get(mig as usize).ok_or(ErrorCode::InvalidArgument)?;
        let known = slice_of(&mig.profile);
        let slices = known.as_ref().map_or(1, |slice| slice.slices);
        Ok(Attributes {
            multiprocessors: known.as_ref().map_or(0, |slice| slice.multiprocessors),
            copy_engines: slices,
            decoders: slices,
            encoders: 0,
            jpeg_engines: slices,
            ofa_engines: 0,
            gpu_slices: slices,
            compute_slices: slices,
            memory_mb: mig.total_bytes() / MIB,
        })
    }
}
