//! The writer's side: what the hook and the sampler call. Nothing here fails, waits, allocates (after the first use of a name) or
//! makes a system call.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::clock_map::ClockWriter;
use super::layout::{
    ABOUT_AT, ABOUT_CHECK_AT, ABOUT_LENGTH_AT, ABOUT_WORDS, CLOSED_AT, CREATED_AT, DEVICES_AT, DEVICES_CHECK_AT, DEVICES_LENGTH_AT,
    DEVICES_WORDS, DROPPED_AT, DROPPED_IMPORTANT_AT, HEAD_AT, LAST_STEP_AT, MAGIC, MAGIC_AT, NAME_BYTES, NAME_WORDS, NAMES_REFUSED_AT,
    PHASE_NAME_COUNT_AT, PHASE_NAMES_AT, PID_AT, RING_AT, SCALAR_NAME_COUNT_AT, SCALAR_NAMES_AT, SLOTS_AT, TAIL_AT, TICK_KIND_AT, VERSION,
    VERSION_AT, slots_for, words_for,
};
use super::mapping::Mapping;
use super::open_table::{Entry, NO_ENTRY, OpenTable};
use super::ring::{AtomicU64, Ordering, Payload, Ring};
use super::step_codec::{FLAG_EPOCH, FLAG_FAILED, FLAG_KEEP, StepSlots, StepTicks};
use super::ticks::TickKind;
use super::{About, directory, encode, fork};
use crate::error::JournalError;
use crate::model::{
    EndStatus, GpuDevice, GpuEvent, GpuReading, GpuSlowReading, HostReading, MAX_OWN_NAMES, NameTable, Owner, Phase, ProcessReading, Scalar,
};

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
    phase_names: Names,
    scalar_names: Names,
    next_step: AtomicU64,
    next_epoch: AtomicU64,
    next_phase: AtomicU64,
}

/// A step that is open. Plain numbers: whoever holds it ends it.
#[derive(Debug, Clone, Copy)]
pub struct OpenStep {
    entry: Entry,
    owner: usize,
    head: StepTicks,
}

impl OpenStep {
    /// The n-th step of this process.
    #[must_use]
    pub fn ordinal(&self) -> u64 {
        self.head.ordinal
    }

    /// The training's own number of it.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.head.step
    }
}

/// A phase that is open. Plain numbers: whoever holds it ends it.
#[derive(Debug, Clone, Copy)]
pub struct OpenPhase(PhasePlace);

#[derive(Debug, Clone, Copy)]
enum PhasePlace {
    /// In the step's own list.
    Listed { place: u8 },
    /// Free-standing.
    Standing { entry: Entry, ordinal: u64, phase: u8, owner: Owner, begin: u64 },
}

impl OpenPhase {
    /// What further phases inside this one belong to.
    #[must_use]
    pub fn owner(&self, step: Option<&OpenStep>) -> Owner {
        match self.0 {
            PhasePlace::Listed { .. } => step.map_or(Owner::Run, |step| Owner::Step(step.ordinal())),
            PhasePlace::Standing { ordinal, .. } => Owner::Phase(ordinal),
        }
    }
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
        let text = serde_json::to_vec(about)?;
        if text.len() > ABOUT_WORDS * 8 {
            let what = format!("the resource and the devices take {} bytes, more than the journal's {}", text.len(), ABOUT_WORDS * 8);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, what));
        }
        store_bytes(&words[ABOUT_AT..], &text);
        let tick_kind = TickKind::best();
        let clock = ClockWriter::start(tick_kind, words);
        let set = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
        set(VERSION_AT, VERSION);
        set(SLOTS_AT, slots as u64);
        set(TICK_KIND_AT, tick_kind as u64);
        set(PID_AT, u64::from(std::process::id()));
        set(CREATED_AT, crate::clock::Anchor::now().unix_ns());
        set(ABOUT_LENGTH_AT, text.len() as u64);
        set(ABOUT_CHECK_AT, about_check(words, &text));
        // Last: a file with the magic word is whole.
        words[MAGIC_AT].store(MAGIC, Ordering::Release);
        Ok(Self {
            path: path.to_owned(),
            tick_kind,
            generation: fork::generation(),
            reserved: (slots as u64 / RESERVED_SHARE).max(4),
            clock: Mutex::new(clock),
            phase_names: Names::default(),
            scalar_names: Names::default(),
            next_step: AtomicU64::new(0),
            next_epoch: AtomicU64::new(0),
            next_phase: AtomicU64::new(0),
            mapping,
        })
    }

    /// Says which devices the samples will speak of: once, before the first of them. Those that the journal has no room for are left
    /// out; `false` if that was so.
    pub fn set_devices(&self, devices: &[GpuDevice]) -> bool {
        let words = self.words();
        for count in (0..=devices.len()).rev() {
            let text = serde_json::to_vec(&devices[..count]).unwrap_or_default();
            if text.len() <= DEVICES_WORDS * 8 {
                store_bytes(&words[DEVICES_AT..], &text);
                words[DEVICES_LENGTH_AT].store(text.len() as u64, Ordering::Relaxed);
                words[DEVICES_CHECK_AT].store(devices_check(&text), Ordering::Release);
                return count == devices.len();
            }
        }
        false
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

    /// Keeps the journal's clock in step with the system's. To be called about once a second by a thread of stepline's own.
    pub fn follow_clock(&self) {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).follow(self.words());
    }

    /// Says that nothing more will be written.
    pub fn close(&self) {
        self.words()[CLOSED_AT].store(1, Ordering::Release);
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    #[inline]
    fn ring(&self) -> Ring<'_> {
        ring(self.words())
    }

    #[inline]
    fn table(&self) -> OpenTable<'_> {
        OpenTable { words: self.words() }
    }

    /// Writes a record that may be dropped when the ring is full.
    #[inline]
    fn put(&self, payload: &Payload) {
        let ring = self.ring();
        match ring.claim(1, self.reserved) {
            Some(position) => ring.publish(position, payload),
            None => self.count(DROPPED_AT),
        }
    }

    /// Writes a record for which room is reserved.
    fn put_important(&self, payload: &Payload) {
        let ring = self.ring();
        match ring.claim(1, 0) {
            Some(position) => ring.publish(position, payload),
            None => self.count(DROPPED_IMPORTANT_AT),
        }
    }

    #[cold]
    fn count(&self, at: usize) {
        self.words()[at].fetch_add(1, Ordering::Relaxed);
    }

    /// The run begins.
    pub fn run_began(&self, ticks: u64) {
        self.table().set_run(Some(ticks));
        self.put_important(&encode::run_began(ticks));
    }

    /// The run ends.
    pub fn run_ended(&self, ticks: u64, status: EndStatus) {
        self.put_important(&encode::run_ended(ticks, status));
        self.table().set_run(None);
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
        self.put_important(&encode::epoch_ended(ticks, ordinal, status));
        self.table().close_epoch(entry);
    }

    /// A step begins.
    #[inline]
    pub fn step_began(&self, ticks: u64, step: u64, epoch: Option<u32>) -> OpenStep {
        let ordinal = self.next_step.fetch_add(1, Ordering::Relaxed);
        let flags = if epoch.is_some() { FLAG_EPOCH } else { 0 };
        let head = StepTicks { ordinal, step, epoch: epoch.unwrap_or(0), begin: ticks, flags, ..StepTicks::default() };
        OpenStep { entry: self.table().open_step(&head), owner: this_thread(), head }
    }

    /// A step ends.
    #[inline]
    pub fn step_ended(&self, ticks: u64, step: &OpenStep, failed: bool) {
        let entry = self.table().step(step.entry);
        let mut head = entry.map_or(step.head, |entry| entry.head());
        head.end = ticks.max(head.begin);
        if failed {
            head.flags |= FLAG_FAILED;
        }
        let mut slots = StepSlots::new(&head);
        if let Some(entry) = entry {
            entry.phases().for_each(|phase| slots.phase(&phase));
            entry.scalars().for_each(|(scalar, bits)| slots.scalar(scalar, bits));
        }
        let ring = self.ring();
        match ring.claim(slots.count(), self.reserved) {
            Some(position) => slots.finish().enumerate().for_each(|(place, payload)| ring.publish(position + place as u64, &payload)),
            None => self.count(DROPPED_AT),
        }
        self.words()[LAST_STEP_AT].store(head.step.wrapping_add(1), Ordering::Relaxed);
        if let Some(entry) = entry {
            entry.close();
        }
    }

    /// A step that was begun turns out not to be one: the loader had no more batches.
    pub fn step_cancelled(&self, step: &OpenStep) {
        if let Some(entry) = self.table().step(step.entry) {
            entry.close();
        }
    }

    /// A phase of a step begins.
    #[inline]
    pub fn step_phase_began(&self, ticks: u64, step: &OpenStep, phase: Phase) -> OpenPhase {
        if this_thread() == step.owner
            && let Some(place) = self.table().step(step.entry).and_then(|entry| entry.enter(phase.0, ticks))
        {
            return OpenPhase(PhasePlace::Listed { place });
        }
        self.phase_began(ticks, Owner::Step(step.ordinal()), phase)
    }

    /// A phase of a step ends.
    #[inline]
    pub fn step_phase_ended(&self, ticks: u64, step: &OpenStep, phase: OpenPhase, failed: bool) {
        match phase.0 {
            PhasePlace::Listed { place } => {
                if let Some(entry) = self.table().step(step.entry) {
                    entry.exit(place, ticks, this_thread() == step.owner);
                }
            }
            PhasePlace::Standing { .. } => self.phase_ended(ticks, phase, failed),
        }
    }

    /// A free-standing phase begins.
    pub fn phase_began(&self, ticks: u64, owner: Owner, phase: Phase) -> OpenPhase {
        let ordinal = self.next_phase.fetch_add(1, Ordering::Relaxed);
        let entry = self.table().open_phase(ordinal, phase.0, owner, ticks);
        OpenPhase(PhasePlace::Standing { entry, ordinal, phase: phase.0, owner, begin: ticks })
    }

    /// A free-standing phase ends.
    pub fn phase_ended(&self, ticks: u64, phase: OpenPhase, failed: bool) {
        if let PhasePlace::Standing { entry, ordinal, phase, owner, begin } = phase.0 {
            self.put(&encode::phase(ordinal, phase, owner, begin, ticks.max(begin), failed));
            self.table().close_phase(entry);
        }
    }

    /// A number of a step.
    #[inline]
    pub fn step_scalar(&self, step: &OpenStep, scalar: Scalar, value: f64) {
        let listed =
            this_thread() == step.owner && self.table().step(step.entry).is_some_and(|entry| entry.scalar(scalar.0, value.to_bits()));
        if !listed {
            self.scalar(self.now(), Owner::Step(step.ordinal()), scalar, value);
        }
    }

    /// A number of something else.
    pub fn scalar(&self, ticks: u64, owner: Owner, scalar: Scalar, value: f64) {
        self.put(&encode::scalar(ticks, owner, scalar.0, value.to_bits()));
    }

    /// A batch inside a step.
    pub fn micro_step(&self, step: &OpenStep) {
        if let Some(entry) = self.table().step(step.entry) {
            entry.micro_step();
        }
    }

    /// The step's span is wanted.
    pub fn keep_step(&self, step: &OpenStep) {
        if let Some(entry) = self.table().step(step.entry) {
            entry.flag(FLAG_KEEP);
        }
    }

    /// The step is marked as failed.
    pub fn fail_step(&self, step: &OpenStep) {
        if let Some(entry) = self.table().step(step.entry) {
            entry.flag(FLAG_FAILED);
        }
    }

    /// An error of something that is open. The name is cut at 32 bytes.
    pub fn error(&self, ticks: u64, owner: Owner, error_type: &str) {
        self.put_important(&encode::error(ticks, owner, error_type));
    }

    /// The cheap fields of a device.
    pub fn gpu(&self, ticks: u64, device: u8, reading: &GpuReading) {
        self.put(&encode::gpu(ticks, device, reading));
    }

    /// The dear fields of a device.
    pub fn gpu_slow(&self, ticks: u64, device: u8, reading: &GpuSlowReading) {
        self.put(&encode::gpu_slow(ticks, device, reading));
    }

    /// Something happened to a device.
    pub fn gpu_changed(&self, ticks: u64, device: u8, event: GpuEvent) {
        self.put_important(&encode::gpu_changed(ticks, device, event));
    }

    /// The training process.
    pub fn process(&self, ticks: u64, reading: &ProcessReading) {
        encode::process(ticks, reading).iter().for_each(|payload| self.put(payload));
    }

    /// The host.
    pub fn host(&self, ticks: u64, reading: &HostReading) {
        self.put(&encode::host(ticks, reading));
    }

    /// Where the training stands now: taken from the table of what is open.
    pub fn position(&self, ticks: u64) {
        let (step, phase) = self.table().position();
        let step = step.or_else(|| self.words()[LAST_STEP_AT].load(Ordering::Relaxed).checked_sub(1));
        self.put(&encode::position(ticks, step, phase));
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

/// Checksum over the words that never change and the text about the writer.
pub(super) fn about_check(words: &[AtomicU64], text: &[u8]) -> u64 {
    let mut bytes = [0_u8; 40];
    for (chunk, at) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([SLOTS_AT, TICK_KIND_AT, PID_AT, CREATED_AT, ABOUT_LENGTH_AT]) {
        *chunk = words[at].load(Ordering::Relaxed).to_le_bytes();
    }
    xxh3_64_with_seed(text, xxh3_64(&bytes))
}

/// Checksum of the text about the devices; never 0.
pub(super) fn devices_check(text: &[u8]) -> u64 {
    xxh3_64(text).max(1)
}

/// Writes bytes into words, the last one filled up with zeros.
fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
}

/// First word of a name in the table: its length, and a checksum of its text.
pub(super) fn name_word(name: &[u8]) -> u64 {
    (xxh3_64(name) & !0xff) | name.len() as u64
}

/// A number that differs from thread to thread: the address of a variable that each thread has its own of.
#[inline]
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

/// Own names of one kind: found without a lock, added under one.
struct Names {
    names: [OnceLock<Box<str>>; MAX_OWN_NAMES],
    adding: Mutex<()>,
}

impl Default for Names {
    fn default() -> Self {
        Self { names: [const { OnceLock::new() }; MAX_OWN_NAMES], adding: Mutex::new(()) }
    }
}

impl Names {
    #[inline]
    fn find(&self, name: &str) -> Option<usize> {
        let name = shortened(name);
        self.names.iter().map_while(OnceLock::get).position(|known| **known == *name)
    }

    fn add(&self, name: &str, words: &[AtomicU64], names_at: usize, count_at: usize) -> Option<usize> {
        let name = shortened(name);
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        if let Some(index) = self.find(name) {
            return Some(index);
        }
        let index = self.names.iter().position(|known| known.get().is_none())?;
        let at = names_at + index * NAME_WORDS;
        store_bytes(&words[at + 1..at + NAME_WORDS], name.as_bytes());
        words[at].store(name_word(name.as_bytes()), Ordering::Relaxed);
        words[count_at].store(index as u64 + 1, Ordering::Release);
        let _ = self.names[index].set(name.into());
        Some(index)
    }
}

#[inline]
fn shortened(name: &str) -> &str {
    encode::cut(name, NAME_BYTES)
}

const _: () = assert!(NO_ENTRY as usize >= super::layout::OPEN_STEPS && NO_ENTRY as usize >= super::layout::OPEN_PHASES);
