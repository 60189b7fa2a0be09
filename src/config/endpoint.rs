//! Where each signal is sent, and how: the `OTEL_EXPORTER_OTLP_` variables, general and per signal.
//!
//! The rules: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;

use super::describe::Origin;
use super::pairs::pairs;
use super::proxy::proxy_for;
use super::settings::{Compression, Settings};
use super::url::Url;
use super::value::{Bad, Finder, Read, any_path, milliseconds, otel_switch, show_milliseconds, show_path, shown, yes_or_no_otel};
use super::variables::{self as name, of_signal};
use super::{Endpoint, Protocol};
use crate::model::Signal;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const MOST_TIMEOUT: Duration = Duration::from_secs(600);

/// Where the specification sends things when nobody says where.
const DEFAULT_HTTP: &str = "http://localhost:4318";
const DEFAULT_GRPC: &str = "http://localhost:4317";
const GRPC_PORT: u16 = 4317;

/// Headers that are the transport's own.
const RESERVED_HEADERS: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "grpc-encoding",
    "grpc-timeout",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The endpoint of one signal; `None`: it is not sent.
pub(super) fn endpoint(finder: &mut Finder<'_>, settings: &Settings, signal: Signal) -> Option<Endpoint> {
    let wanted = wanted(finder, signal);
    if wanted == Some(false) {
        return None;
    }
    let setting = |what: &str| Cow::Owned(format!("{}_{what}", signal.name()));
    let names = |general: &'static str| [of_signal(general, signal), Cow::Borrowed(general)];
    let protocol = finder.find(setting("protocol"), settings.protocol, &names(name::PROTOCOL), Protocol::default(), protocol, |protocol| {
        protocol.name().to_owned()
    });
    let insecure = finder.find(setting("insecure"), None, &names(name::INSECURE), false, otel_switch, yes_or_no_otel);
    let target = target(finder, settings, signal, Meaning { protocol, insecure }, wanted == Some(true))?;
    if !protocol.is_built_in() {
        finder.warn(format!(
            "the protocol {} is not built into this program: no {} are sent. Build stepline with the feature {:?}",
            protocol.name(),
            signal.name(),
            if protocol == Protocol::Grpc { "grpc" } else { "http" },
        ));
        return None;
    }
    let timeout = finder.find(setting("timeout"), settings.timeout, &names(name::TIMEOUT), DEFAULT_TIMEOUT, timeout, show_milliseconds);
    let compression = finder.find(
        setting("compression"),
        settings.compression,
        &names(name::COMPRESSION),
        Compression::None,
        compression,
        |compression| match compression {
            Compression::None => "none".to_owned(),
            Compression::Gzip => "gzip".to_owned(),
        },
    );
    let mut file = |what: &str, code: &Option<PathBuf>, variable: &'static str| {
        finder.find(setting(what), code.clone().map(Some), &names(variable), None, any_path, show_path)
    };
    let certificate = file("certificate", &settings.certificate, name::CERTIFICATE);
    let mut client_key = file("client_key", &settings.client_key, name::CLIENT_KEY);
    let mut client_certificate = file("client_certificate", &settings.client_certificate, name::CLIENT_CERTIFICATE);
    if client_key.is_some() != client_certificate.is_some() {
        finder.warn(format!(
            "a client's key and its certificate belong together, and only one is set: neither is used. Set {} and {}",
            name::CLIENT_KEY,
            name::CLIENT_CERTIFICATE
        ));
        (client_key, client_certificate) = (None, None);
    }
    let mut headers = headers(finder, settings, signal);
    if let Some(user) = &target.user
        && !headers.iter().any(|(name, _)| name == "authorization")
    {
        headers.push(("authorization".to_owned(), basic(user)));
    }
    let proxy = proxy_for(finder.environment, &target).unwrap_or_else(|fault| {
        finder.warn(fault);
        None
    });
    Some(Endpoint {
        protocol,
        url: target.to_string(),
        headers,
        timeout,
        gzip: compression == Compression::Gzip,
        certificate,
        client_key,
        client_certificate,
        proxy,
    })
}

/// `OTEL_TRACES_EXPORTER` and its like: whether the signal is to be sent by OTLP. `None`: nobody says.
fn wanted(finder: &mut Finder<'_>, signal: Signal) -> Option<bool> {
    let variable = format!("OTEL_{}_EXPORTER", signal.name().to_uppercase());
    let value = finder.environment.get(&variable)?.to_owned();
    let mut wanted = None;
    for exporter in value.split(',').map(str::trim).filter(|exporter| !exporter.is_empty()) {
        match exporter.to_ascii_lowercase().as_str() {
            "otlp" => wanted = Some(true),
            "none" => wanted = wanted.or(Some(false)),
            "console" | "logging" | "zipkin" | "jaeger" | "prometheus" => {
                wanted = wanted.or(Some(false));
                finder.warn(format!(
                    "{variable}={} names the exporter {exporter:?}, which is not supported: it is left out. The files of a run ({}) hold everything",
                    shown(&value),
                    name::DIR
                ));
            }
            _ => finder
                .warn(format!("{variable}={} names an exporter that is not known: it is left out. Known are otlp and none", shown(&value))),
        }
    }
    if wanted == Some(false) {
        finder.origins.set(format!("{}_endpoint", signal.name()), Origin::Variable(variable.into()));
    }
    wanted
}

/// What decides how the text of an endpoint is meant.
#[derive(Clone, Copy)]
struct Meaning {
    protocol: Protocol,
    insecure: bool,
}

fn target(finder: &mut Finder<'_>, settings: &Settings, signal: Signal, meaning: Meaning, wanted: bool) -> Option<Url> {
    let own = of_signal(name::ENDPOINT, signal);
    let environment = finder.environment;
    let candidates = [
        (settings.endpoint.as_deref(), Origin::Code, true),
        (environment.get(&own), Origin::Variable(own.clone()), false),
        (environment.get(name::ENDPOINT), Origin::Variable(name::ENDPOINT.into()), true),
        (wanted.then_some(if meaning.protocol == Protocol::Grpc { DEFAULT_GRPC } else { DEFAULT_HTTP }), Origin::Default, true),
    ];
    let mut faults = Vec::new();
    let mut found = None;
    for (text, origin, is_base) in candidates {
        let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { continue };
        let read = match meaning.protocol {
            Protocol::Grpc => grpc_target(text, meaning.insecure),
            Protocol::HttpProtobuf | Protocol::HttpJson => http_target(text, is_base, signal),
        };
        let mut complain = |why: &str| {
            let place = if origin == Origin::Code { "the endpoint set in code".to_owned() } else { origin.to_string() };
            faults.push(format!("{place}={} {why}", shown(without_secrets(text))));
        };
        let url = match read {
            Ok(url) => Some(url),
            Err(bad) => {
                complain(&bad.why);
                bad.instead.map(|value| *value)
            }
        };
        if let Some(url) = url {
            found = Some((url, origin));
            break;
        }
    }
    for fault in faults {
        finder.warn(match &found {
            Some((url, _)) => format!("{fault}: {} is used", url.shown()),
            None => format!("{fault}: no {} are sent. Write it like {DEFAULT_HTTP}", signal.name()),
        });
    }
    let (url, origin) = found?;
    finder.origins.set(format!("{}_endpoint", signal.name()), origin);
    Some(url)
}

fn http_target(text: &str, is_base: bool, signal: Signal) -> Read<Url> {
    let (mut url, mut complaint) = match Url::parse(text) {
        Ok(url) => (url, None),
        // `localhost:4318`: what is meant is plain, although the specification wants the scheme.
        Err(why) if !text.contains("://") => match Url::parse_rest(false, text) {
            Ok(url) => (url, Some(why.to_owned())),
            Err(why) => return Err(Bad::new(why)),
        },
        Err(why) => return Err(Bad::new(why)),
    };
    if !is_base {
        if url.path.is_empty() {
            url.path.push('/');
        }
    } else {
        let mut base = url.path.trim_end_matches('/').to_owned();
        for other in Signal::ALL {
            if let Some(shorter) = base.strip_suffix(&format!("/v1/{}", other.name())) {
                base = shorter.to_owned();
                complaint = Some(format!("is a base, to which /v1/{} is appended, and needs no /v1/{}", signal.name(), other.name()));
                break;
            }
        }
        url.path = format!("{base}/v1/{}", signal.name());
    }
    match complaint {
        None => Ok(url),
        Some(why) => Err(Bad::but(why, url)),
    }
}

fn grpc_target(text: &str, insecure: bool) -> Read<Url> {
    let parsed = if text.contains("://") {
        Url::parse(text)
    } else {
        Url::parse_rest(!insecure, text).map(|url| Url { port: url.port.or(Some(GRPC_PORT)), ..url })
    };
    let mut url = parsed.map_err(Bad::new)?;
    let has_path = !url.path.trim_end_matches('/').is_empty() || url.query.is_some();
    url.path.clear();
    url.query = None;
    if has_path {
        return Err(Bad::but("has a path, which gRPC does not take".to_owned(), url));
    }
    Ok(url)
}

/// The text of an endpoint without a user and a query, whether it is a URL or not.
fn without_secrets(text: &str) -> &str {
    let text = text.split_once('?').map_or(text, |(before, _)| before);
    text.rsplit_once('@').map_or(text, |(_, behind)| behind)
}

fn protocol(text: &str) -> Read<Protocol> {
    match text.to_ascii_lowercase().as_str() {
        "http/protobuf" => Ok(Protocol::HttpProtobuf),
        "http/json" => Ok(Protocol::HttpJson),
        "grpc" => Ok(Protocol::Grpc),
        _ => Err(Bad::new("is none of http/protobuf, http/json, grpc")),
    }
}

fn compression(text: &str) -> Read<Compression> {
    match text.to_ascii_lowercase().as_str() {
        "none" => Ok(Compression::None),
        "gzip" => Ok(Compression::Gzip),
        _ => Err(Bad::new("is neither gzip nor none")),
    }
}

fn timeout(text: &str) -> Read<Duration> {
    match text.parse::<u64>() {
        Ok(0) => Err(Bad::new("leaves no time at all")),
        _ => milliseconds(text, Duration::from_millis(1), MOST_TIMEOUT),
    }
}

/// The headers of one signal: those of its own variable, else the general one's, and over them those set in code.
fn headers(finder: &mut Finder<'_>, settings: &Settings, signal: Signal) -> Vec<(String, String)> {
    let own = of_signal(name::HEADERS, signal);
    let variable = if finder.environment.get(&own).is_some() { own } else { name::HEADERS.into() };
    let environment = finder.environment;
    let mut headers: Vec<(String, String)> = Vec::new();
    for pair in environment.get(&variable).into_iter().flat_map(pairs) {
        match pair.and_then(|(name, value)| header(&name, value)) {
            Ok(header) => put(&mut headers, header),
            Err(why) => finder.warn(format!("{variable}: {why}: this header is left out (values are not shown)")),
        }
    }
    if !headers.is_empty() {
        finder.origins.set(format!("{}_headers", signal.name()), Origin::Variable(variable));
    }
    for (name, value) in &settings.headers {
        match header(name, value.clone()) {
            Ok(header) => {
                put(&mut headers, header);
                finder.origins.set(format!("{}_headers", signal.name()), Origin::Code);
            }
            Err(why) => finder.warn(format!("headers set in code: {why}: this header is left out (values are not shown)")),
        }
    }
    headers
}

fn put(headers: &mut Vec<(String, String)>, header: (String, String)) {
    headers.retain(|(name, _)| *name != header.0);
    headers.push(header);
}

fn header(name: &str, value: String) -> Result<(String, String), String> {
    let name = name.trim().to_ascii_lowercase();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("{} is no name of a header", shown(&name)));
    }
    if RESERVED_HEADERS.contains(&name.as_str()) {
        return Err(format!("{name} is the transport's own"));
    }
    if !value.chars().all(|c| c == '\t' || (' '..='~').contains(&c)) {
        return Err(format!("the value of {name} holds a letter that no header takes"));
    }
    Ok((name, value))
}

/// `user:password` of a URL as a header.
fn basic(user: &str) -> String {
    let decoded = pairs(&format!("user={user}")).next().and_then(Result::ok).map_or_else(|| user.to_owned(), |(_, value)| value);
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(decoded))
}
