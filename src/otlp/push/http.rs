//! OTLP over HTTP/1.1: one request at a time on one connection that stays open.

use std::rc::Rc;
use std::time::SystemTime;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};

use super::answer::{self, Answer};
use super::body::Body;
use super::connect::{Watch, connect, proxy_authorization};
use super::hints::{self, Trouble, Wire};
use super::retry::retry_after;
use super::tls::TlsConfigs;
use crate::config::{Endpoint, Protocol, Url};

/// The most of an answer that is read.
const MOST_ANSWER: usize = 64 << 10;
/// hyper would let its buffers grow to 400 KiB.
const BUFFER: usize = 16 << 10;

/// The way to one endpoint.
pub(super) struct HttpSender {
    endpoint: Endpoint,
    url: Url,
    uri: Uri,
    headers: HeaderMap,
    tls: Rc<TlsConfigs>,
    connection: Option<(SendRequest<Full<Bytes>>, Watch)>,
}

impl HttpSender {
    /// # Errors
    /// What is wrong with the URL or the headers.
    pub(super) fn new(endpoint: Endpoint, tls: Rc<TlsConfigs>) -> Result<Self, String> {
        let url = Url::parse(&endpoint.url).map_err(|why| format!("the URL {why}"))?;
        // A proxy wants to know the whole address, the server itself only its part.
        let through_proxy = endpoint.proxy.as_ref().filter(|_| !url.secure);
        let path = if url.path.is_empty() { "/" } else { &url.path };
        let query = url.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let uri = if through_proxy.is_some() { url.to_string() } else { format!("{path}{query}") };
        let uri = uri.parse().map_err(|error| format!("the URL cannot be used: {error}"))?;
        let mut headers = HeaderMap::new();
        let content_type = if endpoint.protocol == Protocol::HttpJson { "application/json" } else { "application/x-protobuf" };
        let authority = HeaderValue::try_from(url.authority()).map_err(|_| "the URL has a host that cannot be used".to_owned())?;
        headers.insert(header::HOST, authority);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("stepline/", env!("CARGO_PKG_VERSION"))));
        if endpoint.gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Some(mut value) = through_proxy.and_then(proxy_authorization).and_then(|value| HeaderValue::try_from(value).ok()) {
            value.set_sensitive(true);
            headers.insert(header::PROXY_AUTHORIZATION, value);
        }
        add_own(&mut headers, &endpoint);
        Ok(Self { endpoint, url, uri, headers, tls, connection: None })
    }

    /// One attempt to have a body taken.
    pub(super) async fn attempt(&mut self, body: &Body) -> Answer {
        // What was left open may have been closed by the server in the meantime, which says nothing about the server.
        if let Some(open) = self.connection.take().filter(|(sender, _)| !sender.is_closed())
            && let Ok(answer) = self.on(open, body).await
        {
            return answer;
        }
        let open = match self.open().await {
            Ok(open) => open,
            Err(why) => return Answer::again(why),
        };
        match self.on(open, body).await {
            Ok(answer) => answer,
            Err(why) => Answer::again(why),
        }
    }

    async fn open(&self) -> Result<(SendRequest<Full<Bytes>>, Watch), String> {
        let (io, watch) = connect(&self.endpoint, &self.url, Wire::Http, &self.tls).await?;
        let handshake = Builder::new().max_buf_size(BUFFER).handshake(io).await;
        let (sender, connection) = handshake.map_err(|error| Trouble::of(&error).text)?;
        tokio::task::spawn_local(watch.clone().over(connection));
        Ok((sender, watch))
    }

    /// Sends a body on a connection, which is kept if all goes well.
    async fn on(&mut self, (mut sender, watch): (SendRequest<Full<Bytes>>, Watch), body: &Body) -> Result<Answer, String> {
        let mut request = Request::new(Full::new(body.bytes.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let trouble = |error: hyper::Error| watch.trouble(Wire::Http, &self.url, &error);
        sender.ready().await.map_err(trouble)?;
        let response = sender.send_request(request).await.map_err(trouble)?;
        let (answer, is_whole) = self.answer(response, body.items).await?;
        if is_whole {
            self.connection = Some((sender, watch));
        }
        Ok(answer)
    }

    /// What an answer means, and whether it was read to its end.
    async fn answer(&self, response: Response<Incoming>, items: u64) -> Result<(Answer, bool), String> {
        let (head, incoming) = response.into_parts();
        let text = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = text(header::CONTENT_TYPE);
        let body = Limited::new(incoming, MOST_ANSWER).collect().await.map(http_body_util::Collected::to_bytes);
        let is_whole = body.is_ok();
        if head.status.is_success() {
            // Cut off in the middle, it is not known what the server took.
            let body = body.map_err(|error| format!("the answer broke off: {}", Trouble::of(error.as_ref()).text))?;
            return Ok((answer::accepted(&body, content_type.contains("json"), items), is_whole));
        }
        let body = body.unwrap_or_default();
        let mut why = format!("the server answered {}", head.status);
        let message = answer::message(&body, content_type);
        if !message.is_empty() {
            why.push_str(&format!(" ({message:?})"));
        }
        if head.status.is_redirection() {
            let to = answer::shortened(without_query(text(header::LOCATION)));
            why.push_str(&format!(
                " and wants the request to go to {to:?}. Redirects are not followed, since what is sent may hold secrets: set the endpoint to that address"
            ));
            return Ok((Answer::refused(why), is_whole));
        }
        if let Some(hint) = hints::of_status(head.status.as_u16(), &self.url) {
            why.push_str(&format!(": {hint}"));
        }
        let answer = match head.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Answer::Again { why, wait: retry_after(text(header::RETRY_AFTER), SystemTime::now()) }
            }
            _ => Answer::refused(why),
        };
        Ok((answer, is_whole))
    }
}

fn without_query(url: &str) -> &str {
    let url = url.split('?').next().unwrap_or(url);
    url.rsplit_once('@').map_or(url, |(_, behind)| behind)
}

/// Adds the user's headers.
pub(super) fn add_own(headers: &mut HeaderMap, endpoint: &Endpoint) {
    for (name, value) in &endpoint.headers {
        if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
}
