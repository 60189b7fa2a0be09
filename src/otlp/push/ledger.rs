//! What waits, what is on its way, what became of the rest: to the item. Shared by those who hand over and the thread that sends.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::PushOutcome;
use super::body::Body;
use crate::model::{Delivery, Signal};

/// Different reasons that are kept for one signal; a server that invents a new text each time must not fill the memory.
const MOST_REASONS: usize = 8;

/// The books of all three signals.
#[derive(Debug)]
pub(super) struct Ledger {
    books: Mutex<Books>,
    /// How many bytes may wait.
    most_bytes: usize,
    /// One for each signal: there is something to do.
    work: [Notify; 3],
    /// The end was asked for.
    finish: Notify,
}

#[derive(Debug, Default)]
struct Books {
    waiting: [VecDeque<(u64, Body)>; 3],
    /// Bodies handed over so far: tells which is older, across signals.
    sequence: u64,
    /// Of those waiting and of those on their way.
    bytes: usize,
    /// Items and bytes on their way.
    under_way: [Option<(u64, usize)>; 3],
    deliveries: [Delivery; 3],
    reasons: [Vec<(String, u64)>; 3],
    /// Why the last attempt did not work, as long as none has worked since.
    trouble: [Option<String>; 3],
    overflowed: bool,
    deadline: Option<Instant>,
    closed: bool,
}

/// What to do next.
pub(super) enum Next {
    /// Send this.
    Send(Body),
    /// Wait for more.
    Wait,
    /// There will be no more.
    End,
}

impl Ledger {
    pub(super) fn new(most_bytes: u64) -> Self {
        Self {
            books: Mutex::default(),
            most_bytes: usize::try_from(most_bytes).unwrap_or(usize::MAX),
            work: [Notify::new(), Notify::new(), Notify::new()],
            finish: Notify::new(),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a body in; where there is no room the oldest go, of whichever signal. Whether this was so for the first time.
    pub(super) fn hand_over(&self, signal: Signal, body: Body) -> bool {
        let mut books = self.books();
        books.sequence += 1;
        let sequence = books.sequence;
        books.bytes += body.bytes.len();
        books.waiting[signal as usize].push_back((sequence, body));
        let mut overflowed = false;
        while books.bytes > self.most_bytes && books.drop_oldest(self.most_bytes) {
            overflowed = true;
        }
        let is_first = overflowed && !books.overflowed;
        books.overflowed |= overflowed;
        drop(books);
        self.work[signal as usize].notify_one();
        is_first
    }

    /// How many bytes may wait.
    pub(super) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// The next body of a signal.
    pub(super) fn next(&self, signal: Signal) -> Next {
        let mut books = self.books();
        let place = signal as usize;
        match books.waiting[place].pop_front() {
            Some((_, body)) => {
                books.under_way[place] = Some((body.items, body.bytes.len()));
                Next::Send(body)
            }
            None if books.deadline.is_some() => Next::End,
            None => Next::Wait,
        }
    }

    /// There may be something to do for this signal.
    pub(super) async fn work(&self, signal: Signal) {
        self.work[signal as usize].notified().await;
    }

    /// What is under way has been taken, but for so many items.
    pub(super) fn taken(&self, signal: Signal, rejected: u64, why: impl FnOnce() -> String) {
        let mut books = self.books();
        books.trouble[signal as usize] = None;
        let Some(items) = books.arrived(signal) else { return };
        let rejected = rejected.min(items);
        books.deliveries[signal as usize].delivered += items - rejected;
        if rejected > 0 {
            books.lose(signal, rejected, why());
        }
    }

    /// What is under way will never be taken.
    pub(super) fn refused(&self, signal: Signal, why: String) {
        let mut books = self.books();
        books.trouble[signal as usize] = None;
        if let Some(items) = books.arrived(signal) {
            books.lose(signal, items, why);
        }
    }

    /// An attempt did not work.
    pub(super) fn trouble(&self, signal: Signal, why: &str) {
        self.books().trouble[signal as usize] = Some(why.to_owned());
    }

    /// Items that wait or are on their way.
    pub(super) fn waiting(&self, signal: Signal) -> u64 {
        let books = self.books();
        books.left(signal)
    }

    pub(super) fn counts(&self) -> [Delivery; 3] {
        self.books().deliveries
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.books().deadline
    }

    /// No more will be handed over, and nothing is sent after the deadline.
    pub(super) fn ask_to_finish(&self, deadline: Instant) {
        self.books().deadline = Some(deadline);
        self.work.iter().for_each(Notify::notify_one);
        self.finish.notify_one();
    }

    /// The end was asked for: its deadline.
    pub(super) async fn finish_asked(&self) -> Instant {
        loop {
            if let Some(deadline) = self.deadline() {
                return deadline;
            }
            self.finish.notified().await;
        }
    }

    /// Closes the books: what is left is lost, and what arrives from now on is no longer counted. The addresses are for people.
    pub(super) fn close(&self, addresses: &[Option<String>; 3]) -> PushOutcome {
        let mut books = self.books();
        books.closed = true;
        for signal in Signal::ALL {
            let left = books.left(signal);
            books.waiting[signal as usize].clear();
            books.under_way[signal as usize] = None;
            if left > 0 {
                let why = match books.trouble[signal as usize].take() {
                    Some(trouble) => format!("were not delivered before the deadline: {trouble}"),
                    None => {
                        let address = addresses[signal as usize].as_deref().unwrap_or("the endpoint");
                        format!("were not delivered before the deadline: {address} did not answer in time")
                    }
                };
                books.lose(signal, left, why);
            }
        }
        let reasons = Signal::ALL.into_iter().flat_map(|signal| {
            let of_signal = &books.reasons[signal as usize];
            of_signal.iter().map(move |(why, items)| format!("{items} {} {why}", items_of(signal)))
        });
        PushOutcome { deliveries: books.deliveries, reasons: reasons.collect() }
    }
}

impl Books {
    /// Makes room. What is on its way cannot be called back; with nothing but one body that is too large, that one goes.
    fn drop_oldest(&mut self, most_bytes: usize) -> bool {
        let oldest = Signal::ALL
            .into_iter()
            .filter_map(|signal| Some((self.waiting[signal as usize].front()?.0, signal)))
            .min_by_key(|(age, _)| *age);
        let Some((_, signal)) = oldest else { return false };
        let Some((_, body)) = self.waiting[signal as usize].pop_front() else { return false };
        self.bytes -= body.bytes.len();
        self.lose(signal, body.items, format!("were the oldest when more than {} MiB waited for the endpoint", most_bytes >> 20));
        true
    }

    /// What was under way is at an end; `None`: the books are closed, it has been counted.
    fn arrived(&mut self, signal: Signal) -> Option<u64> {
        if self.closed {
            return None;
        }
        let (items, bytes) = self.under_way[signal as usize].take()?;
        self.bytes -= bytes;
        Some(items)
    }

    fn left(&self, signal: Signal) -> u64 {
        let waiting: u64 = self.waiting[signal as usize].iter().map(|(_, body)| body.items).sum();
        waiting + self.under_way[signal as usize].map_or(0, |(items, _)| items)
    }

    fn lose(&mut self, signal: Signal, items: u64, why: String) {
        self.deliveries[signal as usize].dropped += items;
        let reasons = &mut self.reasons[signal as usize];
        if let Some((_, count)) = reasons.iter_mut().find(|(other, _)| *other == why) {
            *count += items;
        } else if reasons.len() < MOST_REASONS {
            reasons.push((why, items));
        } else if let Some((_, count)) = reasons.last_mut() {
            *count += items;
        }
    }
}

/// What a signal's items are called.
pub(super) fn items_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "spans",
        Signal::Metrics => "points",
        Signal::Logs => "events",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(items: u64, bytes: usize) -> Body {
        Body { items, bytes: vec![0; bytes].into() }
    }

    #[derive(Debug, Clone)]
    enum Act {
        HandOver(usize, u64, usize),
        Next(usize),
        Taken(usize, u64),
        Refused(usize),
        Trouble(usize),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            3 => (0..3_usize, 1..5_u64, 1..40_usize).prop_map(|(signal, items, bytes)| Act::HandOver(signal, items, bytes)),
            2 => (0..3_usize).prop_map(Act::Next),
            1 => (0..3_usize, 0..9_u64).prop_map(|(signal, rejected)| Act::Taken(signal, rejected)),
            1 => (0..3_usize).prop_map(Act::Refused),
            1 => (0..3_usize).prop_map(Act::Trouble),
        ]
    }

    proptest! {
        #[test]
        fn everything_is_delivered_or_dropped(acts in prop::collection::vec(act(), 0..200)) {
            let ledger = Ledger::new(100);
            let mut handed_over = [0; 3];
            for act in acts {
                match act {
                    Act::HandOver(signal, items, bytes) => {
                        handed_over[signal] += items;
                        ledger.hand_over(Signal::ALL[signal], body(items, bytes));
                    }
                    Act::Next(signal) => {
                        // A sender takes the next one only when it is done with the last.
                        ledger.refused(Signal::ALL[signal], "x".to_owned());
                        let _ = ledger.next(Signal::ALL[signal]);
                    }
                    Act::Taken(signal, rejected) => ledger.taken(Signal::ALL[signal], rejected, || "partly".to_owned()),
                    Act::Refused(signal) => ledger.refused(Signal::ALL[signal], "refused".to_owned()),
                    Act::Trouble(signal) => ledger.trouble(Signal::ALL[signal], "trouble"),
                }
                let under_way: usize = ledger.books().under_way.iter().flatten().map(|(_, bytes)| bytes).sum();
                let waiting: usize = ledger.books().waiting.iter().flatten().map(|(_, body)| body.bytes.len()).sum();
                prop_assert_eq!(ledger.books().bytes, under_way + waiting);
                prop_assert!(waiting == 0 || under_way + waiting <= 100);
                for signal in Signal::ALL {
                    let delivery = ledger.counts()[signal as usize];
                    prop_assert_eq!(delivery.delivered + delivery.dropped + ledger.waiting(signal), handed_over[signal as usize]);
                }
            }
            let outcome = ledger.close(&[None, None, None]);
            // What arrives too late is not counted twice.
            Signal::ALL.iter().for_each(|signal| ledger.taken(*signal, 0, String::new));
            prop_assert_eq!(ledger.counts(), outcome.deliveries);
            for (delivery, handed_over) in outcome.deliveries.iter().zip(handed_over) {
                prop_assert_eq!(delivery.delivered + delivery.dropped, handed_over);
            }
            let dropped: u64 = outcome.deliveries.iter().map(|delivery| delivery.dropped).sum();
            let reasons: u64 = outcome.reasons.iter().map(|reason| reason.split(' ').next().unwrap().parse::<u64>().unwrap()).sum();
            prop_assert_eq!(reasons, dropped);
        }
    }

    #[test]
    fn the_oldest_goes_whatever_its_signal() {
        let ledger = Ledger::new(100);
        ledger.hand_over(Signal::Logs, body(1, 40));
        ledger.hand_over(Signal::Traces, body(2, 40));
        ledger.hand_over(Signal::Traces, body(3, 40));
        assert_eq!(ledger.counts().map(|delivery| delivery.dropped), [0, 0, 1]);
        ledger.hand_over(Signal::Metrics, body(4, 60));
        assert_eq!(ledger.counts().map(|delivery| delivery.dropped), [2, 0, 1]);
        ledger.hand_over(Signal::Metrics, body(5, 1000));
        assert_eq!(ledger.counts().map(|delivery| delivery.dropped), [5, 9, 1]);
        assert_eq!(ledger.books().bytes, 0);
    }
}
