#![allow(clippy::unwrap_used)]

use super::*;

const GENERAL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const GRPC: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");

fn resolved(variables: &[(&str, &str)]) -> Config {
    resolve(&Settings::default(), &Environment::of(variables.iter().copied()))
}

fn urls(config: &Config) -> [Option<String>; 3] {
    Signal::ALL.map(|signal| config.endpoint(signal).map(|endpoint| endpoint.url.clone()))
}

#[test]
fn the_base_gets_each_path_once() {
    for (base, expected, warns) in [
        ("http://localhost:4318", "http://localhost:4318/v1/", false),
        ("http://localhost:4318/", "http://localhost:4318/v1/", false),
        ("http://localhost:4318//", "http://localhost:4318/v1/", false),
        ("https://example.com/otlp", "https://example.com/otlp/v1/", false),
        ("https://example.com/otlp/", "https://example.com/otlp/v1/", false),
        ("http://[::1]:4318", "http://[::1]:4318/v1/", false),
        ("http://localhost:4318/v1/traces", "http://localhost:4318/v1/", true),
        ("http://localhost:4318/v1/metrics/", "http://localhost:4318/v1/", true),
        ("localhost:4318", "http://localhost:4318/v1/", true),
    ] {
        let config = resolved(&[(GENERAL, base)]);
        let expected = ["traces", "metrics", "logs"].map(|signal| Some(format!("{expected}{signal}")));
        assert_eq!(urls(&config), expected, "{base}");
        assert_eq!(!config.warnings.is_empty(), warns, "{base} {:?}", config.warnings);
        let settings = Settings { endpoint: Some(base.to_owned()), ..Settings::default() };
        assert_eq!(urls(&resolve(&settings, &Environment::of([(GENERAL, "http://other")]))), expected, "{base}");
    }
    let config = resolved(&[(GENERAL, "http://h/a?key=b")]);
    assert_eq!(urls(&config)[0].as_deref(), Some("http://h/a/v1/traces?key=b"));
}

#[test]
fn that_of_a_signal_is_taken_as_it_is() {
    for (url, expected) in [
        ("http://localhost:4318", "http://localhost:4318/"),
        ("http://localhost:4318/", "http://localhost:4318/"),
        ("http://localhost:4318/custom/", "http://localhost:4318/custom/"),
        ("http://localhost:4318/v1/traces", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/v1/traces?token=a", "http://localhost:4318/v1/traces?token=a"),
    ] {
        let config = resolved(&[(TRACES, url)]);
        assert_eq!(urls(&config), [Some(expected.to_owned()), None, None], "{url}");
        assert!(config.warnings.is_empty());
    }
    let config = resolved(&[(TRACES, "http://a/x"), (GENERAL, "http://b")]);
    assert_eq!(urls(&config), [Some("http://a/x".to_owned()), Some("http://b/v1/metrics".to_owned()), Some("http://b/v1/logs".to_owned())]);
}

#[test]
fn grpc_has_no_path() {
    for (endpoint, insecure, expected, warns) in [
        ("http://localhost:4317", None, "http://localhost:4317", false),
        ("https://localhost:4317/", None, "https://localhost:4317", false),
        ("https://example.com", None, "https://example.com", false),
        ("localhost:4317", None, "https://localhost:4317", false),
        ("localhost:4317", Some("true"), "http://localhost:4317", false),
        ("collector", Some("TRUE"), "http://collector:4317", false),
        ("http://localhost:4317", Some("false"), "http://localhost:4317", false),
        ("http://localhost:4317/v1/traces", None, "http://localhost:4317", true),
        ("[::1]:4317", Some("true"), "http://[::1]:4317", false),
    ] {
        for variable in [GENERAL, TRACES] {
            let mut variables = vec![(variable, endpoint), GRPC];
            variables.extend(insecure.map(|insecure| ("OTEL_EXPORTER_OTLP_INSECURE", insecure)));
            let config = resolved(&variables);
            assert_eq!(urls(&config)[0].as_deref(), Some(expected), "{endpoint}");
            assert_eq!(!config.warnings.is_empty(), warns, "{endpoint} {:?}", config.warnings);
        }
    }
}

#[test]
fn a_bad_endpoint_is_said_and_the_next_one_used() {
    let config = resolved(&[(TRACES, "ftp://user:secret@host/?token=secret"), (GENERAL, "http://b")]);
    assert_eq!(urls(&config)[0].as_deref(), Some("http://b/v1/traces"));
    assert_eq!(config.warnings.len(), 1);
    assert!(config.warnings[0].contains(TRACES) && config.warnings[0].contains("http://b/v1/traces is used"), "{:?}", config.warnings);
    assert!(!config.warnings[0].contains("secret"), "{:?}", config.warnings);

    for bad in ["not a url", "http://", "http://host:99999", "://", "unix:///run/x"] {
        let config = resolved(&[(GENERAL, bad)]);
        assert_eq!(urls(&config), [None, None, None], "{bad}");
        assert!(config.warnings[0].contains(GENERAL) && config.warnings[0].contains("no traces are sent"), "{:?}", config.warnings);
    }
}

#[test]
fn exporters() {
    for (value, expected, warns) in [
        ("otlp", Some("http://b/v1/traces"), false),
        ("OTLP", Some("http://b/v1/traces"), false),
        ("none", None, false),
        ("console", None, true),
        ("otlp,console", Some("http://b/v1/traces"), true),
        ("zipkin", None, true),
        ("nonsense", Some("http://b/v1/traces"), true),
    ] {
        let config = resolved(&[("OTEL_TRACES_EXPORTER", value), (GENERAL, "http://b")]);
        assert_eq!(urls(&config)[0].as_deref(), expected, "{value}");
        assert!(config.metrics.is_some());
        assert_eq!(!config.warnings.is_empty(), warns, "{value} {:?}", config.warnings);
    }
    // Asked for by name, it goes where the specification sends it.
    assert_eq!(urls(&resolved(&[("OTEL_METRICS_EXPORTER", "otlp")])), [None, Some("http://localhost:4318/v1/metrics".to_owned()), None]);
    assert_eq!(urls(&resolved(&[("OTEL_LOGS_EXPORTER", "otlp"), GRPC])), [None, None, Some("http://localhost:4317".to_owned())]);
    let none = resolved(&[("OTEL_TRACES_EXPORTER", "none")]).describe();
    assert_eq!(none.iter().find(|described| described.name == "traces_endpoint").unwrap().origin.to_string(), "OTEL_TRACES_EXPORTER");
}

#[test]
fn precedence_and_origins() {
    let variables = [
        (GENERAL, "http://b"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
        ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "2000"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none"),
    ];
    let config = resolved(&variables);
    let (traces, metrics, logs) = (config.traces.clone().unwrap(), config.metrics.clone().unwrap(), config.logs.clone().unwrap());
    assert_eq!((traces.timeout, logs.timeout), (Duration::from_secs(1), Duration::from_secs(2)));
    assert_eq!((traces.protocol, metrics.protocol), (Protocol::HttpProtobuf, Protocol::HttpJson));
    assert_eq!((traces.gzip, metrics.gzip), (false, true));
    let origin = |name: &str| config.describe().into_iter().find(|described| described.name == name).unwrap().origin.to_string();
    assert_eq!(origin("logs_timeout"), "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT");
    assert_eq!(origin("traces_timeout"), "OTEL_EXPORTER_OTLP_TIMEOUT");
    assert_eq!(origin("traces_protocol"), "default");
    assert_eq!(origin("traces_endpoint"), GENERAL);

    let settings = Settings { endpoint: Some("http://code".to_owned()), timeout: Some(Duration::from_secs(7)), ..Settings::default() };
    let config = resolve(&settings, &Environment::of([(TRACES, "http://a/x"), ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "2000")]));
    assert_eq!(config.traces.clone().unwrap().url, "http://code/v1/traces");
    assert_eq!(config.logs.unwrap().timeout, Duration::from_secs(7));
}

#[test]
fn bad_values_fall_back() {
    for (variable, value, used) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http", "http/protobuf is used"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "10000 ms is used"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0", "10000 ms is used"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "none is used"),
        ("OTEL_EXPORTER_OTLP_INSECURE", "maybe", "false is used"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta", "cumulative is used"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key", "neither is used"),
    ] {
        let config = resolved(&[(variable, value), (GENERAL, "http://b")]);
        assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
        assert!(config.warnings[0].contains(variable) && config.warnings[0].contains(used), "{:?}", config.warnings);
        assert!(config.traces.is_some());
    }
}

#[test]
fn headers_are_decoded_and_never_shown() {
    let variables = [
        (GENERAL, "https://user:p%40ss@b"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "API-Key=top%20secret,x=a=b==,content-type=secret,bad secret,y=%zz"),
    ];
    let settings = Settings { headers: vec![("x".to_owned(), "code-secret".to_owned())], ..Settings::default() };
    let config = resolve(&settings, &Environment::of(variables));
    let endpoint = config.traces.clone().unwrap();
    let expected = [("api-key", "top secret"), ("x", "code-secret"), ("authorization", "Basic dXNlcjpwQHNz")];
    assert_eq!(endpoint.headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(endpoint.url, "https://b/v1/traces");
    assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
    let everything = format!("{:?} {:?} {settings:?} {config:?}", config.warnings, config.describe());
    for secret in ["secret", "p%40ss", "p@ss", "dXNlcj"] {
        assert!(!everything.contains(secret), "{secret} in {everything}");
    }
    assert!(everything.contains("api-key"));

    // That of a signal stands in the place of the general one.
    let config = resolved(&[(GENERAL, "http://b"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"), ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "b=2")]);
    assert_eq!(config.traces.unwrap().headers, [("a".to_owned(), "1".to_owned())]);
    assert_eq!(config.logs.unwrap().headers, [("b".to_owned(), "2".to_owned())]);
}
