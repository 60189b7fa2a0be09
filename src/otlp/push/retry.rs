//! When to try again.

use std::time::{Duration, SystemTime};

/// The first time at once, nearly: most failures are a server that has just closed an idle connection or is being replaced.
const FIRST: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// A server that wants to be left alone for longer is asked again after this.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// How long to wait, longer each time.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let base = match self.failures {
            0 => FIRST,
            failures => SECOND.saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX)).min(LONGEST),
        };
        self.failures = self.failures.saturating_add(1).min(31);
        // Many ranks that lost the same collector must not come back in the same moment.
        base.mul_f64(0.75 + jitter() / 2.0)
    }

    /// Something worked: the next failure is the first one.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A random number from 0 to 1.
fn jitter() -> f64 {
    getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX))
}

/// The wait of a `Retry-After` header: seconds, or a date.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_ASKED))
}

/// The wait of a duration in a message (`google.protobuf.Duration`).
#[cfg(feature = "grpc")]
pub(super) fn asked(seconds: i64, nanoseconds: i32) -> Duration {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0).min(999_999_999);
    Duration::new(seconds, nanoseconds).min(LONGEST_ASKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_bound() {
        let mut backoff = Backoff::default();
        let expected = [100, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000];
        for milliseconds in expected.into_iter().chain([30_000; 100]) {
            let wait = backoff.next();
            let base = Duration::from_millis(milliseconds);
            assert!(wait >= base.mul_f64(0.749) && wait <= base.mul_f64(1.251), "{wait:?} for {base:?}");
        }
        backoff.reset();
        assert!(backoff.next() < Duration::from_millis(200));
    }

    #[test]
    fn what_a_server_asks_for() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, expected) in [
            ("0", Some(0)),
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("999999999999", Some(3600)),
            ("-1", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after(value, now), expected.map(Duration::from_secs), "{value}");
        }
    }
}
