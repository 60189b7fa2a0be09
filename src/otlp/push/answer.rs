//! What a server's answer means: taken, to be tried again, or refused for good.
//!
//! The rules: <https://opentelemetry.io/docs/specs/otlp/#failures> and its neighbours.

use std::time::Duration;

use prost::Message;
use serde_json::Value;

/// The longest text of a server that stands in a line of ours.
const MOST_TEXT: usize = 200;

/// What became of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Taken, but for so many items.
    Accepted {
        /// Items that the server did not take.
        rejected: u64,
        /// Why not, or another thing that it wants known.
        message: String,
    },
    /// Not taken, and trying again would not help.
    Refused {
        /// Why, for people.
        why: String,
    },
    /// Not taken, for the time being.
    Again {
        /// Why, for people.
        why: String,
        /// How long the server wants to be left alone.
        wait: Option<Duration>,
    },
}

impl Answer {
    pub(super) fn again(why: impl Into<String>) -> Self {
        Self::Again { why: why.into(), wait: None }
    }

    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::Refused { why: why.into() }
    }
}

/// The answer to an export. The three signals' messages have the same fields.
#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Any {
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

/// The answer in the body of a success, whose items were so many. What cannot be read says nothing: the status said success.
pub(super) fn accepted(body: &[u8], is_json: bool, items: u64) -> Answer {
    let (rejected, message) = if is_json { accepted_json(body) } else { accepted_protobuf(body) };
    let rejected = u64::try_from(rejected).unwrap_or(0).min(items);
    Answer::Accepted { rejected, message: shortened(&message) }
}

fn accepted_protobuf(body: &[u8]) -> (i64, String) {
    let partial = ExportResponse::decode(body).ok().and_then(|response| response.partial_success).unwrap_or_default();
    (partial.rejected, partial.error_message)
}

fn accepted_json(body: &[u8]) -> (i64, String) {
    let response: Value = serde_json::from_slice(body).unwrap_or_default();
    let partial = &response["partialSuccess"];
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    let rejected = ["rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"].iter().find_map(|key| number(&partial[*key]));
    (rejected.unwrap_or(0), partial["errorMessage"].as_str().unwrap_or_default().to_owned())
}

/// What the body of a failure says, for people.
pub(super) fn message(body: &[u8], content_type: &str) -> String {
    let text = if content_type.contains("protobuf") {
        Status::decode(body).map(|status| status.message).unwrap_or_default()
    } else if content_type.contains("json") {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = value["message"].as_str().or_else(|| value["error"].as_str());
        message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
    } else if content_type.contains("html") {
        // A page for people with browsers.
        String::new()
    } else {
        String::from_utf8_lossy(body).into_owned()
    };
    shortened(&text)
}

/// A foreign text in one line, of bounded length, without control characters.
pub(super) fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    if line.chars().count() <= MOST_TEXT {
        return line;
    }
    line.chars().take(MOST_TEXT).chain("..".chars()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn partial(rejected: i64, error_message: &str) -> Vec<u8> {
        ExportResponse { partial_success: Some(PartialSuccess { rejected, error_message: error_message.to_owned() }) }.encode_to_vec()
    }

    #[test]
    fn partial_success() {
        let rejected = |answer: Answer| match answer {
            Answer::Accepted { rejected, message } => (rejected, message),
            other => panic!("{other:?}"),
        };
        for (body, is_json, expected) in [
            (Vec::new(), false, (0, "")),
            (Vec::new(), true, (0, "")),
            (b"{}".to_vec(), true, (0, "")),
            (partial(3, "too old"), false, (3, "too old")),
            (partial(99, "more than were sent"), false, (10, "more than were sent")),
            (partial(-1, ""), false, (0, "")),
            (br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#.to_vec(), true, (3, "too old")),
            (br#"{"partialSuccess":{"rejectedDataPoints":4}}"#.to_vec(), true, (4, "")),
            (br#"{"partialSuccess":{"rejectedLogRecords":"5"}}"#.to_vec(), true, (5, "")),
            (b"OK".to_vec(), false, (0, "")),
            (b"OK".to_vec(), true, (0, "")),
        ] {
            assert_eq!(rejected(accepted(&body, is_json, 10)), (expected.0, expected.1.to_owned()), "{body:?}");
        }
    }

    #[test]
    fn messages_of_failures() {
        let status = Status { code: 3, message: "bad\n  point".to_owned(), details: Vec::new() }.encode_to_vec();
        assert_eq!(message(&status, "application/x-protobuf"), "bad point");
        assert_eq!(message(br#"{"code":3,"message":"bad point"}"#, "application/json"), "bad point");
        assert_eq!(message(b"404 page not found\n", "text/plain; charset=utf-8"), "404 page not found");
        assert_eq!(message(b"<html>", "text/html"), "");
        assert_eq!(message(&[b'x'; 5000], "").chars().count(), 202);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..60), is_json: bool, kind in 0..4_usize) {
            let _ = accepted(&body, is_json, 5);
            let text = message(&body, ["application/x-protobuf", "application/json", "text/plain", ""][kind]);
            prop_assert!(!text.contains('\n') && text.chars().count() <= 202);
        }
    }
}
