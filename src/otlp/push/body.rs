//! From a request to the bytes that stand on the wire: cut to size, encoded, compressed.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;

use super::split::Split;
use crate::config::{Endpoint, Protocol};
use crate::model::Span;
use crate::otlp::encode::Encoder;

/// The most bytes of one body before compression: gRPC servers take 4 MiB unless told otherwise.
pub(super) const MOST_BYTES: usize = (4 << 20) - 1024;

/// One body.
#[derive(Debug, Clone)]
pub(super) struct Body {
    /// Items (spans, points, events) in it.
    pub(super) items: u64,
    /// As it is sent; for gRPC with the five bytes in front.
    pub(super) bytes: Bytes,
}

/// How bodies are made for one endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    protocol: Protocol,
    gzip: bool,
}

impl Format {
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        Self { protocol: endpoint.protocol, gzip: endpoint.gzip }
    }

    /// The bodies of a request, in order. A single item that is larger than [`MOST_BYTES`] is sent all the same.
    pub(super) fn bodies<R: Split>(self, mut request: R, most_bytes: usize) -> Vec<Body> {
        let mut bodies = Vec::with_capacity(1);
        // What is still to be done, the next one last.
        let mut rest = Vec::new();
        loop {
            let items = request.items();
            if items > 1 && self.protocol != Protocol::HttpJson && request.encoded_len() > most_bytes {
                rest.push(request.split_off(items / 2));
                continue;
            }
            let bytes = self.encode(&request);
            if items > 1 && bytes.len() > most_bytes {
                rest.push(request.split_off(items / 2));
                continue;
            }
            if items > 0 {
                bodies.push(Body { items: items as u64, bytes: self.wrap(bytes) });
            }
            match rest.pop() {
                Some(next) => request = next,
                None => return bodies,
            }
        }
    }

    /// The bodies of spans, in order, without making a request of them: several times cheaper.
    pub(super) fn span_bodies(self, encoder: &Encoder, spans: &[Span], most_bytes: usize) -> Vec<Body> {
        let mut bodies = Vec::with_capacity(1);
        let mut rest = vec![spans];
        while let Some(part) = rest.pop() {
            let mut bytes = Vec::new();
            match self.protocol {
                Protocol::HttpProtobuf | Protocol::Grpc => encoder.write_traces(part, &mut bytes),
                Protocol::HttpJson => encoder.write_traces_json(part, &mut bytes),
            }
            if part.len() > 1 && bytes.len() > most_bytes {
                let (first, second) = part.split_at(part.len() / 2);
                rest.extend([second, first]);
            } else if !part.is_empty() {
                bodies.push(Body { items: part.len() as u64, bytes: self.wrap(bytes) });
            }
        }
        bodies
    }

    fn encode<R: Split>(self, request: &R) -> Vec<u8> {
        match self.protocol {
            Protocol::HttpProtobuf | Protocol::Grpc => request.encode_to_vec(),
            Protocol::HttpJson => {
                let mut bytes = Vec::new();
                request.write_json(&mut bytes);
                bytes
            }
        }
    }

    /// Compressed, and for gRPC with its prefix: whether it is compressed, and how long it is.
    fn wrap(self, bytes: Vec<u8>) -> Bytes {
        let bytes = if self.gzip { compressed(&bytes) } else { bytes };
        let mut bytes = match self.protocol {
            Protocol::HttpProtobuf | Protocol::HttpJson => bytes,
            Protocol::Grpc => {
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let mut message = Vec::with_capacity(bytes.len() + 5);
                message.push(u8::from(self.gzip));
                message.extend_from_slice(&length.to_be_bytes());
                message.extend_from_slice(&bytes);
                message
            }
        };
        // It may wait for long.
        bytes.shrink_to_fit();
        bytes.into()
    }
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing into memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read as _;

    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use prost::Message as _;

    use super::{Format, Protocol};
    use crate::model;
    use crate::otlp::encode::Encoder;

    fn model_span(number: u8) -> model::Span {
        model::Span {
            trace_id: model::TraceId([1; 16]),
            span_id: model::SpanId([number; 8]),
            parent_span_id: None,
            parent_is_remote: false,
            name: "x".repeat(200).into(),
            begin_ns: 1,
            end_ns: 2,
            attributes: Vec::new(),
            events: Vec::new(),
            links: Vec::new(),
            error_type: None,
        }
    }

    #[test]
    fn spans_without_a_request_are_cut_in_order_too() {
        let spans: Vec<model::Span> = (1..=20).map(model_span).collect();
        for protocol in [Protocol::HttpProtobuf, Protocol::HttpJson, Protocol::Grpc] {
            let bodies = Format { protocol, gzip: false }.span_bodies(&Encoder::new(&[]), &spans, 1500);
            assert!(bodies.len() > 3 && bodies.iter().all(|body| body.bytes.len() <= 1505), "{protocol:?}");
            assert_eq!(bodies.iter().map(|body| body.items).sum::<u64>(), 20);
            if protocol == Protocol::HttpProtobuf {
                let ids: Vec<u8> = bodies
                    .iter()
                    .flat_map(|body| ExportTraceServiceRequest::decode(&body.bytes[..]).unwrap().resource_spans)
                    .flat_map(|group| group.scope_spans)
                    .flat_map(|scope| scope.spans)
                    .map(|span| span.span_id[0])
                    .collect();
                assert_eq!(ids, (1..=20).collect::<Vec<u8>>());
            }
        }
        assert!(Format { protocol: Protocol::Grpc, gzip: false }.span_bodies(&Encoder::new(&[]), &[], 1500).is_empty());
    }

    fn request(spans: &[usize]) -> ExportTraceServiceRequest {
        let spans = spans.iter().enumerate().map(|(place, length)| Span {
            span_id: vec![place as u8 + 1; 8],
            name: "x".repeat(*length),
            ..Span::default()
        });
        let scope = ScopeSpans { spans: spans.collect(), ..ScopeSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }] }
    }

    #[test]
    fn large_requests_are_cut_and_large_items_are_not() {
        for protocol in [Protocol::HttpProtobuf, Protocol::HttpJson, Protocol::Grpc] {
            let format = Format { protocol, gzip: false };
            let bodies = format.bodies(request(&[100, 100, 5000, 100, 100, 100, 100]), 1000);
            assert_eq!(bodies.iter().map(|body| body.items).sum::<u64>(), 7);
            assert!(bodies.iter().all(|body| body.items == 1 || body.bytes.len() <= 1005), "{protocol:?}");
            assert!(bodies.len() <= 6, "{protocol:?} {}", bodies.len());
        }
        assert!(Format { protocol: Protocol::HttpProtobuf, gzip: false }.bodies(request(&[]), 1000).is_empty());
    }

    #[test]
    fn parts_are_in_order() {
        let format = Format { protocol: Protocol::HttpProtobuf, gzip: false };
        let ids: Vec<u8> = format
            .bodies(request(&[400; 9]), 1000)
            .iter()
            .flat_map(|body| ExportTraceServiceRequest::decode(&body.bytes[..]).unwrap().resource_spans)
            .flat_map(|group| group.scope_spans)
            .flat_map(|scope| scope.spans)
            .map(|span| span.span_id[0])
            .collect();
        assert_eq!(ids, (1..=9).collect::<Vec<u8>>());
    }

    #[test]
    fn grpc_has_a_prefix() {
        for gzip in [false, true] {
            let body = Format { protocol: Protocol::Grpc, gzip }.bodies(request(&[5000]), 10_000).remove(0);
            assert_eq!(body.bytes[0], u8::from(gzip));
            assert_eq!(u32::from_be_bytes(body.bytes[1..5].try_into().unwrap()) as usize, body.bytes.len() - 5);
            let mut message = body.bytes[5..].to_vec();
            if gzip {
                let mut plain = Vec::new();
                flate2::read::GzDecoder::new(&message[..]).read_to_end(&mut plain).unwrap();
                assert!(message.len() < plain.len() / 10);
                message = plain;
            }
            assert_eq!(ExportTraceServiceRequest::decode(&message[..]).unwrap(), request(&[5000]));
        }
    }
}
