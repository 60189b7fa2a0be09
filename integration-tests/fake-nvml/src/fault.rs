//! What goes wrong, when, and for whom.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;
use crate::function;
use crate::target::Target;

/// A rule that takes effect before a function answers. Several may hold at once: delays add up, the first error wins.
///
/// Without a function it holds for every call, without a device for every device and for calls without one, without a trigger always.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Which function, with or without its prefix: `nvmlDeviceGetPowerUsage` or `PowerUsage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Which device. A fault of a GPU is one of its MIG devices as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Target>,
    /// Answer with this error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorCode>,
    /// Sleep before answering.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// The device is gone: not counted, not found, its handles GpuIsLost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unplug: bool,
    /// From that call on, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_call: Option<u64>,
    /// Until before that call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_call: Option<u64>,
    /// From that second on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_second: Option<f64>,
    /// Until before that second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_second: Option<f64>,
    /// Count the calls of this function (on the same device) instead of the calls that the fault is about: "the whole GPU is lost once it
    /// has been asked for its utilization five times".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Fault {
    /// Calls fail with that error.
    pub fn error(error: ErrorCode) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// Calls take so long.
    pub fn delay(delay: Duration) -> Self {
        Self { delay_ms: delay.as_millis() as u64, ..Self::default() }
    }

    /// The device disappears.
    pub fn unplug(device: impl Into<Target>) -> Self {
        Self { unplug: true, device: Some(device.into()), ..Self::default() }
    }

    /// Only this function.
    pub fn function(mut self, function: impl Into<String>) -> Self {
        self.function = Some(function.into());
        self
    }

    /// Only this device.
    pub fn device(mut self, device: impl Into<Target>) -> Self {
        self.device = Some(device.into());
        self
    }

    /// From that call on, counted from 1.
    pub fn from_call(mut self, call: u64) -> Self {
        self.from_call = Some(call);
        self
    }

    /// Until before that call.
    pub fn until_call(mut self, call: u64) -> Self {
        self.until_call = Some(call);
        self
    }

    /// From that second on.
    pub fn from_second(mut self, second: f64) -> Self {
        self.from_second = Some(second);
        self
    }

    /// Until before that second.
    pub fn until_second(mut self, second: f64) -> Self {
        self.until_second = Some(second);
        self
    }

    /// Count the calls of this function instead.
    pub fn counting(mut self, function: impl Into<String>) -> Self {
        self.counting = Some(function.into());
        self
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        for name in [&self.function, &self.counting].into_iter().flatten() {
            if function::full_name(name).is_none() {
                return Err(format!("no function {name:?} here; see fake_nvml::FUNCTIONS"));
            }
        }
        if self.error == Some(ErrorCode::Success) || (self.error.is_none() && self.delay_ms == 0 && !self.unplug) {
            return Err("a fault needs an error, a delay_ms or unplug".into());
        }
        if self.unplug && !matches!(self.device, Some(Target::Gpu(_))) {
            return Err("unplug needs a GPU as its device".into());
        }
        Ok(())
    }

    /// Whether the fault is about this call.
    pub(crate) fn concerns(&self, function: &str, target: Target) -> bool {
        self.function.as_deref().is_none_or(|name| function::same(name, function)) && self.device.is_none_or(|device| device.covers(target))
    }

    /// Whether this call moves the fault's counter.
    pub(crate) fn counts(&self, function: &str, target: Target) -> bool {
        match &self.counting {
            None => self.concerns(function, target),
            Some(name) => {
                let same_device = target == Target::System || self.device.is_none_or(|device| device.covers(target));
                function::same(name, function) && same_device
            }
        }
    }

    /// Whether the trigger has been pulled, `calls` calls counted so far (the present one included).
    pub(crate) fn is_active(&self, calls: u64, second: f64) -> bool {
        self.from_call.is_none_or(|from| calls >= from)
            && self.until_call.is_none_or(|until| calls < until)
            && self.from_second.is_none_or(|from| second >= from)
            && self.until_second.is_none_or(|until| second < until)
    }
}
