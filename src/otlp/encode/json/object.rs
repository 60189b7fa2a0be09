//! Writing JSON objects as proto3 has them.

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::resource::v1::Resource;
use serde::Serialize;

use super::key_value;

pub(super) fn list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Writing a text or a number into memory does not fail.
pub(super) fn serde_value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let _ = serde_json::to_writer(out, value);
}

/// A text in quotes. Nearly all have nothing that must be escaped, which is quick to see and quick to copy.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    // No early end: so the compiler looks at many bytes at once.
    let must_escape = text.bytes().fold(false, |found, byte| found | (byte < 0x20) | (byte == b'"') | (byte == b'\\'));
    if must_escape {
        serde_value(out, text);
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

/// A JSON object that is being written. What is at its default (0, empty, absent) is left out, as proto3 does.
pub(super) struct Object<'a> {
    pub(super) out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    pub(super) fn close(self) {
        self.out.push(b'}');
    }

    pub(super) fn key(&mut self, key: &'static str) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    pub(super) fn serde<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) {
        self.key(key);
        serde_value(self.out, value);
    }

    pub(super) fn text(&mut self, key: &'static str, text: &str) {
        if !text.is_empty() {
            self.string(key, text);
        }
    }

    /// Always written: an empty text is a value.
    pub(super) fn string(&mut self, key: &'static str, text: &str) {
        self.key(key);
        put_text(self.out, text);
    }

    pub(super) fn hex(&mut self, key: &'static str, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        if !bytes.is_empty() {
            self.key(key);
            self.out.push(b'"');
            for byte in bytes {
                self.out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
            self.out.push(b'"');
        }
    }

    /// A number of at most 32 bits.
    pub(super) fn small(&mut self, key: &'static str, number: impl Serialize + Default + PartialEq) {
        if number != Default::default() {
            self.serde(key, &number);
        }
    }

    /// A number of 64 bits: text, since JSON readers have 53 bits.
    pub(super) fn long(&mut self, key: &'static str, number: u64) {
        if number != 0 {
            self.quoted(key, number);
        }
    }

    pub(super) fn quoted(&mut self, key: &'static str, number: impl Serialize) {
        self.key(key);
        self.out.push(b'"');
        serde_value(self.out, &number);
        self.out.push(b'"');
    }

    /// Always written: a value of 0 is a value.
    pub(super) fn double(&mut self, key: &'static str, number: f64) {
        self.key(key);
        match number {
            number if number.is_finite() => serde_value(self.out, &number),
            number if number.is_nan() => self.out.extend_from_slice(b"\"NaN\""),
            number if number > 0.0 => self.out.extend_from_slice(b"\"Infinity\""),
            _ => self.out.extend_from_slice(b"\"-Infinity\""),
        }
    }

    pub(super) fn optional_double(&mut self, key: &'static str, number: Option<f64>) {
        if let Some(number) = number {
            self.double(key, number);
        }
    }

    pub(super) fn array<T>(&mut self, key: &'static str, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
        if !items.is_empty() {
            self.key(key);
            list(self.out, items, write);
        }
    }

    pub(super) fn buckets(&mut self, key: &'static str, buckets: Option<&Buckets>) {
        let Some(buckets) = buckets else { return };
        self.key(key);
        let mut object = Object::open(self.out);
        object.small("offset", buckets.offset);
        object.array("bucketCounts", &buckets.bucket_counts, |out, count| {
            out.push(b'"');
            serde_value(out, count);
            out.push(b'"');
        });
        object.close();
    }

    pub(super) fn resource(&mut self, resource: Option<&Resource>) {
        let Some(resource) = resource else { return };
        self.key("resource");
        let mut object = Object::open(self.out);
        object.array("attributes", &resource.attributes, key_value);
        object.small("droppedAttributesCount", resource.dropped_attributes_count);
        object.close();
    }

    pub(super) fn scope(&mut self, scope: Option<&InstrumentationScope>) {
        let Some(scope) = scope else { return };
        self.key("scope");
        let mut object = Object::open(self.out);
        object.text("name", &scope.name);
        object.text("version", &scope.version);
        object.array("attributes", &scope.attributes, key_value);
        object.small("droppedAttributesCount", scope.dropped_attributes_count);
        object.close();
    }
}
