//! Single cases of readings and numbers.

use super::checks::{all, check, joined, one, points, total, value};
use super::scenario::{
    MIB, MS, S, T0, epoch_began, epoch_ended, full_step, gpu, identity, names, phase, run_began, run_ended, run_through, settings, step,
};
use crate::model::{Attribute, GpuEvent, GpuReading, NameTable, Number, Owner, Phase, ProcessReading, Record, Scalar, StepRecord, Value};
use crate::semconv::{attributes as keys, events, metrics, spans};
use crate::timeline::{SummaryBuilder, Timeline};

#[test]
fn a_loss_that_is_not_finite_is_text_and_counted_and_no_point() {
    let mut records = vec![run_began(T0), epoch_began(T0, 0)];
    for number in 0..20 {
        let mut record = full_step(number, Some(0), T0 + number * S, T0 + (number + 1) * S);
        record.scalars = vec![(Scalar::LOSS, if number >= 7 { f64::NAN } else { 0.5 }), (Scalar::GRAD_NORM, f64::INFINITY)];
        records.push(Record::Step(record));
    }
    records.extend([epoch_ended(T0 + 20 * S, 0), run_ended(T0 + 20 * S)]);
    let emitted = run_through(settings(0), &records, 5);
    assert_eq!(points(&emitted, metrics::LOSS.name).len(), 7);
    assert!(points(&emitted, metrics::GRAD_NORM.name).is_empty());
    assert_eq!(total(&emitted, metrics::SCALARS_NONFINITE.name) as u64, 13 + 20);
    let steps = all(&emitted, spans::STEP);
    assert_eq!(steps.len(), 20);
    assert_eq!(steps[7].text(keys::STEP_LOSS), Some("NaN"));
    assert_eq!(steps[7].text(keys::STEP_GRAD_NORM), Some("inf"));
    assert_eq!(steps[7].text(keys::STEP_KEPT_FOR), Some("nonfinite"));
    assert_eq!(steps[7].events.len(), 2);
    let told = emitted.events.iter().filter(|event| event.name == events::SCALAR_NONFINITE);
    assert_eq!(told.map(|event| event.body.as_str()).collect::<Vec<_>>(), ["grad_norm is inf", "loss is NaN"]);
    assert_eq!(one(&emitted, spans::RUN).number(keys::SCALARS_NONFINITE), Some(33.0));
}

#[test]
fn what_is_open_at_the_end_is_interrupted_and_keeps_its_last_memory() {
    let records = [
        run_began(T0),
        epoch_began(T0, 0),
        gpu(T0 + S, 0, 100),
        gpu(T0 + 2 * S, 0, 200),
        Record::Step(StepRecord { interrupted: true, ..step(0, Some(0), T0 + S, T0 + 3 * S) }),
        gpu(T0 + 3 * S, 0, 900),
    ];
    let emitted = run_through(settings(1), &records, 1);
    for name in [spans::RUN, spans::EPOCH, spans::STEP] {
        let span = one(&emitted, name);
        assert_eq!(span.text(keys::STATUS), Some("interrupted"), "{name}");
        assert_eq!((span.end_ns, span.number(keys::GPU_MEMORY_USAGE_MAX)), (T0 + 3 * S, Some(900.0)), "{name}");
    }
    assert_eq!(one(&emitted, spans::STEP).text(keys::STEP_KEPT_FOR), Some("interrupted"));
}

#[test]
fn a_lost_device_ends_its_series_and_no_others() {
    let mut records = vec![run_began(T0), epoch_began(T0, 0)];
    for second in 0..10 {
        if !(5..=7).contains(&second) {
            records.push(gpu(T0 + second * S, 0, 100 + second));
        }
        records.push(gpu(T0 + second * S, 1, 50));
        if second == 4 {
            records.push(Record::GpuChanged { time_ns: T0 + 4 * S + MS, device: 0, event: GpuEvent::Lost });
        }
        if second == 7 {
            records.push(Record::GpuChanged { time_ns: T0 + 7 * S + MS, device: 0, event: GpuEvent::Returned });
        }
    }
    // Between the loss and the return lies nothing of the device, though readings lie on both sides.
    records.push(Record::Step(StepRecord { keep: true, ..step(0, Some(0), T0 + 5 * S, T0 + 7 * S) }));
    records.push(run_ended(T0 + 10 * S));
    let emitted = run_through(settings(2), &records, 3);
    let of = |device: &str| -> Vec<Number> {
        let mine = |attributes: &[Attribute]| attributes[0] == Attribute::text(keys::HW_ID, device.to_owned());
        points(&emitted, metrics::GPU_MEMORY_USAGE.name)
            .iter()
            .filter(|(attributes, _)| mine(attributes))
            .map(|(_, point)| point.value)
            .collect()
    };
    assert_eq!(of("GPU-0").iter().position(|value| *value == Number::Absent), Some(5));
    assert_eq!((of("GPU-0").len(), of("GPU-1").len()), (8, 10));
    let run = one(&emitted, spans::RUN);
    assert_eq!(run.attribute(keys::GPU_LOST_IDS), Some(&Value::Texts(vec!["GPU-0".into()])));
    assert_eq!(run.events.iter().map(|event| event.name.as_ref()).collect::<Vec<_>>(), [events::GPU_LOST, events::GPU_RETURNED]);
    let step = one(&emitted, spans::STEP);
    assert_eq!(step.number(keys::GPU_MEMORY_USAGE_MAX), Some(50.0));
    assert_eq!(step.attribute(keys::GPU_IDS), Some(&Value::Texts(vec!["GPU-1".into()])));
    let failed = points(&emitted, metrics::STATUS.name).iter().filter(|(_, point)| value(point) == 1.0).count();
    assert_eq!(failed, 7 + 10 + 1, "seven and ten times ok, once failed");
}

#[test]
fn a_field_that_a_device_lacks_is_absent() {
    let mig = |time_ns| Record::Gpu { time_ns, device: 0, reading: GpuReading { memory_used_bytes: Some(5), ..GpuReading::default() } };
    let records = [run_began(T0), mig(T0), mig(T0 + S), mig(T0 + 2 * S), run_ended(T0 + 2 * S)];
    let emitted = run_through(settings(1), &records, 1);
    assert!(points(&emitted, metrics::GPU_UTILIZATION.name).is_empty());
    let run = one(&emitted, spans::RUN);
    assert_eq!((run.number(keys::GPU_UTILIZATION_MEAN), run.number(keys::GPU_ENERGY_CONSUMED)), (None, None));
    assert_eq!(run.number(keys::GPU_MEMORY_USAGE_MAX), Some(5.0));
}

#[test]
fn official_metrics_have_official_attributes_only() {
    let reading = GpuReading {
        memory_used_bytes: Some(MIB),
        utilization: Some(0.4),
        power_w: Some(1.0),
        energy_j: Some(5.0),
        temperature_c: Some(50.0),
        fan_speed_ratio: Some(1.05),
        ..GpuReading::default()
    };
    let emitted = run_through(settings(1), &[run_began(T0), Record::Gpu { time_ns: T0 + S, device: 0, reading }], 1);
    for series in emitted.series.iter().filter(|series| series.metric.starts_with("hw.")) {
        let has = |key: &str| series.attributes.iter().any(|attribute| attribute.key == key);
        assert!(has(keys::HW_ID) && series.attributes.iter().all(|attribute| attribute.key.starts_with("hw.")), "{series:?}");
        let typed = ["hw.energy", "hw.power", "hw.temperature", "hw.errors", "hw.status"].contains(&series.metric.as_ref());
        assert_eq!(has(keys::HW_TYPE), typed, "{series:?}");
    }
    assert_eq!(value(&points(&emitted, metrics::GPU_MEMORY_UTILIZATION.name)[0].1), 1.0 / 1024.0);
    assert_eq!(value(&points(&emitted, metrics::ENERGY.name)[0].1), 0.0, "what was used before the run is not the run's");
}

#[test]
fn the_peak_is_put_into_the_innermost_phase() {
    let mut records = vec![run_began(T0)];
    for epoch in 0..4_u32 {
        let begin_ns = T0 + u64::from(epoch) * 20 * S;
        records.push(epoch_began(begin_ns, epoch));
        for second in 0..20 {
            let spike = epoch == 2 && second == 15;
            records.push(gpu(begin_ns + second * S + 500 * MS, 0, if spike { 688 * MIB } else { 312 * MIB }));
        }
        for number in 0..10 {
            let begin_ns = begin_ns + number * S;
            records.push(Record::Step(full_step(u64::from(epoch) * 10 + number, Some(epoch), begin_ns, begin_ns + S)));
        }
        let validation = phase(u64::from(epoch) * 2 + 1, Phase::VALIDATION, Owner::Epoch(epoch), begin_ns + 10 * S, begin_ns + 19 * S);
        let inner =
            phase(u64::from(epoch) * 2, NameTable::own_phase(0), Owner::Phase(validation.ordinal), begin_ns + 17 * S, begin_ns + 18 * S);
        records.extend([Record::Phase(inner), Record::Phase(validation), epoch_ended(begin_ns + 20 * S, epoch)]);
    }
    records.push(run_ended(T0 + 80 * S));
    records.sort_by_key(Record::time_ns);
    let emitted = run_through(settings(1), &records, 11);
    let epochs = all(&emitted, spans::EPOCH);
    let phases: Vec<_> = epochs.iter().map(|epoch| epoch.text(keys::GPU_MEMORY_USAGE_MAX_PHASE).unwrap()).collect();
    assert_eq!(phases, ["backward", "backward", "validation", "backward"]);
    let own = all(&emitted, spans::OWN_PHASE)[0];
    assert_eq!(own.text(keys::PHASE_NAME), Some("augment"));
    assert_eq!(own.parent_span_id, Some(identity().span_id("phase", 1)));
    let mut summary = SummaryBuilder::default();
    emitted.spans.iter().for_each(|span| summary.add(span));
    let summary = summary.finish();
    let peak = summary.gpu_memory_peak.unwrap();
    assert_eq!((peak.epoch, peak.phase.as_deref(), peak.used_bytes), (Some(2), Some("validation"), 688 * MIB));
    assert_eq!((peak.above_median_bytes, peak.limit_bytes), (Some(376 * MIB), Some(1024 * MIB)));
    assert_eq!((summary.steps, summary.epochs.len(), summary.status.as_str()), (40, 4, "finished"));
    assert_eq!((summary.devices[0].readings, summary.devices[0].index), (80, 0));
    let mut detectors = crate::detect::Detectors::default();
    let findings = detectors.observe(&emitted.spans);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].body.starts_with("epoch 2 used up to 688 MiB of GPU memory, in validation: 376 MiB above"), "{}", findings[0].body);
}

#[test]
fn an_epoch_longer_than_the_history_forgets_nothing() {
    let mut records = vec![run_began(T0), epoch_began(T0, 0)];
    records.extend((0..20_000).map(|tick| gpu(T0 + tick * S, 0, if tick == 10 { 900 } else { 100 })));
    records.push(Record::Process { time_ns: T0 + S, reading: ProcessReading { resident_bytes: Some(77), ..ProcessReading::default() } });
    records.push(Record::Phase(phase(0, Phase::VALIDATION, Owner::Epoch(0), T0, T0 + 20_000 * S)));
    records.extend([epoch_ended(T0 + 20_000 * S, 0), run_ended(T0 + 20_000 * S)]);
    records.sort_by_key(Record::time_ns);
    let emitted = run_through(settings(1), &records, 1000);
    let epoch = one(&emitted, spans::EPOCH);
    assert_eq!((epoch.number(keys::GPU_MEMORY_USAGE_MAX), epoch.number(keys::GPU_SAMPLES)), (Some(900.0), Some(20_000.0)));
    assert_eq!((epoch.number(keys::PROCESS_MEMORY_USAGE_MAX), epoch.number(keys::GPU_UTILIZATION_MEAN)), (Some(77.0), Some(0.5)));
    let validation = one(&emitted, "train.validation");
    assert_eq!(validation.number(keys::GPU_MEMORY_USAGE_MAX), None, "its begin was told too late: rather nothing than the later part");
}

#[test]
fn steps_that_stand_out_are_kept() {
    let mut records = vec![run_began(T0), epoch_began(T0, 0)];
    let mut now_ns = T0;
    for number in 0..2000_u64 {
        let length_ns = if number % 100 == 50 { 40 * MS } else { 10 * MS };
        let mut record = step(number, Some(0), now_ns, now_ns + length_ns);
        record.keep = number == 777;
        records.push(gpu(now_ns + 5 * MS, 0, if number < 1234 { 1000 } else { 2000 }));
        now_ns += length_ns;
        records.push(Record::Step(record));
    }
    let emitted = run_through(settings(1), &records, 50);
    let kept: Vec<(u64, &str)> = all(&emitted, spans::STEP)
        .iter()
        .map(|span| (span.number(keys::STEP_INDEX).unwrap() as u64, span.text(keys::STEP_KEPT_FOR).unwrap()))
        .collect();
    let of = |reason: &str| -> Vec<u64> { kept.iter().filter(|(_, other)| *other == reason).map(|(number, _)| *number).collect() };
    assert_eq!(of("first"), [0, 1, 2]);
    assert_eq!(of("asked"), [777]);
    assert_eq!(of("memory_peak"), [1234]);
    assert_eq!(of("slow"), (0..20).map(|hundred| hundred * 100 + 50).collect::<Vec<_>>());
    let peak = all(&emitted, spans::STEP).into_iter().find(|span| span.text(keys::STEP_KEPT_FOR) == Some("memory_peak")).unwrap();
    assert_eq!(peak.number(keys::GPU_MEMORY_USAGE_MAX), Some(2000.0));
}

#[test]
fn gauges_get_one_point_a_second_at_the_steps_end() {
    let mut records = vec![run_began(T0)];
    for number in 0..350 {
        let mut record = step(number, None, T0 + number * 10 * MS, T0 + (number + 1) * 10 * MS);
        record.scalars = vec![(Scalar::LOSS, number as f64), (NameTable::own_scalar(0), 0.5)];
        records.push(Record::Step(record));
    }
    let emitted = run_through(settings(0), &records, 9);
    let loss: Vec<_> = points(&emitted, metrics::LOSS.name).iter().map(|(_, point)| ((point.time_ns - T0) / MS, value(point))).collect();
    assert_eq!(loss, [(990, 98.0), (1990, 198.0), (2990, 298.0), (3500, 349.0)]);
    let own = &points(&emitted, metrics::SCALAR.name)[0].0;
    assert_eq!(own, &[Attribute::text(keys::SCALAR_NAME, "accuracy")]);
}

#[test]
fn numbers_of_epochs_and_early_numbers_of_steps_find_their_spans() {
    let number = |time_ns, owner, scalar, value| Record::Scalar { time_ns, owner, scalar, value };
    let records = [
        run_began(T0),
        epoch_began(T0, 0),
        number(T0 + MS, Owner::Step(0), NameTable::own_scalar(0), 0.25),
        Record::Step(step(0, Some(0), T0, T0 + 2 * MS)),
        number(T0 + 3 * MS, Owner::Epoch(0), Scalar::LOSS, 0.5),
        epoch_ended(T0 + S, 0),
    ];
    let emitted = run_through(settings(0), &records, 1);
    assert_eq!(one(&emitted, spans::STEP).number("stepline.scalar.values.accuracy"), Some(0.25));
    assert_eq!(one(&emitted, spans::EPOCH).number("stepline.scalar.values.loss"), Some(0.5));
}

#[test]
fn absurd_times_do_not_panic() {
    let records = [
        Record::RunBegan { time_ns: u64::MAX },
        epoch_began(0, 0),
        Record::Step(step(0, Some(0), u64::MAX, 0)),
        Record::Phase(phase(0, Phase::VALIDATION, Owner::Epoch(0), u64::MAX, 0)),
        gpu(0, 0, u64::MAX),
        gpu(u64::MAX, 0, u64::MAX),
        gpu(5, 200, 1),
        epoch_ended(u64::MAX, 0),
    ];
    let mut timeline = Timeline::new(settings(1));
    for record in records {
        timeline.apply(vec![record], &names());
        timeline.take(u64::MAX);
    }
    timeline.finish(0);
}

#[test]
fn devices_may_become_known_while_an_epoch_is_open() {
    let mut timeline = Timeline::new(settings(0));
    timeline.apply(vec![run_began(T0), epoch_began(T0, 0)], &names());
    let mut parts = vec![timeline.take(T0 + S)];
    timeline.set_devices(settings(2).devices);
    timeline.apply(vec![gpu(T0 + 2 * S, 0, 5), gpu(T0 + 2 * S, 1, 7), epoch_ended(T0 + 3 * S, 0)], &names());
    parts.push(timeline.finish(T0 + 3 * S));
    let emitted = joined(parts);
    check(&emitted, &identity());
    assert_eq!(one(&emitted, spans::EPOCH).number(keys::GPU_MEMORY_USAGE_MAX), Some(7.0));
}
