//! The writer's side: what the hook and the sampler call. Nothing here fails, waits, allocates (after the first use of a name) or
//! makes a system call.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::clock_map::ClockWriter;
use super::handles::{OpenPhase, OpenStep, StepAt, this_thread};
use super::layout::{
    CLOSED, CLOSED_AT, DROPPED_AT, DROPPED_IMPORTANT_AT, HEAD_AT, LAST_STEP_AT, NAMES_REFUSED_AT, PHASE_NAME_COUNT_AT, PHASE_NAMES_AT,
    RING_AT, SCALAR_NAME_COUNT_AT, SCALAR_NAMES_AT, TAIL_AT, slots_for, words_for,
};
use super::mapping::{Head, Mapping};
use super::open_step::StepEntry;
use super::open_table::{Ending, NO_ENTRY, OpenTable};
use super::own_names::OwnNames;
use super::ring::{AtomicU64, Ordering, Payload, Ring};
use super::step_codec::{self, FLAG_EPOCH, FLAG_FAILED, FLAG_KEEP, PhaseTicks, StepTicks, slots_of};
use super::ticks::TickKind;
use super::{About, directory, encode, fork, head};
use crate::error::JournalError;
use crate::model::{EndStatus, GpuDevice, NameTable, Owner, Phase, Scalar};

/// One slot in this many is kept for run, epoch, error and device-event records.
const RESERVED_SHARE: u64 = 16;

/// The journal of this process, open for writing.
pub struct Writer {
    pub(super) mapping: Arc<Mapping>,
    path: PathBuf,
    tick_kind: TickKind,
    generation: u64,
    reserved: u64,
    clock: Mutex<ClockWriter>,
    phase_names: OwnNames,
    scalar_names: OwnNames,
    next_step: AtomicU64,
    next_epoch: AtomicU64,
    next_phase: AtomicU64,
}

/// Which room in the ring a record may take.
#[derive(Clone, Copy)]
enum Room {
    /// What is not reserved.
    Open,
    /// All.
    Reserved,
}

impl Writer {
    /// Makes a new journal with a ring of about `size_bytes`.
    ///
    /// # Errors
    /// When the directory is not safe to write to or the file cannot be made or mapped, a full disk included.
    pub fn create(path: &Path, about: &About, size_bytes: u64) -> Result<Self, JournalError> {
        let slots = slots_for(size_bytes);
        let file = directory::create(path, words_for(slots) as u64 * 8)?;
        let failed = |source| JournalError::Create { path: path.to_owned(), source };
        match Self::begin(&file, path, about, slots) {
            Ok(writer) => Ok(writer),
            Err(source) => {
                let _ = std::fs::remove_file(path);
                Err(failed(source))
            }
        }
    }

    fn begin(file: &File, path: &Path, about: &About, slots: usize) -> std::io::Result<Self> {
        fork::watch();
        let mapping = Arc::new(Mapping::of_file(file)?);
        let words = mapping.words();
        let tick_kind = TickKind::best();
        let clock = ClockWriter::start(tick_kind, words);
        head::write(words, slots, tick_kind, about)?;
        Ok(Self {
            path: path.to_owned(),
            tick_kind,
            generation: fork::generation(),
            reserved: (slots as u64 / RESERVED_SHARE).max(4),
            clock: Mutex::new(clock),
            phase_names: OwnNames::default(),
            scalar_names: OwnNames::default(),
            next_step: AtomicU64::new(0),
            next_epoch: AtomicU64::new(0),
            next_phase: AtomicU64::new(0),
            mapping,
        })
    }

    /// Says which devices the samples will speak of: once, before the first of them. Those that the journal has no room for are left
    /// out; `false` if that was so.
    pub fn set_devices(&self, devices: &[GpuDevice]) -> bool {
        head::write_devices(self.words(), devices)
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is still the process that made the journal. A forked child must not write into it.
    #[inline]
    #[must_use]
    pub fn is_ours(&self) -> bool {
        fork::generation() == self.generation
    }

    /// Ticks now.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        self.tick_kind.now()
    }

    /// Ticks now if the counter gives them: without the system's clock, whose call would have the hook save its registers each time.
    #[inline]
    pub(crate) fn counter_now(&self) -> Option<u64> {
        self.tick_kind.counter_now()
    }

    /// Keeps the journal's clock in step with the system's. To be called about once a second by a thread of stepline's own.
    pub fn follow_clock(&self) {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).follow(self.words());
    }

    /// Says that nothing more will be written.
    pub fn close(&self) {
        self.head()[CLOSED_AT].store(CLOSED, Ordering::Release);
    }

    /// The words before the ring.
    #[inline]
    pub(super) fn head(&self) -> &Head {
        self.mapping.head()
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    #[inline]
    fn ring(&self) -> Ring<'_> {
        let head = self.head();
        Ring { head: &head[HEAD_AT], tail: &head[TAIL_AT], slots: &self.words()[RING_AT..] }
    }

    #[inline]
    pub(super) fn table(&self) -> OpenTable<'_> {
        OpenTable { words: self.head() }
    }

    /// Writes a record that may be dropped when the ring is full.
    #[inline]
    pub(super) fn put(&self, payload: &Payload) {
        self.put_ending(payload, Room::Open, Ending::NOTHING);
    }

    /// Writes a record for which room is reserved.
    pub(super) fn put_important(&self, payload: &Payload) {
        self.put_ending(payload, Room::Reserved, Ending::NOTHING);
    }

    /// Writes the record that says that something has ended, and takes that off the table of what is open.
    #[inline]
    fn put_ending(&self, payload: &Payload, room: Room, ending: Ending<'_>) {
        let ring = self.ring();
        let (reserved, dropped_at) = match room {
            Room::Open => (self.reserved, DROPPED_AT),
            Room::Reserved => (0, DROPPED_IMPORTANT_AT),
        };
        match ring.claim(1, reserved) {
            Some(position) => {
                ending.mark();
                ring.publish(position, payload);
            }
            None => self.count(dropped_at),
        }
        ending.free();
    }

    #[cold]
    fn count(&self, at: usize) {
        self.head()[at].fetch_add(1, Ordering::Relaxed);
    }

    /// The run begins.
    pub fn run_began(&self, ticks: u64) {
        self.table().open_run(ticks);
        self.put_important(&encode::run_began(ticks));
    }

    /// The run ends.
    pub fn run_ended(&self, ticks: u64, status: EndStatus) {
        self.put_ending(&encode::run_ended(ticks, status), Room::Reserved, self.table().run_ending());
    }

    /// An epoch begins: its ordinal and its place among the open ones.
    pub fn epoch_began(&self, ticks: u64, epoch: u64) -> (u32, u16) {
        let ordinal = self.next_epoch.fetch_add(1, Ordering::Relaxed) as u32;
        let entry = self.table().open_epoch(ordinal, epoch, ticks);
        self.put_important(&encode::epoch_began(ticks, ordinal, epoch));
        (ordinal, entry)
    }

    /// An epoch ends.
    pub fn epoch_ended(&self, ticks: u64, (ordinal, entry): (u32, u16), status: EndStatus) {
        self.put_ending(&encode::epoch_ended(ticks, ordinal, status), Room::Reserved, self.table().epoch_ending(entry));
    }

    /// A step begins.
    #[inline]
    pub fn step_began(&self, ticks: u64, step: u64, epoch: Option<u32>) -> OpenStep {
        let ordinal = self.next_step.fetch_add(1, Ordering::Relaxed);
        self.begin_step(ticks, ordinal, step, epoch)
    }

    /// A step begins whose number is its ordinal plus `first`: one shared counter less than with numbers of one's own.
    #[inline]
    pub fn step_began_after(&self, ticks: u64, first: u64, epoch: Option<u32>) -> OpenStep {
        let ordinal = self.next_step.fetch_add(1, Ordering::Relaxed);
        self.begin_step(ticks, ordinal, first.wrapping_add(ordinal), epoch)
    }

    #[inline]
    fn begin_step(&self, ticks: u64, ordinal: u64, step: u64, epoch: Option<u32>) -> OpenStep {
        let head = head(ordinal, step, epoch, ticks);
        self.ring().fetch_ahead();
        let at = StepAt { ordinal, thread: this_thread(), entry: self.table().open_step(&head) };
        OpenStep { at, step, begin: ticks, epoch }
    }

    /// A step ends.
    #[inline]
    pub fn step_ended(&self, ticks: u64, step: &OpenStep, failed: bool) {
        self.head()[LAST_STEP_AT].store(step.step.wrapping_add(1), Ordering::Relaxed);
        match self.entry(step) {
            Some(entry) => {
                self.put_step(StepTicks { end: ticks, ..entry.head() }, failed, Some(entry), entry.phases(), entry.scalars());
                entry.close();
            }
            None => {
                let head = StepTicks { end: ticks, ..head(step.ordinal, step.step, step.epoch, step.begin) };
                self.put_step(head, failed, None, std::iter::empty(), std::iter::empty());
            }
        }
    }

    #[inline]
    fn put_step(
        &self,
        mut head: StepTicks,
        failed: bool,
        entry: Option<StepEntry<'_>>,
        phases: impl ExactSizeIterator<Item = PhaseTicks>,
        scalars: impl ExactSizeIterator<Item = (u8, u64)>,
    ) {
        head.end = head.end.max(head.begin);
        head.flags |= if failed { FLAG_FAILED } else { 0 };
        let ring = self.ring();
        match ring.claim(slots_of(phases.len(), scalars.len()) as u64, self.reserved) {
            Some(position) => {
                if let Some(entry) = entry {
                    entry.ending();
                }
                step_codec::write(&ring, position, &head, phases, scalars);
            }
            None => self.count(DROPPED_AT),
        }
    }

    /// A step that was begun turns out not to be one: the loader had no more batches.
    pub fn step_cancelled(&self, step: &OpenStep) {
        if let Some(entry) = self.entry(step) {
            entry.close();
        }
        // Ordinals count steps. Fails when another thread has begun one since; then there is a gap, which harms nobody.
        let _ = self.next_step.compare_exchange(step.ordinal().wrapping_add(1), step.ordinal(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The entry of a step, if it has one and is still open: a guard may outlive its step, and the entry then is another one's.
    #[inline]
    fn entry(&self, step: &StepAt) -> Option<StepEntry<'_>> {
        self.table().step(step.entry, step.ordinal)
    }

    /// A phase begins in its step's own list: its place there. `None` when the list is full, or on another thread than the step's:
    /// such a phase stands beside.
    #[inline]
    pub fn listed_phase_began(&self, ticks: u64, step: &StepAt, phase: Phase) -> Option<u8> {
        if step.is_here() { self.entry(step)?.enter(phase.0, ticks) } else { None }
    }

    /// A phase of its step's own list ends.
    #[inline]
    pub fn listed_phase_ended(&self, ticks: u64, step: &StepAt, place: u8) {
        if let Some(entry) = self.entry(step) {
            entry.exit(place, ticks, step.is_here());
        }
    }

    /// A phase of its step's own list turns out not to be one: there was nothing to wait for.
    pub fn listed_phase_cancelled(&self, ticks: u64, step: &StepAt, place: u8) {
        match self.entry(step) {
            Some(entry) if step.is_here() => entry.cancel(place, ticks),
            // Rare, and then it is a phase like others.
            _ => self.listed_phase_ended(ticks, step, place),
        }
    }

    /// A free-standing phase begins.
    pub fn phase_began(&self, ticks: u64, owner: Owner, phase: Phase) -> OpenPhase {
        let ordinal = self.next_phase.fetch_add(1, Ordering::Relaxed);
        let entry = self.table().open_phase(ordinal, phase.0, owner, ticks);
        OpenPhase { ordinal, begin: ticks, owner, entry, phase: phase.0 }
    }

    /// A free-standing phase ends.
    pub fn phase_ended(&self, ticks: u64, phase: &OpenPhase, failed: bool) {
        let payload = encode::phase(phase.ordinal, phase.phase, phase.owner, phase.begin, ticks.max(phase.begin), failed);
        self.put_ending(&payload, Room::Open, self.table().phase_ending(phase.entry));
    }

    /// A number of a step.
    #[inline]
    pub fn step_scalar(&self, step: &StepAt, scalar: Scalar, value: f64) {
        let listed = step.is_here() && self.entry(step).is_some_and(|entry| entry.scalar(scalar.0, value.to_bits()));
        if !listed {
            self.scalar_beside(step, scalar, value);
        }
    }

    /// A number that has no place in its step's list.
    #[cold]
    #[inline(never)]
    fn scalar_beside(&self, step: &StepAt, scalar: Scalar, value: f64) {
        self.scalar(self.now(), Owner::Step(step.ordinal()), scalar, value);
    }

    /// A number of something else.
    pub fn scalar(&self, ticks: u64, owner: Owner, scalar: Scalar, value: f64) {
        self.put(&encode::scalar(ticks, owner, scalar.0, value.to_bits()));
    }

    /// A batch inside a step.
    pub fn micro_step(&self, step: &StepAt) {
        if let Some(entry) = self.entry(step) {
            entry.micro_step();
        }
    }

    /// The step's span is wanted.
    pub fn keep_step(&self, step: &StepAt) {
        if let Some(entry) = self.entry(step) {
            entry.flag(FLAG_KEEP);
        }
    }

    /// The step is marked as failed; `false` if it was so already.
    pub fn fail_step(&self, step: &StepAt) -> bool {
        self.entry(step).is_none_or(|entry| entry.flag(FLAG_FAILED) & FLAG_FAILED == 0)
    }

    /// An error of something that is open. The name is cut at 32 bytes.
    pub fn error(&self, ticks: u64, owner: Owner, error_type: &str) {
        let payload = encode::error(ticks, owner, error_type);
        match owner {
            Owner::Run | Owner::Epoch(_) => self.put_important(&payload),
            // As many as there are steps: a training in which each one fails must not use up the room for epochs.
            Owner::Step(_) | Owner::Phase(_) => self.put(&payload),
        }
    }

    /// The number of a phase's name. New names are written into the journal once; beyond the room for them they are `other`, and counted.
    #[inline]
    pub fn phase_name(&self, name: &str) -> Phase {
        match self.phase_names.find(name) {
            Some(index) => NameTable::own_phase(index),
            None => self.new_phase_name(name),
        }
    }

    /// The number of a scalar's name; as [`phase_name`](Self::phase_name).
    #[inline]
    pub fn scalar_name(&self, name: &str) -> Scalar {
        match self.scalar_names.find(name) {
            Some(index) => NameTable::own_scalar(index),
            None => self.new_scalar_name(name),
        }
    }

    #[cold]
    fn new_phase_name(&self, name: &str) -> Phase {
        if let Some(known) = NameTable::known_phase(name) {
            return known;
        }
        match self.phase_names.add(name, self.words(), PHASE_NAMES_AT, PHASE_NAME_COUNT_AT) {
            Some(index) => NameTable::own_phase(index),
            None => {
                self.count(NAMES_REFUSED_AT);
                Phase::OTHER
            }
        }
    }

    #[cold]
    fn new_scalar_name(&self, name: &str) -> Scalar {
        if let Some(known) = NameTable::known_scalar(name) {
            return known;
        }
        match self.scalar_names.add(name, self.words(), SCALAR_NAMES_AT, SCALAR_NAME_COUNT_AT) {
            Some(index) => NameTable::own_scalar(index),
            None => {
                self.count(NAMES_REFUSED_AT);
                Scalar::OTHER
            }
        }
    }
}

/// The ring among a journal's words.
#[inline]
pub(super) fn ring(words: &[AtomicU64]) -> Ring<'_> {
    Ring { head: &words[HEAD_AT], tail: &words[TAIL_AT], slots: &words[RING_AT..] }
}

#[inline]
fn head(ordinal: u64, step: u64, epoch: Option<u32>, begin: u64) -> StepTicks {
    let flags = if epoch.is_some() { FLAG_EPOCH } else { 0 };
    StepTicks { ordinal, step, epoch: epoch.unwrap_or(0), begin, flags, ..StepTicks::default() }
}

const _: () = assert!(NO_ENTRY as usize >= super::layout::OPEN_STEPS);
const _: () = assert!(NO_ENTRY as usize >= super::layout::OPEN_PHASES);
