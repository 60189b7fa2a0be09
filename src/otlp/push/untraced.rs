//! Work that leaves no trace of its own: HTTP/2's crate speaks to `tracing`, and an application that exports all it hears by OTLP
//! would export its exporting.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tracing_core::dispatcher::{Dispatch, has_been_set, with_default};

/// A future that is run out of `tracing`'s sight.
pub(super) struct Untraced<F>(Pin<Box<F>>);

impl<F: Future> Untraced<F> {
    pub(super) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Untraced<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Where nobody listens there is nothing to hide, and setting a default would tell `log`'s users that somebody does.
        if has_been_set() { with_default(&Dispatch::none(), || self.0.as_mut().poll(context)) } else { self.0.as_mut().poll(context) }
    }
}
