//! The exponential histogram of OTLP: buckets whose bounds are powers of 2^(2^-scale), so that no bounds must be chosen.
//!
//! Source: OpenTelemetry metrics data model, "ExponentialHistogram". Bucket `i` holds values in `(base^i, base^(i+1)]`.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Buckets kept; a wider range of values makes the buckets coarser instead. The default of the OpenTelemetry specification.
pub const MAX_BUCKETS: usize = 160;

/// The finest scale: a bucket is one part in 1.5 million wide.
const MAX_SCALE: i32 = 20;
/// The coarsest scale: 11 buckets hold all doubles.
const MIN_SCALE: i32 = -10;

/// A distribution of values that are not negative (durations).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExponentialHistogram {
    scale: i32,
    offset: i32,
    counts: VecDeque<u64>,
    zero_count: u64,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Default for ExponentialHistogram {
    fn default() -> Self {
        Self {
            scale: MAX_SCALE,
            offset: 0,
            counts: VecDeque::new(),
            zero_count: 0,
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

impl ExponentialHistogram {
    /// Adds a value. Negative and non-finite values are not taken: they are no durations.
    pub fn record(&mut self, value: f64) {
        if !value.is_finite() || value < 0.0 {
            return;
        }
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if value < f64::MIN_POSITIVE {
            self.zero_count += 1;
            return;
        }
        let index = self.make_room_for(value.log2());
        if self.counts.is_empty() {
            self.offset = index;
            self.counts.push_back(1);
            return;
        }
        while index < self.offset {
            self.counts.push_front(0);
            self.offset -= 1;
        }
        let place = (index - self.offset) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
    }

    /// Makes the buckets coarser until the bucket of the value with that logarithm is within [`MAX_BUCKETS`] of the others: its index.
    fn make_room_for(&mut self, log2: f64) -> i32 {
        loop {
            let index = bucket_index(log2, self.scale);
            if self.counts.is_empty() || self.scale <= MIN_SCALE {
                return index;
            }
            let low = index.min(self.offset);
            let high = index.max(self.offset + self.counts.len() as i32 - 1);
            if ((high - low) as usize) < MAX_BUCKETS {
                return index;
            }
            self.coarsen();
        }
    }

    /// Joins pairs of neighbours: the scale falls by one.
    fn coarsen(&mut self) {
        let new_offset = self.offset >> 1;
        let mut counts: VecDeque<u64> = VecDeque::with_capacity(self.counts.len() / 2 + 1);
        for (place, count) in self.counts.iter().enumerate() {
            let index = ((self.offset + place as i32) >> 1) - new_offset;
            if index as usize >= counts.len() {
                counts.resize(index as usize + 1, 0);
            }
            counts[index as usize] += count;
        }
        self.counts = counts;
        self.offset = new_offset;
        self.scale -= 1;
    }

    /// How fine the buckets are: `base = 2^(2^-scale)`. Only ever falls.
    #[must_use]
    pub fn scale(&self) -> i32 {
        self.scale
    }

    /// Index of the first bucket.
    #[must_use]
    pub fn offset(&self) -> i32 {
        self.offset
    }

    /// Counts of the buckets from [`offset`](Self::offset) on; the first and the last are not 0.
    pub fn bucket_counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.counts.iter().copied()
    }

    /// Values that were 0.
    #[must_use]
    pub fn zero_count(&self) -> u64 {
        self.zero_count
    }

    /// Values recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The smallest value.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    /// The value below which the share `q` (0..=1) of all values lies: the middle of its bucket, at most
    /// [`relative_error`](Self::relative_error) away from a recorded value.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = self.zero_count;
        if seen >= rank {
            return Some(0.0);
        }
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let middle = f64::from(self.offset + place as i32) + 0.5;
                let value = (middle * f64::from(-self.scale).exp2()).exp2();
                return Some(value.clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// How far a quantile may be from the recorded value next to it, as a share of it: half a bucket.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        (f64::from(-self.scale).exp2() / 2.0).exp2() - 1.0
    }
}

/// Index of the bucket that holds the value with that logarithm: the bucket's upper bound belongs to it.
fn bucket_index(log2: f64, scale: i32) -> i32 {
    let position = log2 * buckets_per_octave(scale);
    // What `ceil` gives, without the call that it is on processors before SSE 4.1.
    let whole = position as i32;
    if position > f64::from(whole) { whole } else { whole - 1 }
}

/// `2^scale`, put together from its bits: the scale is between [`MIN_SCALE`] and [`MAX_SCALE`].
fn buckets_per_octave(scale: i32) -> f64 {
    f64::from_bits(((1023 + i64::from(scale)) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keeps_one_value_exactly() {
        let mut histogram = ExponentialHistogram::default();
        histogram.record(0.0125);
        assert_eq!(histogram.quantile(0.5), Some(0.0125));
        assert_eq!((histogram.count(), histogram.min(), histogram.max()), (1, Some(0.0125), Some(0.0125)));
    }

    #[test]
    fn takes_no_negative_and_no_infinite_value() {
        let mut histogram = ExponentialHistogram::default();
        for value in [-1.0, f64::NAN, f64::INFINITY] {
            histogram.record(value);
        }
        assert_eq!(histogram.count(), 0);
        assert_eq!(histogram.quantile(0.5), None);
    }

    proptest! {
        #[test]
        fn agrees_with_the_sorted_values(mut values in prop::collection::vec(1e-7_f64..1e5, 1..300), q in 0.0_f64..=1.0) {
            let mut histogram = ExponentialHistogram::default();
            values.iter().for_each(|value| histogram.record(*value));
            prop_assert_eq!(histogram.bucket_counts().sum::<u64>(), values.len() as u64);
            prop_assert!(histogram.bucket_counts().count() <= MAX_BUCKETS);
            values.sort_by(f64::total_cmp);
            let rank = ((q * values.len() as f64).ceil() as usize).max(1) - 1;
            let quantile = histogram.quantile(q).unwrap_or(f64::NAN);
            let error = (quantile / values[rank] - 1.0).abs();
            prop_assert!(error <= histogram.relative_error() * 1.000_001 + 1e-9, "{quantile} for {}", values[rank]);
        }

        #[test]
        fn every_value_is_in_its_bucket(value in 1e-300_f64..1e300, scale in MIN_SCALE..=MAX_SCALE) {
            let index = f64::from(bucket_index(value.log2(), scale));
            let width = f64::from(-scale).exp2();
            let log = value.log2();
            let slack = 1e-9 * (1.0 + log.abs());
            prop_assert!(index * width <= log + slack && log <= (index + 1.0) * width + slack);
        }
    }
}
