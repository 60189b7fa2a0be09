//! Whether a field is asked at all, and when: not where the device does not have it, less often where the answer takes long, and after a
//! failure only when some time has passed.

use std::time::{Duration, Instant};

use nvml_wrapper::error::NvmlError;

/// A call that takes longer than its limit may take one part in this many of the time.
const SLOW_CALL_COST: u32 = 50;

/// No field is left out for longer than that.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Cheap calls take microseconds; one that takes longer than this has become slow.
pub(super) const CHEAP_LIMIT: Duration = Duration::from_millis(20);

/// The same for dear calls.
pub(super) const DEAR_LIMIT: Duration = Duration::from_millis(100);

/// How patient the source is with what fails. The defaults are for use; tests are in a hurry.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Time until a field or device that failed is asked again; doubled after each failure.
    pub first_retry: Duration,
    /// The longest such time.
    pub longest_retry: Duration,
    /// How often the library is begun anew when no device answers.
    pub new_beginnings: u32,
    /// How long the calls for one reading may take together; the fields that were not reached have their turn in the next.
    pub reading: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first_retry: Duration::from_secs(1),
            longest_retry: Duration::from_secs(300),
            new_beginnings: 5,
            reading: Duration::from_millis(250),
        }
    }
}

/// What is known about a field of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capability {
    /// It was not asked yet.
    NotAsked,
    /// The device has it.
    Supported,
    /// The device does not have it, or does not let us see it, and why. It is not asked again.
    Unsupported(String),
    /// The last call failed, and why. It is asked again.
    Failing(String),
}

#[derive(Debug)]
pub(super) struct Gate {
    pub(super) capability: Capability,
    worked: bool,
    retry: Duration,
    not_before: Option<Instant>,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self { capability: Capability::NotAsked, worked: false, retry: Duration::ZERO, not_before: None }
    }

    /// Asks, if it is time to. `None`: not asked, or no answer.
    pub(super) fn ask<T>(&mut self, turn: &mut Turn<'_>, call: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        let before = Instant::now();
        let due = self.not_before.is_none_or(|time| before >= time);
        if turn.lost.is_some() || !due || matches!(self.capability, Capability::Unsupported(_)) || turn.is_over(before) {
            return None;
        }
        let answer = call();
        let after = Instant::now();
        let took = after.saturating_duration_since(before);
        let mut pause = if took > turn.limit { (took * SLOW_CALL_COST).min(LONGEST_PAUSE) } else { Duration::ZERO };
        let answer = match answer {
            Ok(answer) => {
                turn.answers += 1;
                self.worked = true;
                self.retry = Duration::ZERO;
                self.capability = Capability::Supported;
                Some(answer)
            }
            Err(error) => {
                match verdict(&error, self.worked) {
                    Verdict::Unsupported => self.capability = Capability::Unsupported(reason(&error)),
                    Verdict::Lost => turn.lost = Some(error),
                    Verdict::Failing => {
                        turn.failures += 1;
                        self.retry = (self.retry * 2).clamp(turn.patience.first_retry, turn.patience.longest_retry);
                        pause = pause.max(self.retry);
                        self.capability = Capability::Failing(reason(&error));
                        turn.failure = Some(error);
                    }
                }
                None
            }
        };
        self.not_before = (!pause.is_zero()).then(|| after + pause);
        answer
    }

    /// What was found out otherwise.
    pub(super) fn unsupported(&mut self, reason: &str) {
        self.capability = Capability::Unsupported(reason.to_owned());
    }

    /// Failures of a device that was away say nothing about it after its return.
    pub(super) fn forget_failures(&mut self) {
        self.retry = Duration::ZERO;
        self.not_before = None;
    }
}

/// One reading of one device: how it goes so far.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) patience: &'a Patience,
    limit: Duration,
    began: Instant,
    pub(super) answers: u32,
    pub(super) failures: u32,
    pub(super) failure: Option<NvmlError>,
    /// Set when a call says that the device is gone: nothing more is asked then.
    pub(super) lost: Option<NvmlError>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(patience: &'a Patience, limit: Duration) -> Self {
        Self { patience, limit, began: Instant::now(), answers: 0, failures: 0, failure: None, lost: None }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) > self.patience.reading
    }
}

enum Verdict {
    Unsupported,
    Failing,
    Lost,
}

/// Codes of NVML that nvml-wrapper has no name for.
mod code {
    pub(super) const ARGUMENT_VERSION_MISMATCH: u32 = 25;
    pub(super) const DEPRECATED: u32 = 26;
    pub(super) const GPU_NOT_FOUND: u32 = 28;
}

/// What an error means for the field. A field that gave values before is not given up for good.
fn verdict(error: &NvmlError, worked: bool) -> Verdict {
    match error {
        NvmlError::GpuLost
        | NvmlError::ResetRequired
        | NvmlError::DriverNotLoaded
        | NvmlError::Uninitialized
        | NvmlError::UnexpectedVariant(code::GPU_NOT_FOUND) => Verdict::Lost,
        NvmlError::NotSupported
        | NvmlError::NoPermission
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::FunctionNotFound
        | NvmlError::InvalidArg
        | NvmlError::IncorrectBits(_)
        | NvmlError::UnexpectedVariant(code::ARGUMENT_VERSION_MISMATCH | code::DEPRECATED)
            if !worked =>
        {
            Verdict::Unsupported
        }
        _ => Verdict::Failing,
    }
}

/// Whether the library itself, and not a device, is the trouble: the container lost its access, or the driver went.
pub(super) fn concerns_all(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::Unknown | NvmlError::OperatingSystem | NvmlError::NoPermission | NvmlError::DriverNotLoaded | NvmlError::Uninitialized
    )
}

/// The error in words that stand behind a colon.
pub(super) fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::NotSupported => "not supported by this device".to_owned(),
        NvmlError::NoPermission => "not permitted".to_owned(),
        NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => "the driver is too old for it".to_owned(),
        NvmlError::GpuLost => "it fell off the bus or cannot be reached".to_owned(),
        NvmlError::ResetRequired => "it needs a reset".to_owned(),
        NvmlError::Unknown => "unknown error".to_owned(),
        NvmlError::UnexpectedVariant(code) => format!("NVML's code {code}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HURRY: Patience = Patience {
        first_retry: Duration::from_millis(10),
        longest_retry: Duration::from_millis(20),
        new_beginnings: 0,
        reading: Duration::from_millis(50),
    };

    #[test]
    fn what_is_unsupported_is_asked_once() {
        let mut gate = Gate::new();
        let mut calls = 0;
        for _ in 0..3 {
            let mut turn = Turn::new(&HURRY, CHEAP_LIMIT);
            let answer: Option<u32> = gate.ask(&mut turn, || {
                calls += 1;
                Err(NvmlError::UnexpectedVariant(25))
            });
            assert_eq!((answer, turn.failures), (None, 0));
        }
        assert_eq!(calls, 1);
        assert_eq!(gate.capability, Capability::Unsupported("NVML's code 25".to_owned()));
    }

    #[test]
    fn a_field_that_worked_is_not_given_up() {
        let mut gate = Gate::new();
        assert_eq!(gate.ask(&mut Turn::new(&HURRY, CHEAP_LIMIT), || Ok(1)), Some(1));
        let mut turn = Turn::new(&HURRY, CHEAP_LIMIT);
        assert_eq!(gate.ask(&mut turn, || Err::<u32, _>(NvmlError::NotSupported)), None);
        assert_eq!(turn.failures, 1);
        assert_eq!(gate.ask(&mut Turn::new(&HURRY, CHEAP_LIMIT), || Ok(2)), None, "not at once");
        std::thread::sleep(Duration::from_millis(11));
        assert_eq!(gate.ask(&mut Turn::new(&HURRY, CHEAP_LIMIT), || Ok(3)), Some(3));
    }

    #[test]
    fn a_slow_field_pauses_for_fifty_times_as_long() {
        let mut gate = Gate::new();
        let mut turn = Turn::new(&HURRY, Duration::from_millis(1));
        let slow = || {
            std::thread::sleep(Duration::from_millis(3));
            Ok(1)
        };
        assert_eq!(gate.ask(&mut turn, slow), Some(1));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(gate.ask(&mut Turn::new(&HURRY, CHEAP_LIMIT), || Ok(2)), None);
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(gate.ask(&mut Turn::new(&HURRY, CHEAP_LIMIT), || Ok(3)), Some(3));
    }

    #[test]
    fn a_turn_ends() {
        let mut turn = Turn::new(&HURRY, CHEAP_LIMIT);
        let (mut first, mut second) = (Gate::new(), Gate::new());
        let slow = || {
            std::thread::sleep(Duration::from_millis(60));
            Ok(1)
        };
        assert_eq!(first.ask(&mut turn, slow), Some(1));
        assert_eq!(second.ask(&mut turn, || Ok(1)), None, "its time is over");
        assert_eq!(second.ask(&mut Turn::new(&HURRY, CHEAP_LIMIT), || Ok(1)), Some(1), "it has its turn in the next");
        let mut lost = Turn::new(&HURRY, CHEAP_LIMIT);
        assert_eq!(second.ask(&mut lost, || Err::<u32, _>(NvmlError::GpuLost)), None);
        assert_eq!(second.ask(&mut lost, || Ok(1)), None, "nothing more is asked of a device that is gone");
    }
}
