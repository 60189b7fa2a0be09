//! Events: not supported, as on cards and platforms that have none.

use std::ffi::c_void;

use super::{gpu, system};
use crate::abi::{Handle, Out};
use crate::error_code::ErrorCode;

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedEventTypes(handle: Handle, _types: Out<u64>) -> u32 {
    gpu("nvmlDeviceGetSupportedEventTypes", handle, |_, _| Err(ErrorCode::NotSupported))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceRegisterEvents(handle: Handle, _types: u64, _set: *mut c_void) -> u32 {
    gpu("nvmlDeviceRegisterEvents", handle, |_, _| Err(ErrorCode::NotSupported))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetCreate(_set: *mut *mut c_void) -> u32 {
    system("nvmlEventSetCreate", |_| Err(ErrorCode::NotSupported))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait_v2(_set: *mut c_void, _data: *mut c_void, _timeout_ms: u32) -> u32 {
    system("nvmlEventSetWait_v2", |_| Err(ErrorCode::NotSupported))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetFree(_set: *mut c_void) -> u32 {
    system("nvmlEventSetFree", |_| Err(ErrorCode::NotSupported))
}
