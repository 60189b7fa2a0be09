//! What is probably wrong, for people: from what came back and from where it came.

use std::error::Error;
use std::io;

use crate::config::Url;

/// Which protocol was spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// HTTP/1.1.
    #[cfg_attr(not(feature = "http"), allow(dead_code))]
    Http,
    /// HTTP/2 with gRPC in it.
    #[cfg_attr(not(feature = "grpc"), allow(dead_code))]
    Grpc,
}

/// The protocols seem to be mixed up, to judge by the first bytes that came back, or by the port where none came.
pub(super) fn mixed_up(wire: Wire, first: &[u8], url: &Url) -> Option<String> {
    let port = url.port_or_default();
    // A TLS record: an alert.
    if !url.secure && first.starts_with(&[0x15, 0x03]) {
        return Some(format!("the server on port {port} speaks TLS: the endpoint should begin with https://"));
    }
    match wire {
        Wire::Http if is_http2(first) => Some(format!(
            "the server on port {port} speaks gRPC, not HTTP: set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or use its HTTP port (usually 4318)"
        )),
        Wire::Grpc if first.starts_with(b"HTTP/1.") => Some(format!(
            "the server on port {port} speaks HTTP, not gRPC: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or use its gRPC port (usually 4317)"
        )),
        Wire::Http if first.is_empty() && port == 4317 => Some(
            "it closed the connection without an answer. Port 4317 is usually gRPC's: set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or use port 4318"
                .to_owned(),
        ),
        // A server of HTTP/2 speaks first.
        Wire::Grpc if first.is_empty() => Some(format!(
            "it closed the connection without a word of HTTP/2: is it a gRPC server? \
             Port {port} may be one for HTTP (OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf); gRPC's is usually 4317"
        )),
        _ => None,
    }
}

/// A SETTINGS frame on stream 0: the first thing that a server says in HTTP/2.
fn is_http2(first: &[u8]) -> bool {
    first.len() >= 9 && first[0] == 0 && first[3] == 4 && first[5..9] == [0; 4]
}

/// An error of a connection, for people.
#[derive(Debug)]
pub(super) struct Trouble {
    /// All that stands behind it, in one line.
    pub(super) text: String,
    /// Whether it is about TLS, in which case nothing else needs to be guessed.
    pub(super) is_tls: bool,
}

impl Trouble {
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut text = String::new();
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(tls) = tls_error(error) {
                return Self { text: tls_trouble(tls), is_tls: true };
            }
            let part = error.to_string();
            if !text.contains(&part) {
                if !text.is_empty() {
                    text.push_str(": ");
                }
                text.push_str(&part);
            }
            next = error.source();
        }
        Self { text, is_tls: false }
    }
}

fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    error
        .downcast_ref::<rustls::Error>()
        .or_else(|| error.downcast_ref::<io::Error>().and_then(io::Error::get_ref).and_then(|inner| inner.downcast_ref()))
}

fn tls_trouble(error: &rustls::Error) -> String {
    use rustls::{AlertDescription, CertificateError};
    match error {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the server's certificate has expired".to_owned(),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet: is the clock of this host right?".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the server's certificate is for another host than the endpoint names".to_owned()
            }
            // The signature is bad where another authority of the same name is trusted.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "nobody whom this host trusts has signed the server's certificate: \
                 set OTEL_EXPORTER_OTLP_CERTIFICATE to the file of the authority that did"
                    .to_owned()
            }
            other => format!("the server's certificate is not accepted: {other:?}"),
        },
        rustls::Error::InvalidMessage(_) => "the server does not speak TLS here: the endpoint should perhaps begin with http://".to_owned(),
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::HandshakeFailure,
        ) => "the server does not accept this client: does it want a certificate? \
             Set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY"
            .to_owned(),
        other => format!("TLS failed: {other}"),
    }
}

/// Nobody listens.
pub(super) fn refused(url: &Url) -> String {
    let mut text = format!("nothing listens on {}:{} (connection refused): is a collector running there?", url.host, url.port_or_default());
    if url.is_loopback() && in_container() {
        text.push_str(&format!(
            " This process is in a container, where {} is the container itself: a collector outside has another name",
            url.host
        ));
    }
    text
}

/// Whether this process is in a container, as far as its files tell.
fn in_container() -> bool {
    #[cfg(target_os = "linux")]
    {
        let marked = ["/.dockerenv", "/run/.containerenv"].iter().any(|path| std::path::Path::new(path).exists());
        marked || std::fs::read_to_string("/proc/1/cgroup").is_ok_and(|text| text.contains("docker") || text.contains("kubepods"))
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

/// What a status that is no success may mean, where it is worth a hint.
#[cfg(feature = "http")]
pub(super) fn of_status(status: u16, url: &Url) -> Option<String> {
    match status {
        401 | 403 => Some("are the headers right (OTEL_EXPORTER_OTLP_HEADERS)?".to_owned()),
        404 | 405 => Some(format!(
            "is {:?} the right path? OTEL_EXPORTER_OTLP_ENDPOINT is a base to which /v1/<signal> is appended; that of a signal is taken as it is",
            url.path
        )),
        413 => Some("the server takes no body of this size".to_owned()),
        415 => Some("does the server take this protocol and compression?".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn mix_ups_are_recognised() {
        let settings = [0, 0, 18, 4, 0, 0, 0, 0, 0, 0, 3];
        for (wire, first, url, expected) in [
            (Wire::Http, &settings[..], "http://h:4317", Some("speaks gRPC")),
            (Wire::Grpc, b"HTTP/1.1 400 Bad Request", "http://h:4318", Some("speaks HTTP")),
            (Wire::Http, b"", "http://h:4317", Some("4317")),
            (Wire::Grpc, b"", "http://h:4318", Some("4318 may be one for HTTP")),
            (Wire::Http, &[0x15, 3, 1, 0, 2], "http://h:4318", Some("https://")),
            (Wire::Http, b"HTTP/1.1 200 OK", "http://h:4318", None),
            (Wire::Grpc, &settings[..], "http://h:4317", None),
            (Wire::Http, b"", "http://h:4318", None),
        ] {
            let found = mixed_up(wire, first, &Url::parse(url).unwrap());
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(expected.is_none_or(|part| found.clone().unwrap().contains(part)), "{found:?}");
        }
    }

    #[test]
    fn refusals_name_the_place() {
        assert!(refused(&Url::parse("http://example.com").unwrap()).contains("example.com:80 (connection refused)"));
    }
}
