//! An epoch, and the loop that makes them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Hook, PANIC, PhaseGuard, PhaseName, ScalarName, ScalarValue, Step, Steps};
use crate::model::{EndStatus, Owner, Phase};

/// An epoch that is open: it ends when this is dropped.
///
/// ```no_run
/// # let run = stepline::init();
/// # let loader: Vec<u8> = vec![];
/// for epoch in run.epochs(0..10) {
///     for (step, batch) in epoch.steps(&loader) {
///         // forward, backward, optimizer
///     }
///     epoch.validation(|validation| validation.record("accuracy", 0.9));
/// }
/// ```
#[must_use = "the epoch ends when this is dropped: give it a name (`let epoch = ..`)"]
pub struct Epoch<'r> {
    open: Option<Open<'r>>,
    epoch: u64,
    failed: AtomicBool,
}

#[derive(Clone, Copy)]
struct Open<'r> {
    hook: &'r Hook,
    place: (u32, u16),
}

impl<'r> Epoch<'r> {
    pub(super) fn begin(hook: Option<&'r Hook>, epoch: u64) -> Self {
        let open = hook.and_then(Hook::ours).map(|hook| Open { hook, place: hook.writer.epoch_began(hook.writer.now(), epoch) });
        Self { open, epoch, failed: AtomicBool::new(false) }
    }

    fn live(&self) -> Option<Open<'r>> {
        self.open.filter(|open| open.hook.writer.is_ours())
    }

    fn owner(open: Open<'r>) -> Owner {
        Owner::Epoch(open.place.0)
    }

    /// The number of this epoch, as it was given.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// assert_eq!(run.epoch(7).index(), 7);
    /// ```
    #[must_use]
    pub fn index(&self) -> u64 {
        self.epoch
    }

    /// Goes through the batches of this epoch, each in a step of its own; waiting for the batch is the step's `data_wait` phase.
    /// The number of batches need not be known.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let loader: Vec<u8> = vec![];
    /// # let epoch = run.epoch(0);
    /// for (step, batch) in epoch.steps(&loader) {
    ///     // forward, backward, optimizer
    /// }
    /// ```
    pub fn steps<I: IntoIterator>(&self, batches: I) -> Steps<'r, I::IntoIter> {
        let live = self.live();
        Steps::new(live.map(|open| open.hook), live.map(|open| open.place.0), batches.into_iter())
    }

    /// A step of this epoch that begins now, for loops of another shape.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let epoch = run.epoch(0);
    /// let step = epoch.step();
    /// drop(step); // ends here
    /// ```
    pub fn step(&self) -> Step<'r> {
        let live = self.live();
        Step::begin(live.map(|open| open.hook), live.map(|open| open.place.0))
    }

    /// Opens a phase of this epoch.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let epoch = run.epoch(0);
    /// let _checkpoint = epoch.enter(stepline::Phase::CHECKPOINT);
    /// ```
    pub fn enter<'n>(&self, name: impl Into<PhaseName<'n>>) -> PhaseGuard<'r> {
        match self.live() {
            Some(open) => PhaseGuard::standing(open.hook, Self::owner(open), name.into()),
            None => PhaseGuard::none(),
        }
    }

    /// Runs a closure in a phase of this epoch.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let epoch = run.epoch(0);
    /// epoch.phase("shuffle", || { /* .. */ });
    /// ```
    pub fn phase<'n, T>(&self, name: impl Into<PhaseName<'n>>, body: impl FnOnce() -> T) -> T {
        let _phase = self.enter(name);
        body()
    }

    /// Runs the evaluation of the model.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let epoch = run.epoch(0);
    /// # fn evaluate() -> f64 { 0.9 }
    /// epoch.validation(|validation| validation.record("accuracy", evaluate()));
    /// ```
    pub fn validation<T>(&self, body: impl FnOnce(&PhaseGuard<'r>) -> T) -> T {
        body(&self.enter(Phase::VALIDATION))
    }

    /// Runs the saving of the model.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let epoch = run.epoch(0);
    /// # let save = || std::fs::write("model.bin", []);
    /// epoch.checkpoint(|_| save())?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn checkpoint<T>(&self, body: impl FnOnce(&PhaseGuard<'r>) -> T) -> T {
        body(&self.enter(Phase::CHECKPOINT))
    }

    /// Records a number of this epoch.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let epoch = run.epoch(0);
    /// epoch.record("accuracy", 0.9);
    /// ```
    pub fn record<'n>(&self, name: impl Into<ScalarName<'n>>, value: impl ScalarValue) {
        if let Some(open) = self.live() {
            open.hook.record(Self::owner(open), name.into(), value.to_f64());
        }
    }

    /// Marks this epoch as failed. `error_type` is the name of a kind of error, not a message: 32 bytes of it become `error.type`.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let epoch = run.epoch(0);
    /// epoch.fail("diverged");
    /// ```
    pub fn fail(&self, error_type: &str) {
        if let Some(open) = self.live() {
            self.failed.store(true, Ordering::Relaxed);
            open.hook.fail(Self::owner(open), error_type);
        }
    }
}

impl Drop for Epoch<'_> {
    fn drop(&mut self) {
        let Some(open) = self.live() else { return };
        let failed = self.failed.load(Ordering::Relaxed);
        let panicked = std::thread::panicking() && !failed;
        if panicked {
            open.hook.fail(Self::owner(open), PANIC);
        }
        let status = if panicked || failed { EndStatus::Failed } else { EndStatus::Finished };
        open.hook.writer.epoch_ended(open.hook.writer.now(), open.place, status);
    }
}

/// A loop over epochs. Made by [`Run::epochs`](super::Run::epochs).
///
/// ```no_run
/// # let run = stepline::init();
/// for epoch in run.epochs(7..20) {
///     println!("epoch {}", epoch.index());
/// }
/// ```
pub struct Epochs<'r, I> {
    hook: Option<&'r Hook>,
    numbers: I,
}

impl<'r, I> Epochs<'r, I> {
    pub(super) fn new(hook: Option<&'r Hook>, numbers: I) -> Self {
        Self { hook, numbers }
    }
}

impl<'r, I: Iterator<Item = u64>> Iterator for Epochs<'r, I> {
    type Item = Epoch<'r>;

    fn next(&mut self) -> Option<Epoch<'r>> {
        self.numbers.next().map(|number| Epoch::begin(self.hook, number))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.numbers.size_hint()
    }
}
