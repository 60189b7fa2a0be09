//! TLS: whom the client trusts, who it says it is, and what it says when that does not work. Certificates are made here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use stepline::config::{Protocol, Settings};
use stepline::model::Signal;

use super::data::export;
use super::{assert_exact, dropped, endpoint, finish, push, settings};
use crate::support::otlp_sink::{Behaviour, OtlpSink};

const PROTOCOLS: [Protocol; 2] = [Protocol::HttpProtobuf, Protocol::Grpc];

/// An authority, and what it signs.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, directory: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The file to trust.
    fn file(&self) -> PathBuf {
        self.write("ca.pem", &self.issuer.pem())
    }

    fn sign(&self, host: &str, has_expired: bool) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        if has_expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Files of a client's certificate and key.
    fn client(&self) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.sign("client", false);
        (self.write("client.pem", &certificate.pem()), self.write("client.key", &key.serialize_pem()))
    }

    fn server(&self, host: &str, has_expired: bool, wants_client: bool) -> ServerConfig {
        let (certificate, key) = self.sign(host, has_expired);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
        let builder = if wants_client {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(self.issuer.der().to_vec())).unwrap();
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }
}

fn arrives(sink: &OtlpSink, settings: &Settings) {
    let push = push(settings);
    Signal::ALL.into_iter().for_each(|signal| push.send(export(signal, 0, 10, 0)));
    assert_exact([10; 3], &finish(push), sink);
}

/// The one line that is said about it.
fn fails(settings: &Settings) -> String {
    let push = push(settings);
    push.send(export(Signal::Traces, 0, 10, 0));
    let outcome = push.finish(Instant::now() + Duration::from_millis(1500));
    assert_eq!(outcome.deliveries[0], dropped(10));
    outcome.reasons.join("\n")
}

fn trusting(certificate: &Path, settings: Settings) -> Settings {
    Settings { certificate: Some(certificate.to_owned()), ..settings }
}

#[test]
fn an_own_authority_is_trusted_when_it_is_named() {
    let authority = Authority::new();
    for protocol in PROTOCOLS {
        let sink = OtlpSink::start_secure(authority.server("127.0.0.1", false, false), |_, _| Behaviour::Accept);
        arrives(&sink, &trusting(&authority.file(), settings(endpoint(&sink, protocol), protocol)));
        let stranger = Authority::new();
        let said = fails(&trusting(&stranger.file(), settings(endpoint(&sink, protocol), protocol)));
        assert!(said.contains("OTEL_EXPORTER_OTLP_CERTIFICATE"), "{said}");
    }
    // Nobody's default was set on the way: it is the application's.
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

#[test]
fn a_certificate_that_is_not_right_is_not_trusted() {
    let authority = Authority::new();
    for protocol in PROTOCOLS {
        for (host, has_expired, expected) in [("example.com", false, "is for another host"), ("127.0.0.1", true, "has expired")] {
            let sink = OtlpSink::start_secure(authority.server(host, has_expired, false), |_, _| Behaviour::Accept);
            let said = fails(&trusting(&authority.file(), settings(endpoint(&sink, protocol), protocol)));
            assert!(said.contains(expected), "{said}");
            assert!(sink.requests().is_empty());
        }
    }
}

#[test]
fn the_client_says_who_it_is() {
    let authority = Authority::new();
    let (client_certificate, client_key) = authority.client();
    for protocol in PROTOCOLS {
        let sink = OtlpSink::start_secure(authority.server("127.0.0.1", false, true), |_, _| Behaviour::Accept);
        let bare = trusting(&authority.file(), settings(endpoint(&sink, protocol), protocol));
        let said = fails(&bare);
        assert!(said.contains("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"), "{protocol:?} {said}");
        let known = Settings { client_certificate: Some(client_certificate.clone()), client_key: Some(client_key.clone()), ..bare.clone() };
        arrives(&sink, &known);
        let said = fails(&Settings { client_key: Some("/nowhere/client.key".into()), ..known });
        assert!(said.contains("/nowhere/client.key cannot be read"), "{said}");
    }
}

#[test]
fn plain_and_secure_mixed_up_is_said() {
    let authority = Authority::new();
    let sink = OtlpSink::start_secure(authority.server("127.0.0.1", false, false), |_, _| Behaviour::Accept);
    for protocol in PROTOCOLS {
        let said = fails(&settings(endpoint(&sink, protocol).replace("https:", "http:"), protocol));
        assert!(said.contains("speaks TLS: the endpoint should begin with https://"), "{protocol:?} {said}");
    }
}
