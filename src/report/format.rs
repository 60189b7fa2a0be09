//! Numbers for people: short, of a known width, never rounding one unit into "1024" of it or a small number down to 0.

/// Bytes in binary units, to three digits: `312 MiB`, `1.25 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.6 would be written as 1024 of the smaller unit.
    while scaled >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(scaled), UNITS[unit])
}

/// A share of one as a percentage: `61 %`, `0.4 %`, `<0.1 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if !percent.is_finite() => ABSENT.to_owned(),
        _ if percent <= 0.0 => "0 %".to_owned(),
        _ if percent < 0.05 => "<0.1 %".to_owned(),
        _ if percent < 0.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// Energy: `98 J`, `1.25 kJ`.
#[must_use]
pub fn energy(joules: f64) -> String {
    if !joules.is_finite() || joules < 0.0 {
        return ABSENT.to_owned();
    }
    if joules < 9.5 {
        return format!("{joules:.1} J");
    }
    let mut scaled = joules;
    for unit in ["J", "kJ", "MJ", "GJ"] {
        if scaled < 999.5 {
            // Whole joules are as exact as the counters are.
            return if unit == "J" { format!("{scaled:.0} J") } else { format!("{} {unit}", three_digits(scaled)) };
        }
        scaled /= 1000.0;
    }
    format!("{scaled:.0} TJ")
}

/// A stretch of time: `412 µs`, `9.8 ms`, `3.4 s`, `3 min 24 s`, `2 h 05 min`, `3 d 04 h`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return ABSENT.to_owned();
    }
    if seconds < 99.95 {
        let unit = TimeUnit::of(seconds);
        return format!("{} {}", unit.number(seconds), unit.name);
    }
    let seconds = seconds.round();
    if seconds < 3600.0 {
        format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), seconds % 60.0)
    } else {
        // To the next minute or hour below: what has not passed is not said.
        let minutes = (seconds / 60.0).floor();
        if minutes < 1440.0 {
            format!("{:.0} h {:02.0} min", (minutes / 60.0).floor(), minutes % 60.0)
        } else {
            let hours = (minutes / 60.0).floor();
            format!("{:.0} d {:02.0} h", (hours / 24.0).floor(), hours % 24.0)
        }
    }
}

/// Two stretches of time that share the larger one's unit: `9.8 / 13.1 ms`.
#[must_use]
pub fn two_durations(first: Option<f64>, second: Option<f64>) -> Option<String> {
    let largest = first.into_iter().chain(second).filter(|seconds| seconds.is_finite() && *seconds >= 0.0).reduce(f64::max)?;
    let unit = TimeUnit::of(largest);
    let number = |seconds: Option<f64>| seconds.map_or_else(|| ABSENT.to_owned(), |seconds| unit.number(seconds));
    Some(format!("{} / {} {}", number(first), number(second), unit.name))
}

/// The time between two readings: like [`duration`], without a decimal that says nothing (`1 s`).
#[must_use]
pub fn interval(seconds: f64) -> String {
    duration(seconds).replace(".0 ", " ")
}

/// A count with its noun.
#[must_use]
pub fn count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What stands where there is no number.
pub const ABSENT: &str = "–";

/// A number below 1023.5 to three digits.
fn three_digits(number: f64) -> String {
    if number < 9.995 {
        format!("{number:.2}")
    } else if number < 99.95 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    }
}

/// A unit of less than a minute.
#[derive(Clone, Copy)]
struct TimeUnit {
    name: &'static str,
    per_second: f64,
}

impl TimeUnit {
    fn of(seconds: f64) -> Self {
        const UNITS: [TimeUnit; 3] =
            [TimeUnit { name: "ns", per_second: 1e9 }, TimeUnit { name: "µs", per_second: 1e6 }, TimeUnit { name: "ms", per_second: 1e3 }];
        if seconds == 0.0 {
            return TimeUnit { name: "s", per_second: 1.0 };
        }
        UNITS.into_iter().find(|unit| seconds * unit.per_second < 999.5).unwrap_or(TimeUnit { name: "s", per_second: 1.0 })
    }

    /// One decimal below 100, none above.
    fn number(self, seconds: f64) -> String {
        let number = seconds * self.per_second;
        if number < 99.95 { format!("{number:.1}") } else { format!("{number:.0}") }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_well() {
        let mib = 1024 * 1024;
        let written = [0, 1023, 1024, 312 * mib, 1023 * mib, 1024 * mib, 1280 * mib, 80 * 1024 * mib, u64::MAX].map(bytes);
        assert_eq!(written, ["0 B", "1023 B", "1.00 KiB", "312 MiB", "1023 MiB", "1.00 GiB", "1.25 GiB", "80.0 GiB", "16.0 EiB"]);
        assert_eq!([0.0, 0.0004, 0.004, 0.04, 0.612, 1.2, f64::NAN].map(percent), ["0 %", "<0.1 %", "0.4 %", "4 %", "61 %", "120 %", "–"]);
        assert_eq!([0.0, 3.26, 98.2, 999.4, 1250.0, 3.6e6].map(energy), ["0.0 J", "3.3 J", "98 J", "999 J", "1.25 kJ", "3.60 MJ"]);
        let written = [0.0, 4.12e-4, 0.0098, 0.1, 3.4, 21.44, 99.96, 204.0, 3599.7, 7500.0, 273_600.0].map(duration);
        assert_eq!(
            written,
            ["0.0 s", "412 µs", "9.8 ms", "100 ms", "3.4 s", "21.4 s", "1 min 40 s", "3 min 24 s", "1 h 00 min", "2 h 05 min", "3 d 04 h"]
        );
        assert_eq!(two_durations(Some(0.0098), Some(0.0131)).as_deref(), Some("9.8 / 13.1 ms"));
        assert_eq!(two_durations(None, Some(2.0)).as_deref(), Some("– / 2.0 s"));
        assert_eq!(two_durations(None, None), None);
        assert_eq!((interval(1.0), interval(0.1), interval(2.5)), ("1 s".into(), "100 ms".into(), "2.5 s".into()));
        assert_eq!((count(1, "step", "steps"), count(0, "step", "steps")), ("1 step".into(), "0 steps".into()));
    }

    /// What a text says, in the smallest unit.
    fn value(text: &str) -> f64 {
        let factor = |unit: &str| match unit {
            "B" | "J" | "s" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1024.0_f64.powi(2),
            "GiB" => 1024.0_f64.powi(3),
            "TiB" => 1024.0_f64.powi(4),
            "PiB" => 1024.0_f64.powi(5),
            "EiB" => 1024.0_f64.powi(6),
            "ns" => 1e-9,
            "µs" => 1e-6,
            "ms" => 1e-3,
            "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            "%" => 0.01,
            "kJ" => 1e3,
            "MJ" => 1e6,
            "GJ" => 1e9,
            _ => f64::NAN,
        };
        let words: Vec<&str> = text.trim_start_matches('<').split(' ').collect();
        words.chunks(2).map(|pair| pair[0].parse::<f64>().unwrap_or(f64::NAN) * factor(pair.get(1).unwrap_or(&""))).sum()
    }

    fn width(text: &str) -> usize {
        text.chars().count()
    }

    proptest! {
        #[test]
        fn bytes_are_near_narrow_and_in_order(shift in 0_u32..64, one in any::<u64>(), more in any::<u64>()) {
            let (one, more) = (one >> shift, (one >> shift).saturating_add(more >> shift.max(1)));
            prop_assert!(width(&bytes(one)) <= 8, "{}", bytes(one));
            prop_assert!((value(&bytes(one)) - one as f64).abs() <= 0.00501 * one as f64, "{} for {one}", bytes(one));
            prop_assert!(value(&bytes(one)) <= value(&bytes(more)), "{} <= {}", bytes(one), bytes(more));
        }

        #[test]
        fn durations_are_near_narrow_and_in_order(exponent in -9.0_f64..7.0, factor in 1.0_f64..3.0) {
            let (one, more) = (10_f64.powf(exponent), 10_f64.powf(exponent) * factor);
            prop_assert!(width(&duration(one)) <= 11, "{}", duration(one));
            prop_assert!((value(&duration(one)) - one).abs() <= 0.051 * one, "{} for {one}", duration(one));
            prop_assert!(value(&duration(one)) <= value(&duration(more)) * (1.0 + 1e-12), "{} <= {}", duration(one), duration(more));
        }

        #[test]
        fn energies_and_shares_are_near_narrow_and_in_order(exponent in -2.0_f64..9.0, factor in 1.0_f64..3.0) {
            let (one, more) = (10_f64.powf(exponent), 10_f64.powf(exponent) * factor);
            prop_assert!(width(&energy(one)) <= 7, "{}", energy(one));
            prop_assert!((value(&energy(one)) - one).abs() <= 0.0501 * one.max(1.0), "{} for {one}", energy(one));
            prop_assert!(value(&energy(one)) <= value(&energy(more)));
            let (one, more) = (one / 1e9, more / 1e9);
            prop_assert!(width(&percent(one)) <= 6 && value(&percent(one)) <= value(&percent(more)));
            prop_assert!(value(&percent(one)) > 0.0, "something is never written as nothing");
        }
    }
}
