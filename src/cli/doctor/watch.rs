//! Work that may hang: a driver, a network, a file system. It is done on a thread of its own, and what it had reported counts when the
//! time is over. The thread is left behind then; the process ends soon anyway.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

/// Work under way.
pub(super) struct Watch<T>(Receiver<T>);

impl<T: Send + 'static> Watch<T> {
    /// Starts the work, which reports by calling what it is given: each report replaces the one before.
    pub(super) fn start(name: &str, work: impl FnOnce(&dyn Fn(T)) + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        // Without a thread nothing is ever reported, and the work has ended: the receiver sees that the sender is gone.
        let _ = thread::Builder::new().name(name.to_owned()).spawn(move || {
            work(&|report| {
                let _ = sender.send(report);
            });
        });
        Self(receiver)
    }

    /// The last report, and whether the work has ended by the deadline.
    pub(super) fn wait(self, deadline: Instant) -> (Option<T>, bool) {
        let mut last = None;
        loop {
            match self.0.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(report) => last = Some(report),
                Err(RecvTimeoutError::Disconnected) => return (last, true),
                Err(RecvTimeoutError::Timeout) => return (last, false),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_hangs_is_given_up_and_what_it_had_said_counts() {
        let (hold, held) = mpsc::channel::<()>();
        let watch = Watch::start("hangs", move |say| {
            say(1);
            say(2);
            let _ = held.recv();
            say(3);
        });
        assert_eq!(watch.wait(Instant::now() + Duration::from_millis(200)), (Some(2), false));
        drop(hold);
        let watch = Watch::start("ends", |say| say(1));
        assert_eq!(watch.wait(Instant::now() + Duration::from_secs(10)), (Some(1), true));
        let watch = Watch::start("panics", |_: &dyn Fn(u8)| std::panic::resume_unwind(Box::new(())));
        assert_eq!(watch.wait(Instant::now() + Duration::from_secs(10)), (None, true));
    }
}
