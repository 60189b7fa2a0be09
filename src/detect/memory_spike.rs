//! An epoch that used much more GPU memory than the others.

use std::collections::VecDeque;

use crate::model::{Attribute, Event, Severity, Span, Value};
use crate::semconv::{attributes as keys, events, spans};

/// An epoch is compared with so many before it.
const MAX_EPOCHS: usize = 512;
/// Others that there must be: with fewer there is no "usual".
const MIN_OTHERS: usize = 2;
/// How far above the median is much: a share of it, and bytes, both.
const MIN_SHARE_ABOVE: f64 = 0.25;
const MIN_BYTES_ABOVE: u64 = 64 * 1024 * 1024;

const MIB: f64 = 1024.0 * 1024.0;

/// Compares each epoch's maximum with the median of those before it.
#[derive(Debug, Default)]
pub(super) struct MemorySpike {
    maxima: VecDeque<u64>,
}

impl MemorySpike {
    pub(super) fn observe(&mut self, span: &Span) -> Option<Event> {
        if span.name != spans::EPOCH {
            return None;
        }
        let Some(Value::I64(max)) = span.attribute(keys::GPU_MEMORY_USAGE_MAX) else { return None };
        let max = u64::try_from(*max).ok()?;
        let median = (self.maxima.len() >= MIN_OTHERS).then(|| self.median()).flatten();
        if self.maxima.len() >= MAX_EPOCHS {
            self.maxima.pop_front();
        }
        self.maxima.push_back(max);
        let median = median?;
        let above = max.checked_sub(median)?;
        if above <= MIN_BYTES_ABOVE || above as f64 <= median as f64 * MIN_SHARE_ABOVE {
            return None;
        }
        Some(finding(span, max, median, above))
    }

    fn median(&self) -> Option<u64> {
        let mut sorted: Vec<u64> = self.maxima.iter().copied().collect();
        sorted.sort_unstable();
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(lower + (upper - lower) / 2)
    }
}

fn finding(span: &Span, max: u64, median: u64, above: u64) -> Event {
    let epoch = span.number(keys::EPOCH_INDEX).map_or_else(String::new, |epoch| format!(" {epoch}"));
    let phase = span.text(keys::GPU_MEMORY_USAGE_MAX_PHASE);
    let place = phase.map_or_else(String::new, |phase| format!(", in {phase}"));
    let body = format!(
        "epoch{epoch} used up to {:.0} MiB of GPU memory{place}: {:.0} MiB above the median of {:.0} MiB of the other epochs",
        max as f64 / MIB,
        above as f64 / MIB,
        median as f64 / MIB,
    );
    let mut attributes = vec![Attribute::int(keys::GPU_MEMORY_USAGE_MAX, max), Attribute::int(keys::GPU_MEMORY_USAGE_MEDIAN, median)];
    attributes.extend(span.attributes.iter().find(|attribute| attribute.key == keys::EPOCH_INDEX).cloned());
    attributes.extend(phase.map(|phase| Attribute::text(keys::GPU_MEMORY_USAGE_MAX_PHASE, phase.to_owned())));
    Event {
        name: events::MEMORY_SPIKE.into(),
        time_ns: span.end_ns,
        severity: Severity::Warn,
        body,
        attributes,
        span: Some((span.trace_id, span.span_id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SpanId, TraceId};

    fn epoch(number: u64, max_mib: u64) -> Span {
        Span {
            trace_id: TraceId([1; 16]),
            span_id: SpanId([1; 8]),
            parent_span_id: None,
            parent_is_remote: false,
            name: spans::EPOCH.into(),
            begin_ns: number * 10,
            end_ns: number * 10 + 10,
            attributes: vec![
                Attribute::int(keys::EPOCH_INDEX, number),
                Attribute::int(keys::GPU_MEMORY_USAGE_MAX, max_mib * 1024 * 1024),
                Attribute::text(keys::GPU_MEMORY_USAGE_MAX_PHASE, "validation"),
            ],
            events: Vec::new(),
            links: Vec::new(),
            error_type: None,
        }
    }

    fn found(maxima_mib: &[u64]) -> Vec<String> {
        let mut detector = MemorySpike::default();
        let epochs = maxima_mib.iter().enumerate().map(|(number, max)| epoch(number as u64, *max));
        epochs.filter_map(|span| detector.observe(&span)).map(|event| event.body).collect()
    }

    #[test]
    fn tells_the_epoch_and_the_phase() {
        let expected = "epoch 3 used up to 688 MiB of GPU memory, in validation: 376 MiB above the median of 312 MiB of the other epochs";
        assert_eq!(found(&[312, 312, 310, 688, 312]), [expected]);
    }

    #[test]
    fn needs_two_others() {
        assert!(found(&[100, 1000]).is_empty());
    }

    #[test]
    fn a_quarter_alone_or_64_mib_alone_is_no_spike() {
        assert!(found(&[100, 100, 160]).is_empty(), "60 % more, but only 60 MiB");
        assert!(found(&[1000, 1000, 1240]).is_empty(), "240 MiB more, but only 24 %");
        assert_eq!(found(&[1000, 1000, 1260]).len(), 1);
    }

    #[test]
    fn an_epoch_without_readings_is_no_epoch_without_memory() {
        let mut without = epoch(2, 0);
        without.attributes.clear();
        let mut detector = MemorySpike::default();
        for span in [epoch(0, 1000), without, epoch(1, 2000)] {
            assert!(detector.observe(&span).is_none());
        }
    }
}
