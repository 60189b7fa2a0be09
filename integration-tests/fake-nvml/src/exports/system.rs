//! Initialisation, versions and finding devices.

use std::ffi::c_char;

use super::system;
use crate::abi::{Handle, InText, Out, OutText};
use crate::driver::{Driver, Question};
use crate::error_code::ErrorCode;
use crate::target::Target;

fn init(function: &'static str) -> u32 {
    let question = Question { needs_init: false, ..Question::new(function) };
    question.answer(
        |_| Ok(Target::System),
        |driver, _| {
            driver.add_user();
            Ok(())
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> u32 {
    init("nvmlInit_v2")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: u32) -> u32 {
    init("nvmlInitWithFlags")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> u32 {
    system("nvmlShutdown", Driver::remove_user)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: u32) -> *const c_char {
    let question = Question { needs_init: false, ..Question::new("nvmlErrorString") };
    question.answer(|_| Ok(Target::System), |_, _| Ok(()));
    ErrorCode::text_of(result).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(version: OutText, length: u32) -> u32 {
    system("nvmlSystemGetDriverVersion", |driver| version.set(length, &driver.scenario.driver_version))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(version: OutText, length: u32) -> u32 {
    system("nvmlSystemGetNVMLVersion", |driver| version.set(length, &driver.scenario.nvml_version))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion(version: Out<i32>) -> u32 {
    system("nvmlSystemGetCudaDriverVersion", |driver| version.set(driver.scenario.cuda_version))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: Out<i32>) -> u32 {
    system("nvmlSystemGetCudaDriverVersion_v2", |driver| version.set(driver.scenario.cuda_version))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: Out<u32>) -> u32 {
    system("nvmlDeviceGetCount_v2", |driver| count.set(driver.present().count() as u32))
}

/// A device that cannot be found is an error of the call and not of a device.
fn find(question: Question<'_>, out: Out<Handle>, found: impl FnOnce(&Driver) -> Result<Target, ErrorCode>) -> u32 {
    question.answer(found, |_, target| out.set(Handle::of(target)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: Out<Handle>) -> u32 {
    find(Question::new("nvmlDeviceGetHandleByIndex_v2").select(&index), out, |driver| {
        driver.present().nth(index as usize).map(Target::Gpu).ok_or(ErrorCode::InvalidArgument)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUID(uuid: InText, out: Out<Handle>) -> u32 {
    find(Question::new("nvmlDeviceGetHandleByUUID"), out, |driver| {
        let uuid = uuid.get()?;
        let mut targets = driver.present().flat_map(|gpu| {
            let migs = driver.scenario.devices.get(gpu as usize).map_or(0, |device| device.mig.len() as u32);
            std::iter::once(Target::Gpu(gpu)).chain((0..migs).map(move |mig| Target::Mig(gpu, mig)))
        });
        targets.find(|target| driver.uuid(*target).is_ok_and(|known| known == uuid)).ok_or(ErrorCode::NotFound)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: InText, out: Out<Handle>) -> u32 {
    find(Question::new("nvmlDeviceGetHandleByPciBusId_v2"), out, |driver| {
        let bus_id = PciAddress::parse(&bus_id.get()?).ok_or(ErrorCode::InvalidArgument)?;
        driver
            .present()
            .find(|gpu| driver.pci_bus_id(*gpu).ok().and_then(|known| PciAddress::parse(&known)) == Some(bus_id))
            .map(Target::Gpu)
            .ok_or(ErrorCode::NotFound)
    })
}

/// `00000000:18:00.0`, or with a domain of four digits or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PciAddress {
    pub(super) domain: u32,
    pub(super) bus: u32,
    pub(super) device: u32,
}

impl PciAddress {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let hex = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let (rest, function) = text.rsplit_once('.')?;
        hex(function)?;
        let (rest, device) = rest.rsplit_once(':')?;
        let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
        Some(Self { domain: hex(domain)?, bus: hex(bus)?, device: hex(device)? })
    }
}
