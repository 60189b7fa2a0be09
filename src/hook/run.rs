//! A run: what everything else hangs on.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Epoch, Epochs, Hook, PANIC, PhaseGuard, PhaseName, ScalarName, ScalarValue, Step, Steps};
use crate::model::{EndStatus, Outcome, Owner};

/// What ends a run: exports the rest, prints the summary, says what became of everything. Given by the session, which alone knows how.
pub type Closer = Box<dyn FnOnce() -> Outcome + Send>;

/// A training run. It ends with [`finish`](Run::finish), or when this is dropped.
///
/// A run that does nothing is the same type: when stepline is switched off (`STEPLINE_DISABLED=1`), when it could not start, and in a
/// forked child.
///
/// ```no_run
/// use stepline::{Phase, Scalar};
/// # fn forward(batch: &u8) -> f64 { 0.0 }
/// # fn backward(loss: f64) {}
/// # let loader: Vec<u8> = vec![];
/// let run = stepline::configure().run_name("wine").start()?;
/// for epoch in run.epochs(0..10) {
///     for (step, batch) in epoch.steps(&loader) {
///         let loss = step.phase(Phase::FORWARD, || forward(batch));
///         step.phase(Phase::BACKWARD, || backward(loss));
///         step.record(Scalar::LOSS, loss);
///     }
/// }
/// let outcome = run.finish();
/// assert!(outcome.is_complete(), "{:?}", outcome.reasons);
/// # Ok::<(), stepline::StartError>(())
/// ```
#[must_use = "the run ends when this is dropped: give it a name (`let run = ..`)"]
pub struct Run {
    hook: Option<Arc<Hook>>,
    closer: Mutex<Option<Closer>>,
    failed: AtomicBool,
}

impl Run {
    /// A run that does nothing.
    ///
    /// ```
    /// let run = stepline::Run::none();
    /// assert!(!run.is_recording());
    /// ```
    pub fn none() -> Self {
        Self { hook: None, closer: Mutex::new(None), failed: AtomicBool::new(false) }
    }

    /// A run that begins now.
    #[doc(hidden)]
    pub fn begin(hook: Arc<Hook>, closer: Closer) -> Self {
        hook.writer.run_began(hook.writer.now());
        Self { hook: Some(hook), closer: Mutex::new(Some(closer)), failed: AtomicBool::new(false) }
    }

    fn live(&self) -> Option<&Hook> {
        self.hook.as_deref().and_then(Hook::ours)
    }

    /// Whether anything is recorded: `false` when stepline is switched off or could not start, and in a forked child.
    ///
    /// ```no_run
    /// assert!(stepline::init().is_recording());
    /// ```
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.live().is_some()
    }

    /// Goes through epochs: `0..10`, or `7..20` after a restart.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// for epoch in run.epochs(0..10) {
    ///     // ..
    /// }
    /// ```
    pub fn epochs<I: IntoIterator<Item = u64>>(&self, numbers: I) -> Epochs<'_, I::IntoIter> {
        Epochs::new(self.live(), numbers.into_iter())
    }

    /// An epoch that begins now, for loops of another shape.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// let epoch = run.epoch(0);
    /// drop(epoch); // ends here
    /// ```
    pub fn epoch(&self, number: u64) -> Epoch<'_> {
        Epoch::begin(self.live(), number)
    }

    /// Goes through batches without epochs (pre-training, reinforcement learning), each in a step of its own; waiting for the batch
    /// is the step's `data_wait` phase.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let loader: Vec<u8> = vec![];
    /// for (step, batch) in run.steps(&loader) {
    ///     // forward, backward, optimizer
    /// }
    /// ```
    pub fn steps<I: IntoIterator>(&self, batches: I) -> Steps<'_, I::IntoIter> {
        Steps::new(self.live(), None, batches.into_iter())
    }

    /// A step without an epoch that begins now, for loops of another shape.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// let step = run.step();
    /// drop(step); // ends here
    /// ```
    pub fn step(&self) -> Step<'_> {
        Step::begin(self.live(), None)
    }

    /// Opens a phase of the run, outside of epochs.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// let _load = run.enter("load_dataset");
    /// ```
    pub fn enter<'n>(&self, name: impl Into<PhaseName<'n>>) -> PhaseGuard<'_> {
        match self.live() {
            Some(hook) => PhaseGuard::standing(hook, Owner::Run, name.into()),
            None => PhaseGuard::none(),
        }
    }

    /// Runs a closure in a phase of the run, outside of epochs.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// let data = run.phase("load_dataset", || vec![0.0; 100]);
    /// ```
    pub fn phase<'n, T>(&self, name: impl Into<PhaseName<'n>>, body: impl FnOnce() -> T) -> T {
        let _phase = self.enter(name);
        body()
    }

    /// Records a number of the run.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// run.record("parameters", 1_200_000);
    /// ```
    pub fn record<'n>(&self, name: impl Into<ScalarName<'n>>, value: impl ScalarValue) {
        if let Some(hook) = self.live() {
            hook.record(Owner::Run, name.into(), value.to_f64());
        }
    }

    /// Marks the run as failed. `error_type` is the name of a kind of error, not a message: 32 bytes of it become `error.type`.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let train = || -> Result<(), std::io::Error> { Ok(()) };
    /// if let Err(_error) = train() {
    ///     run.fail("io");
    /// }
    /// ```
    pub fn fail(&self, error_type: &str) {
        if let Some(hook) = self.live() {
            self.failed.store(true, Ordering::Relaxed);
            hook.fail(Owner::Run, error_type);
        }
    }

    /// Ends the run: exports what is left (at most `STEPLINE_SHUTDOWN_TIMEOUT`, 5 s), prints the summary, and says what became of
    /// everything. Dropping the run does the same without telling.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// let outcome = run.finish();
    /// println!("{} spans delivered", outcome.traces.delivered);
    /// ```
    pub fn finish(self) -> Outcome {
        self.close()
    }

    fn close(&self) -> Outcome {
        let Some(hook) = self.live() else {
            // A forked child: the threads at the other ends of the closer's channels do not exist here, and a lock of theirs may be
            // held for ever. Neither called nor dropped.
            if let Ok(mut closer) = self.closer.try_lock() {
                std::mem::forget(closer.take());
            }
            return Outcome::default();
        };
        let Some(closer) = self.closer.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Outcome::default() };
        let failed = self.failed.load(Ordering::Relaxed);
        let panicked = std::thread::panicking() && !failed;
        if panicked {
            hook.fail(Owner::Run, PANIC);
        }
        let status = if panicked || failed { EndStatus::Failed } else { EndStatus::Finished };
        hook.writer.run_ended(hook.writer.now(), status);
        // A fault of ours at the very end must not become one of the training: dropped while a panic unwinds, it would abort.
        std::panic::catch_unwind(AssertUnwindSafe(closer)).unwrap_or_else(|_| {
            let mut outcome = Outcome::default();
            outcome.reasons.push("stepline failed while it ended the run: what was still to be exported is lost".to_owned());
            outcome
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.close();
    }
}
