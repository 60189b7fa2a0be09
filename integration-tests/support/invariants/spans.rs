//! What must hold of spans.

use std::collections::HashSet;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use super::{Faults, Spans, check_attributes, check_time, has_text, hex, value};

/// Its parent is of another process, and so not in the capture.
const IS_REMOTE: u32 = 0x200;
const KIND_INTERNAL: i32 = 1;

pub(super) fn check(requests: &[ExportTraceServiceRequest], faults: &mut Faults) -> Spans {
    let scopes = requests.iter().flat_map(|request| &request.resource_spans).flat_map(|group| &group.scope_spans);
    let all: Vec<&Span> = scopes.flat_map(|scope| &scope.spans).collect();
    let mut spans = Spans::default();
    let mut span_ids = HashSet::new();
    for span in &all {
        check_one(span, faults);
        // Unique among all traces: a backend that looks a span up by its own id alone must find one.
        if !span_ids.insert(&span.span_id) {
            faults.add(&place(span), "its id stands twice");
        }
        spans.times.insert((span.trace_id.clone(), span.span_id.clone()), (span.start_time_unix_nano, span.end_time_unix_nano));
    }
    let mut roots = HashSet::new();
    for span in &all {
        check_parent(span, &spans, faults);
        if span.parent_span_id.is_empty() && !roots.insert(&span.trace_id) {
            faults.add(&place(span), "is a second root of its trace");
        }
        for link in &span.links {
            spans.expect(&place(span), "links to", &link.trace_id, &link.span_id, faults);
            if (&link.trace_id, &link.span_id) == (&span.trace_id, &span.span_id) {
                faults.add(&place(span), "links to itself");
            }
        }
    }
    spans
}

fn place(span: &Span) -> String {
    format!("span {} {}", span.name, hex(&span.span_id))
}

fn check_one(span: &Span, faults: &mut Faults) {
    let place = place(span);
    if !is_id(&span.trace_id, 16) || !is_id(&span.span_id, 8) {
        faults.add(&place, format!("{}/{} are no ids", hex(&span.trace_id), hex(&span.span_id)));
    }
    if span.name.is_empty() {
        faults.add(&place, "has no name");
    }
    if span.kind != KIND_INTERNAL {
        faults.add(&place, format!("is of kind {}, not internal", span.kind));
    }
    if span.flags & 0xff != 1 || span.flags & 0x100 == 0 {
        faults.add(&place, format!("has the flags {:#x}", span.flags));
    }
    check_time(&place, span.start_time_unix_nano, faults);
    check_time(&place, span.end_time_unix_nano, faults);
    if span.end_time_unix_nano < span.start_time_unix_nano {
        faults.add(&place, "ends before it begins");
    }
    check_attributes(&place, &span.attributes, faults);
    for event in &span.events {
        let place = format!("{place} event {}", event.name);
        if !(span.start_time_unix_nano..=span.end_time_unix_nano).contains(&event.time_unix_nano) {
            faults.add(&place, "is outside of its span's time");
        }
        check_attributes(&place, &event.attributes, faults);
    }
    for link in &span.links {
        check_attributes(&place, &link.attributes, faults);
    }
    let code = span.status.as_ref().map_or(StatusCode::Unset, |status| status.code());
    if code == StatusCode::Ok {
        faults.add(&place, "says that it is OK, which is not for instrumentation to say");
    }
    if (code == StatusCode::Error) != value(&span.attributes, "error.type").is_some()
        || code == StatusCode::Error && !has_text(&span.attributes, "error.type")
    {
        faults.add(&place, "has an error status without error.type, or the reverse");
    }
}

fn is_id(bytes: &[u8], length: usize) -> bool {
    bytes.len() == length && bytes.iter().any(|byte| *byte != 0)
}

fn check_parent(span: &Span, spans: &Spans, faults: &mut Faults) {
    if span.parent_span_id.is_empty() {
        return;
    }
    let place = place(span);
    if !is_id(&span.parent_span_id, 8) || span.parent_span_id == span.span_id {
        faults.add(&place, format!("{} cannot be its parent", hex(&span.parent_span_id)));
        return;
    }
    match spans.times.get(&(span.trace_id.clone(), span.parent_span_id.clone())) {
        None if span.flags & IS_REMOTE == 0 => {
            faults.add(&place, format!("its parent {} is not in its trace", hex(&span.parent_span_id)));
        }
        None => {}
        Some((begin_ns, end_ns)) => {
            let early = begin_ns.saturating_sub(span.start_time_unix_nano);
            let late = span.end_time_unix_nano.saturating_sub(*end_ns);
            if early.max(late) > 0 {
                faults.add(&place, format!("is outside of its parent's time by {} ns", early.max(late)));
            }
        }
    }
}
