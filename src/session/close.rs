//! The end of a run: everything down in order, within one deadline.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::start::OpenRun;
use crate::journal::Writer;
use crate::model::{Attribute, Outcome};
use crate::notice::notice;
use crate::pump::PumpThread;
use crate::report::Report;
use crate::report::text::{self, Style};
use crate::sampler::Sampler;

/// What has to be taken down.
pub(super) struct Closing {
    pub(super) writer: Arc<Writer>,
    pub(super) sampler: Sampler,
    pub(super) pump: PumpThread,
    pub(super) resource: Vec<Attribute>,
    pub(super) timeout: Duration,
    pub(super) summary: bool,
    pub(super) _open_run: OpenRun,
}

/// The sampler's share of the time: a driver that hangs must leave the rest to delivery.
const SAMPLER_SHARE: u32 = 5;

pub(super) fn close(closing: Closing) -> Outcome {
    let Closing { writer, sampler, pump, resource, timeout, summary, _open_run } = closing;
    let deadline = Instant::now() + timeout;
    let sampler_ended = sampler.stop(Instant::now() + timeout / SAMPLER_SHARE);
    writer.close();
    let Some(result) = pump.finish(deadline) else {
        let reason = format!(
            "the last records could not be exported within {} s; they are still in {}",
            timeout.as_secs_f64(),
            writer.path().display()
        );
        notice!("{reason}");
        return Outcome { reasons: vec![reason], ..Outcome::default() };
    };
    remove(&writer);
    let mut outcome = result.outcome;
    if !sampler_ended {
        outcome.reasons.push("the GPU driver did not answer the last question in time; its thread was left behind".to_owned());
    }
    if summary {
        let mut stderr = std::io::stderr().lock();
        let style = Style::new(stderr.is_terminal(), std::env::var_os("NO_COLOR").as_deref());
        let report = Report::of_run(result.summary, &resource, &outcome, result.spans, result.points);
        let _ = stderr.write_all(text::render(&report, style).as_bytes());
    }
    outcome
}

/// Everything in the journal has been delivered or counted: it is of no further use. Nor is the run's directory, if it was the last.
fn remove(writer: &Writer) {
    let _ = std::fs::remove_file(writer.path());
    if let Some(run_directory) = writer.path().parent() {
        let _ = std::fs::remove_dir(run_directory);
    }
}
