//! Who a device is.

use super::system::PciAddress;
use super::{device, gpu};
use crate::abi::{Handle, Out, OutText, PciInfo, c_array};
use crate::driver::Driver;
use crate::error_code::ErrorCode;
use crate::target::Target;

impl Driver {
    pub(super) fn uuid(&self, target: Target) -> Result<String, ErrorCode> {
        let (gpu, device) = self.device(target)?;
        match target {
            Target::Mig(_, mig) => device.mig.get(mig as usize).map(|slice| slice.uuid_at(gpu, mig)).ok_or(ErrorCode::InvalidArgument),
            _ => Ok(device.uuid_at(gpu)),
        }
    }

    pub(super) fn pci_bus_id(&self, gpu: u32) -> Result<String, ErrorCode> {
        self.device(Target::Gpu(gpu)).map(|(gpu, device)| device.pci_bus_id_at(gpu))
    }

    fn name(&self, target: Target) -> Result<String, ErrorCode> {
        let (_, device) = self.device(target)?;
        let name = device.name_or_default();
        Ok(match target {
            Target::Mig(_, mig) => {
                let slice = device.mig.get(mig as usize).ok_or(ErrorCode::InvalidArgument)?;
                format!("{name} MIG {}", slice.profile)
            }
            _ => name.to_owned(),
        })
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(handle: Handle, name: OutText, length: u32) -> u32 {
    device("nvmlDeviceGetName", handle, |driver, target| name.set(length, &driver.name(target)?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(handle: Handle, uuid: OutText, length: u32) -> u32 {
    device("nvmlDeviceGetUUID", handle, |driver, target| uuid.set(length, &driver.uuid(target)?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSerial(handle: Handle, serial: OutText, length: u32) -> u32 {
    gpu("nvmlDeviceGetSerial", handle, |driver, gpu| {
        let (_, device) = driver.device(Target::Gpu(gpu))?;
        if !device.model.facts().data_center {
            return Err(ErrorCode::NotSupported);
        }
        serial.set(length, &format!("{:013}", 1_320_000_000_000_u64 + u64::from(gpu)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetIndex(handle: Handle, index: Out<u32>) -> u32 {
    device("nvmlDeviceGetIndex", handle, |driver, target| match target {
        Target::Mig(_, mig) => index.set(mig),
        _ => {
            let place = driver.present().position(|gpu| target == Target::Gpu(gpu)).ok_or(ErrorCode::GpuIsLost)?;
            index.set(place as u32)
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMinorNumber(handle: Handle, minor: Out<u32>) -> u32 {
    gpu("nvmlDeviceGetMinorNumber", handle, |_, gpu| minor.set(gpu))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v3(handle: Handle, info: Out<PciInfo>) -> u32 {
    gpu("nvmlDeviceGetPciInfo_v3", handle, |driver, gpu| {
        let (_, device) = driver.device(Target::Gpu(gpu))?;
        let facts = device.model.facts();
        let bus_id = driver.pci_bus_id(gpu)?;
        let address = PciAddress::parse(&bus_id).ok_or(ErrorCode::InvalidArgument)?;
        // The old form has a domain of four digits and so lacks the first four characters.
        let legacy = bus_id.get(bus_id.len().saturating_sub(12)..).unwrap_or(&bus_id);
        info.set(PciInfo {
            bus_id_legacy: c_array(legacy),
            domain: address.domain,
            bus: address.bus,
            device: address.device,
            pci_device_id: facts.pci_device_id,
            pci_subsystem_id: facts.pci_subsystem_id,
            bus_id: c_array(&bus_id),
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCudaComputeCapability(handle: Handle, major: Out<i32>, minor: Out<i32>) -> u32 {
    device("nvmlDeviceGetCudaComputeCapability", handle, |driver, target| {
        let [of_major, of_minor] = driver.device(target)?.1.model.facts().compute_capability;
        major.set(of_major)?;
        minor.set(of_minor)
    })
}
