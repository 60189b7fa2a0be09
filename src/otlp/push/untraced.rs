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

#[cfg(test)]
mod tests {
    use tracing_core::dispatcher::get_default;
    use tracing_core::span::{Attributes, Id, Record};
    use tracing_core::{Event, Metadata, Subscriber};

    use super::*;

    struct Listener;

    impl Subscriber for Listener {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn who_listens_hears_nothing() {
        let is_heard = || get_default(|dispatch| dispatch.is::<Listener>());
        with_default(&Dispatch::new(Listener), || {
            assert!(is_heard());
            let mut future = Untraced::new(async { is_heard() });
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(std::task::Waker::noop()));
            assert_eq!(polled, Poll::Ready(false));
            assert!(is_heard());
        });
    }
}
