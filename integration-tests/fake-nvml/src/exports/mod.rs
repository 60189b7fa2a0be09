//! The functions that a process finds when it loads the library.

mod buffers;
mod events;
mod identity;
mod mig;
mod readings;
mod system;

use crate::abi::Handle;
use crate::driver::{Driver, Outcome, Question};
use crate::error_code::ErrorCode;
use crate::target::Target;

/// A function about the machine.
fn system(function: &'static str, body: impl FnOnce(&mut Driver) -> Outcome) -> u32 {
    Question::new(function).answer(|_| Ok(Target::System), |driver, _| body(driver))
}

/// A function about a GPU. Of a MIG device NVML knows little more than who it is and its memory.
fn gpu(function: &'static str, device: Handle, body: impl FnOnce(&mut Driver, u32) -> Outcome) -> u32 {
    on_gpu(Question::new(function), device, body)
}

/// A function about a GPU that chooses one of several quantities by a number.
fn gpu_selecting(function: &'static str, device: Handle, selector: u32, body: impl FnOnce(&mut Driver, u32) -> Outcome) -> u32 {
    on_gpu(Question::new(function).select(&selector), device, body)
}

fn on_gpu(question: Question<'_>, device: Handle, body: impl FnOnce(&mut Driver, u32) -> Outcome) -> u32 {
    question.answer(
        |driver| device.resolve(driver),
        |driver, target| match target {
            Target::Gpu(gpu) => body(driver, gpu),
            Target::Mig(..) => Err(ErrorCode::NotSupported),
            Target::System => Err(ErrorCode::InvalidArgument),
        },
    )
}

/// A function about a GPU or a MIG device.
fn device(function: &'static str, device: Handle, body: impl FnOnce(&mut Driver, Target) -> Outcome) -> u32 {
    Question::new(function).answer(|driver| device.resolve(driver), body)
}
