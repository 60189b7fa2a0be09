//! One signal's way: one body after the other, each until it is taken, refused, or the time is up.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::{sleep_until, timeout};

use super::answer::Answer;
use super::body::Body;
#[cfg(feature = "grpc")]
use super::grpc::GrpcSender;
#[cfg(feature = "http")]
use super::http::HttpSender;
use super::ledger::{Ledger, Next, items_of};
use super::outage::Outages;
use super::retry::Backoff;
use super::tls::TlsConfigs;
use crate::config::{Endpoint, Protocol, Url};
use crate::model::Signal;

/// What the workers of all signals share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) ledger: Arc<Ledger>,
    pub(super) outages: Rc<Outages>,
    pub(super) tls: Rc<TlsConfigs>,
    pub(super) cpu_time_ns: Arc<AtomicU64>,
}

enum Sender {
    #[cfg(feature = "http")]
    Http(Box<HttpSender>),
    #[cfg(feature = "grpc")]
    Grpc(Box<GrpcSender>),
    /// Cannot be used, and why.
    None(String),
}

impl Sender {
    fn new(signal: Signal, endpoint: Endpoint, tls: Rc<TlsConfigs>) -> Self {
        let made = match endpoint.protocol {
            #[cfg(feature = "http")]
            Protocol::HttpProtobuf | Protocol::HttpJson => HttpSender::new(endpoint, tls).map(|sender| Self::Http(Box::new(sender))),
            #[cfg(feature = "grpc")]
            Protocol::Grpc => GrpcSender::new(signal, endpoint, tls).map(|sender| Self::Grpc(Box::new(sender))),
            #[allow(unreachable_patterns)]
            other => {
                let _ = (signal, tls);
                Err(format!("{} is not built in", other.name()))
            }
        };
        made.unwrap_or_else(Self::None)
    }

    async fn attempt(&mut self, body: &Body) -> Answer {
        match self {
            #[cfg(feature = "http")]
            Self::Http(sender) => sender.attempt(body).await,
            #[cfg(feature = "grpc")]
            Self::Grpc(sender) => sender.attempt(body).await,
            Self::None(why) => Answer::refused(why.clone()),
        }
    }
}

/// Sends what is handed over for one signal, until there is no more.
pub(super) struct Worker {
    signal: Signal,
    /// For people.
    url: String,
    authority: String,
    timeout: Duration,
    sender: Sender,
    backoff: Backoff,
    shared: Shared,
}

impl Worker {
    pub(super) fn new(signal: Signal, endpoint: Endpoint, shared: Shared) -> Self {
        let parsed = Url::parse(&endpoint.url).ok();
        Self {
            signal,
            url: endpoint.shown_url(),
            authority: parsed.map(|url| format!("{}://{}", url.scheme(), url.authority())).unwrap_or_default(),
            timeout: endpoint.timeout,
            sender: Sender::new(signal, endpoint, Rc::clone(&shared.tls)),
            backoff: Backoff::default(),
            shared,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            match self.shared.ledger.next(self.signal) {
                Next::Send(body) => self.deliver(body).await,
                Next::Wait => self.shared.ledger.work(self.signal).await,
                Next::End => return,
            }
        }
    }

    async fn deliver(&mut self, body: Body) {
        loop {
            let answer = timeout(self.timeout, self.sender.attempt(&body)).await;
            let answer = answer.unwrap_or_else(|_| Answer::again(format!("no answer within {} s", self.timeout.as_secs_f64())));
            self.shared.cpu_time_ns.store(crate::clock::thread_cpu_time_ns(), Ordering::Relaxed);
            match answer {
                Answer::Accepted { rejected, message } => return self.taken(&body, rejected, &message),
                Answer::Refused { why } => return self.refused(&why),
                Answer::Again { why, wait } => {
                    self.shared.ledger.trouble(self.signal, &format!("{}: {why}", self.url));
                    self.shared.outages.failed(self.signal, &self.authority, &self.url, &why, &self.shared.ledger);
                    self.pause(wait).await;
                }
            }
        }
    }

    fn taken(&mut self, body: &Body, rejected: u64, message: &str) {
        self.backoff.reset();
        self.shared.outages.worked(self.signal, &self.shared.ledger);
        let what = || {
            let said = if message.is_empty() { "without a word why".to_owned() } else { format!("{message:?}") };
            format!("were sent to {} and not taken, though the rest was: {said}", self.url)
        };
        self.shared.ledger.taken(self.signal, rejected, what);
        if rejected > 0 {
            let some = format!("of {} {}, {rejected} {}", body.items, items_of(self.signal), what());
            self.shared.outages.said(self.signal, &some);
        } else if !message.is_empty() {
            self.shared.outages.said(self.signal, &format!("{} took everything, but warns: {message:?}", self.url));
        }
    }

    fn refused(&mut self, why: &str) {
        self.backoff.reset();
        // It answered: whatever was wrong before is over.
        self.shared.outages.worked(self.signal, &self.shared.ledger);
        let what = format!("were refused by {}: {why}", self.url);
        self.shared.outages.said(self.signal, &format!("{} {what}. They are lost; this is said once", items_of(self.signal)));
        self.shared.ledger.refused(self.signal, what);
    }

    /// Waits before the next attempt. A wait that the server asked for is kept; our own ends when the end is asked for, since what
    /// is left then has only until the deadline.
    async fn pause(&mut self, asked: Option<Duration>) {
        let was_asked_to_finish = self.shared.ledger.deadline().is_some();
        let own = self.backoff.next();
        let until = Instant::now() + asked.map_or(own, |asked| asked.max(own.min(Duration::from_secs(1))));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // More work for this signal wakes up as well, and does not matter.
            let _ = timeout(left, self.shared.ledger.work(self.signal)).await;
            if asked.is_none() && !was_asked_to_finish && self.shared.ledger.deadline().is_some() {
                self.backoff.reset();
                return;
            }
        }
    }
}

/// Ends when all have ended, or at the deadline of whoever asks for the end.
pub(super) async fn run_all(workers: Vec<Worker>, ledger: Arc<Ledger>) {
    let tasks: Vec<_> = workers.into_iter().map(|worker| tokio::task::spawn_local(worker.run())).collect();
    let deadline = ledger.finish_asked().await;
    let all = async {
        for task in tasks {
            // One that panicked has nothing more to say; what it held counts as dropped.
            let _ = task.await;
        }
    };
    let _ = tokio::time::timeout_at(deadline.into(), all).await;
    // Lets what was just asked to close get its last byte out.
    sleep_until(Instant::now().into()).await;
}
