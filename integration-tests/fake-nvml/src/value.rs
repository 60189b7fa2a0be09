//! One number that a device reports, and how it moves: the grammar of a scenario's values.

use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;
use crate::replay::Replay;

/// One answer: a number in the unit that the field's name says, or an error instead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// The number.
    Number(u64),
    /// Every function that would have to report this number returns the error instead.
    Error(ErrorCode),
}

impl Answer {
    pub(crate) fn result(self) -> Result<u64, ErrorCode> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Error(error) => Err(error),
        }
    }
}

impl From<u64> for Answer {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<ErrorCode> for Answer {
    fn from(error: ErrorCode) -> Self {
        Self::Error(error)
    }
}

/// How a number moves while the process asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Always the same: `5` or `"NotSupported"`.
    Constant(Answer),
    /// The first reading gets the first answer, and so on: `{"calls": [1, 2, "GpuIsLost"]}`.
    Calls(Calls),
    /// A staircase over seconds: `{"seconds": [[0, 10], [2.5, 90]]}`.
    Seconds(Seconds),
    /// What the calling process does: `{"mirror": {"base": 0}}`.
    Mirror(Mirrored),
    /// A column of a recorded CSV file: `{"replay": {"file": "run.csv", "column": "power_W", "scale": 1000}}`.
    Replay(Replayed),
}

/// Answers in the order in which they are asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// The answers; the last one holds unless `repeat` is set.
    pub calls: Vec<Answer>,
    /// Begin again after the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
}

/// A staircase over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seconds {
    /// From that second on, that answer. Before the first entry its answer already holds; after the last one it holds for ever.
    pub seconds: Vec<(f64, Answer)>,
    /// Begin again after so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_every: Option<f64>,
}

/// See [`Value::Mirror`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mirrored {
    /// The details.
    pub mirror: Mirror,
}

/// The number follows the calling process: used memory its resident size in bytes, GPU utilization its CPU use in percent of one core,
/// power that utilization, and energy the integral of that power.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    /// Added to what is mirrored, in the field's unit. For memory: what the card holds besides the process.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub base: u64,
}

/// See [`Value::Replay`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replayed {
    /// The details.
    pub replay: Replay,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl<T: Into<Answer>> From<T> for Value {
    fn from(answer: T) -> Self {
        Self::Constant(answer.into())
    }
}

impl Value {
    /// One answer after the other; the last one holds.
    pub fn over_calls(answers: impl IntoIterator<Item = impl Into<Answer>>) -> Self {
        Self::Calls(Calls { calls: answers.into_iter().map(Into::into).collect(), repeat: false })
    }

    /// A staircase over seconds; the last step holds.
    pub fn over_seconds(steps: impl IntoIterator<Item = (f64, impl Into<Answer>)>) -> Self {
        Self::Seconds(Seconds { seconds: steps.into_iter().map(|(second, answer)| (second, answer.into())).collect(), repeat_every: None })
    }

    /// What the calling process does, plus `base`.
    pub fn mirror(base: u64) -> Self {
        Self::Mirror(Mirrored { mirror: Mirror { base } })
    }

    /// A column of a recorded file.
    pub fn replay(replay: Replay) -> Self {
        Self::Replay(Replayed { replay })
    }

    /// What is wrong with it, if something is.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Calls(calls) if calls.calls.is_empty() => Err("\"calls\" is empty".into()),
            Self::Seconds(steps) if steps.seconds.is_empty() => Err("\"seconds\" is empty".into()),
            Self::Seconds(steps) if !steps.seconds.is_sorted_by(|a, b| a.0 < b.0) => Err("\"seconds\" must rise".into()),
            Self::Seconds(Seconds { repeat_every: Some(period), .. }) if *period <= 0.0 => Err("\"repeat_every\" must be above 0".into()),
            _ => Ok(()),
        }
    }

    /// The answer to reading number `reading` (from 0) at that second; `None` where only the process itself can tell.
    pub(crate) fn at(&self, second: f64, reading: u64) -> Option<Result<u64, ErrorCode>> {
        match self {
            Self::Constant(answer) => Some(answer.result()),
            Self::Calls(Calls { calls, repeat }) => {
                let last = calls.len().checked_sub(1)? as u64;
                let index = if *repeat { reading % (last + 1) } else { reading.min(last) };
                calls.get(index as usize).map(|answer| answer.result())
            }
            Self::Seconds(steps) => Some(steps.at(second)),
            Self::Mirror(_) => None,
            // Replaced by its steps when the scenario is loaded.
            Self::Replay(_) => Some(Err(ErrorCode::NoData)),
        }
    }

    /// The exact area under the value between two seconds; an error counts as `instead`. `None` where the value does not depend on time alone.
    pub(crate) fn integral(&self, from: f64, to: f64, instead: u64) -> Option<f64> {
        match self {
            Self::Constant(answer) => Some(answer.result().unwrap_or(instead) as f64 * (to - from)),
            Self::Seconds(steps) => Some(steps.integral(from, to, instead)),
            _ => None,
        }
    }
}

impl Seconds {
    fn phase(&self, second: f64) -> f64 {
        self.repeat_every.map_or(second, |period| second.rem_euclid(period))
    }

    fn at(&self, second: f64) -> Result<u64, ErrorCode> {
        let phase = self.phase(second);
        let index = self.seconds.partition_point(|(start, _)| *start <= phase).saturating_sub(1);
        self.seconds.get(index).map_or(Err(ErrorCode::NoData), |(_, answer)| answer.result())
    }

    fn integral(&self, from: f64, to: f64, instead: u64) -> f64 {
        match self.repeat_every {
            None => self.area_until(to, instead) - self.area_until(from, instead),
            Some(period) => {
                let whole = self.area_until(period, instead);
                let until = |second: f64| (second / period).floor() * whole + self.area_until(second.rem_euclid(period), instead);
                until(to) - until(from)
            }
        }
    }

    /// The area from second 0 on, within one period.
    fn area_until(&self, second: f64, instead: u64) -> f64 {
        let mut area = 0.0;
        for (index, (start, answer)) in self.seconds.iter().enumerate() {
            let begin = if index == 0 { 0.0 } else { start.max(0.0) };
            let end = self.seconds.get(index + 1).map_or(second, |(next, _)| next.min(second));
            if end > begin {
                area += answer.result().unwrap_or(instead) as f64 * (end - begin);
            }
        }
        area
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staircase() -> Seconds {
        Seconds { seconds: vec![(0.0, 10.into()), (2.0, 30.into()), (3.0, ErrorCode::Unknown.into())], repeat_every: None }
    }

    #[test]
    fn a_staircase_holds_its_last_step_or_repeats() {
        let mut steps = staircase();
        assert_eq!(steps.at(1.99), Ok(10));
        assert_eq!(steps.at(2.0), Ok(30));
        assert_eq!(steps.at(99.0), Err(ErrorCode::Unknown));
        steps.repeat_every = Some(4.0);
        assert_eq!(steps.at(4.5), Ok(10));
        assert_eq!(steps.at(6.5), Ok(30));
    }

    #[test]
    fn the_area_under_a_staircase_is_exact() {
        let mut steps = staircase();
        assert_eq!(steps.integral(1.0, 2.5, 0), 10.0 + 15.0);
        assert_eq!(steps.integral(2.0, 5.0, 7), 30.0 + 14.0);
        steps.repeat_every = Some(4.0);
        assert_eq!(steps.integral(0.0, 8.0, 0), 2.0 * (20.0 + 30.0));
        assert_eq!(steps.integral(3.0, 7.0, 0), 20.0 + 30.0);
    }

    #[test]
    fn calls_hold_or_repeat() {
        let hold = Value::over_calls([1, 2]);
        assert_eq!(hold.at(0.0, 0), Some(Ok(1)));
        assert_eq!(hold.at(0.0, 5), Some(Ok(2)));
        let repeat = Value::Calls(Calls { calls: vec![1.into(), 2.into()], repeat: true });
        assert_eq!(repeat.at(0.0, 2), Some(Ok(1)));
    }
}
