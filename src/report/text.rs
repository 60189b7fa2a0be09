//! The report for people: the block that a run prints at its end, and `stepline report` afterwards.
//!
//! Plain text with a few signs beyond ASCII, so that it reads the same in a log file. What is not known is `–`, never 0.

use std::ffi::OsStr;
use std::fmt::Write as _;

use super::Report;
use super::format::{bytes, count, duration, energy, interval, percent};
use crate::model::{DeviceSummary, Outcome, RunSummary, Signal};

mod rows;
mod table;

use rows::StandOut;

/// How the text is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether a few lines are coloured.
    pub colour: bool,
}

impl Style {
    /// Colour on a terminal only, and not where `NO_COLOR` is set to anything (<https://no-color.org>).
    #[must_use]
    pub fn new(is_terminal: bool, no_color: Option<&OsStr>) -> Self {
        Self { colour: is_terminal && no_color.is_none_or(OsStr::is_empty) }
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(super) fn striking(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The report as text that ends in a newline.
#[must_use]
pub fn render(report: &Report, style: Style) -> String {
    let summary = &report.summary;
    let stand_out = StandOut::of(summary);
    let mut text = String::new();
    let _ = writeln!(text, "stepline  {}", headline(summary));
    for device in &summary.devices {
        let _ = writeln!(text, "{:<8}  {}", format!("gpu {}", device.index), device_line(device));
    }
    if !summary.epochs.is_empty() {
        text.push('\n');
        table::write(&mut text, summary, &stand_out, style);
    }
    let closing = closing_lines(report, &stand_out, style);
    if !closing.is_empty() {
        text.push('\n');
        closing.iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    text
}

/// `wine · 6 epochs · 1842 steps · 21.4 s · finished`
fn headline(summary: &RunSummary) -> String {
    let name = if summary.run_name.is_empty() { &summary.run_id } else { &summary.run_name };
    let mut parts = vec![if name.is_empty() { "run".to_owned() } else { plain(name) }];
    if summary.rank > 0 {
        parts.push(format!("rank {}", summary.rank));
    }
    if summary.attempt > 0 {
        parts.push(format!("attempt {}", summary.attempt));
    }
    if summary.has_epochs {
        parts.push(count(summary.epochs.len() as u64, "epoch", "epochs"));
    }
    parts.push(count(summary.steps, "step", "steps"));
    parts.push(duration(summary.duration_s));
    let status = plain(&summary.status);
    match &summary.error_type {
        Some(error_type) => parts.push(format!("{status} ({})", plain(error_type))),
        None if status.is_empty() => {}
        None => parts.push(status),
    }
    parts.join(" · ")
}

/// `simulated, mirrors this process · 214 readings, one every 100 ms`
fn device_line(device: &DeviceSummary) -> String {
    let mut line = match &device.simulated {
        Some(what) => format!("simulated, {}", plain(what)),
        None if device.name.is_empty() => plain(&device.id),
        None => plain(&device.name),
    };
    let _ = write!(line, " · {}", count(device.readings, "reading", "readings"));
    if let Some(seconds) = device.interval_s {
        let _ = write!(line, ", one every {}", interval(seconds));
    }
    if device.lost {
        line.push_str(" · lost during the run");
    }
    line
}

fn closing_lines(report: &Report, stand_out: &StandOut, style: Style) -> Vec<String> {
    let summary = &report.summary;
    let mut lines = Vec::new();
    lines.extend(peak_line(summary, stand_out).map(|line| if stand_out.any() { style.striking(&line) } else { line }));
    lines.extend(summary.energy_j.map(|joules| format!("energy {}", energy(joules))));
    if summary.nonfinite_scalars > 0 {
        lines.push(
            style
                .striking(&format!("{} NaN or infinite", count(summary.nonfinite_scalars, "recorded number was", "recorded numbers were"))),
        );
    }
    lines.extend(files_line(report));
    if let Some(outcome) = &report.outcome {
        lines.extend(sent_line(outcome));
        lines.extend(outcome.reasons.iter().map(|reason| format!("  {}", plain(reason))));
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {}", plain(note))));
    lines
}

/// `memory peak 688 MiB: epoch 3, in validation, 376 MiB above the median epoch`
fn peak_line(summary: &RunSummary, stand_out: &StandOut) -> Option<String> {
    let mut line;
    let mut details = Vec::new();
    let unit = if summary.has_epochs { "epoch" } else { "stretch" };
    if let Some(peak) = &summary.gpu_memory_peak {
        line = format!("memory peak {}", bytes(peak.used_bytes));
        if let Some(limit) = peak.limit_bytes.filter(|limit| *limit > 0) {
            let _ = write!(line, " of {} ({})", bytes(limit), percent(peak.used_bytes as f64 / limit as f64));
        }
        details.extend(peak.epoch.map(|epoch| format!("{unit} {epoch}")));
        details.extend(peak.phase.as_deref().map(|phase| format!("in {}", plain(phase))));
        details.extend(peak.above_median_bytes.filter(|above| *above > 0).map(|above| format!("{} above the median {unit}", bytes(above))));
    } else {
        // Without a device, the process's own memory answers the question.
        let (used, epoch) = stand_out.process_peak(summary)?;
        line = format!("process memory peak {}", bytes(used));
        details.push(format!("{unit} {epoch}"));
        details.extend(stand_out.above_median(used).map(|above| format!("{} above the median {unit}", bytes(above))));
    }
    if !details.is_empty() {
        let _ = write!(line, ": {}", details.join(", "));
    }
    Some(line)
}

/// `stepline-runs/wine-…/  1204 spans, 9310 points, nothing dropped`
fn files_line(report: &Report) -> Option<String> {
    let mut parts = vec![count(report.spans, "span", "spans"), count(report.points, "point", "points")];
    match &report.outcome {
        Some(outcome) if outcome.is_complete() => parts.push("nothing dropped".to_owned()),
        Some(outcome) => parts.extend(losses(outcome)),
        None => match report.dropped {
            Some(0) => parts.push("nothing dropped".to_owned()),
            Some(dropped) => parts.push(format!("{dropped} dropped")),
            None => {}
        },
    }
    let counts = parts.join(", ");
    match &report.directory {
        Some(directory) => Some(format!("{}/  {counts}", plain(directory.to_string_lossy().trim_end_matches('/')))),
        // A run that made nothing and has no place has nothing to say here.
        None => (report.outcome.is_some() || report.spans + report.points > 0).then_some(counts),
    }
}

fn losses(outcome: &Outcome) -> Vec<String> {
    let undelivered: u64 = Signal::ALL.iter().map(|signal| outcome.delivery(*signal).dropped).sum();
    let mut losses = Vec::new();
    if outcome.journal_dropped > 0 {
        losses.push(format!("{} dropped by the full journal", count(outcome.journal_dropped, "record", "records")));
    }
    if outcome.files_dropped > 0 {
        losses.push(format!("{} not written to the files", count(outcome.files_dropped, "item", "items")));
    }
    if undelivered > 0 {
        losses.push(format!("{} not delivered", count(undelivered, "item", "items")));
    }
    losses
}

/// `sent: 10500 delivered, 14 waiting on disk`; nothing without an endpoint.
fn sent_line(outcome: &Outcome) -> Option<String> {
    let sum = |of: fn(&crate::model::Delivery) -> u64| -> u64 { Signal::ALL.iter().map(|signal| of(&outcome.delivery(*signal))).sum() };
    let (delivered, spooled, dropped) = (sum(|one| one.delivered), sum(|one| one.spooled), sum(|one| one.dropped));
    if delivered + spooled + dropped == 0 {
        return None;
    }
    let mut line = format!("sent: {delivered} delivered");
    if spooled > 0 {
        let _ = write!(line, ", {spooled} waiting on disk");
    }
    if dropped > 0 {
        let _ = write!(line, ", {dropped} lost");
    }
    Some(line)
}

/// Names come from users and files: what would move the cursor or turn the text around is shown as `?`.
pub(super) fn plain(text: &str) -> String {
    let is_bad =
        |sign: char| sign.is_control() || matches!(sign, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|sign| if is_bad(sign) { '?' } else { sign }).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
