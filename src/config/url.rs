//! URLs of endpoints: as much of them as OTLP needs.

use std::fmt;
use std::net::IpAddr;

/// An `http` or `https` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether it is `https`.
    pub secure: bool,
    /// The host: a name, or an address without brackets.
    pub host: String,
    /// The port, if one is written.
    pub port: Option<u16>,
    /// The path: empty, or with its leading slash.
    pub path: String,
    /// What stands behind the question mark; may be a secret.
    pub query: Option<String>,
    /// What stands before the `@`: a secret.
    pub user: Option<String>,
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence that begins with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("has no http:// or https:// in front")?;
        let secure = if scheme.eq_ignore_ascii_case("https") {
            true
        } else if scheme.eq_ignore_ascii_case("http") {
            false
        } else {
            return Err("begins with something other than http:// or https://");
        };
        Self::parse_rest(secure, rest)
    }

    /// Reads what stands behind `http://`.
    pub(super) fn parse_rest(secure: bool, rest: &str) -> Result<Self, &'static str> {
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("holds a space or a letter that must be percent-encoded");
        }
        if rest.contains('#') {
            return Err("holds a #, which a server never sees");
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let (path, query) = match tail.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (tail, None),
        };
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user.to_owned()), authority),
            None => (None, authority),
        };
        let (host, port) = host_and_port(authority)?;
        Ok(Self { secure, host, port, path: path.to_owned(), query, user })
    }

    /// The port to connect to.
    #[must_use]
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(if self.secure { 443 } else { 80 })
    }

    /// `host:port` as it is written in a URL, without a port where none is written.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// Whether it is this host itself.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.to_ascii_lowercase().ends_with(".localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The URL for people: without what may be a secret.
    #[must_use]
    pub fn shown(&self) -> String {
        let query = if self.query.is_some() { "?.." } else { "" };
        format!("{}://{}{}{query}", self.scheme(), self.authority(), self.path)
    }

    /// `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}

impl fmt::Display for Url {
    /// The URL without the user: that becomes a header.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority(), self.path)?;
        self.query.iter().try_for_each(|query| write!(f, "?{query}"))
    }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), &'static str> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("has a [ without a ]")?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| "has something in brackets that is no IPv6 address")?;
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err("has something behind the ]"),
        }
    } else {
        match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err("has an IPv6 address without brackets"),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    if host.is_empty() {
        return Err("has no host");
    }
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    if !host.bytes().all(is_host) {
        return Err("has a host with a letter that no host has");
    }
    let port = match port {
        // `http://host:/` is allowed by the grammar of URLs.
        None | Some("") => None,
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err("has a port that is no number from 1 to 65535"),
        },
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_a_url() {
        for (text, host, port, path) in [
            ("http://localhost:4318", "localhost", 4318, ""),
            ("HTTPS://otlp.example.com", "otlp.example.com", 443, ""),
            ("http://otlp.example.com/", "otlp.example.com", 80, "/"),
            ("http://[::1]:4318/a/b?c=d", "::1", 4318, "/a/b"),
            ("https://user:secret@host:1/x", "host", 1, "/x"),
            ("http://my_service.ns:4318", "my_service.ns", 4318, ""),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.host.as_str(), url.port_or_default(), url.path.as_str()), (host, port, path), "{text}");
            assert!(!url.shown().contains("secret") && !url.shown().contains("c=d"), "{}", url.shown());
        }
    }

    #[test]
    fn what_is_none() {
        for text in [
            "localhost:4318",
            "ftp://localhost",
            "http://",
            "http:///v1/traces",
            "http://host:0",
            "http://host:70000",
            "http://host:port",
            "http://[::1",
            "http://[::1]x",
            "http://::1:4318",
            "http://a b",
            "http://höst",
            "http://host/#x",
            "http://${HOST}:4318",
            "",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_written_is_read_back(text in "(https?://)?[a-z0-9:@/?#.\\[\\]%-]{0,40}") {
            if let Ok(url) = Url::parse(&text) {
                let again = Url::parse(&url.to_string()).unwrap();
                prop_assert_eq!(again, Url { user: None, ..url });
            }
        }
    }
}
