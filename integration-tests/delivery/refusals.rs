//! A server that answers: takes, takes in part, refuses, wants to be left alone.

use std::time::{Duration, SystemTime};

use stepline::config::{Compression, Protocol};
use stepline::model::{Delivery, Signal};

use super::data::{export, items};
use super::{PATIENCE, PROTOCOLS, assert_exact, assert_in_order, config, delivered, dropped, endpoint, finish, push, settings, to};
use crate::support::invariants;
use crate::support::otlp_sink::{Behaviour, OtlpSink, Wire};

#[test]
fn everything_arrives_once_and_in_order() {
    for protocol in PROTOCOLS {
        for compression in [Compression::None, Compression::Gzip] {
            let sink = OtlpSink::accepting();
            let settings = stepline::config::Settings {
                compression: Some(compression),
                headers: vec![("api-key".to_owned(), "secret".to_owned())],
                ..settings(endpoint(&sink, protocol), protocol)
            };
            let push = push(&settings);
            let mut expected = [Vec::new(), Vec::new(), Vec::new()];
            for batch in 0..5 {
                for signal in Signal::ALL {
                    let export = export(signal, batch * 10, 10, 0);
                    expected[signal as usize].extend(items(&export));
                    push.send(export);
                }
            }
            let outcome = finish(push);
            assert_eq!(outcome.deliveries, [delivered(50); 3]);
            assert_exact([50; 3], &outcome, &sink);
            let wire = match protocol {
                Protocol::HttpProtobuf => Wire::HttpProtobuf,
                Protocol::HttpJson => Wire::HttpJson,
                Protocol::Grpc => Wire::Grpc,
            };
            for signal in Signal::ALL {
                assert_in_order(&sink, signal, &expected[signal as usize]);
                for received in sink.requests_of(signal) {
                    assert_eq!((received.wire, received.header("api-key")), (wire, Some("secret")));
                    assert!(received.header("user-agent").unwrap().starts_with("stepline/"));
                    let encoding = if protocol == Protocol::Grpc { "grpc-encoding" } else { "content-encoding" };
                    assert_eq!(received.header(encoding), (compression == Compression::Gzip).then_some("gzip"));
                }
            }
            // One connection for each signal, however many requests.
            assert_eq!(sink.connections(), 3);
            let directory = tempfile::tempdir().unwrap();
            invariants::otlpcheck(&sink.write_capture(directory.path())).require();
        }
    }
}

#[test]
fn nothing_is_sent_for_nothing() {
    let sink = OtlpSink::accepting();
    let push = to(&sink, Protocol::HttpProtobuf);
    for signal in Signal::ALL {
        push.send(export(signal, 0, 0, 0));
    }
    assert_eq!(finish(push).deliveries, [delivered(0); 3]);
    assert_eq!(sink.connections(), 0);
}

#[test]
fn a_refusal_is_final_and_concerns_one_signal_only() {
    for protocol in PROTOCOLS {
        for status in [400, 401, 404] {
            let sink = OtlpSink::start(move |signal, number| match (signal, number) {
                (Signal::Metrics, 0) => Behaviour::fail(status),
                _ => Behaviour::Accept,
            });
            let push = to(&sink, protocol);
            for batch in 0..2 {
                Signal::ALL.into_iter().for_each(|signal| push.send(export(signal, batch * 10, 10, 0)));
            }
            let outcome = finish(push);
            assert_eq!(outcome.deliveries, [delivered(20), Delivery { delivered: 10, dropped: 10, spooled: 0 }, delivered(20)]);
            assert_exact([20; 3], &outcome, &sink);
            assert_eq!(sink.requests_of(Signal::Metrics).len(), 2, "not tried again");
            let [reason] = &outcome.reasons[..] else { panic!("{:?}", outcome.reasons) };
            for part in ["10 points were refused by", &endpoint(&sink, protocol), &format!("sink says {status}")] {
                assert!(reason.contains(part), "{part:?} in {reason:?}");
            }
            let hint = match (status, protocol) {
                (401, _) => "OTEL_EXPORTER_OTLP_HEADERS",
                (404, Protocol::HttpProtobuf | Protocol::HttpJson) => "/v1/metrics\" the right path?",
                _ => "",
            };
            assert!(reason.contains(hint), "{hint:?} in {reason:?}");
        }
    }
}

#[test]
fn a_server_out_of_order_is_tried_until_it_works() {
    for protocol in PROTOCOLS {
        for status in [502, 503, 504] {
            let sink = OtlpSink::start(move |_, number| if number < 2 { Behaviour::fail(status) } else { Behaviour::Accept });
            let push = to(&sink, protocol);
            let exports = [0, 10].map(|from| export(Signal::Traces, from, 10, 0));
            let expected: Vec<String> = exports.iter().flat_map(items).collect();
            exports.into_iter().for_each(|export| push.send(export));
            sink.wait_until("both batches", PATIENCE, |accepted, _| accepted.spans.len() == 20);
            let outcome = finish(push);
            assert_exact([20, 0, 0], &outcome, &sink);
            assert_in_order(&sink, Signal::Traces, &expected);
            let requests = sink.requests();
            assert_eq!(requests.len(), 4);
            assert!(requests[..3].iter().all(|request| request.body == requests[0].body), "the same, not the next");
            // Quickly once, then with more patience.
            assert!(requests[1].at - requests[0].at < Duration::from_millis(700));
            assert!(requests[2].at - requests[1].at > Duration::from_millis(700));
        }
    }
}

#[test]
fn a_server_that_wants_to_be_left_alone_is() {
    for protocol in PROTOCOLS {
        let sink = OtlpSink::start(|_, number| if number == 0 { Behaviour::retry_after(429, "2") } else { Behaviour::Accept });
        let push = to(&sink, protocol);
        push.send(export(Signal::Traces, 0, 10, 0));
        push.send(export(Signal::Traces, 10, 10, 0));
        // More work does not shorten the wait, and asking for the end does not either.
        sink.wait_until("the first request", PATIENCE, |_, requests| !requests.is_empty());
        push.send(export(Signal::Traces, 20, 10, 0));
        let outcome = finish(push);
        assert_exact([30, 0, 0], &outcome, &sink);
        assert_eq!(outcome.deliveries[0], delivered(30));
        let requests = sink.requests();
        assert!(requests[1].at - requests[0].at >= Duration::from_millis(1990), "{protocol:?} {:?}", requests[1].at - requests[0].at);
    }
}

#[test]
fn a_date_may_say_how_long() {
    let at = SystemTime::now() + Duration::from_secs(2);
    let date = httpdate::fmt_http_date(at);
    let sink = OtlpSink::start(move |_, number| if number == 0 { Behaviour::retry_after(503, &date) } else { Behaviour::Accept });
    let push = to(&sink, Protocol::HttpProtobuf);
    push.send(export(Signal::Logs, 0, 1, 0));
    assert_exact([0, 0, 1], &finish(push), &sink);
    let requests = sink.requests();
    assert!(requests[1].at - requests[0].at >= Duration::from_millis(900), "{:?}", requests[1].at - requests[0].at);
}

#[test]
fn too_much_without_a_delay_is_too_much_for_grpc() {
    let sink = OtlpSink::start(|_, number| if number == 0 { Behaviour::fail(429) } else { Behaviour::Accept });
    let push = to(&sink, Protocol::Grpc);
    push.send(export(Signal::Traces, 0, 10, 0));
    let outcome = finish(push);
    assert_eq!(outcome.deliveries[0], dropped(10));
    assert!(outcome.reasons[0].contains("RESOURCE_EXHAUSTED"), "{:?}", outcome.reasons);
}

#[test]
fn a_wait_beyond_the_deadline_is_the_end() {
    let sink = OtlpSink::start(|_, _| Behaviour::retry_after(503, "60"));
    let push = to(&sink, Protocol::HttpProtobuf);
    push.send(export(Signal::Traces, 0, 10, 0));
    sink.wait_until("the first request", PATIENCE, |_, requests| !requests.is_empty());
    let outcome = push.finish(std::time::Instant::now() + Duration::from_millis(500));
    assert_exact([10, 0, 0], &outcome, &sink);
    assert!(outcome.reasons[0].contains("503"), "{:?}", outcome.reasons);
    assert_eq!(sink.requests().len(), 1, "asked to wait, it waits");
}

#[test]
fn what_is_taken_in_part_is_counted_in_part() {
    for protocol in PROTOCOLS {
        let sink = OtlpSink::start(|signal, number| match (signal, number) {
            (Signal::Logs, _) => Behaviour::Partial { rejected: 0, message: "only a warning".to_owned() },
            (_, 0) => Behaviour::Partial { rejected: 3, message: "too old".to_owned() },
            _ => Behaviour::Accept,
        });
        let push = to(&sink, protocol);
        for batch in 0..2 {
            Signal::ALL.into_iter().for_each(|signal| push.send(export(signal, batch * 10, 10, 0)));
        }
        let outcome = finish(push);
        let partly = Delivery { delivered: 17, dropped: 3, spooled: 0 };
        assert_eq!(outcome.deliveries, [partly, partly, delivered(20)]);
        assert_exact([20; 3], &outcome, &sink);
        assert!(outcome.reasons.iter().all(|reason| reason.contains("too old")), "{:?}", outcome.reasons);
        assert_eq!(sink.requests().len(), 6, "not sent again");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = OtlpSink::accepting();
    for protocol in PROTOCOLS {
        let to_elsewhere = format!("{}/v1/traces?token=hunter2", elsewhere.http_endpoint());
        let sink = OtlpSink::start(move |_, _| Behaviour::Redirect(to_elsewhere.clone()));
        let push = to(&sink, protocol);
        push.send(export(Signal::Traces, 0, 10, 0));
        let outcome = finish(push);
        assert_eq!(outcome.deliveries[0], dropped(10));
        let reason = &outcome.reasons[0];
        assert!(reason.contains("302") && reason.contains("not followed") && !reason.contains("hunter2"), "{reason}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn large_requests_are_cut() {
    for protocol in PROTOCOLS {
        let sink = OtlpSink::accepting();
        let push = to(&sink, protocol);
        let mut expected = [Vec::new(), Vec::new(), Vec::new()];
        for signal in Signal::ALL {
            let export = export(signal, 0, 1000, 10_000);
            expected[signal as usize] = items(&export);
            push.send(export);
        }
        // One item that is larger than all.
        push.send(export(Signal::Traces, 5000, 1, 5 << 20));
        let outcome = finish(push);
        assert_exact([1001, 1000, 1000], &outcome, &sink);
        for request in sink.requests() {
            let limit = if request.request.items().len() == 1 { usize::MAX } else { 4 << 20 };
            assert!(request.body.len() < limit, "{protocol:?} {}", request.body.len());
        }
        assert_in_order(&sink, Signal::Logs, &expected[Signal::Logs as usize]);
        assert_in_order(&sink, Signal::Metrics, &expected[Signal::Metrics as usize]);
    }
}

#[test]
fn a_signal_without_an_endpoint_is_not_taken() {
    let sink = OtlpSink::accepting();
    let environment = stepline::config::Environment::of([
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT".to_owned(), format!("{}/own-traces", sink.http_endpoint())),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT".to_owned(), sink.grpc_endpoint()),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL".to_owned(), "grpc".to_owned()),
    ]);
    let config = stepline::config::resolve(&stepline::config::Settings::default(), &environment);
    let push = stepline::otlp::push::Push::start(&config).unwrap().unwrap();
    Signal::ALL.into_iter().for_each(|signal| push.send(export(signal, 0, 10, 0)));
    let outcome = finish(push);
    assert_eq!(outcome.deliveries, [delivered(10), delivered(0), delivered(10)]);
    assert_exact([10, 0, 10], &outcome, &sink);
    assert_eq!(sink.requests_of(Signal::Traces)[0].path, "/own-traces");
    assert_eq!(sink.requests_of(Signal::Logs)[0].wire, Wire::Grpc);
}

#[test]
fn without_an_endpoint_there_is_nothing_to_start() {
    let config = config(&stepline::config::Settings::default());
    assert!(stepline::otlp::push::Push::start(&config).unwrap().is_none());
}
