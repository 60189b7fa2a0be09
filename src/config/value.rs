//! How one value is found: code, then the variables in order, then the default; and the line that says what was wrong on the way.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use super::describe::{Origin, Origins, bytes};
use super::environment::Environment;

/// Why a text is no value, as the end of a sentence, and what is meant by it all the same.
pub(super) struct Bad<T> {
    pub(super) why: String,
    /// Used in its place; without it the next variable is asked.
    pub(super) instead: Option<Box<T>>,
}

impl<T> Bad<T> {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), instead: None }
    }

    pub(super) fn but(why: impl Into<String>, instead: T) -> Self {
        Self { why: why.into(), instead: Some(Box::new(instead)) }
    }
}

pub(super) type Read<T> = Result<T, Bad<T>>;

/// Finds values, and collects what was wrong and where they came from.
pub(super) struct Finder<'a> {
    pub(super) environment: &'a Environment,
    pub(super) warnings: Vec<String>,
    pub(super) origins: Origins,
}

impl Finder<'_> {
    pub(super) fn warn(&mut self, line: String) {
        // Three signals that read one general variable have one complaint about it.
        if !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }

    /// The value of one setting.
    pub(super) fn find<T>(
        &mut self,
        setting: impl Into<Cow<'static, str>>,
        code: Option<T>,
        variables: &[Cow<'static, str>],
        default: T,
        read: impl Fn(&str) -> Read<T>,
        show: impl Fn(&T) -> String,
    ) -> T {
        let setting = setting.into();
        if let Some(value) = code {
            self.origins.set(setting, Origin::Code);
            return value;
        }
        let mut faults = Vec::new();
        let mut found = None;
        for name in variables {
            let Some(text) = self.environment.get(name) else { continue };
            let value = match read(text) {
                Ok(value) => Some(value),
                Err(bad) => {
                    faults.push(format!("{name}={} {}", shown(text), bad.why));
                    bad.instead.map(|value| *value)
                }
            };
            if let Some(value) = value {
                found = Some((value, Origin::Variable(name.clone())));
                break;
            }
        }
        let (value, origin) = found.unwrap_or((default, Origin::Default));
        for fault in faults {
            self.warn(format!("{fault}: {} is used", show(&value)));
        }
        self.origins.set(setting, origin);
        value
    }
}

/// A value as it was found, short enough for a line.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() > MOST {
        let start: String = text.chars().take(MOST).collect();
        format!("{start:?}..")
    } else {
        format!("{text:?}")
    }
}

/// On or off, in the words of our own variables.
pub(super) fn switch(text: &str) -> Read<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(Bad::new("is neither on nor off")),
    }
}

/// True or false, in the words of OpenTelemetry's variables: anything but `true` is false.
pub(super) fn otel_switch(text: &str) -> Read<bool> {
    if text.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err(Bad::but("is neither true nor false".to_owned(), false))
    }
}

pub(super) fn yes_or_no_otel(value: &bool) -> String {
    value.to_string()
}

/// A whole number of milliseconds within bounds; what lies outside becomes the bound.
pub(super) fn milliseconds(text: &str, least: Duration, most: Duration) -> Read<Duration> {
    let Ok(number) = text.parse::<u64>() else {
        return Err(Bad::new("is no whole number of milliseconds"));
    };
    within(Duration::from_millis(number), least, most)
}

pub(super) fn within(value: Duration, least: Duration, most: Duration) -> Read<Duration> {
    if value < least {
        Err(Bad::but(format!("is less than the least, {} ms", least.as_millis()), least))
    } else if value > most {
        Err(Bad::but(format!("is more than the most, {} ms", most.as_millis()), most))
    } else {
        Ok(value)
    }
}

pub(super) fn show_milliseconds(value: &Duration) -> String {
    format!("{} ms", value.as_millis())
}

/// Bytes: a number, or one with `K`, `M`, `G` (also `KiB`, `KB`, ..; always powers of 1024).
pub(super) fn size(text: &str, least: u64, most: u64) -> Read<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(Bad::new("is no size (write bytes, or a number with K, M or G)")),
    };
    let Some(value) = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)) else {
        return Err(Bad::new("is no size (write bytes, or a number with K, M or G)"));
    };
    size_within(value, least, most)
}

pub(super) fn size_within(value: u64, least: u64, most: u64) -> Read<u64> {
    if value < least {
        Err(Bad::but(format!("is less than the least, {}", bytes(least)), least))
    } else if value > most {
        Err(Bad::but(format!("is more than the most, {}", bytes(most)), most))
    } else {
        Ok(value)
    }
}

pub(super) fn any_path(text: &str) -> Read<Option<PathBuf>> {
    Ok(Some(PathBuf::from(text)))
}

pub(super) fn show_path(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string())
}
