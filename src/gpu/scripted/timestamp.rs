//! Times of recorded readings. Only the differences count, so a time zone is not needed.

use std::time::Duration;

/// Reads `2025/06/13 00:27:52.195`, `2025-09-24T03:48:33.493Z` or a number of seconds.
pub(super) fn parse(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let (date, time) = text.split_once(['T', ' '])?;
    let mut date = date.split(['-', '/']).map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    // What follows the seconds (`Z`, `+02:00`) is the same on each line of a recording.
    let time = time.trim();
    let time = time.split(['Z', '+', '-', ' ']).next()?;
    let mut parts = time.split(':');
    let (hour, minute) = (parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?);
    let seconds = parts.next()?.parse::<f64>().ok()?;
    let fits = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !fits || hour > 23 || minute > 59 || !(0.0..61.0).contains(&seconds) || parts.next().is_some() || date.next().is_some() {
        return None;
    }
    let days = u64::try_from(days_since_1970(year, month, day)).ok()?;
    Some(Duration::from_secs(days * 86_400 + hour * 3600 + minute * 60) + Duration::from_secs_f64(seconds))
}

/// Days of the Gregorian calendar: years begin in March here, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms() {
        let first = parse("2025/06/13 00:27:52.195").expect("nvidia-smi's form");
        assert_eq!(first, Duration::from_millis(1_749_774_472_195));
        assert_eq!(parse("2025-06-13T00:27:52.195Z"), Some(first));
        assert_eq!(parse("1749774472.5"), Some(Duration::from_millis(1_749_774_472_500)));
        assert_eq!(parse("1970-01-01 00:00:00"), Some(Duration::ZERO));
        let leap = parse("2024-03-01 00:00:00").expect("a date") - parse("2024-02-28 00:00:00").expect("a date");
        assert_eq!(leap, Duration::from_secs(2 * 86_400));
    }

    #[test]
    fn others_are_refused() {
        for wrong in ["", "yesterday", "2025-13-01 00:00:00", "2025-01-01", "2025-01-01 25:00:00", "2025-01-01 1:2", "-5", "inf", "nan"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
