//! The sink's bytes: what requests hold, and what answers look like.

use std::collections::VecDeque;
use std::io::Read as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use hyper::body::{Body, Bytes, Frame};
use hyper::{HeaderMap, Response};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse};
use prost::Message;
use serde::de::DeserializeOwned;
use stepline::model::Signal;

use super::{Decoded, Wire};

/// The body of an answer: frames, and perhaps a violent end.
pub(super) struct Reply {
    frames: VecDeque<Frame<Bytes>>,
    breaks_off: bool,
}

impl Reply {
    fn of(bytes: impl Into<Bytes>) -> Self {
        Self { frames: [Frame::data(bytes.into())].into(), breaks_off: false }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None if self.breaks_off => Poll::Ready(Some(Err(std::io::Error::other("the script says so")))),
            None => Poll::Ready(None),
        }
    }
}

/// The message of a request: its bytes without compression and framing, and decoded.
pub(super) fn decode(signal: Signal, wire: Wire, encoding: &str, bytes: &[u8]) -> Result<(Vec<u8>, Decoded), String> {
    let is_gzip = match encoding {
        "" | "identity" => false,
        "gzip" => true,
        other => return Err(format!("the encoding {other:?}")),
    };
    let message = match wire {
        Wire::Grpc => {
            let (prefix, message) = bytes.split_at_checked(5).ok_or("no prefix")?;
            let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
            if length as usize != message.len() || prefix[0] != u8::from(is_gzip) {
                return Err(format!("a prefix {prefix:?} before {} bytes", message.len()));
            }
            message
        }
        Wire::HttpProtobuf | Wire::HttpJson => bytes,
    };
    let mut body = Vec::new();
    if is_gzip {
        flate2::read::GzDecoder::new(message).read_to_end(&mut body).map_err(|error| error.to_string())?;
    } else {
        body.extend_from_slice(message);
    }
    let decoded = match signal {
        Signal::Traces => Decoded::Traces(read(wire, &body)?),
        Signal::Metrics => Decoded::Metrics(read(wire, &body)?),
        Signal::Logs => Decoded::Logs(read(wire, &body)?),
    };
    Ok((body, decoded))
}

fn read<R: Message + Default + DeserializeOwned>(wire: Wire, body: &[u8]) -> Result<R, String> {
    match wire {
        Wire::HttpJson => serde_json::from_slice(body).map_err(|error| error.to_string()),
        Wire::HttpProtobuf | Wire::Grpc => R::decode(body).map_err(|error| error.to_string()),
    }
}

pub(super) fn success(signal: Signal, wire: Wire, rejected: u64, message: &str) -> Response<Reply> {
    let partial = rejected > 0 || !message.is_empty();
    if wire == Wire::HttpJson {
        let key = ["rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"][signal as usize];
        let body = if partial {
            serde_json::json!({ "partialSuccess": { key: rejected.to_string(), "errorMessage": message } })
        } else {
            serde_json::json!({})
        };
        return with_type(200, "application/json", Reply::of(body.to_string()));
    }
    let rejected = rejected as i64;
    let error_message = message.to_owned();
    let bytes = match signal {
        Signal::Traces => ExportTraceServiceResponse {
            partial_success: partial.then_some(ExportTracePartialSuccess { rejected_spans: rejected, error_message }),
        }
        .encode_to_vec(),
        Signal::Metrics => ExportMetricsServiceResponse {
            partial_success: partial.then_some(ExportMetricsPartialSuccess { rejected_data_points: rejected, error_message }),
        }
        .encode_to_vec(),
        Signal::Logs => ExportLogsServiceResponse {
            partial_success: partial.then_some(ExportLogsPartialSuccess { rejected_log_records: rejected, error_message }),
        }
        .encode_to_vec(),
    };
    match wire {
        Wire::Grpc => {
            let mut message = vec![0];
            message.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            message.extend_from_slice(&bytes);
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().expect("a header"));
            let frames = [Frame::data(message.into()), Frame::trailers(trailers)].into();
            with_type(200, "application/grpc", Reply { frames, breaks_off: false })
        }
        _ => with_type(200, "application/x-protobuf", Reply::of(bytes)),
    }
}

fn with_type(status: u16, content_type: &str, reply: Reply) -> Response<Reply> {
    Response::builder().status(status).header("content-type", content_type).body(reply).expect("an answer")
}

pub(super) fn plain(status: u16, text: &str) -> Response<Reply> {
    with_type(status, "text/plain; charset=utf-8", Reply::of(text.to_owned()))
}

/// `google.rpc.Status` with a message, as the specification wants failures to be.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(bytes = "vec", repeated, tag = "3")]
    details: Vec<Vec<u8>>,
}

pub(super) fn failure(status: u16, message: &str, wire: Wire, retry_after: Option<&str>) -> Response<Reply> {
    let mut response = if wire == Wire::HttpJson {
        let body = serde_json::json!({ "code": 3, "message": message }).to_string();
        with_type(status, "application/json", Reply::of(body))
    } else {
        let body = Status { code: 3, message: message.to_owned(), details: Vec::new() }.encode_to_vec();
        with_type(status, "application/x-protobuf", Reply::of(body))
    };
    if let Some(value) = retry_after {
        response.headers_mut().insert("retry-after", value.parse().expect("a header"));
    }
    response
}

pub(super) fn redirect(to: &str) -> Response<Reply> {
    Response::builder().status(302).header("location", to).body(Reply::of("")).expect("an answer")
}

/// gRPC's status for one of HTTP's.
pub(super) fn grpc_code(status: u16) -> i32 {
    match status {
        400 => 3,
        401 => 16,
        403 => 7,
        404 => 12,
        429 => 8,
        502..=504 => 14,
        _ => 2,
    }
}

/// An answer without a message, with a delay in its details where one is asked for.
pub(super) fn grpc_status(code: i32, message: &str, retry_seconds: Option<u8>) -> Response<Reply> {
    let mut response = with_type(200, "application/grpc", Reply { frames: VecDeque::new(), breaks_off: false });
    let headers = response.headers_mut();
    headers.insert("grpc-status", code.to_string().parse().expect("a header"));
    headers.insert("grpc-message", message.replace(' ', "%20").parse().expect("a header"));
    if let Some(seconds) = retry_seconds {
        // Any { type_url: 1, value: 2 }, RetryInfo { retry_delay: 1 }, Duration { seconds: 1 }, byte by byte.
        let url = b"type.googleapis.com/google.rpc.RetryInfo";
        let info = [0x0a, 2, 0x08, seconds];
        let mut any = vec![0x0a, url.len() as u8];
        any.extend_from_slice(url);
        any.extend_from_slice(&[0x12, info.len() as u8]);
        any.extend_from_slice(&info);
        let status = Status { code, message: message.to_owned(), details: vec![any] }.encode_to_vec();
        let text = base64::engine::general_purpose::STANDARD_NO_PAD.encode(status);
        headers.insert("grpc-status-details-bin", text.parse().expect("a header"));
    }
    response
}

/// The beginning of a success.
pub(super) fn broken(wire: Wire) -> Response<Reply> {
    let content_type = if wire == Wire::Grpc { "application/grpc" } else { "application/x-protobuf" };
    with_type(200, content_type, Reply { frames: [Frame::data(Bytes::from_static(&[0]))].into(), breaks_off: true })
}
