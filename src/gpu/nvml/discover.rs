//! Which devices there are, and what they are called.

use nvml_wrapper::{Device, Nvml};

use super::card::Card;
use super::fields::{Field, MemoryCall, memory};
use super::gate::{Capability, DEAR_LIMIT, Gate, Patience, Turn, reason};
use super::library::NvmlUnavailable;
use crate::gpu::plausible;
use crate::gpu::visible::{Candidate, Choice, Doubt, visible};
use crate::model::GpuDevice;
use crate::notice::notice;

/// More instances than a GPU can be cut into.
const MOST_INSTANCES: u32 = 64;

/// The devices that this process may use.
pub(super) struct Discovery {
    pub(super) devices: Vec<GpuDevice>,
    pub(super) cards: Vec<Card>,
    pub(super) doubt: Option<Doubt>,
    /// GPUs that the driver counts.
    pub(super) count: u32,
}

/// Where a device was found.
struct Place {
    index: u32,
    gpu: Option<Device<'static>>,
    instances: Vec<Option<Device<'static>>>,
}

pub(super) fn discover(
    nvml: &'static Nvml,
    variable: Option<&str>,
    pci_order: bool,
    patience: &Patience,
) -> Result<Discovery, NvmlUnavailable> {
    let failed = |error: nvml_wrapper::error::NvmlError| NvmlUnavailable::Failed { library: "NVML".to_owned(), reason: error.to_string() };
    let count = nvml.device_count().map_err(failed)?;
    let (mut candidates, mut places) = (Vec::new(), Vec::new());
    for index in 0..count {
        match candidate(nvml, index) {
            Ok((candidate, place)) => {
                candidates.push(candidate);
                places.push(place);
            }
            // Others go on without it. Its number is kept, so that CUDA's numbers still fit.
            Err(error) => {
                notice!("GPU {index} cannot be read ({}): it is left out", reason(&error));
                candidates.push(Candidate::default());
                places.push(Place { index, gpu: None, instances: Vec::new() });
            }
        }
    }
    if candidates.is_empty() {
        return Err(NvmlUnavailable::NoDevices);
    }
    let seen = visible(&candidates, variable, pci_order);
    if seen.choices.is_empty() {
        return Err(NvmlUnavailable::NoneVisible { variable: variable.unwrap_or_default().to_owned(), devices: candidates.len() });
    }
    let driver_version = nvml.sys_driver_version().ok();
    let mut discovery = Discovery { devices: Vec::new(), cards: Vec::new(), doubt: seen.doubt, count };
    for choice in seen.choices {
        let (Choice::Gpu(place) | Choice::Instance(place, _)) = choice;
        let (Some(found), Some(candidate)) = (places.get_mut(place), candidates.get(place)) else { continue };
        let (handle, uuid) = match choice {
            Choice::Gpu(_) => (found.gpu.take(), Some(&candidate.uuid)),
            Choice::Instance(_, number) => (found.instances.get_mut(number).and_then(Option::take), candidate.instances.get(number)),
        };
        let (Some(handle), Some(uuid)) = (handle, uuid) else { continue };
        let instance = matches!(choice, Choice::Instance(..));
        let (device, card) = describe(handle, uuid, found.index, instance, driver_version.as_deref(), patience);
        discovery.devices.push(device);
        discovery.cards.push(card);
    }
    if discovery.cards.is_empty() {
        return Err(NvmlUnavailable::NoDevices);
    }
    Ok(discovery)
}

fn candidate(nvml: &'static Nvml, index: u32) -> Result<(Candidate, Place), nvml_wrapper::error::NvmlError> {
    let gpu = nvml.device_by_index(index)?;
    let mut candidate = Candidate { uuid: gpu.uuid()?, name: gpu.name().unwrap_or_default(), ..Candidate::default() };
    let mut instances = Vec::new();
    // Where the question is not supported there is no MIG.
    candidate.mig = gpu.mig_mode().is_ok_and(|mode| mode.current == 1);
    if candidate.mig {
        for number in 0..gpu.mig_device_count().unwrap_or(0).min(MOST_INSTANCES) {
            // Numbers without an instance are normal: the count is that of the most there could be.
            let Ok(instance) = gpu.mig_device_by_index(number) else { continue };
            let Ok(uuid) = instance.uuid() else { continue };
            candidate.instances.push(uuid);
            instances.push(Some(instance));
        }
    }
    Ok((candidate, Place { index, gpu: Some(gpu), instances }))
}

fn describe(
    handle: Device<'static>,
    uuid: &str,
    index: u32,
    instance: bool,
    driver_version: Option<&str>,
    patience: &Patience,
) -> (GpuDevice, Card) {
    let mut device = GpuDevice {
        id: uuid.to_owned(),
        index,
        name: handle.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned()),
        vendor: "NVIDIA".to_owned(),
        driver_version: driver_version.map(ToOwned::to_owned),
        serial_number: handle.serial().ok().filter(|serial| !serial.is_empty()),
        ..GpuDevice::default()
    };
    let mut card = Card::new(uuid, &device.name, index);
    if instance {
        card.forbid(Field::Utilization, "not measured for a MIG instance");
    }
    // Which memory call a device answers is part of what its series means, so it is settled before the first reading.
    let mut turn = Turn::new(patience, DEAR_LIMIT);
    let mut gate = Gate::new();
    let mut total = gate.ask(&mut turn, || memory(&handle, MemoryCall::Apart));
    if let Capability::Unsupported(first) = &gate.capability {
        let first = first.clone();
        card.memory_call = MemoryCall::Together;
        gate = Gate::new();
        total = gate.ask(&mut turn, || memory(&handle, MemoryCall::Together));
        device.memory_used_includes_reserved = true;
        if let Capability::Unsupported(second) = &gate.capability {
            device.memory_used_includes_reserved = false;
            let both = if first == *second { first } else { format!("{first}; the older call: {second}") };
            gate.unsupported(&both);
        }
    }
    device.memory_limit_bytes = total.and_then(|memory| plausible::memory_limit_bytes(memory.total));
    card.set_gate(Field::Memory, gate);
    card.handle = Some(handle);
    (device, card)
}
