//! A server that is not there, does not answer, breaks off, comes back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use stepline::config::{Protocol, Settings};
use stepline::model::Signal;

use super::data::{export, items};
use super::{PATIENCE, PROTOCOLS, assert_exact, assert_in_order, delivered, dropped, endpoint, finish, push, settings, to};
use crate::support::otlp_sink::{Behaviour, OtlpSink, addresses_without_listener};

/// How much later than the deadline the end may come on a busy machine.
const GRACE: Duration = Duration::from_millis(500);

fn at(addresses: [SocketAddr; 2], protocol: Protocol) -> String {
    format!("http://{}", addresses[usize::from(protocol == Protocol::Grpc)])
}

#[test]
fn the_deadline_holds_whatever_the_server_does() {
    for protocol in PROTOCOLS {
        let sink = OtlpSink::start(|signal, _| match signal {
            Signal::Traces => Behaviour::BlackHole,
            Signal::Metrics => Behaviour::Slow(Duration::from_secs(60)),
            Signal::Logs => Behaviour::Accept,
        });
        let push = to(&sink, protocol);
        for batch in 0..3 {
            Signal::ALL.into_iter().for_each(|signal| push.send(export(signal, batch * 10, 10, 0)));
        }
        // Those that fail do not hold up the one that works.
        sink.wait_until("all events", PATIENCE, |accepted, _| accepted.events.len() == 30);
        let begin = Instant::now();
        let outcome = push.finish(begin + Duration::from_millis(700));
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(690) && took < Duration::from_millis(700) + GRACE, "{took:?}");
        assert_eq!(outcome.deliveries, [dropped(30), dropped(30), delivered(30)]);
        assert!(outcome.reasons.iter().all(|reason| reason.contains("before the deadline")), "{:?}", outcome.reasons);
    }
}

#[test]
fn a_deadline_that_has_passed_holds_too() {
    let push = push(&settings(at(addresses_without_listener(), Protocol::HttpProtobuf), Protocol::HttpProtobuf));
    push.send(export(Signal::Traces, 0, 10, 0));
    let begin = Instant::now();
    let outcome = push.finish(begin);
    assert!(begin.elapsed() < GRACE);
    assert_eq!(outcome.deliveries[0], dropped(10));
}

#[test]
fn an_attempt_that_takes_too_long_is_made_again() {
    for protocol in PROTOCOLS {
        let sink = OtlpSink::start(|_, number| if number == 0 { Behaviour::BlackHole } else { Behaviour::Accept });
        let push = push(&Settings { timeout: Some(Duration::from_millis(300)), ..settings(endpoint(&sink, protocol), protocol) });
        push.send(export(Signal::Traces, 0, 10, 0));
        sink.wait_until("the second attempt", PATIENCE, |accepted, _| accepted.spans.len() == 10);
        assert_exact([10, 0, 0], &finish(push), &sink);
        let requests = sink.requests();
        assert!(requests[1].at - requests[0].at >= Duration::from_millis(290));
    }
}

#[test]
fn nothing_is_lost_while_nobody_listens() {
    for protocol in PROTOCOLS {
        let addresses = addresses_without_listener();
        let push = push(&settings(at(addresses, protocol), protocol));
        let mut expected = Vec::new();
        for batch in 0..20 {
            let export = export(Signal::Metrics, batch * 10, 10, 0);
            expected.extend(items(&export));
            push.send(export);
        }
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(push.counts(), [delivered(0); 3]);
        let sink = OtlpSink::start_at(addresses, |_, _| Behaviour::Accept);
        sink.wait_until("what waited", PATIENCE, |accepted, _| accepted.points.len() == 200);
        let outcome = finish(push);
        assert_exact([0, 200, 0], &outcome, &sink);
        assert_in_order(&sink, Signal::Metrics, &expected);
    }
}

#[test]
fn a_server_that_is_restarted_gets_everything() {
    for protocol in PROTOCOLS {
        let first = OtlpSink::accepting();
        let addresses = first.addresses();
        let push = to(&first, protocol);
        push.send(export(Signal::Traces, 0, 10, 0));
        // Taken is not yet answered: without the answer it would rightly be sent again.
        let begin = Instant::now();
        while push.counts()[0].delivered < 10 {
            assert!(begin.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(first);
        push.send(export(Signal::Traces, 10, 10, 0));
        std::thread::sleep(Duration::from_millis(200));
        push.send(export(Signal::Traces, 20, 10, 0));
        let second = OtlpSink::start_at(addresses, |_, _| Behaviour::Accept);
        let outcome = finish(push);
        assert_eq!(outcome.deliveries[0], delivered(30));
        assert_eq!(second.accepted().spans.len(), 20);
    }
}

#[test]
fn an_answer_that_breaks_off_is_no_answer() {
    for protocol in PROTOCOLS {
        let sink = OtlpSink::start(|_, number| if number < 2 { Behaviour::CloseMidResponse } else { Behaviour::Accept });
        let push = to(&sink, protocol);
        push.send(export(Signal::Traces, 0, 10, 0));
        sink.wait_until("the third attempt", PATIENCE, |accepted, _| accepted.spans.len() == 10);
        let outcome = finish(push);
        assert_eq!(outcome.deliveries[0], delivered(10));
        assert_eq!(sink.requests().len(), 3);
    }
}

#[test]
fn a_connection_that_was_closed_in_between_is_no_trouble() {
    for protocol in PROTOCOLS {
        let sink = OtlpSink::start(|_, _| Behaviour::AcceptAndClose);
        let push = to(&sink, protocol);
        for batch in 0..3 {
            push.send(export(Signal::Traces, batch * 10, 10, 0));
            let begin = Instant::now();
            sink.wait_until("a batch", PATIENCE, |accepted, _| accepted.spans.len() as u64 == (batch + 1) * 10);
            assert!(begin.elapsed() < Duration::from_millis(500), "without a wait");
            std::thread::sleep(Duration::from_millis(150));
        }
        assert_eq!(finish(push).deliveries[0], delivered(30));
        assert_eq!(sink.connections(), 3);
    }
}

#[test]
fn where_there_is_no_room_the_oldest_go() {
    for protocol in PROTOCOLS {
        let addresses = addresses_without_listener();
        let push = push(&Settings { queue_bytes: Some(1 << 20), ..settings(at(addresses, protocol), protocol) });
        // About 100 KB each: ten of the thirty have room.
        for batch in 0..30 {
            push.send(export(Signal::Traces, batch * 10, 10, 10_000));
        }
        push.send(export(Signal::Logs, 0, 10, 0));
        let before = push.counts()[0].dropped;
        assert!((190..=220).contains(&before), "{before}");
        let sink = OtlpSink::start_at(addresses, |_, _| Behaviour::Accept);
        let outcome = finish(push);
        assert_exact([300, 0, 10], &outcome, &sink);
        assert_eq!(outcome.deliveries[0].dropped, before);
        assert!(outcome.reasons[0].contains("oldest"), "{:?}", outcome.reasons);
        let newest = items(&export(Signal::Traces, 290, 10, 10_000));
        assert!(sink.accepted().spans.ends_with(&newest));
    }
}

#[test]
fn a_large_request_has_room_in_a_small_queue() {
    let sink = OtlpSink::accepting();
    let settings = settings(sink.http_endpoint(), Protocol::HttpProtobuf);
    let push = push(&Settings { queue_bytes: Some(1 << 20), ..settings });
    // 900 KB in one request: it must not be refused as a whole.
    push.send(export(Signal::Traces, 0, 90, 10_000));
    let outcome = finish(push);
    assert_exact([90, 0, 0], &outcome, &sink);
    assert_eq!(outcome.deliveries[0], delivered(90));
}

#[test]
fn what_is_wrong_is_said() {
    let sink = OtlpSink::accepting();
    let nobody = addresses_without_listener();
    for (endpoint, protocol, expected) in [
        (at(nobody, Protocol::HttpProtobuf), Protocol::HttpProtobuf, vec!["nothing listens on 127.", "/v1/traces"]),
        (at(nobody, Protocol::Grpc), Protocol::Grpc, vec!["nothing listens on 127."]),
        ("http://no-such-host.invalid:4318".to_owned(), Protocol::HttpProtobuf, vec!["the host no-such-host.invalid cannot be found"]),
        (sink.grpc_endpoint(), Protocol::HttpProtobuf, vec!["speaks gRPC, not HTTP", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "/v1/traces"]),
        (sink.http_endpoint(), Protocol::Grpc, vec!["speaks HTTP, not gRPC", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"]),
        (sink.http_endpoint().replace("http:", "https:"), Protocol::HttpProtobuf, vec!["https://127.", "does not speak TLS"]),
    ] {
        let push = push(&settings(endpoint.clone(), protocol));
        push.send(export(Signal::Traces, 0, 10, 0));
        let outcome = push.finish(Instant::now() + Duration::from_millis(1500));
        assert_eq!(outcome.deliveries[0], dropped(10));
        for part in expected {
            assert!(outcome.reasons[0].contains(part), "{part:?} in {:?}", outcome.reasons);
        }
    }
}
