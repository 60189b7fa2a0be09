//! The tree of one small run, for people.

use std::fmt::Write as _;

use super::scenario::{MIB, MS, S, T0, epoch_began, epoch_ended, full_step, gpu, phase, run_began, run_ended, run_through, settings};
use crate::model::{Attribute, Owner, Phase, Record, Scalar, Span, Value};
use crate::timeline::Emitted;

fn text(attribute: &Attribute) -> String {
    let key = attribute.key.strip_prefix("stepline.").unwrap_or(&attribute.key);
    match &attribute.value {
        Value::Text(text) => format!("{key}={text}"),
        Value::I64(number) => format!("{key}={number}"),
        Value::F64(number) => format!("{key}={:.3}", number),
        other => format!("{key}={other:?}"),
    }
}

fn branch(all: &[Span], span: &Span, depth: usize, tree: &mut String) {
    let at = |time_ns: u64| (time_ns - T0) as f64 / 1e9;
    let attributes: Vec<String> = span.attributes.iter().map(text).collect();
    let links = span.links.iter().map(|link| format!("-> {}", text(&link.attributes[0])));
    // Phases in steps without their numbers: those of the steps show enough.
    let short = depth == 2 && span.name != "train.validation";
    let more: Vec<String> = attributes.into_iter().chain(links).filter(|text| !short || text.contains("phase.name")).collect();
    let indent = "  ".repeat(depth);
    let _ = writeln!(tree, "{indent}{} {:.2}..{:.2} {}", span.name, at(span.begin_ns), at(span.end_ns), more.join(" "));
    let mut children: Vec<&Span> = all.iter().filter(|child| child.parent_span_id == Some(span.span_id)).collect();
    children.sort_by_key(|child| child.begin_ns);
    children.iter().for_each(|child| branch(all, child, depth + 1, tree));
}

fn tree(emitted: &Emitted) -> String {
    let mut roots: Vec<&Span> = emitted.spans.iter().filter(|span| span.parent_span_id.is_none()).collect();
    roots.sort_by_key(|root| (root.begin_ns, root.name != "train.run"));
    let mut tree = String::new();
    roots.iter().for_each(|root| branch(&emitted.spans, root, 0, &mut tree));
    tree
}

#[test]
fn one_epoch_with_validation() {
    let mut records = vec![run_began(T0), epoch_began(T0 + 100 * MS, 0)];
    for number in 0..2 {
        let begin_ns = T0 + 200 * MS + number * S;
        let mut step = full_step(number, Some(0), begin_ns, begin_ns + S);
        step.scalars = vec![(Scalar::LOSS, 1.0 / (number + 1) as f64)];
        records.push(Record::Step(step));
    }
    records.extend((0..6).map(|second| gpu(T0 + second * S, 0, if second == 3 { 200 } else { 100 } * MIB)));
    records.extend([
        Record::Phase(phase(0, Phase::VALIDATION, Owner::Epoch(0), T0 + 2300 * MS, T0 + 4 * S)),
        epoch_ended(T0 + 4 * S, 0),
        run_ended(T0 + 4500 * MS),
    ]);
    records.sort_by_key(Record::time_ns);
    insta::assert_snapshot!(tree(&run_through(settings(1), &records, 4)), @r#"
    train.run 0.00..4.50 status=finished step.count=2 step.duration.p50=1.000 step.duration.p95=1.000 data_wait.ratio=0.250 gpu.ids=Texts(["GPU-0"]) gpu.indices=I64s([0]) gpu.names=Texts(["NVIDIA H100"]) gpu.memory.limit_by_device=I64s([1073741824]) gpu.sample.interval=1.000 gpu.memory.usage.max=209715200 gpu.memory.usage.end=104857600 gpu.samples=5 gpu.utilization.mean=0.500 gpu.power.mean=300.000 gpu.memory.peak.phase=validation
      train.epoch 0.10..4.00 epoch.index=0 status=finished step.count=2 step.duration.p50=1.000 step.duration.p95=1.000 data_wait.ratio=0.250 gpu.memory.usage.max=209715200 gpu.memory.usage.end=209715200 gpu.samples=3 gpu.utilization.mean=0.500 gpu.power.mean=300.000 gpu.memory.peak.phase=validation -> link.type=segment
        train.validation 2.30..4.00 phase.name=validation gpu.memory.usage.max=209715200 gpu.memory.usage.end=209715200 gpu.samples=1 gpu.utilization.mean=0.500 gpu.power.mean=300.000
    train.segment 0.20..2.20 segment.index=0 epoch.index=0 step.count=2 step.duration.p50=1.000 step.duration.p95=1.000 data_wait.ratio=0.250 gpu.memory.usage.max=104857600 gpu.memory.usage.end=104857600 gpu.samples=2 gpu.utilization.mean=0.500 gpu.power.mean=300.000 -> link.type=epoch
      train.step 0.20..1.20 step.index=0 epoch.index=0 segment.index=0 step.kept_for=first step.loss=1.000 gpu.memory.usage.max=104857600 gpu.memory.usage.end=104857600 gpu.samples=1 gpu.utilization.mean=0.500 gpu.power.mean=300.000
        train.data_wait 0.20..0.45 phase.name=data_wait
        train.forward 0.45..0.70 phase.name=forward
        train.backward 0.70..0.95 phase.name=backward
        train.optimizer 0.95..1.20 phase.name=optimizer
      train.step 1.20..2.20 step.index=1 epoch.index=0 segment.index=0 step.kept_for=first step.loss=0.500 gpu.memory.usage.max=104857600 gpu.memory.usage.end=104857600 gpu.samples=1 gpu.utilization.mean=0.500 gpu.power.mean=300.000
        train.data_wait 1.20..1.45 phase.name=data_wait
        train.forward 1.45..1.70 phase.name=forward
        train.backward 1.70..1.95 phase.name=backward
        train.optimizer 1.95..2.20 phase.name=optimizer
    "#);
}
