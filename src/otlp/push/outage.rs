//! The lines about delivery: one when it begins to fail, one when it works again. Signals that fail for the same reason share them.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::ledger::{Ledger, items_of};
use crate::model::Signal;
use crate::notice::notice;

/// A server that fails and recovers all the time is worth a line only if it fails for longer than this.
const SHORT: Duration = Duration::from_secs(10);
/// For so long after a recovery.
const SOON: Duration = Duration::from_secs(60);
/// Different refusals and warnings that are said for one signal.
const MOST_SAID: usize = 3;

/// What has been said, and what is to be said when things get better.
#[derive(Debug, Default)]
pub(super) struct Outages {
    signals: RefCell<[State; 3]>,
}

#[derive(Debug, Default)]
struct State {
    failing: Option<Failing>,
    recovered_at: Option<Instant>,
    said: Vec<String>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    /// Whom it concerns, and why.
    cause: (String, String),
    dropped_before: u64,
    said: bool,
}

impl Outages {
    /// An attempt failed and will be made again.
    pub(super) fn failed(&self, signal: Signal, authority: &str, url: &str, why: &str, ledger: &Ledger) {
        let mut signals = self.signals.borrow_mut();
        let now = Instant::now();
        let place = signal as usize;
        let cause = (authority.to_owned(), why.to_owned());
        let known = signals.iter().flat_map(|state| &state.failing).any(|failing| failing.said && failing.cause == cause);
        let state = &mut signals[place];
        let quiet = state.recovered_at.is_some_and(|at| now.duration_since(at) < SOON);
        let failing =
            state.failing.get_or_insert_with(|| Failing { since: now, cause, dropped_before: ledger.counts()[place].dropped, said: false });
        if failing.said || (quiet && now.duration_since(failing.since) < SHORT) {
            return;
        }
        failing.said = true;
        if !known {
            let end = if why.ends_with(['?', '.']) { "" } else { "." };
            notice!(
                "cannot send {} to {url}: {why}{end} It is tried again until it works; what is recorded meanwhile waits",
                signal.name()
            );
        }
    }

    /// The server took something.
    pub(super) fn worked(&self, signal: Signal, ledger: &Ledger) {
        let mut signals = self.signals.borrow_mut();
        let Some(failing) = signals[signal as usize].failing.take() else { return };
        if !failing.said {
            return;
        }
        signals[signal as usize].recovered_at = Some(Instant::now());
        let others = signals.iter().flat_map(|state| &state.failing).any(|other| other.said && other.cause == failing.cause);
        if others {
            return;
        }
        let dropped = ledger.counts()[signal as usize].dropped.saturating_sub(failing.dropped_before);
        notice!(
            "{} reach {} again after {:.1} s: {} {} waited, {dropped} were dropped",
            signal.name(),
            failing.cause.0,
            failing.since.elapsed().as_secs_f64(),
            ledger.waiting(signal),
            items_of(signal),
        );
    }

    /// The server will not take something, or warns of something: worth a line once.
    pub(super) fn said(&self, signal: Signal, what: &str) {
        let mut signals = self.signals.borrow_mut();
        let said = &mut signals[signal as usize].said;
        if said.len() < MOST_SAID && !said.iter().any(|other| other == what) {
            said.push(what.to_owned());
            notice!("{what}");
        }
    }
}
