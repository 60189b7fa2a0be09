//! Single cases: the ones that have gone wrong elsewhere, and each rule once.

use super::checks::{all, check, joined, link_types, one, points, total};
use super::scenario::{
    MS, S, T0, epoch_began, epoch_ended, full_step, gpu, identity, names, phase, run_began, run_ended, run_through, settings, step,
};
use crate::model::{EndStatus, Identity, NameTable, Owner, Phase, PhaseInterval, Points, Record, StepRecord, StepSpans};
use crate::semconv::{attributes as keys, events, metrics, spans};
use crate::timeline::{Emitted, Settings, SummaryBuilder, Timeline};

fn keeping(policy: StepSpans, devices: usize) -> Settings {
    Settings { step_spans: policy, ..settings(devices) }
}

fn event_names(emitted: &Emitted) -> Vec<&str> {
    emitted.events.iter().map(|event| event.name.as_ref()).collect()
}

#[test]
fn nothing_comes_of_nothing() {
    assert_eq!(run_through(settings(1), &[], 1), Emitted::default());
}

#[test]
fn starts_are_told_at_once() {
    let mut timeline = Timeline::new(settings(0));
    timeline.apply(vec![run_began(T0), epoch_began(T0 + MS, 0)], &names());
    let emitted = timeline.take(T0 + S);
    assert_eq!(event_names(&emitted), [events::RUN_STARTED, events::EPOCH_STARTED]);
    assert_eq!(emitted.events[1].span.unwrap().1, identity().span_id("epoch", 0));
}

#[test]
fn a_step_of_a_minute_and_one_of_an_hour_are_steps_like_others() {
    let records = [
        run_began(T0),
        Record::Step(step(0, None, T0, T0 + 60 * S)),
        Record::Step(step(1, None, T0 + 60 * S, T0 + 3660 * S)),
        run_ended(T0 + 3660 * S),
    ];
    let emitted = run_through(settings(0), &records, 1);
    assert_eq!(all(&emitted, spans::SEGMENT).len(), 2, "the hour does not fit into the five minutes of the first");
    let lengths: Vec<u64> = all(&emitted, spans::STEP).iter().map(|span| (span.end_ns - span.begin_ns) / S).collect();
    assert_eq!(lengths, [60, 3600]);
}

#[test]
fn a_hundred_thousand_steps_in_a_second_are_counted_and_few_kept() {
    let mut records = vec![run_began(T0), epoch_began(T0, 0)];
    records.extend((0..100_000).map(|number| Record::Step(full_step(number, Some(0), T0 + number * 10_000, T0 + (number + 1) * 10_000))));
    records.extend([epoch_ended(T0 + S, 0), run_ended(T0 + S)]);
    let emitted = run_through(settings(1), &records, 5000);
    assert_eq!(total(&emitted, metrics::STEPS.name) as u64, 100_000);
    assert_eq!(one(&emitted, spans::EPOCH).number(keys::STEP_COUNT), Some(100_000.0));
    let kept = all(&emitted, spans::STEP).len();
    assert!((3..10).contains(&kept), "{kept}");
}

#[test]
fn all_steps_as_spans_are_held_in_bounds() {
    let mut timeline = Timeline::new(keeping(StepSpans::All, 1));
    timeline.apply(vec![run_began(T0), gpu(T0, 0, 1)], &names());
    let mut parts = Vec::new();
    for thousand in 0..20 {
        let steps = (0..1000).map(|number| {
            let number = thousand * 1000 + number;
            Record::Step(full_step(number, None, T0 + number * 10_000, T0 + (number + 1) * 10_000))
        });
        timeline.apply(steps.collect(), &names());
        assert!(timeline.waiting.len() <= 4200, "{}", timeline.waiting.len());
        parts.push(timeline.take(0));
        assert_eq!(timeline.ready_spans(), 0);
    }
    parts.push(timeline.finish(T0 + S));
    let emitted = joined(parts);
    check(&emitted, &identity());
    assert_eq!(all(&emitted, spans::STEP).len(), 20_000);
    assert_eq!(all(&emitted, spans::SEGMENT).len(), 100);
    assert_eq!(one(&emitted, spans::RUN).number(keys::SEGMENT_COUNT), None);
}

#[test]
fn more_segments_than_links_are_counted() {
    let mut records = vec![run_began(T0)];
    records.extend((0..200).map(|number| Record::Step(step(number, None, T0 + number * 400 * S, T0 + (number + 1) * 400 * S))));
    let emitted = run_through(settings(0), &records, 10);
    assert_eq!(all(&emitted, spans::SEGMENT).len(), 200);
    let run = one(&emitted, spans::RUN);
    assert_eq!((run.links.len(), run.number(keys::SEGMENT_COUNT)), (126, Some(200.0)));
}

#[test]
fn epochs_link_to_their_segments_and_back() {
    let mut records = vec![run_began(T0)];
    for epoch in 0..2_u32 {
        let begin_ns = T0 + u64::from(epoch) * 400 * S;
        records.push(epoch_began(begin_ns, epoch));
        let steps = (0..40).map(|number| {
            full_step(u64::from(epoch) * 40 + number, Some(epoch), begin_ns + number * 10 * S, begin_ns + (number + 1) * 10 * S)
        });
        records.extend(steps.map(Record::Step));
        records.push(epoch_ended(begin_ns + 400 * S, epoch));
    }
    records.push(run_ended(T0 + 800 * S));
    let emitted = run_through(settings(0), &records, 7);
    let segments = all(&emitted, spans::SEGMENT);
    assert_eq!(segments.iter().map(|span| span.number(keys::STEP_COUNT).unwrap()).collect::<Vec<_>>(), [30.0, 10.0, 30.0, 10.0]);
    assert_eq!(link_types(segments[0]), ["epoch"]);
    assert_eq!(link_types(segments[2]), ["epoch", "previous_segment"]);
    assert_eq!(link_types(all(&emitted, spans::EPOCH)[1]), ["segment", "segment"]);
    assert!(one(&emitted, spans::RUN).links.is_empty());
    assert_eq!(segments[2].number(keys::DATA_WAIT_RATIO), Some(0.25));
}

#[test]
fn an_epoch_without_steps_is_an_epoch() {
    let records = [run_began(T0), epoch_began(T0, 0), epoch_ended(T0 + S, 0), epoch_ended(T0 + 2 * S, 0), run_ended(T0 + S)];
    let emitted = run_through(settings(0), &records, 1);
    let epoch = one(&emitted, spans::EPOCH);
    assert_eq!((epoch.end_ns - epoch.begin_ns, epoch.number(keys::STEP_COUNT)), (S, Some(0.0)));
    assert_eq!((epoch.number(keys::STEP_DURATION_P50), epoch.number(keys::DATA_WAIT_RATIO)), (None, None));
    assert!(points(&emitted, metrics::STEPS.name).is_empty(), "no steps, no series");
}

#[test]
fn a_run_without_epochs_has_segments_of_the_run() {
    let mut records = vec![run_began(T0)];
    records.extend((0..100).map(|number| Record::Step(full_step(number, None, T0 + number * 60 * S, T0 + (number + 1) * 60 * S))));
    records.push(run_ended(T0 + 6000 * S));
    let emitted = run_through(settings(0), &records, 9);
    let segments = all(&emitted, spans::SEGMENT);
    assert_eq!(segments.len(), 20);
    assert!(segments.iter().all(|span| link_types(span)[0] == "run" && span.attribute(keys::EPOCH_INDEX).is_none()));
    let mut summary = SummaryBuilder::default();
    emitted.spans.iter().for_each(|span| summary.add(span));
    let summary = summary.finish();
    assert!(!summary.has_epochs);
    assert_eq!(summary.epochs.iter().map(|stretch| stretch.steps).collect::<Vec<_>>(), [10; 10]);
}

#[test]
fn unbalanced_ends_break_nothing() {
    let mut records = vec![
        run_began(T0),
        epoch_ended(T0, 5),
        epoch_began(T0, 0),
        epoch_began(T0 + S, 1),
        Record::Step(step(0, Some(0), T0 + S, T0 + 2 * S)),
        Record::Step(step(1, Some(1), T0 + S, T0 + 2 * S)),
        Record::Step(step(2, Some(9), T0 + S, T0 + 2 * S)),
        epoch_ended(T0 + 3 * S, 0),
        epoch_ended(T0 + 3 * S, 0),
        Record::Step(step(3, Some(0), T0 + 3 * S, T0 + 4 * S)),
        Record::Phase(phase(0, Phase::VALIDATION, Owner::Epoch(0), T0 + 2 * S, T0 + 5 * S)),
        Record::Phase(phase(1, Phase::CHECKPOINT, Owner::Epoch(0), T0 + 4 * S, T0 + 5 * S)),
        run_ended(T0 + 6 * S),
        run_ended(T0 + 7 * S),
        epoch_began(T0 + 7 * S, 1),
    ];
    records.push(Record::Step(step(4, None, T0 + 7 * S, T0 + 8 * S)));
    let emitted = run_through(settings(0), &records, 2);
    let status: Vec<_> = all(&emitted, spans::EPOCH).iter().map(|span| span.text(keys::STATUS).unwrap()).collect();
    assert_eq!(status, ["finished", "interrupted"]);
    assert_eq!(total(&emitted, metrics::STEPS.name), 5.0);
    assert_eq!(one(&emitted, "train.validation").parent_span_id, Some(identity().span_id("epoch", 0)));
    assert_eq!(one(&emitted, "train.checkpoint").parent_span_id, Some(identity().run_span_id()), "it began after the epoch's end");
    let run = one(&emitted, spans::RUN);
    assert_eq!((run.text(keys::STATUS), run.end_ns), (Some("finished"), T0 + 6 * S));
}

#[test]
fn errors_are_found_whether_told_before_or_after() {
    let failed = |number, begin_ns| Record::Step(StepRecord { failed: true, ..step(number, None, begin_ns, begin_ns + MS) });
    let error = |time_ns, owner, error_type: &str| Record::Error { time_ns, owner, error_type: error_type.into() };
    let records = [
        run_began(T0),
        error(T0 + MS, Owner::Step(0), "ValueError"),
        failed(0, T0 + MS),
        failed(1, T0 + S),
        error(T0 + S + 400 * MS, Owner::Step(1), "OutOfMemory"),
        failed(2, T0 + 2 * S),
        error(T0 + 10 * S, Owner::Run, "KeyError"),
        Record::RunEnded { time_ns: T0 + 10 * S, status: EndStatus::Failed },
    ];
    let emitted = run_through(settings(0), &records, 1);
    let types: Vec<_> = all(&emitted, spans::STEP).iter().map(|span| span.error_type.clone().unwrap()).collect();
    assert_eq!(types, ["ValueError", "OutOfMemory", "_OTHER"]);
    let run = one(&emitted, spans::RUN);
    assert_eq!((run.error_type.as_deref(), run.text(keys::STATUS)), (Some("KeyError"), Some("failed")));
    assert_eq!(emitted.events.iter().filter(|event| event.name == events::EXCEPTION).count(), 3);
}

#[test]
fn ranks_share_a_trace_up_to_sixteen() {
    let run_of = |rank| {
        let identity = Identity { rank, world_size: 32, ..identity() };
        let emitted = run_through(Settings { identity, ..settings(0) }, &[run_began(T0), run_ended(T0 + S)], 1);
        one(&emitted, spans::RUN).clone()
    };
    let (root, child, apart) = (run_of(0), run_of(1), run_of(16));
    assert_eq!((root.parent_span_id, root.span_id), (None, identity().root_span_id()));
    assert_eq!((child.trace_id, child.parent_span_id, child.parent_is_remote), (root.trace_id, Some(root.span_id), true));
    assert_ne!(apart.trace_id, root.trace_id);
    assert_eq!((apart.parent_span_id, apart.links[0].span_id, link_types(&apart)), (None, root.span_id, vec!["root"]));
}

#[test]
fn a_run_of_thousands_of_epochs_rolls_over() {
    let mut records = vec![run_began(T0)];
    for epoch in 0..3000_u32 {
        let begin_ns = T0 + u64::from(epoch) * S;
        records.extend([
            epoch_began(begin_ns, epoch),
            Record::Phase(phase(u64::from(epoch), Phase::VALIDATION, Owner::Epoch(epoch), begin_ns, begin_ns + S)),
            epoch_ended(begin_ns + S, epoch),
        ]);
    }
    let emitted = run_through(settings(0), &records, 100);
    assert_eq!(all(&emitted, spans::EPOCH).len(), 3000);
    assert_eq!(all(&emitted, "train.validation").len(), 3000);
    let last = all(&emitted, spans::EPOCH)[2999];
    assert_eq!((last.parent_span_id, link_types(last)), (None, vec!["run"]));
}

#[test]
fn free_standing_phases_beyond_the_trace_go_where_the_steps_go() {
    let mut records = vec![run_began(T0)];
    records.extend(
        (0..2500).map(|number| Record::Phase(phase(number, NameTable::own_phase(0), Owner::Run, T0 + number * MS, T0 + (number + 1) * MS))),
    );
    let emitted = run_through(settings(0), &records, 100);
    assert_eq!(all(&emitted, spans::OWN_PHASE).len(), 2500);
    assert_eq!(all(&emitted, spans::SEGMENT).len(), 2);
}

#[test]
fn phases_of_a_loader_thread_are_children_of_their_step() {
    let load = |ordinal, owner, begin, end| Record::Phase(phase(ordinal, NameTable::own_phase(0), owner, T0 + begin * MS, T0 + end * MS));
    let records = [
        run_began(T0),
        load(0, Owner::Phase(1), 2, 4),
        load(1, Owner::Step(0), 1, 5),
        Record::Step(step(0, None, T0, T0 + 10 * MS)),
        load(2, Owner::Step(0), 5, 12),
        load(3, Owner::Phase(2), 6, 7),
        load(4, Owner::Step(9), 6, 8),
        run_ended(T0 + S),
    ];
    let emitted = run_through(settings(1), &records, 1);
    let phases = all(&emitted, spans::OWN_PHASE);
    let parents: Vec<_> = phases.iter().map(|span| span.parent_span_id.unwrap()).collect();
    let (step, outer, late) = (identity().span_id("step", 0), identity().span_id("phase", 1), identity().span_id("phase", 2));
    assert_eq!(parents, [step, outer, step, late], "the one whose step never came is let go");
    assert_eq!(phases[2].end_ns, T0 + 10 * MS, "cut to its step");
    let counted = emitted.series.iter().find(|series| series.metric == metrics::PHASE_DURATION.name).unwrap();
    let Points::Histograms(points) = &counted.points else { unreachable!() };
    assert!(points[0].histogram.count() >= 1);
}

#[test]
fn phases_in_a_step_nest_and_stay_inside() {
    let interval = |phase, begin, end, parent| PhaseInterval { phase, begin_ns: T0 + begin * MS, end_ns: T0 + end * MS, parent };
    let mut record = step(0, None, T0 + MS, T0 + 10 * MS);
    record.phases =
        vec![interval(Phase::FORWARD, 0, 8, None), interval(Phase::COLLECTIVE, 4, 12, Some(0)), interval(Phase::OPTIMIZER, 9, 8, Some(7))];
    let emitted = run_through(settings(0), &[run_began(T0), Record::Step(record)], 1);
    let (forward, collective) = (one(&emitted, "train.forward"), one(&emitted, "train.collective"));
    assert_eq!((forward.begin_ns, forward.end_ns), (T0 + MS, T0 + 8 * MS));
    assert_eq!((collective.parent_span_id, collective.end_ns), (Some(forward.span_id), forward.end_ns));
    let optimizer = one(&emitted, "train.optimizer");
    assert_eq!(
        (optimizer.parent_span_id, optimizer.begin_ns, optimizer.end_ns),
        (Some(identity().span_id("step", 0)), T0 + 9 * MS, T0 + 9 * MS)
    );
}
