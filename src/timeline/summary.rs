//! The summary of a run, from the attributes of its spans alone: so the terminal shows the same while a run ends and from its files.

use super::held::status;
use crate::model::{DeviceSummary, EpochSummary, PeakSummary, RunSummary, Span, Value};
use crate::semconv::{attributes as keys, spans};

/// Into how many stretches a run without epochs is cut.
const STRETCHES: u64 = 10;
/// Segments without an epoch that are told apart; with more, neighbours are joined.
const MAX_PARTS: usize = 2048;

/// Gathers what a summary needs from spans in any order.
#[derive(Debug, Clone, Default)]
pub struct SummaryBuilder {
    run: Option<Span>,
    epochs: Vec<Part>,
    /// Segments of no epoch.
    segments: Vec<Part>,
    begin_ns: Option<u64>,
    end_ns: u64,
}

/// An epoch, a segment, or several segments joined.
#[derive(Debug, Clone)]
struct Part {
    begin_ns: u64,
    end_ns: u64,
    summary: EpochSummary,
    /// How much of the time `gpu_utilization_mean` speaks of, seconds.
    utilization_s: f64,
}

impl SummaryBuilder {
    /// Takes a span; those that say nothing about the run as a whole are passed over.
    pub fn add(&mut self, span: &Span) {
        match span.name.as_ref() {
            spans::RUN => self.run = Some(span.clone()),
            spans::EPOCH => self.epochs.push(Part::of(span)),
            spans::SEGMENT if span.attribute(keys::EPOCH_INDEX).is_none() => self.add_segment(Part::of(span)),
            _ => {}
        }
        self.begin_ns = Some(self.begin_ns.map_or(span.begin_ns, |begin_ns| begin_ns.min(span.begin_ns)));
        self.end_ns = self.end_ns.max(span.end_ns);
    }

    fn add_segment(&mut self, segment: Part) {
        self.segments.push(segment);
        if self.segments.len() > MAX_PARTS {
            self.segments.sort_by_key(|part| part.begin_ns);
            let joined = self.segments.chunks(2).filter_map(|pair| pair.iter().cloned().reduce(Part::joined));
            self.segments = joined.collect();
        }
    }

    /// The summary as far as spans tell it. What the resource tells stays empty, for whoever has it to fill in: the run's id and name,
    /// rank, attempt, and what a device simulates.
    #[must_use]
    pub fn finish(&self) -> RunSummary {
        let mut epochs = self.epochs.clone();
        epochs.sort_by_key(|part| part.begin_ns);
        let has_epochs = !epochs.is_empty();
        let (begin_ns, end_ns) = match &self.run {
            Some(run) => (run.begin_ns, run.end_ns),
            None => (self.begin_ns.unwrap_or(0), self.end_ns),
        };
        let outside = self.segments.iter().map(|part| part.summary.steps).sum::<u64>();
        let steps = epochs.iter().map(|part| part.summary.steps).sum::<u64>() + outside;
        if !has_epochs {
            epochs = self.stretches(begin_ns, end_ns);
        }
        let run = self.run.as_ref();
        let epochs: Vec<EpochSummary> = epochs.into_iter().map(|part| part.summary).collect();
        RunSummary {
            status: run.map_or("running", |run| run.text(keys::STATUS).unwrap_or(status::FINISHED)).to_owned(),
            error_type: run.and_then(|run| run.error_type.clone()),
            duration_s: seconds(begin_ns, end_ns),
            steps: run.and_then(|run| whole(run, keys::STEP_COUNT)).unwrap_or(steps),
            has_epochs,
            devices: run.map(devices).unwrap_or_default(),
            gpu_memory_peak: peak(run, &epochs, has_epochs),
            energy_j: run.and_then(|run| run.number(keys::GPU_ENERGY_CONSUMED)),
            nonfinite_scalars: run.and_then(|run| whole(run, keys::SCALARS_NONFINITE)).unwrap_or(0),
            epochs,
            ..RunSummary::default()
        }
    }

    /// The segments of a run without epochs, joined into equal stretches of its time.
    fn stretches(&self, begin_ns: u64, end_ns: u64) -> Vec<Part> {
        let mut segments = self.segments.clone();
        segments.sort_by_key(|part| part.begin_ns);
        let length_ns = (end_ns.saturating_sub(begin_ns) / STRETCHES).max(1);
        let mut stretches: Vec<(u64, Part)> = Vec::new();
        for segment in segments {
            let middle_ns = segment.begin_ns + (segment.end_ns - segment.begin_ns) / 2;
            let number = (middle_ns.saturating_sub(begin_ns) / length_ns).min(STRETCHES - 1);
            match stretches.last_mut() {
                Some((last, part)) if *last == number => *part = part.clone().joined(segment),
                _ => stretches.push((number, segment)),
            }
        }
        // A short run has fewer segments than stretches: they are counted, not placed.
        let numbered = stretches.into_iter().zip(0..).map(|((_, mut part), number)| {
            part.summary.epoch = number;
            part
        });
        numbered.collect()
    }
}

impl Part {
    fn of(span: &Span) -> Self {
        let summary = EpochSummary {
            epoch: whole(span, keys::EPOCH_INDEX).unwrap_or(0),
            duration_s: seconds(span.begin_ns, span.end_ns),
            steps: whole(span, keys::STEP_COUNT).unwrap_or(0),
            step_p50_s: span.number(keys::STEP_DURATION_P50),
            step_p95_s: span.number(keys::STEP_DURATION_P95),
            data_wait_ratio: span.number(keys::DATA_WAIT_RATIO),
            gpu_memory_max_bytes: whole(span, keys::GPU_MEMORY_USAGE_MAX),
            gpu_memory_max_phase: span.text(keys::GPU_MEMORY_USAGE_MAX_PHASE).map(str::to_owned),
            process_memory_max_bytes: whole(span, keys::PROCESS_MEMORY_USAGE_MAX),
            gpu_utilization_mean: span.number(keys::GPU_UTILIZATION_MEAN),
            energy_j: span.number(keys::GPU_ENERGY_CONSUMED),
            error_type: span.error_type.clone(),
            interrupted: span.text(keys::STATUS) == Some(status::INTERRUPTED),
        };
        let utilization_s = if summary.gpu_utilization_mean.is_some() { summary.duration_s } else { 0.0 };
        Self { begin_ns: span.begin_ns, end_ns: span.end_ns, summary, utilization_s }
    }

    /// Two neighbours as one. Percentiles of the whole do not follow from those of its parts: those of the part with more steps stand
    /// for it.
    fn joined(self, next: Self) -> Self {
        let larger = if next.summary.steps > self.summary.steps { &next.summary } else { &self.summary };
        let (step_p50_s, step_p95_s) = (larger.step_p50_s, larger.step_p95_s);
        let (one, two) = (&self.summary, &next.summary);
        let steps = one.steps + two.steps;
        let mean = |a: Option<f64>, wa: f64, b: Option<f64>, wb: f64| match (a, b) {
            (Some(a), Some(b)) if wa + wb > 0.0 => Some((a * wa + b * wb) / (wa + wb)),
            (a, b) => a.or(b),
        };
        let summary = EpochSummary {
            epoch: one.epoch,
            duration_s: one.duration_s + two.duration_s,
            steps,
            step_p50_s,
            step_p95_s,
            data_wait_ratio: mean(one.data_wait_ratio, one.duration_s, two.data_wait_ratio, two.duration_s),
            gpu_memory_max_bytes: one.gpu_memory_max_bytes.max(two.gpu_memory_max_bytes),
            gpu_memory_max_phase: None,
            process_memory_max_bytes: one.process_memory_max_bytes.max(two.process_memory_max_bytes),
            gpu_utilization_mean: mean(one.gpu_utilization_mean, self.utilization_s, two.gpu_utilization_mean, next.utilization_s),
            energy_j: one.energy_j.zip(two.energy_j).map(|(a, b)| a + b),
            error_type: one.error_type.clone().or_else(|| two.error_type.clone()),
            interrupted: one.interrupted || two.interrupted,
        };
        Self {
            begin_ns: self.begin_ns.min(next.begin_ns),
            end_ns: self.end_ns.max(next.end_ns),
            utilization_s: self.utilization_s + next.utilization_s,
            summary,
        }
    }
}

fn seconds(begin_ns: u64, end_ns: u64) -> f64 {
    end_ns.saturating_sub(begin_ns) as f64 / 1e9
}

fn whole(span: &Span, key: &str) -> Option<u64> {
    match span.attribute(key)? {
        Value::I64(value) => u64::try_from(*value).ok(),
        _ => None,
    }
}

fn by_device<'a>(span: &'a Span, key: &str) -> Option<&'a [i64]> {
    match span.attribute(&format!("{key}{}", keys::BY_DEVICE))? {
        Value::I64s(values) => Some(values),
        _ => None,
    }
}

fn texts<'a>(span: &'a Span, key: &str) -> &'a [String] {
    match span.attribute(key) {
        Some(Value::Texts(texts)) => texts,
        _ => &[],
    }
}

fn devices(run: &Span) -> Vec<DeviceSummary> {
    let ids = texts(run, keys::GPU_IDS);
    let names = texts(run, keys::GPU_NAMES);
    let lost = texts(run, keys::GPU_LOST_IDS);
    let indices: &[i64] = match run.attribute(keys::GPU_INDICES) {
        Some(Value::I64s(indices)) => indices,
        _ => &[],
    };
    let readings = by_device(run, keys::GPU_SAMPLES);
    let number = |value: Option<&i64>| value.and_then(|value| u64::try_from(*value).ok());
    let device = |(place, id): (usize, &String)| DeviceSummary {
        id: id.clone(),
        index: number(indices.get(place)).and_then(|index| u32::try_from(index).ok()).unwrap_or(0),
        name: names.get(place).cloned().unwrap_or_default(),
        simulated: None,
        readings: match readings {
            Some(readings) => number(readings.get(place)).unwrap_or(0),
            None if ids.len() == 1 => whole(run, keys::GPU_SAMPLES).unwrap_or(0),
            None => 0,
        },
        interval_s: run.number(keys::GPU_SAMPLE_INTERVAL),
        lost: lost.contains(id),
    };
    ids.iter().enumerate().map(device).collect()
}

fn peak(run: Option<&Span>, epochs: &[EpochSummary], has_epochs: bool) -> Option<PeakSummary> {
    let mut maxima: Vec<u64> = epochs.iter().filter_map(|epoch| epoch.gpu_memory_max_bytes).collect();
    let of_run = run.and_then(|run| whole(run, keys::GPU_MEMORY_USAGE_MAX));
    let used_bytes = of_run.max(maxima.iter().max().copied())?;
    let epoch = epochs.iter().find(|epoch| epoch.gpu_memory_max_bytes == Some(used_bytes));
    let of_run = || run.and_then(|run| run.text(keys::GPU_MEMORY_USAGE_MAX_PHASE)).map(str::to_owned);
    maxima.sort_unstable();
    let above_median = || used_bytes.checked_sub(median(&maxima)?);
    Some(PeakSummary {
        used_bytes,
        limit_bytes: run.and_then(|run| limit(run, used_bytes)),
        epoch: epoch.filter(|_| has_epochs).map(|epoch| epoch.epoch),
        phase: epoch.and_then(|epoch| epoch.gpu_memory_max_phase.clone()).or_else(of_run),
        above_median_bytes: if maxima.len() >= 3 { above_median() } else { None },
    })
}

/// The memory of the device that used that much.
fn limit(run: &Span, used_bytes: u64) -> Option<u64> {
    let limits = by_device(run, keys::GPU_MEMORY_LIMIT)?;
    let used = by_device(run, keys::GPU_MEMORY_USAGE_MAX).unwrap_or_default();
    let place = used.iter().position(|used| u64::try_from(*used) == Ok(used_bytes)).unwrap_or(0);
    u64::try_from(*limits.get(place)?).ok()
}

/// The middle of sorted values; of two in the middle their mean.
fn median(sorted: &[u64]) -> Option<u64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(lower + (upper - lower) / 2)
}
