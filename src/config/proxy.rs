//! Which proxy stands before an endpoint: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, also in lower case, as curl has them.

use std::fmt;
use std::net::IpAddr;

use super::environment::Environment;
use super::url::Url;

/// A proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Where it is.
    pub url: Url,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proxy").field(&self.url.shown()).finish()
    }
}

/// The proxy for an endpoint, or what is wrong with the variable that names it.
pub(super) fn proxy_for(environment: &Environment, url: &Url) -> Result<Option<Proxy>, String> {
    // What runs on this very host is never behind a proxy, whatever the variables forgot to exempt.
    if url.is_loopback() {
        return Ok(None);
    }
    let either = |names: [&'static str; 2]| names.into_iter().find_map(|name| environment.get(name).map(|value| (name, value)));
    let own = if url.secure { ["https_proxy", "HTTPS_PROXY"] } else { ["http_proxy", "HTTP_PROXY"] };
    let Some((name, value)) = either(own).or_else(|| either(["all_proxy", "ALL_PROXY"])) else {
        return Ok(None);
    };
    if let Some((_, exempt)) = either(["no_proxy", "NO_PROXY"])
        && is_exempt(exempt, url)
    {
        return Ok(None);
    }
    let parsed = if value.contains("://") { Url::parse(value) } else { Url::parse_rest(false, value) };
    match parsed {
        Ok(url) if url.secure => Err(format!("{name} names a proxy that is spoken to by https, which is not supported: no proxy is used")),
        Ok(url) => Ok(Some(Proxy { url })),
        Err(why) => Err(format!("{name} {why}: no proxy is used")),
    }
}

/// Whether a list of hosts holds this one.
fn is_exempt(list: &str, url: &Url) -> bool {
    let host = url.host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        if entry == "*" {
            return true;
        }
        let entry = entry.to_ascii_lowercase();
        if let (Some(address), Some((network, bits))) = (address, entry.split_once('/')) {
            return network.parse().is_ok_and(|network| bits.parse().is_ok_and(|bits| contains(network, bits, address)));
        }
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') => (name.to_owned(), port.parse().ok()),
            _ => (entry.trim_matches(['[', ']']).to_owned(), None::<u16>),
        };
        if port.is_some_and(|port| port != url.port_or_default()) {
            return false;
        }
        let name = name.trim_start_matches("*.").trim_start_matches('.').trim_end_matches('.');
        host == name || (address.is_none() && host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')))
    })
}

fn contains(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(network) & mask == u32::from(address) & mask
        }
        (IpAddr::V6(network), IpAddr::V6(address)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(network) & mask == u128::from(address) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn proxy(variables: &[(&str, &str)], url: &str) -> Result<Option<String>, String> {
        let environment = Environment::of(variables.iter().copied());
        proxy_for(&environment, &Url::parse(url).unwrap()).map(|proxy| proxy.map(|proxy| proxy.url.to_string()))
    }

    #[test]
    fn by_scheme() {
        let both = [("HTTPS_PROXY", "http://secure:1"), ("http_proxy", "plain:2"), ("ALL_PROXY", "http://all:3")];
        assert_eq!(proxy(&both, "https://otlp.example.com"), Ok(Some("http://secure:1".to_owned())));
        assert_eq!(proxy(&both, "http://otlp.example.com"), Ok(Some("http://plain:2".to_owned())));
        assert_eq!(proxy(&both[2..], "http://otlp.example.com"), Ok(Some("http://all:3".to_owned())));
        assert_eq!(proxy(&[], "http://otlp.example.com"), Ok(None));
    }

    #[test]
    fn never_for_this_host() {
        for url in ["http://localhost:4318", "http://127.0.0.1:4318", "http://[::1]:4318", "http://127.8.8.8"] {
            assert_eq!(proxy(&[("HTTP_PROXY", "http://proxy:1")], url), Ok(None), "{url}");
        }
    }

    #[test]
    fn exempt_hosts() {
        for (list, url, exempt) in [
            ("*", "http://a.b", true),
            ("example.com", "http://otlp.example.com", true),
            (".example.com", "http://otlp.example.com", true),
            ("*.example.com", "http://otlp.example.com", true),
            ("example.com", "http://example.com", true),
            ("example.com", "http://badexample.com", false),
            ("a, example.com:4318", "http://example.com:4318", true),
            ("example.com:4318", "http://example.com:4319", false),
            ("10.0.0.0/8", "http://10.1.2.3:4318", true),
            ("10.0.0.0/8", "http://11.1.2.3:4318", false),
            ("0.0.0.0/0", "http://11.1.2.3:4318", true),
            ("10.1.2.3", "http://10.1.2.3", true),
            ("fd00::/8", "http://[fd00::1]:4318", true),
            ("fd00::1", "http://[fd00::1]:4318", true),
            ("2.3", "http://10.1.2.3", false),
        ] {
            let found = proxy(&[("HTTP_PROXY", "http://proxy:1"), ("NO_PROXY", list)], url).unwrap();
            assert_eq!(found.is_none(), exempt, "{list} {url}");
        }
    }

    #[test]
    fn a_bad_proxy_is_said_without_its_password() {
        for value in ["socks5://user:secret@host:1", "http://user:secret@:1", "https://user:secret@host:1"] {
            let fault = proxy(&[("ALL_PROXY", value)], "http://otlp.example.com").unwrap_err();
            assert!(fault.contains("ALL_PROXY") && !fault.contains("secret"), "{fault}");
        }
    }
}
