//! A program without a transport: nothing is ever sent.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::{Export, PushOutcome};
use crate::config::Config;
use crate::model::{Delivery, Span};
use crate::otlp::encode::Encoder;

/// Never there: neither of the features `http` and `grpc` is built in.
#[derive(Debug)]
pub struct Push(Infallible);

impl Push {
    /// Always `None`.
    ///
    /// # Errors
    /// Never.
    pub fn start(_config: &Config) -> io::Result<Option<Self>> {
        Ok(None)
    }

    /// Takes nothing.
    pub fn send(&self, _export: Export) {
        match self.0 {}
    }

    /// Never called: there is no such thing.
    pub fn send_spans(&self, _encoder: &Encoder, _spans: &[Span]) {
        match self.0 {}
    }

    /// Counts nothing.
    #[must_use]
    pub fn counts(&self) -> [Delivery; 3] {
        match self.0 {}
    }

    /// Has no thread.
    #[must_use]
    pub fn cpu_time_ns(&self) -> Arc<AtomicU64> {
        match self.0 {}
    }

    /// Has nothing to finish.
    #[must_use]
    pub fn finish(self, _deadline: Instant) -> PushOutcome {
        match self.0 {}
    }
}
