//! TLS, with everything said explicitly: whose cryptography, whom to trust, who we are. Never the process's default, which another
//! crate may have set or not.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::hints::Wire;
use crate::config::Endpoint;

/// What a TLS configuration is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    wire: Wire,
    certificate: Option<PathBuf>,
    client_key: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
}

/// The configurations that were made. The system's certificates take a megabyte: signals that agree share them.
#[derive(Debug, Default)]
pub(super) struct TlsConfigs {
    made: RefCell<Vec<(Key, Arc<ClientConfig>)>>,
}

impl TlsConfigs {
    /// The configuration for an endpoint. Files are read anew until they can be used.
    ///
    /// # Errors
    /// What is wrong with the files, for people.
    pub(super) fn of(&self, endpoint: &Endpoint, wire: Wire) -> Result<Arc<ClientConfig>, String> {
        let key = Key {
            wire,
            certificate: endpoint.certificate.clone(),
            client_key: endpoint.client_key.clone(),
            client_certificate: endpoint.client_certificate.clone(),
        };
        if let Some((_, config)) = self.made.borrow().iter().find(|(other, _)| *other == key) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(made(&key)?);
        self.made.borrow_mut().push((key, Arc::clone(&config)));
        Ok(config)
    }
}

fn made(key: &Key) -> Result<ClientConfig, String> {
    let roots = roots(key.certificate.as_deref())?;
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_root_certificates(roots);
    let mut config = match (&key.client_certificate, &key.client_key) {
        (Some(certificate), Some(private)) => {
            let chain = certificates(certificate)?;
            let private_key = PrivateKeyDer::from_pem_slice(&read(private)?)
                .map_err(|_| format!("{} holds no private key in PEM form", private.display()))?;
            builder
                .with_client_auth_cert(chain, private_key)
                .map_err(|error| format!("the client's key {} cannot be used: {error}", private.display()))?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![match key.wire {
        Wire::Http => b"http/1.1".to_vec(),
        Wire::Grpc => b"h2".to_vec(),
    }];
    // One connection for a whole run has no use for a memory of sessions.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

fn roots(own: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = own {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| format!("{} holds a certificate that cannot be used: {error}", path.display()))?;
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(
            "this system has no certificates to trust: install them (ca-certificates), or set OTEL_EXPORTER_OTLP_CERTIFICATE".to_owned()
        );
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok).collect();
    if found.is_empty() {
        return Err(format!("{} holds no certificate in PEM form", path.display()));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Protocol;

    #[test]
    fn a_bad_file_is_an_error_with_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty.pem");
        fs::write(&empty, "nothing").unwrap();
        let endpoint = |certificate: Option<PathBuf>, client: Option<PathBuf>| Endpoint {
            protocol: Protocol::HttpProtobuf,
            url: "https://localhost/".to_owned(),
            headers: Vec::new(),
            timeout: Duration::from_secs(1),
            gzip: false,
            certificate,
            client_key: client.clone(),
            client_certificate: client,
            proxy: None,
        };
        let configs = TlsConfigs::default();
        for (endpoint, expected) in [
            (endpoint(Some(empty.clone()), None), "empty.pem holds no certificate"),
            (endpoint(Some("/nowhere/ca.pem".into()), None), "/nowhere/ca.pem cannot be read"),
            (endpoint(None, Some("/nowhere/client.pem".into())), "/nowhere/client.pem cannot be read"),
        ] {
            // A host without any certificates says that first.
            let why = configs.of(&endpoint, Wire::Http).unwrap_err();
            assert!(why.contains(expected) || why.contains("no certificates to trust"), "{why}");
        }
    }
}
