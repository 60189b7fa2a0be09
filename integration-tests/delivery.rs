//! OTLP to an endpoint that takes, refuses, delays, breaks off, is not there: in all of it every item is delivered or counted as
//! dropped, in order, and the end comes in time.

mod data;
mod outages;
mod refusals;
mod secure;
mod surroundings;

use std::time::{Duration, Instant};

use stepline::config::{Config, Environment, Protocol, Settings, resolve};
use stepline::model::{Delivery, Signal};
use stepline::otlp::push::{Push, PushOutcome};

use crate::support::otlp_sink::OtlpSink;

/// Each way to speak OTLP.
const PROTOCOLS: [Protocol; 3] = [Protocol::HttpProtobuf, Protocol::HttpJson, Protocol::Grpc];

/// Longer than anything that ought to work takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The endpoint of the sink for a protocol.
fn endpoint(sink: &OtlpSink, protocol: Protocol) -> String {
    if protocol == Protocol::Grpc { sink.grpc_endpoint() } else { sink.http_endpoint() }
}

fn settings(endpoint: String, protocol: Protocol) -> Settings {
    Settings { endpoint: Some(endpoint), protocol: Some(protocol), ..Settings::default() }
}

fn config(settings: &Settings) -> Config {
    let config = resolve(settings, &Environment::of([("", ""); 0]));
    assert_eq!(config.warnings, Vec::<String>::new());
    config
}

fn push(settings: &Settings) -> Push {
    Push::start(&config(settings)).expect("a thread").expect("an endpoint")
}

fn to(sink: &OtlpSink, protocol: Protocol) -> Push {
    push(&settings(endpoint(sink, protocol), protocol))
}

fn finish(push: Push) -> PushOutcome {
    push.finish(Instant::now() + PATIENCE)
}

fn delivered(delivered: u64) -> Delivery {
    Delivery { delivered, ..Delivery::default() }
}

fn dropped(dropped: u64) -> Delivery {
    Delivery { dropped, ..Delivery::default() }
}

/// What was handed over is what was delivered and dropped, and what was delivered is what the sink took: to the item.
fn assert_exact(handed_over: [u64; 3], outcome: &PushOutcome, sink: &OtlpSink) {
    let accepted = sink.accepted();
    for signal in Signal::ALL {
        let delivery = outcome.deliveries[signal as usize];
        assert_eq!(delivery.delivered + delivery.dropped, handed_over[signal as usize], "{signal:?} {outcome:?}");
        assert_eq!(delivery.delivered, accepted.of(signal).len() as u64, "{signal:?} {outcome:?}");
        let mut distinct = accepted.of(signal).to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), accepted.of(signal).len(), "{signal:?} came twice");
    }
    let dropped: u64 = outcome.deliveries.iter().map(|delivery| delivery.dropped).sum();
    assert_eq!(outcome.reasons.is_empty(), dropped == 0, "{outcome:?}");
    let of_reasons: u64 = outcome.reasons.iter().map(|reason| reason.split(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(of_reasons, dropped, "{outcome:?}");
    assert_eq!(sink.faults(), Vec::<String>::new());
}

/// The sink took these, in this order.
fn assert_in_order(sink: &OtlpSink, signal: Signal, expected: &[String]) {
    assert_eq!(sink.accepted().of(signal), expected, "{signal:?}");
}
