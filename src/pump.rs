//! Reads a journal and hands what it says through: timeline, detectors, encoder, sinks. Has no knowledge of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::detect::Detectors;
use crate::journal::Reader;
use crate::model::{Attribute, Delivery, Number, NumberPoint, Outcome, Points, RunSummary, Series, Signal};
use crate::notice::notice;
use crate::otlp::encode::{Encoder, Request};
use crate::otlp::file::{FileError, FileSink};
use crate::otlp::push::{Export, Push};
use crate::semconv::{attributes, metrics};
use crate::timeline::{Emitted, Settings, SummaryBuilder, Timeline};

/// How often the journal is looked at. Short enough that 100,000 steps a second do not fill the default ring in between, long enough
/// that looking costs nothing.
const READ_INTERVAL: Duration = Duration::from_millis(50);

/// Spans in one request to the files and the endpoint: bounds what one line and one encoding hold in memory.
const SPANS_A_REQUEST: usize = 2_000;

/// Records taken from the journal at once: bounds what a burst holds in memory decoded.
const RECORDS_AT_ONCE: usize = 512;

/// CPU time of one of stepline's own threads, nanoseconds, kept up to date by the thread itself.
pub struct ThreadTime {
    /// Which thread.
    pub component: &'static str,
    /// Its CPU time, nanoseconds.
    pub cpu_time_ns: Arc<AtomicU64>,
}

/// Where to, and how often.
pub struct Sinks {
    /// Files, if they are written.
    pub files: Option<FileSink>,
    /// The endpoint, if there is one.
    pub push: Option<Push>,
    /// Time between two exports.
    pub export_interval: Duration,
    /// Threads whose CPU time is reported.
    pub threads: Vec<ThreadTime>,
}

/// What is left when everything has been read and sent.
#[derive(Debug, Default)]
pub struct PumpResult {
    /// What became of everything.
    pub outcome: Outcome,
    /// What the run was like.
    pub summary: RunSummary,
    /// Spans made.
    pub spans: u64,
    /// Points made.
    pub points: u64,
}

/// The pump of one journal.
pub struct Pump {
    reader: Reader,
    timeline: Timeline,
    detectors: Detectors,
    summary: SummaryBuilder,
    encoder: Encoder,
    sinks: Sinks,
    devices_known: bool,
    begin_ns: u64,
    last_export_ns: u64,
    torn: u64,
    spans: u64,
    points: u64,
    files_dropped: u64,
    files_failing: bool,
    reasons: Vec<String>,
}

impl Pump {
    /// A pump from this journal to these sinks.
    #[must_use]
    pub fn new(reader: Reader, sinks: Sinks) -> Self {
        let about = reader.about().clone();
        let encoder = Encoder::new(&about.resource);
        let timeline = Timeline::new(Settings {
            identity: about.identity,
            step_spans: about.step_spans,
            sample_interval_ns: about.sample_interval_ns,
            devices: Vec::new(),
        });
        let begin_ns = reader.now_unix_ns();
        Self {
            reader,
            timeline,
            detectors: Detectors::default(),
            summary: SummaryBuilder::default(),
            encoder,
            sinks,
            devices_known: false,
            begin_ns,
            last_export_ns: begin_ns,
            torn: 0,
            spans: 0,
            points: 0,
            files_dropped: 0,
            files_failing: false,
            reasons: Vec::new(),
        }
    }

    /// Takes up what the journal holds, and sends it as soon as it is a request's worth.
    fn read(&mut self) {
        while self.read_some() {
            if self.timeline.ready_spans() >= SPANS_A_REQUEST {
                self.export();
            }
        }
    }

    /// Takes up some of what the journal holds; whether there was anything.
    fn read_some(&mut self) -> bool {
        let batch = self.reader.read_some(false, RECORDS_AT_ONCE);
        self.torn += batch.torn;
        // The devices are said before the first sample of them.
        if !self.devices_known
            && let Some(devices) = self.reader.devices()
        {
            self.devices_known = true;
            self.timeline.set_devices(devices);
        }
        let any = !batch.records.is_empty();
        if any {
            self.timeline.apply(batch.records, self.reader.names());
        }
        any
    }

    /// Sends what is ready.
    fn export(&mut self) {
        let now_ns = self.reader.now_unix_ns().max(self.last_export_ns + 1);
        let emitted = self.timeline.take(now_ns);
        self.send(emitted, now_ns);
    }

    fn send(&mut self, mut emitted: Emitted, now_ns: u64) {
        self.last_export_ns = now_ns;
        let findings = self.detectors.observe(&emitted.spans);
        emitted.events.extend(findings);
        emitted.spans.iter().for_each(|span| self.summary.add(span));
        self.add_own_health(&mut emitted.series, now_ns);

        self.spans += emitted.spans.len() as u64;
        for spans in emitted.spans.chunks(SPANS_A_REQUEST) {
            self.write(spans.len(), |files, encoder| files.write_spans(encoder, spans));
            if let Some(push) = &self.sinks.push {
                push.send_spans(&self.encoder, spans);
            }
        }
        let request = self.encoder.metrics(&emitted.series);
        self.points += request.items() as u64;
        self.write(request.items(), |files, _| files.write(&request));
        self.push(Export::Metrics(request));
        let request = self.encoder.logs(&emitted.events);
        self.write(request.items(), |files, _| files.write(&request));
        self.push(Export::Logs(request));
    }

    fn push(&self, export: Export) {
        if let Some(push) = &self.sinks.push {
            push.send(export);
        }
    }

    fn write(&mut self, items: usize, write: impl FnOnce(&mut FileSink, &Encoder) -> Result<(), FileError>) {
        let Some(files) = &mut self.sinks.files else { return };
        match write(files, &self.encoder) {
            Ok(()) if self.files_failing => {
                self.files_failing = false;
                notice!("writing files works again; {} items were lost meanwhile", self.files_dropped);
            }
            Ok(()) => {}
            Err(error) => {
                self.files_dropped += items as u64;
                if !self.files_failing {
                    self.files_failing = true;
                    notice!("{error}");
                    self.reasons.push(error.to_string());
                }
            }
        }
    }

    /// The SDK's own health: what was lost, what arrived, what it cost.
    fn add_own_health(&self, series: &mut Vec<Series>, now_ns: u64) {
        let mut counter = |metric: &'static str, attributes: Vec<Attribute>, value: Number| {
            let points = vec![NumberPoint { time_ns: now_ns, start_ns: self.begin_ns, value }];
            series.push(Series { metric: metric.into(), attributes, points: Points::Numbers(points) });
        };
        counter(metrics::JOURNAL_DROPPED.name, Vec::new(), whole(self.lost_records()));
        for thread in &self.sinks.threads {
            let seconds = thread.cpu_time_ns.load(Ordering::Relaxed) as f64 / 1e9;
            counter(metrics::OVERHEAD_CPU_TIME.name, vec![Attribute::text(attributes::COMPONENT, thread.component)], Number::F64(seconds));
        }
        if let Some(push) = &self.sinks.push {
            for (signal, delivery) in Signal::ALL.into_iter().zip(push.counts()) {
                let of_signal = || vec![Attribute::text(attributes::SIGNAL, signal.name())];
                counter(metrics::EXPORT_DELIVERED.name, of_signal(), whole(delivery.delivered));
                counter(metrics::EXPORT_DROPPED.name, of_signal(), whole(delivery.dropped));
            }
        }
    }

    fn lost_records(&self) -> u64 {
        self.reader.dropped() + self.torn
    }

    /// Reads and sends everything, and closes the sinks before the deadline.
    fn finish(mut self, deadline: Instant) -> PumpResult {
        self.read();
        let now_ns = self.reader.now_unix_ns().max(self.last_export_ns + 1);
        let emitted = self.timeline.finish(now_ns);
        self.send(emitted, now_ns);

        let journal_dropped = self.lost_records();
        if journal_dropped > 0 {
            self.reasons.push(format!(
                "{journal_dropped} records did not fit into the journal: the steps came faster than they could be read. \
                 A larger STEPLINE_JOURNAL_SIZE helps against bursts"
            ));
        }
        let names_refused = self.reader.names_refused();
        if names_refused > 0 {
            self.reasons.push(format!("own names beyond 64 of a kind were recorded as \"other\" ({names_refused} times)"));
        }
        let directory = self.sinks.files.as_ref().map(|files| files.directory().to_owned());
        let mut outcome = Outcome { journal_dropped, files_dropped: self.files_dropped, directory, ..Outcome::default() };
        if let Some(push) = self.sinks.push {
            let pushed = push.finish(deadline);
            let [traces, metrics, logs]: [Delivery; 3] = pushed.deliveries;
            (outcome.traces, outcome.metrics, outcome.logs) = (traces, metrics, logs);
            self.reasons.extend(pushed.reasons);
        }
        outcome.reasons = self.reasons;
        PumpResult { outcome, summary: self.summary.finish(), spans: self.spans, points: self.points }
    }
}

fn whole(number: u64) -> Number {
    Number::I64(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The pump's thread, running.
pub struct PumpThread {
    finish: Sender<Instant>,
    result: Receiver<PumpResult>,
}

impl PumpThread {
    /// Starts the thread. `cpu_time_ns` is kept at the thread's own CPU time.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(mut pump: Pump, cpu_time_ns: Arc<AtomicU64>) -> io::Result<Self> {
        let (finish, finish_asked) = mpsc::channel();
        let (send_result, result) = mpsc::channel();
        thread::Builder::new().name("stepline-pump".to_owned()).spawn(move || {
            let mut export_due = Instant::now() + pump.sinks.export_interval;
            let deadline = loop {
                match finish_asked.recv_timeout(READ_INTERVAL) {
                    Ok(deadline) => break deadline,
                    // The session is gone without a word: end as if it had asked.
                    Err(RecvTimeoutError::Disconnected) => break Instant::now(),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                pump.read();
                if Instant::now() >= export_due {
                    export_due = Instant::now() + pump.sinks.export_interval;
                    cpu_time_ns.store(crate::clock::thread_cpu_time_ns(), Ordering::Relaxed);
                    pump.export();
                }
            };
            cpu_time_ns.store(crate::clock::thread_cpu_time_ns(), Ordering::Relaxed);
            let _ = send_result.send(pump.finish(deadline));
        })?;
        Ok(Self { finish, result })
    }

    /// Has everything read and sent, and ends the thread. `None`: it did not come to an end before the deadline.
    pub fn finish(self, deadline: Instant) -> Option<PumpResult> {
        let _ = self.finish.send(deadline);
        // A little longer than the sinks may take, so that their account of what was lost is heard.
        let patience = Duration::from_millis(200);
        self.result.recv_timeout(deadline.saturating_duration_since(Instant::now()) + patience).ok()
    }
}
