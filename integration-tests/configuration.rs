//! From variables to what arrives at a server.

use std::time::{Duration, Instant};

use stepline::config::{Config, Environment, Protocol, Settings, resolve, variables_table};
use stepline::model::Signal;
use stepline::otlp::push::{Export, Push};

use crate::support::otlp_sink::{OtlpSink, Received, Wire};

fn resolved(variables: &[(&str, String)]) -> Config {
    resolve(&Settings::default(), &Environment::of(variables.iter().map(|(name, value)| (*name, value.as_str()))))
}

/// Sends one span, one point and one event with the configuration that these variables make; what arrived.
fn arrived(sink: &OtlpSink, variables: &[(&str, String)]) -> Vec<Received> {
    let config = resolved(variables);
    let push = Push::start(&config).unwrap().expect("an endpoint");
    for signal in Signal::ALL {
        push.send(one(signal));
    }
    let outcome = push.finish(Instant::now() + Duration::from_secs(20));
    assert_eq!(outcome.reasons, Vec::<String>::new());
    assert_eq!(sink.faults(), Vec::<String>::new());
    sink.requests()
}

fn one(signal: Signal) -> Export {
    let line = match signal {
        Signal::Traces => {
            r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01010101010101010101010101010101","spanId":"0202020202020202","name":"a"}]}]}]}"#
        }
        Signal::Metrics => {
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","gauge":{"dataPoints":[{"timeUnixNano":"1","asInt":"2"}]}}]}]}]}"#
        }
        Signal::Logs => r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1","eventName":"a"}]}]}]}"#,
    };
    match signal {
        Signal::Traces => Export::Traces(serde_json::from_str(line).unwrap()),
        Signal::Metrics => Export::Metrics(serde_json::from_str(line).unwrap()),
        Signal::Logs => Export::Logs(serde_json::from_str(line).unwrap()),
    }
}

fn paths(requests: &[Received]) -> Vec<&str> {
    let mut paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    paths.sort_unstable();
    paths
}

#[test]
fn the_base_and_its_paths() {
    for (tail, base) in [("", ""), ("/", ""), ("/some/base", "/some/base"), ("/some/base/", "/some/base"), ("/v1/traces", "")] {
        let sink = OtlpSink::accepting();
        let requests = arrived(&sink, &[("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}{tail}", sink.http_endpoint()))]);
        assert_eq!(paths(&requests), ["logs", "metrics", "traces"].map(|signal| format!("{base}/v1/{signal}")), "{tail}");
    }
}

#[test]
fn each_signal_its_own_way() {
    let sink = OtlpSink::accepting();
    let requests = arrived(
        &sink,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", sink.http_endpoint()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json".to_owned()),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("{}/own-metrics", sink.http_endpoint())),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf".to_owned()),
            ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip".to_owned()),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", sink.grpc_endpoint().replace("http://", "")),
            ("OTEL_EXPORTER_OTLP_LOGS_INSECURE", "true".to_owned()),
            ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc".to_owned()),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-general=a%20b,x-both=1=2".to_owned()),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "x-logs=c".to_owned()),
        ],
    );
    let of = |signal: Signal| requests.iter().find(|request| request.request.signal() == signal).unwrap();
    let (traces, metrics, logs) = (of(Signal::Traces), of(Signal::Metrics), of(Signal::Logs));
    assert_eq!((traces.wire, metrics.wire, logs.wire), (Wire::HttpJson, Wire::HttpProtobuf, Wire::Grpc));
    assert_eq!((traces.path.as_str(), metrics.path.as_str()), ("/v1/traces", "/own-metrics"));
    assert_eq!((traces.header("content-encoding"), metrics.header("content-encoding")), (None, Some("gzip")));
    assert_eq!((traces.header("x-general"), traces.header("x-both")), (Some("a b"), Some("1=2")));
    assert_eq!((logs.header("x-general"), logs.header("x-logs")), (None, Some("c")));
}

#[test]
fn signals_can_be_switched_off() {
    let sink = OtlpSink::accepting();
    let requests = arrived(
        &sink,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", sink.http_endpoint()),
            ("OTEL_METRICS_EXPORTER", "none".to_owned()),
            ("OTEL_LOGS_EXPORTER", "console".to_owned()),
        ],
    );
    assert_eq!(paths(&requests), ["/v1/traces"]);
}

#[test]
fn the_time_of_one_attempt_is_in_milliseconds() {
    use crate::support::otlp_sink::Behaviour;
    let sink = OtlpSink::start(|_, number| if number == 0 { Behaviour::BlackHole } else { Behaviour::Accept });
    let begin = Instant::now();
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/v1/traces", sink.http_endpoint())),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "250".to_owned()),
    ];
    assert_eq!(arrived(&sink, &variables).len(), 2);
    assert!(begin.elapsed() >= Duration::from_millis(250) && begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn what_is_described_holds_no_secret_and_every_origin() {
    let config = resolved(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:hunter2@example.com/?key=hunter2".to_owned()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2".to_owned()),
        ("STEPLINE_SAMPLE_INTERVAL", "250".to_owned()),
    ]);
    let lines: Vec<String> =
        config.describe().into_iter().map(|described| format!("{} {} {}", described.name, described.value, described.origin)).collect();
    let text = lines.join("\n");
    assert!(!text.contains("hunter2"), "{text}");
    for line in [
        "sample_interval 250ms STEPLINE_SAMPLE_INTERVAL",
        "traces_endpoint https://example.com/v1/traces?.. OTEL_EXPORTER_OTLP_ENDPOINT",
        "logs_headers api-key, authorization (values not shown) OTEL_EXPORTER_OTLP_HEADERS",
        "shutdown_timeout 5s default",
    ] {
        assert!(lines.iter().any(|other| other == line), "{line:?} in\n{text}");
    }
}

#[test]
fn every_variable_has_a_line_in_the_table() {
    let table = variables_table();
    for variable in stepline::config::VARIABLES {
        assert!(table.contains(&format!("| `{}`", variable.name)), "{}", variable.name);
    }
}

#[test]
fn the_defaults_send_nothing_and_write_files() {
    let config = resolved(&[]);
    assert!(Push::start(&config).unwrap().is_none() && config.files);
    let config = resolved(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned()), ("OTEL_EXPORTER_OTLP_HEADERS", "a=b".to_owned())]);
    assert!(Push::start(&config).unwrap().is_none());
    let config = resolved(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9".to_owned())]);
    assert!(config.files && config.traces.is_some_and(|endpoint| endpoint.protocol == Protocol::HttpProtobuf));
}
