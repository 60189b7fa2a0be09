//! A step, and the loop that makes them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Hook, PhaseGuard, PhaseName, ScalarName, ScalarValue};
use crate::journal::OpenStep;
use crate::model::{Owner, Phase, Scalar};

/// A training step (one optimizer update) that is open: it ends when this is dropped.
///
/// ```no_run
/// use stepline::{Phase, Scalar};
/// # let run = stepline::init();
/// # let loader: Vec<f64> = vec![];
/// # fn forward(batch: f64) -> f64 { batch }
/// for (step, batch) in run.steps(loader) {
///     let loss = step.phase(Phase::FORWARD, || forward(batch));
///     step.record(Scalar::LOSS, loss);
/// }
/// ```
#[must_use = "the step ends when this is dropped: give it a name (`let step = ..`)"]
pub struct Step<'r> {
    open: Option<(&'r Hook, OpenStep)>,
    failed: AtomicBool,
}

impl<'r> Step<'r> {
    /// A step that begins now.
    #[inline]
    pub(super) fn begin(hook: Option<&'r Hook>, epoch: Option<u32>) -> Self {
        match hook {
            Some(hook) => Self::begin_recorded(hook, epoch),
            None => Self { open: None, failed: AtomicBool::new(false) },
        }
    }

    #[inline(never)]
    fn begin_recorded(hook: &'r Hook, epoch: Option<u32>) -> Self {
        let open = hook.ours().map(|hook| (hook, hook.writer.step_began_after(hook.writer.now(), hook.first_step, epoch)));
        Self { open, failed: AtomicBool::new(false) }
    }

    #[inline]
    fn live(&self) -> Option<(&'r Hook, &OpenStep)> {
        self.open.as_ref().filter(|(hook, _)| hook.writer.is_ours()).map(|(hook, step)| (*hook, step))
    }

    /// The training's own number of this step; 0 when stepline is switched off.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// assert_eq!(run.step().index(), 0);
    /// ```
    #[must_use]
    pub fn index(&self) -> u64 {
        self.open.as_ref().map_or(0, |(_, step)| step.step())
    }

    /// Opens a phase of this step, inside the one that is open. On another thread than the step's it stands beside the step's own.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let step = run.step();
    /// # fn backward() {}
    /// {
    ///     let _backward = step.enter(stepline::Phase::BACKWARD);
    ///     backward();
    /// }
    /// ```
    #[inline]
    pub fn enter<'n>(&self, name: impl Into<PhaseName<'n>>) -> PhaseGuard<'r> {
        match self.live() {
            Some((hook, step)) => PhaseGuard::in_step(hook, step, name.into()),
            None => PhaseGuard::none(),
        }
    }

    /// Runs a closure in a phase of this step.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let step = run.step();
    /// let logits = step.phase(stepline::Phase::FORWARD, || vec![0.0; 10]);
    /// ```
    #[inline]
    pub fn phase<'n, T>(&self, name: impl Into<PhaseName<'n>>, body: impl FnOnce() -> T) -> T {
        let _phase = self.enter(name);
        body()
    }

    /// Records a number of this step. NaN and infinities are recorded as such: they never become a metric's value, are counted, and
    /// the step's span is kept.
    ///
    /// ```no_run
    /// use stepline::Scalar;
    /// # let run = stepline::init();
    /// # let step = run.step();
    /// step.record(Scalar::LOSS, 0.25);
    /// step.record(Scalar::TOKENS, 4096);
    /// step.record("accuracy", 0.9);
    /// ```
    #[inline]
    pub fn record<'n>(&self, name: impl Into<ScalarName<'n>>, value: impl ScalarValue) {
        if self.open.is_some() {
            match name.into() {
                ScalarName::Known(scalar) => self.record_number(scalar, value.to_f64()),
                ScalarName::Own(name) => self.record_own(name, value.to_f64()),
            }
        }
    }

    /// Counts a batch of gradient accumulation.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let batches: Vec<u8> = vec![];
    /// let step = run.step();
    /// for batch in &batches {
    ///     step.micro_step();
    /// }
    /// ```
    pub fn micro_step(&self) {
        if let Some((hook, step)) = self.live() {
            hook.writer.micro_step(step);
        }
    }

    /// Goes through the batches of gradient accumulation: each is counted, and waiting for it is a `data_wait` phase.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let mut loader = (0..100_u8).into_iter();
    /// let step = run.step();
    /// for batch in step.micro_steps(loader.by_ref().take(4)) {
    ///     // forward, backward
    /// }
    /// // one optimizer update
    /// ```
    pub fn micro_steps<I: IntoIterator>(&self, batches: I) -> MicroSteps<'_, 'r, I::IntoIter> {
        MicroSteps { step: self, batches: batches.into_iter() }
    }

    /// Asks for this step's span, whatever `STEPLINE_STEP_SPANS` says (except `none`).
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let step = run.step();
    /// step.keep();
    /// ```
    pub fn keep(&self) {
        if let Some((hook, step)) = self.live() {
            hook.writer.keep_step(step);
        }
    }

    /// Marks this step as failed. `error_type` is the name of a kind of error, not a message: 32 bytes of it become `error.type`.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let (step, loss) = (run.step(), f64::NAN);
    /// if loss.is_nan() {
    ///     step.fail("diverged");
    /// }
    /// ```
    pub fn fail(&self, error_type: &str) {
        if let Some((hook, step)) = self.live() {
            self.failed.store(true, Ordering::Relaxed);
            hook.writer.fail_step(step);
            hook.fail(Owner::Step(step.ordinal()), error_type);
        }
    }

    /// Opens a phase that begins with the step: one reading of the clock for both, since nothing lies between them.
    #[inline]
    fn enter_at_its_begin(&self, phase: Phase) -> PhaseGuard<'r> {
        match self.live() {
            Some((hook, step)) => PhaseGuard::in_step_at(hook, step, phase, step.begin()),
            None => PhaseGuard::none(),
        }
    }

    /// It was no step after all.
    fn cancel(mut self) {
        if let Some((hook, step)) = self.open.take().filter(|(hook, _)| hook.writer.is_ours()) {
            hook.writer.step_cancelled(&step);
        }
    }
}

impl Drop for Step<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.open.is_some() {
            self.end();
        }
    }
}

impl Step<'_> {
    #[inline(never)]
    fn end(&self) {
        let Some((hook, step)) = self.live() else { return };
        let ticks = hook.writer.now();
        let failed = self.failed.load(Ordering::Relaxed);
        let panicked = std::thread::panicking() && !failed;
        if panicked {
            hook.step_panicked(step);
        }
        hook.writer.step_ended(ticks, step, panicked || failed);
    }

    #[inline(never)]
    fn record_number(&self, scalar: Scalar, value: f64) {
        if let Some((hook, step)) = self.live() {
            hook.writer.step_scalar(step, scalar, value);
        }
    }

    #[inline(never)]
    fn record_own(&self, name: &str, value: f64) {
        if let Some((hook, step)) = self.live() {
            hook.writer.step_scalar(step, hook.own_scalar(name), value);
        }
    }
}

/// A loop over batches, each in a step of its own; waiting for the batch is the step's `data_wait` phase. Made by
/// [`Epoch::steps`](super::Epoch::steps) and [`Run::steps`](super::Run::steps).
///
/// ```no_run
/// # let run = stepline::init();
/// let loader = vec![1, 2, 3];
/// for (step, batch) in run.steps(&loader) {
///     step.record("batch", *batch);
/// }
/// ```
pub struct Steps<'r, I> {
    hook: Option<&'r Hook>,
    epoch: Option<u32>,
    batches: I,
}

impl<'r, I> Steps<'r, I> {
    pub(super) fn new(hook: Option<&'r Hook>, epoch: Option<u32>, batches: I) -> Self {
        Self { hook, epoch, batches }
    }
}

impl<'r, I: Iterator> Iterator for Steps<'r, I> {
    type Item = (Step<'r>, I::Item);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let step = Step::begin(self.hook, self.epoch);
        let wait = step.enter_at_its_begin(Phase::DATA_WAIT);
        let batch = self.batches.next();
        drop(wait);
        match batch {
            Some(batch) => Some((step, batch)),
            None => {
                step.cancel();
                None
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.batches.size_hint()
    }
}

/// A loop over the batches of gradient accumulation. Made by [`Step::micro_steps`].
///
/// ```no_run
/// # let run = stepline::init();
/// let step = run.step();
/// for batch in step.micro_steps([1, 2, 3, 4]) {
///     // forward, backward
/// }
/// ```
pub struct MicroSteps<'s, 'r, I> {
    step: &'s Step<'r>,
    batches: I,
}

impl<I: Iterator> Iterator for MicroSteps<'_, '_, I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<Self::Item> {
        let wait = self.step.enter(Phase::DATA_WAIT);
        let batch = self.batches.next();
        if batch.is_some() {
            drop(wait);
            self.step.micro_step();
        } else {
            wait.cancel();
        }
        batch
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.batches.size_hint()
    }
}
