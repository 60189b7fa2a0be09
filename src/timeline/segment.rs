//! Segments: the bounded stretches of steps that the detailed trace is cut into.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::correlate::Folds;
use super::tally::Tally;
use crate::model::{Attribute, Identity, Link, SpanId, TraceId};
use crate::semconv::attributes as keys;

/// Spans of a segment's trace, its own not counted.
pub(super) const MAX_SPANS: u32 = 1000;
/// The longest that a segment lasts, unless a single step lasts longer.
pub(super) const MAX_DURATION_NS: u64 = 300_000_000_000;
/// Links of a span: OpenTelemetry's default limit.
const MAX_LINKS: usize = 128;

/// Values of `stepline.link.type`.
pub(super) mod link_type {
    pub(in crate::timeline) const EPOCH: &str = "epoch";
    pub(in crate::timeline) const RUN: &str = "run";
    pub(in crate::timeline) const ROOT: &str = "root";
    pub(in crate::timeline) const SEGMENT: &str = "segment";
    pub(in crate::timeline) const PREVIOUS_SEGMENT: &str = "previous_segment";
}

/// A segment that takes further steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Segment {
    pub(super) index: u64,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// Spans in its trace besides its own.
    pub(super) spans: u32,
    pub(super) tally: Tally,
    pub(super) folds: Folds,
}

impl Segment {
    /// Whether something that ends then, and takes so many spans, still belongs into it.
    pub(super) fn has_room(&self, end_ns: u64, spans: u32) -> bool {
        self.spans + spans <= MAX_SPANS && end_ns.saturating_sub(self.begin_ns) <= MAX_DURATION_NS
    }

    pub(super) fn place(index: u64, identity: &Identity) -> (TraceId, SpanId) {
        (identity.trace_id("segment", index), identity.span_id("segment", index))
    }
}

/// A link with its meaning.
pub(super) fn link(to: (TraceId, SpanId), meaning: &'static str) -> Link {
    Link { trace_id: to.0, span_id: to.1, attributes: vec![Attribute::text(keys::LINK_TYPE, meaning)] }
}

/// The segments of an epoch or a run: the first and the last of them when there are more than a span may link to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct SegmentLinks {
    first: Vec<u64>,
    last: VecDeque<u64>,
    count: u64,
}

impl SegmentLinks {
    /// Each half; one link is left for the run that an epoch in a trace of its own points to.
    const HALF: usize = (MAX_LINKS - 2) / 2;

    pub(super) fn push(&mut self, index: u64) {
        self.count += 1;
        if self.first.len() < Self::HALF {
            self.first.push(index);
            return;
        }
        if self.last.len() == Self::HALF {
            self.last.pop_front();
        }
        self.last.push_back(index);
    }

    pub(super) fn add_to(&self, links: &mut Vec<Link>, attributes: &mut Vec<Attribute>, identity: &Identity) {
        let indexes = self.first.iter().chain(&self.last);
        links.extend(indexes.map(|index| link(Segment::place(*index, identity), link_type::SEGMENT)));
        if self.count > (2 * Self::HALF) as u64 {
            attributes.push(Attribute::int(keys::SEGMENT_COUNT, self.count));
        }
    }
}
