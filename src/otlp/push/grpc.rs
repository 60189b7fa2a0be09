//! OTLP over gRPC: unary calls on one HTTP/2 connection that stays open.
//!
//! The protocol: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use prost::Message;

use super::answer::{self, Answer, Status};
use super::body::Body;
use super::connect::{Watch, connect};
use super::hints::{Trouble, Wire};
use super::retry::{asked, retry_after};
use super::tls::TlsConfigs;
use crate::config::{Endpoint, Url};
use crate::model::Signal;

/// The most of an answer that is read.
const MOST_ANSWER: usize = 64 << 10;
/// The most that the server may send ahead: answers are small, and so may the memory for them be.
const WINDOW: u32 = 64 << 10;
/// The most that waits to be written.
const SEND_BUFFER: usize = 64 << 10;

/// Numbers of gRPC's states: <https://grpc.io/docs/guides/status-codes/>.
mod code {
    pub(super) const OK: i32 = 0;
    pub(super) const CANCELLED: i32 = 1;
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const DEADLINE_EXCEEDED: i32 = 4;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const ABORTED: i32 = 10;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const INTERNAL: i32 = 13;
    pub(super) const UNAVAILABLE: i32 = 14;
    pub(super) const DATA_LOSS: i32 = 15;
    pub(super) const UNAUTHENTICATED: i32 = 16;

    /// Its name, for people.
    pub(super) fn name(code: i32) -> &'static str {
        const NAMES: [&str; 17] = [
            "OK",
            "CANCELLED",
            "UNKNOWN",
            "INVALID_ARGUMENT",
            "DEADLINE_EXCEEDED",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "PERMISSION_DENIED",
            "RESOURCE_EXHAUSTED",
            "FAILED_PRECONDITION",
            "ABORTED",
            "OUT_OF_RANGE",
            "UNIMPLEMENTED",
            "INTERNAL",
            "UNAVAILABLE",
            "DATA_LOSS",
            "UNAUTHENTICATED",
        ];
        usize::try_from(code).ok().and_then(|code| NAMES.get(code)).copied().unwrap_or("an unknown status")
    }
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<RetryDelay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
struct RetryDelay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// Runs hyper's tasks on the thread that asks for them.
#[derive(Clone, Copy)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local
where
    F::Output: 'static,
{
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// The way to one endpoint.
pub(super) struct GrpcSender {
    endpoint: Endpoint,
    url: Url,
    uri: Uri,
    headers: HeaderMap,
    tls: Rc<TlsConfigs>,
    connection: Option<(SendRequest<Full<Bytes>>, Watch)>,
}

impl GrpcSender {
    /// # Errors
    /// What is wrong with the URL.
    pub(super) fn new(signal: Signal, endpoint: Endpoint, tls: Rc<TlsConfigs>) -> Result<Self, String> {
        let url = Url::parse(&endpoint.url).map_err(|why| format!("the URL {why}"))?;
        let service = match signal {
            Signal::Traces => "trace.v1.TraceService",
            Signal::Metrics => "metrics.v1.MetricsService",
            Signal::Logs => "logs.v1.LogsService",
        };
        let uri = format!("{}://{}/opentelemetry.proto.collector.{service}/Export", url.scheme(), url.authority());
        let uri = uri.parse().map_err(|error| format!("the URL cannot be used: {error}"))?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("stepline/", env!("CARGO_PKG_VERSION"))));
        if endpoint.gzip {
            headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
        }
        if let Ok(timeout) = HeaderValue::try_from(format!("{}m", endpoint.timeout.as_millis().min(99_999_999))) {
            headers.insert("grpc-timeout", timeout);
        }
        for (name, value) in &endpoint.headers {
            if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
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
        let (io, watch) = connect(&self.endpoint, &self.url, Wire::Grpc, &self.tls).await?;
        let handshake = Builder::new(Local)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .handshake(io)
            .await;
        let (sender, connection) = handshake.map_err(|error| watch.trouble(Wire::Grpc, &self.url, &error))?;
        tokio::task::spawn_local(watch.clone().over(connection));
        Ok((sender, watch))
    }

    /// Sends a body on a connection, which is kept if all goes well.
    async fn on(&mut self, (mut sender, watch): (SendRequest<Full<Bytes>>, Watch), body: &Body) -> Result<Answer, String> {
        let mut request = Request::new(Full::new(body.bytes.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        sender.ready().await.map_err(|error| watch.trouble(Wire::Grpc, &self.url, &error))?;
        let response = sender.send_request(request).await.map_err(|error| watch.trouble(Wire::Grpc, &self.url, &error))?;
        let answer = self.answer(response, body.items).await?;
        self.connection = Some((sender, watch));
        Ok(answer)
    }

    async fn answer(&self, response: Response<Incoming>, items: u64) -> Result<Answer, String> {
        let (head, incoming) = response.into_parts();
        if head.status.is_redirection() {
            return Ok(Answer::refused(format!(
                "the server answered {}: redirects are not followed, since what is sent may hold secrets",
                head.status
            )));
        }
        // An answer without a message has its status in the head.
        if head.headers.contains_key("grpc-status") {
            return Ok(self.status(&head.headers, &[], items));
        }
        if !head.status.is_success() {
            let body = Limited::new(incoming, MOST_ANSWER).collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let wait = head.headers.get(header::RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?, SystemTime::now()));
            return Ok(of_http(head.status.as_u16(), &answer::message(&body, content_type), wait));
        }
        let collected = Limited::new(incoming, MOST_ANSWER).collect().await;
        let collected = collected.map_err(|error| format!("the answer broke off: {}", Trouble::of(error.as_ref()).text))?;
        let trailers = collected.trailers().cloned();
        let body = collected.to_bytes();
        match trailers {
            Some(trailers) if trailers.contains_key("grpc-status") => Ok(self.status(&trailers, &body, items)),
            _ => Err("the server's answer has no gRPC status: is it a gRPC server?".to_owned()),
        }
    }

    fn status(&self, headers: &HeaderMap, body: &[u8], items: u64) -> Answer {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let code = text("grpc-status").parse().unwrap_or(code::UNKNOWN);
        if code == code::OK {
            // The prefix says that it is compressed (never asked for) and how long it is.
            return answer::accepted(body.get(5..).unwrap_or_default(), false, items);
        }
        let message = answer::shortened(&percent_decoded(text("grpc-message")));
        let mut why = format!("the server answered {} ({code})", code::name(code));
        if !message.is_empty() {
            why.push_str(&format!(": {message:?}"));
        }
        match code {
            code::UNAUTHENTICATED | code::PERMISSION_DENIED => why.push_str(". Are the headers right (OTEL_EXPORTER_OTLP_HEADERS)?"),
            code::UNIMPLEMENTED => why.push_str(". Does this server take this signal, and this compression?"),
            _ => {}
        }
        let wait = retry_delay(text("grpc-status-details-bin"));
        if is_worth_another(code, wait.is_some()) { Answer::Again { why, wait } } else { Answer::refused(why) }
    }
}

/// Whether trying again may help: <https://opentelemetry.io/docs/specs/otlp/#failures>.
fn is_worth_another(code: i32, has_delay: bool) -> bool {
    match code {
        code::CANCELLED | code::DEADLINE_EXCEEDED | code::ABORTED | code::OUT_OF_RANGE | code::UNAVAILABLE | code::DATA_LOSS => true,
        // Without a delay it means that the request is too large.
        code::RESOURCE_EXHAUSTED => has_delay,
        _ => false,
    }
}

/// An answer of HTTP alone: something stands before the server.
fn of_http(status: u16, message: &str, wait: Option<Duration>) -> Answer {
    let code = match status {
        400 => code::INTERNAL,
        401 => code::UNAUTHENTICATED,
        403 => code::PERMISSION_DENIED,
        404 => code::UNIMPLEMENTED,
        429 | 502 | 503 | 504 => code::UNAVAILABLE,
        _ => code::UNKNOWN,
    };
    let mut why = format!("the server answered with HTTP status {status} and no gRPC");
    if !message.is_empty() {
        why.push_str(&format!(" ({message:?})"));
    }
    if is_worth_another(code, false) { Answer::Again { why, wait } } else { Answer::refused(why) }
}

/// How long the server wants to be left alone, from the details of its status.
fn retry_delay(details: &str) -> Option<Duration> {
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = GeneralPurpose::new(&alphabet::STANDARD, lenient).decode(details).ok()?;
    let status = Status::decode(&bytes[..]).ok()?;
    let info = status.details.iter().find(|detail| detail.type_url.ends_with("google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(&info.value[..]).ok()?.retry_delay?;
    Some(asked(delay.seconds, delay.nanos))
}

/// The text of a status, in which everything but plain ASCII is percent-encoded.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) if *byte == b'%' => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::answer::Any;
    use super::*;

    #[test]
    fn the_delay_is_read_from_the_details() {
        let info = RetryInfo { retry_delay: Some(RetryDelay { seconds: 2, nanos: 500_000_000 }) };
        let details = vec![
            Any { type_url: "type.googleapis.com/google.rpc.DebugInfo".to_owned(), value: Vec::new() },
            Any { type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(), value: info.encode_to_vec() },
        ];
        let bytes = Status { code: 8, message: String::new(), details }.encode_to_vec();
        let padded = base64::engine::general_purpose::STANDARD.encode(&bytes);
        let bare = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&bytes);
        assert_eq!(retry_delay(&padded), Some(Duration::from_millis(2500)));
        assert_eq!(retry_delay(&bare), Some(Duration::from_millis(2500)));
        assert_eq!(retry_delay("!"), None);
        assert_eq!(retry_delay(""), None);
    }

    #[test]
    fn messages_are_decoded() {
        for (text, expected) in [("", ""), ("a%20b", "a b"), ("%C3%A4", "ä"), ("100%", "100%"), ("%zz", "%zz"), ("%2", "%2")] {
            assert_eq!(percent_decoded(text), expected);
        }
    }

    #[test]
    fn what_is_worth_another_attempt() {
        let again: Vec<i32> = (0..17).filter(|code| is_worth_another(*code, false)).collect();
        assert_eq!(again, [1, 4, 10, 11, 14, 15]);
        assert!(is_worth_another(8, true));
    }
}
