//! NVML's C types, and the only places where a caller's pointers are followed.

use std::ffi::{CStr, c_char};

use crate::driver::{Driver, Outcome};
use crate::error_code::ErrorCode;
use crate::target::Target;

/// A place that the caller gave for an answer. May be null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn set(self, value: T) -> Outcome {
        if self.0.is_null() {
            return Err(ErrorCode::InvalidArgument);
        }
        // SAFETY: NVML's contract is that a pointer other than null leads to room for one T that the caller lends for the call.
        unsafe { self.0.write(value) };
        Ok(())
    }

    pub(crate) fn get(self) -> Result<T, ErrorCode> {
        if self.0.is_null() {
            return Err(ErrorCode::InvalidArgument);
        }
        // SAFETY: as in `set`; used only where the contract says that the caller has filled the place.
        Ok(unsafe { self.0.read() })
    }

    /// The caller's array of that length, for arguments whose contract says so.
    pub(crate) fn slice<'a>(self, length: usize) -> Result<&'a mut [T], ErrorCode> {
        if self.0.is_null() {
            return Err(ErrorCode::InvalidArgument);
        }
        // SAFETY: the caller says by `length` how many T lie there, initialised and lent to nobody else until the call returns; every
        // user of this method lets go of the slice before it answers.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0, length) })
    }

    /// NVML's protocol for lists: the count says how much room there is and then how many there are.
    pub(crate) fn fill(self, count: Out<u32>, items: &[T]) -> Outcome {
        let room = count.get()? as usize;
        count.set(items.len() as u32)?;
        if items.is_empty() {
            return Ok(());
        }
        if room < items.len() {
            return Err(ErrorCode::InsufficientSize);
        }
        self.slice(items.len())?.copy_from_slice(items);
        Ok(())
    }
}

/// Room for a text that the caller gave.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct OutText(*mut c_char);

impl OutText {
    pub(crate) fn set(self, length: u32, text: &str) -> Outcome {
        if self.0.is_null() {
            return Err(ErrorCode::InvalidArgument);
        }
        if (length as usize) <= text.len() {
            return Err(ErrorCode::InsufficientSize);
        }
        // SAFETY: the caller lends `length` bytes, and the text with its closing zero has just been found to fit.
        let room = unsafe { std::slice::from_raw_parts_mut(self.0, text.len() + 1) };
        room.copy_from_slice(&c_text(text, text.len() + 1));
        Ok(())
    }
}

/// A text that the caller gave.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct InText(*const c_char);

impl InText {
    pub(crate) fn get(self) -> Result<String, ErrorCode> {
        if self.0.is_null() {
            return Err(ErrorCode::InvalidArgument);
        }
        // SAFETY: NVML's contract is that the pointer leads to a text that ends with a zero and stays as it is during the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| ErrorCode::InvalidArgument)
    }
}

/// A text as the C characters of a field of that length, with at least one closing zero.
fn c_text(text: &str, length: usize) -> Vec<c_char> {
    let mut characters: Vec<c_char> = text.bytes().take(length.saturating_sub(1)).map(|byte| byte as c_char).collect();
    characters.resize(length, 0);
    characters
}

pub(crate) fn c_array<const LENGTH: usize>(text: &str) -> [c_char; LENGTH] {
    let mut array = [0; LENGTH];
    array.copy_from_slice(&c_text(text, LENGTH));
    array
}

/// An nvmlDevice_t. NVML's is a pointer that callers must not follow, so any number but 0 will do; this one says which device it is.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(usize);

const HANDLE_MARK: usize = 0x4E56_0000;

impl Handle {
    pub(crate) fn of(target: Target) -> Self {
        Self(match target {
            Target::System => 0,
            Target::Gpu(gpu) => HANDLE_MARK | (gpu as usize) << 8,
            Target::Mig(gpu, mig) => HANDLE_MARK | (gpu as usize) << 8 | (mig as usize + 1),
        })
    }

    pub(crate) fn resolve(self, driver: &Driver) -> Result<Target, ErrorCode> {
        if self.0 & !0xFFFF != HANDLE_MARK {
            return Err(ErrorCode::InvalidArgument);
        }
        let (gpu, place) = ((self.0 >> 8 & 0xFF) as u32, (self.0 & 0xFF) as u32);
        let device = driver.scenario.devices.get(gpu as usize).ok_or(ErrorCode::InvalidArgument)?;
        match place.checked_sub(1) {
            None => Ok(Target::Gpu(gpu)),
            Some(mig) if (mig as usize) < device.mig.len() => Ok(Target::Mig(gpu, mig)),
            Some(_) => Err(ErrorCode::InvalidArgument),
        }
    }
}

/// NVML_STRUCT_VERSION: how a struct says which form of it the caller was built with.
pub(crate) const fn struct_version<T>(version: u32) -> u32 {
    size_of::<T>() as u32 | version << 24
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PciInfo {
    pub(crate) bus_id_legacy: [c_char; 16],
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
    pub(crate) pci_device_id: u32,
    pub(crate) pci_subsystem_id: u32,
    pub(crate) bus_id: [c_char; 32],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemoryV2 {
    pub(crate) version: u32,
    pub(crate) total: u64,
    pub(crate) reserved: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Utilization {
    pub(crate) gpu: u32,
    pub(crate) memory: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ViolationTime {
    pub(crate) reference_time_us: u64,
    pub(crate) violation_time_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProcessInfo {
    pub(crate) pid: u32,
    pub(crate) used_gpu_memory: u64,
    pub(crate) gpu_instance_id: u32,
    pub(crate) compute_instance_id: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProcessUtilization {
    pub(crate) pid: u32,
    pub(crate) time_stamp_us: u64,
    pub(crate) sm_percent: u32,
    pub(crate) memory_percent: u32,
    pub(crate) encoder_percent: u32,
    pub(crate) decoder_percent: u32,
}

/// An nvmlValue_t. Every arm of the union begins at its first byte and machines of interest are little-endian, so 64 bits serve for all.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) time_stamp_us: u64,
    pub(crate) value: u64,
}

pub(crate) const VALUE_TYPE_UNSIGNED_INT: u32 = 1;
pub(crate) const VALUE_TYPE_UNSIGNED_LONG_LONG: u32 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FieldValue {
    pub(crate) field_id: u32,
    pub(crate) scope_id: u32,
    pub(crate) time_stamp_us: i64,
    pub(crate) latency_us: i64,
    pub(crate) value_type: u32,
    pub(crate) result: u32,
    pub(crate) value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Attributes {
    pub(crate) multiprocessors: u32,
    pub(crate) copy_engines: u32,
    pub(crate) decoders: u32,
    pub(crate) encoders: u32,
    pub(crate) jpeg_engines: u32,
    pub(crate) ofa_engines: u32,
    pub(crate) gpu_slices: u32,
    pub(crate) compute_slices: u32,
    pub(crate) memory_mb: u64,
}
