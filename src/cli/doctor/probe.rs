//! Does an endpoint answer OTLP? Asked by the very code that sends a run's data, so that the answer holds for that.
//!
//! What is sent is one item that says what it is: an empty span, an empty event, a point that says that there is no value.

use std::borrow::Cow;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::config::{Config, Endpoint, Url};
use crate::model::{Attribute, Event, Number, NumberPoint, Points, Series, Severity, Signal, Span, SpanId, TraceId};
use crate::otlp::encode::Encoder;
use crate::otlp::push::{Export, Push};
use crate::semconv::{attributes, metrics};

/// Time between two looks for the answer: what the time of the answer is good to.
const LOOK: Duration = Duration::from_millis(1);

/// Where the connection is refused, pushing tries again until its time is over; it has said why long before.
const REFUSED_PATIENCE: Duration = Duration::from_millis(300);

/// So pushing speaks of a server that took a request and not what was in it: it did answer.
const TOOK_THE_REQUEST: &str = "though the rest was";

const NAME: &str = "stepline doctor";

/// What came of it.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Yes { took: Duration, note: Option<String> },
    No { why: String },
}

impl Answer {
    fn no(why: impl Into<String>) -> Self {
        Self::No { why: why.into() }
    }
}

/// Asks the endpoint of one signal, for about as long as the limit.
pub(super) fn ask(config: &Config, signal: Signal, limit: Duration) -> Answer {
    let began = Instant::now();
    let Some(endpoint) = config.endpoint(signal) else { return Answer::no("there is no endpoint") };
    let patience = match connect(endpoint, limit) {
        Ok(Reached::Listens) => limit.saturating_sub(began.elapsed()),
        Ok(Reached::Refuses) => REFUSED_PATIENCE,
        Err(why) => return Answer::no(why),
    };
    let answer = push(config, signal, began, Instant::now() + patience, endpoint);
    match answer {
        Answer::No { why } => Answer::No { why: without_secrets(&why, endpoint) },
        Answer::Yes { took, note } => Answer::Yes { took, note: note.map(|note| without_secrets(&note, endpoint)) },
    }
}

enum Reached {
    Listens,
    Refuses,
}

/// Whether anybody listens, at the endpoint or at the proxy before it. A lookup that fails is told apart from a connection that does.
fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Reached, String> {
    let url = match &endpoint.proxy {
        Some(proxy) => proxy.url.clone(),
        None => Url::parse(&endpoint.url).map_err(|why| format!("the URL {why}"))?,
    };
    let deadline = Instant::now() + limit;
    let found = (url.host.as_str(), url.port_or_default()).to_socket_addrs();
    let addresses: Vec<_> =
        found.map_err(|error| format!("the host {} cannot be found ({error}): is the name right?", url.host))?.collect();
    let mut trouble = Err(format!("the host {} has no address", url.host));
    let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now()).min(share);
        if left.is_zero() {
            break;
        }
        trouble = match TcpStream::connect_timeout(&address, left) {
            Ok(_) => return Ok(Reached::Listens),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(Reached::Refuses),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Err(format!(
                "{address} does not answer to a connection within {:.0} s: is the address right, does a firewall stand between?",
                limit.as_secs_f64()
            )),
            Err(error) => Err(format!("{address} cannot be reached: {error}")),
        };
    }
    trouble
}

fn push(config: &Config, signal: Signal, began: Instant, deadline: Instant, endpoint: &Endpoint) -> Answer {
    // In tenths of a second, since it is said, and before the deadline, so that it is said.
    let tenths = deadline.saturating_duration_since(Instant::now()).as_millis().saturating_sub(100) / 100;
    let timeout = Duration::from_millis(u64::try_from(tenths.max(1)).unwrap_or(1) * 100);
    let only = |one: Signal| {
        let endpoint = config.endpoint(one).filter(|_| one == signal)?;
        Some(Endpoint { timeout: endpoint.timeout.min(timeout), ..endpoint.clone() })
    };
    let (traces, metrics, logs) = (only(Signal::Traces), only(Signal::Metrics), only(Signal::Logs));
    let push = match Push::start(&Config { traces, metrics, logs, ..config.clone() }) {
        Ok(Some(push)) => push,
        Ok(None) => return Answer::no(format!("{} is not built into this program", endpoint.protocol.name())),
        Err(error) => return Answer::no(format!("the thread that sends cannot be started: {error}")),
    };
    push.send(item(signal));
    let mut took = None;
    while took.is_none() && Instant::now() < deadline {
        thread::sleep(LOOK);
        let counts = push.counts()[signal as usize];
        took = (counts.delivered + counts.dropped > 0).then(|| began.elapsed());
    }
    let outcome = push.finish(Instant::now() + LOOK);
    let reason = outcome.reasons.into_iter().next();
    // In front of it stand how many items of which kind and the URL, which is shown anyway.
    let why = |reason: String| reason.split_once(&format!("{}: ", endpoint.shown_url())).map_or(reason.clone(), |(_, why)| why.to_owned());
    match (reason, took) {
        (None, Some(took)) => Answer::Yes { took, note: None },
        (Some(reason), Some(took)) if reason.contains(TOOK_THE_REQUEST) => Answer::Yes { took, note: Some(why(reason)) },
        (Some(reason), _) => Answer::No { why: with_advice(why(reason)) },
        (None, None) => Answer::no("there is no answer"),
    }
}

/// Pushing says what is wrong and mostly what to do; not so about a server that is silent.
fn with_advice(why: String) -> String {
    if why.starts_with("no answer within") {
        format!("{why}, although the connection stands: is it an OTLP server that listens there, and is it overloaded?")
    } else {
        why
    }
}

/// The values of headers may come back in what a server says about them.
fn without_secrets(text: &str, endpoint: &Endpoint) -> String {
    let mut text = text.to_owned();
    for (_, value) in &endpoint.headers {
        // The parts too: of `Bearer abc` a server may repeat `abc` alone. Very short ones would blot out everything.
        let parts = std::iter::once(value.as_str()).chain(value.split_whitespace());
        for secret in parts.filter(|part| part.len() >= 4) {
            text = text.replace(secret, "***");
        }
    }
    text
}

fn item(signal: Signal) -> Export {
    let encoder = Encoder::new(&[Attribute::text(attributes::SERVICE_NAME, "stepline-doctor")]);
    let time_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, crate::clock::nanoseconds);
    match signal {
        Signal::Traces => Export::Traces(encoder.traces(vec![span(time_ns)])),
        Signal::Metrics => {
            let point = NumberPoint { time_ns, start_ns: time_ns, value: Number::Absent };
            let series = Series { metric: metrics::STEPS.name.into(), attributes: Vec::new(), points: Points::Numbers(vec![point]) };
            Export::Metrics(encoder.metrics(&[series]))
        }
        Signal::Logs => Export::Logs(encoder.logs(&[Event {
            name: Cow::Borrowed(NAME),
            time_ns,
            severity: Severity::Info,
            body: "stepline doctor asked whether this endpoint answers".to_owned(),
            attributes: Vec::new(),
            span: None,
        }])),
    }
}

fn span(time_ns: u64) -> Span {
    let (mut trace_id, mut span_id) = ([1; 16], [1; 8]);
    // Without random numbers the id is the same each time, which matters little here.
    let _ = getrandom::fill(&mut trace_id).and_then(|()| getrandom::fill(&mut span_id));
    Span {
        trace_id: TraceId(trace_id),
        span_id: SpanId(span_id),
        parent_span_id: None,
        parent_is_remote: false,
        name: Cow::Borrowed(NAME),
        begin_ns: time_ns,
        end_ns: time_ns,
        attributes: Vec::new(),
        events: Vec::new(),
        links: Vec::new(),
        error_type: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_an_item() {
        let items = Signal::ALL.map(|signal| match item(signal) {
            Export::Traces(request) => crate::otlp::encode::items(&request),
            Export::Metrics(request) => crate::otlp::encode::items(&request),
            Export::Logs(request) => crate::otlp::encode::items(&request),
        });
        assert_eq!(items, [1; 3]);
    }

    #[test]
    fn what_a_server_repeats_holds_no_secret() {
        let endpoint = Endpoint {
            protocol: crate::config::Protocol::HttpProtobuf,
            url: "http://localhost/v1/traces".to_owned(),
            headers: vec![("authorization".to_owned(), "Bearer hunter2".to_owned()), ("x".to_owned(), "1".to_owned())],
            timeout: Duration::from_secs(1),
            gzip: false,
            certificate: None,
            client_key: None,
            client_certificate: None,
            proxy: None,
        };
        assert_eq!(without_secrets("401: the token hunter2 is unknown, try 1", &endpoint), "401: the token *** is unknown, try 1");
    }
}
