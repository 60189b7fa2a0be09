//! What a reading can be. Drivers hand out nonsense at times (65535 W, 2^32-1 °C): such a value is no reading.

/// The most that one board is believed to draw, watts.
const MOST_POWER_W: f64 = 10_000.0;

/// A share of time from percent, 0..=1.
pub(super) fn share(percent: f64) -> Option<f64> {
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// A fan's speed from percent of its maximum, 0..=2: drivers report a little more than all.
pub(super) fn fan_ratio(percent: f64) -> Option<f64> {
    (0.0..=200.0).contains(&percent).then_some(percent / 100.0)
}

/// Power, watts.
pub(super) fn power_w(watts: f64) -> Option<f64> {
    (0.0..=MOST_POWER_W).contains(&watts).then_some(watts)
}

/// Temperature of a chip, degrees Celsius.
pub(super) fn temperature_c(celsius: f64) -> Option<f64> {
    (-60.0..=200.0).contains(&celsius).then_some(celsius)
}

/// A clock from MHz, Hz. A clock that is off reads 0.
pub(super) fn clock_hz(mhz: f64) -> Option<u64> {
    (0.0..=100_000.0).contains(&mhz).then_some((mhz * 1e6) as u64)
}

/// Memory in use or reserved: no more than there is, where that is known.
pub(super) fn memory_bytes(bytes: u64, limit_bytes: Option<u64>) -> Option<u64> {
    // 2^60 B: no device has that, but "not available" is written as 2^64-1.
    (bytes < 1 << 60 && limit_bytes.is_none_or(|limit| bytes <= limit)).then_some(bytes)
}

/// Memory of a device: 0 is what a driver says that does not know.
pub(super) fn memory_limit_bytes(bytes: u64) -> Option<u64> {
    (bytes > 0).then_some(bytes).and_then(|bytes| memory_bytes(bytes, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_absent() {
        assert_eq!(share(55.0), Some(0.55));
        assert_eq!(share(101.0), None);
        assert_eq!(share(f64::NAN), None);
        assert_eq!(fan_ratio(103.0), Some(1.03));
        assert_eq!(power_w(4_294_967.295), None);
        assert_eq!(power_w(-1.0), None);
        assert_eq!(temperature_c(4_294_967_295.0), None);
        assert_eq!(clock_hz(1980.0), Some(1_980_000_000));
        assert_eq!(memory_bytes(8, Some(7)), None);
        assert_eq!(memory_bytes(u64::MAX, None), None);
        assert_eq!(memory_limit_bytes(0), None);
    }
}
