//! The report of a directory of OTLP/JSON lines.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::Report;
use super::format::count;
use crate::model::{Attribute, Number, Points, RunSummary, Series, SpanId, TraceId, Value};
use crate::otlp::file::{Directory, FileError, read_directory};
use crate::semconv::{attributes as names, metrics};
use crate::timeline::SummaryBuilder;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The files could not be read.
    #[error(transparent)]
    Files(#[from] FileError),
    /// There are none.
    #[error(
        "there is no run in {}: neither traces.jsonl, metrics.jsonl or logs.jsonl nor a directory with them. \
         Give the directory of a run, or the one that holds the runs (stepline-runs, or what STEPLINE_DIR says)",
        path.display()
    )]
    NoRun {
        /// Where they were looked for.
        path: PathBuf,
    },
}

/// The report of the run whose files are in this directory; of the newest run if the directory holds several.
///
/// # Errors
///
/// If the directory cannot be read or holds no run. Lines that cannot be read are skipped and counted in the notes.
pub fn from_directory(path: &Path) -> Result<Report, ReportError> {
    let mut notes = Vec::new();
    let mut directory = read_directory(path)?;
    if directory.is_empty() {
        let (newest, others) = newest_run(path)?;
        if others > 0 {
            let name = newest.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            notes.push(format!("{name} is the newest of {} in {}", count(others + 1, "run", "runs"), path.display()));
        }
        directory = newest;
    }
    let mut report = read(&directory, &mut notes);
    report.directory = Some(directory.path().to_owned());
    report.notes = notes;
    Ok(report)
}

/// The run in a directory of runs that was written to last, and how many others there are.
fn newest_run(parent: &Path) -> Result<(Directory, u64), ReportError> {
    let error = |source| ReportError::Files(FileError::Read { path: parent.to_owned(), source });
    let mut runs = Vec::new();
    for entry in fs::read_dir(parent).map_err(error)? {
        let path = entry.map_err(error)?.path();
        // One unreadable run hides no other.
        runs.extend(path.is_dir().then(|| read_directory(&path).ok()).flatten().filter(|run| !run.is_empty()));
    }
    let others = runs.len().saturating_sub(1) as u64;
    let newest = runs.into_iter().max_by_key(Directory::modified);
    newest.map(|newest| (newest, others)).ok_or_else(|| ReportError::NoRun { path: parent.to_owned() })
}

/// What one process wrote. Several attempts of a run append to the same files.
struct Process {
    instance: String,
    resource: Vec<Attribute>,
    summary: SummaryBuilder,
    spans: u64,
    points: u64,
    dropped: Vec<(String, u64)>,
}

fn read(directory: &Directory, notes: &mut Vec<String>) -> Report {
    let mut processes: Vec<Process> = Vec::new();
    let mut skipped = 0;
    let mut traces = directory.spans();
    // Recovery after a crash may export a span a second time.
    let mut seen: HashSet<(TraceId, SpanId)> = HashSet::new();
    for group in traces.by_ref() {
        skipped += group.skipped;
        let process = process(&mut processes, group.resource);
        for span in &group.spans {
            if seen.insert((span.trace_id, span.span_id)) {
                process.spans += 1;
                process.summary.add(span);
            }
        }
    }
    let mut metrics = directory.series();
    for group in metrics.by_ref() {
        let process = process(&mut processes, group.resource);
        process.points += group.points;
        group.series.iter().for_each(|series| add_dropped(&mut process.dropped, series));
    }
    skipped += traces.skipped_lines() + metrics.skipped_lines();
    if skipped > 0 {
        notes.push(format!(
            "{} could not be read and {} left out",
            count(skipped, "line", "lines"),
            if skipped == 1 { "is" } else { "are" }
        ));
    }
    notes.extend(traces.problems().iter().chain(metrics.problems()).map(FileError::to_string));
    let others = processes.len().saturating_sub(1);
    let Some(chosen) = newest_process(processes) else { return Report::default() };
    let mut summary = chosen.summary.finish();
    fill_in(&mut summary, &chosen.resource);
    if others > 0 {
        notes.push(format!("{} processes wrote these files; this is rank {} of attempt {}", others + 1, summary.rank, summary.attempt));
    }
    let dropped = (!chosen.dropped.is_empty()).then(|| chosen.dropped.iter().map(|(_, count)| count).sum());
    Report { summary, spans: chosen.spans, points: chosen.points, dropped, ..Report::default() }
}

fn process(processes: &mut Vec<Process>, resource: Vec<Attribute>) -> &mut Process {
    let instance = text(&resource, names::SERVICE_INSTANCE_ID).unwrap_or_default().to_owned();
    // Nearly always the one before.
    let place = processes.iter().rposition(|process| process.instance == instance).unwrap_or_else(|| {
        processes.push(Process { instance, resource, summary: SummaryBuilder::default(), spans: 0, points: 0, dropped: Vec::new() });
        processes.len() - 1
    });
    &mut processes[place]
}

/// The counters only grow: the last value of each series counts.
fn add_dropped(dropped: &mut Vec<(String, u64)>, series: &Series) {
    if series.metric != metrics::JOURNAL_DROPPED.name && series.metric != metrics::EXPORT_DROPPED.name {
        return;
    }
    let Points::Numbers(points) = &series.points else { return };
    let counts = points.iter().filter_map(|point| if let Number::I64(count) = point.value { u64::try_from(count).ok() } else { None });
    let Some(count) = counts.max() else { return };
    let key = format!("{} {:?}", series.metric, series.attributes);
    match dropped.iter_mut().find(|(known, _)| *known == key) {
        Some((_, last)) => *last = count.max(*last),
        None => dropped.push((key, count)),
    }
}

/// The newest attempt; of its ranks the lowest; of equals the one that was heard of last.
fn newest_process(processes: Vec<Process>) -> Option<Process> {
    let order = |process: &Process| {
        (number(&process.resource, names::ATTEMPT).unwrap_or(0), std::cmp::Reverse(number(&process.resource, names::RANK).unwrap_or(0)))
    };
    processes.into_iter().max_by_key(order)
}

/// Fills in what the resource tells and the spans do not: who the run is, and what its devices simulate.
pub fn fill_in(summary: &mut RunSummary, resource: &[Attribute]) {
    for (place, name) in [(&mut summary.run_id, names::RUN_ID), (&mut summary.run_name, names::RUN_NAME)] {
        if let (true, Some(known)) = (place.is_empty(), text(resource, name)) {
            *place = known.to_owned();
        }
    }
    if summary.run_name.is_empty() {
        summary.run_name = text(resource, names::SERVICE_NAME).unwrap_or_default().to_owned();
    }
    for (place, name) in [(&mut summary.rank, names::RANK), (&mut summary.attempt, names::ATTEMPT)] {
        *place = number(resource, name).and_then(|number| u32::try_from(number).ok()).unwrap_or(*place);
    }
    if let Some(simulated) = text(resource, names::GPU_SIMULATED) {
        for device in summary.devices.iter_mut().filter(|device| device.simulated.is_none()) {
            device.simulated = Some(in_words(simulated).to_owned());
        }
    }
}

/// What a simulated device does, for people.
fn in_words(simulated: &str) -> &str {
    match simulated {
        "mirror" => "mirrors this process",
        "replay" => "replays a recording",
        other => other,
    }
}

fn value<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.key == name).map(|attribute| &attribute.value)
}

fn text<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    if let Value::Text(text) = value(attributes, name)? { Some(text) } else { None }
}

fn number(attributes: &[Attribute], name: &str) -> Option<i64> {
    if let Value::I64(number) = value(attributes, name)? { Some(*number) } else { None }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
