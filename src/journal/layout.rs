//! Where things stand in the file. All numbers are in words of 8 bytes, little-endian; `docs/journal.md` gives them in bytes.

/// First word: `STEPLINE`.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"STEPLINE");
/// Version of the layout. A reader takes its own version only.
pub(crate) const VERSION: u64 = 1;

/// Word 0.
pub(crate) const MAGIC_AT: usize = 0;
/// Word 1.
pub(crate) const VERSION_AT: usize = 1;
/// Slots of the ring: a power of two.
pub(crate) const SLOTS_AT: usize = 2;
/// What a tick is.
pub(crate) const TICK_KIND_AT: usize = 3;
/// The writer's process id.
pub(crate) const PID_AT: usize = 4;
/// When the file was made, Unix nanoseconds.
pub(crate) const CREATED_AT: usize = 5;
/// Length of the text about the writer, bytes.
pub(crate) const ABOUT_LENGTH_AT: usize = 6;
/// Checksum of the text and of the words above.
pub(crate) const ABOUT_CHECK_AT: usize = 7;
/// Length of the text about the devices, bytes.
pub(crate) const DEVICES_LENGTH_AT: usize = 8;
/// Checksum of that text; 0 as long as nobody has said which devices there are.
pub(crate) const DEVICES_CHECK_AT: usize = 9;

/// Position of the next slot to claim; written by writers only. A cache line of its own, as the next four.
pub(crate) const HEAD_AT: usize = 32;
/// Position of the next slot to read; written by the reader only.
pub(crate) const TAIL_AT: usize = 40;
/// Step and phase records, samples and numbers that did not fit.
pub(crate) const DROPPED_AT: usize = 48;
/// Run, epoch, error and device-event records that did not fit even into the reserved room.
pub(crate) const DROPPED_IMPORTANT_AT: usize = 49;
/// Own names beyond the table's room: how often they were asked for.
pub(crate) const NAMES_REFUSED_AT: usize = 50;
/// The training's own number of the step that ended last, plus one; 0 before the first.
pub(crate) const LAST_STEP_AT: usize = 51;
/// [`CLOSED`] when the writer has ended in order.
pub(crate) const CLOSED_AT: usize = 56;

/// What says so: no single damaged byte does.
pub(crate) const CLOSED: u64 = u64::from_le_bytes(*b"FINISHED");

/// Clock segments written so far; the last [`SEGMENTS`] are in the table.
pub(crate) const SEGMENT_COUNT_AT: usize = 64;
/// Table of clock segments: start ticks, start Unix nanoseconds, nanoseconds a tick in 2^-32, checksum.
pub(crate) const SEGMENTS_AT: usize = 72;
/// Entries of the table.
pub(crate) const SEGMENTS: usize = 64;
/// Words of an entry.
pub(crate) const SEGMENT_WORDS: usize = 4;

/// Own phases written so far, own scalars written so far.
pub(crate) const PHASE_NAME_COUNT_AT: usize = 336;
/// Own scalars written so far.
pub(crate) const SCALAR_NAME_COUNT_AT: usize = 337;
/// Table of own phase names: length and checksum in the first word, then text.
pub(crate) const PHASE_NAMES_AT: usize = 344;
/// Table of own scalar names.
pub(crate) const SCALAR_NAMES_AT: usize = PHASE_NAMES_AT + crate::model::MAX_OWN_NAMES * NAME_WORDS;
/// Words of a name.
pub(crate) const NAME_WORDS: usize = 8;
/// Longest name, bytes; what is longer is cut.
pub(crate) const NAME_BYTES: usize = (NAME_WORDS - 1) * 8;

/// The run, if it is open: an entry like those of the two tables.
pub(crate) const OPEN_RUN_AT: usize = SCALAR_NAMES_AT + crate::model::MAX_OWN_NAMES * NAME_WORDS;
/// Table of open epochs.
pub(crate) const OPEN_EPOCHS_AT: usize = OPEN_RUN_AT + 8;
/// Entries of the table.
pub(crate) const OPEN_EPOCHS: usize = 8;
/// Table of open free-standing phases.
pub(crate) const OPEN_PHASES_AT: usize = OPEN_EPOCHS_AT + OPEN_EPOCHS * OPEN_ENTRY_WORDS;
/// Entries of the table.
pub(crate) const OPEN_PHASES: usize = 56;
/// Words of an entry of the run and the two tables: state, four values, their checksum, two spare.
pub(crate) const OPEN_ENTRY_WORDS: usize = 8;
/// Table of open steps.
pub(crate) const OPEN_STEPS_AT: usize = OPEN_PHASES_AT + OPEN_PHASES * OPEN_ENTRY_WORDS;
/// Entries of the table.
pub(crate) const OPEN_STEPS: usize = 16;
/// Phases that a step's own list holds; further ones become records of their own.
pub(crate) const STEP_PHASES: usize = 24;
/// Numbers that a step's own list holds; further ones become records of their own.
pub(crate) const STEP_SCALARS: usize = 12;
/// Words of an open step before its phases.
pub(crate) const STEP_HEAD_WORDS: usize = 8;
/// Words of an open step.
pub(crate) const OPEN_STEP_WORDS: usize = STEP_HEAD_WORDS + 3 * STEP_PHASES + 2 * STEP_SCALARS;

/// The text about the writer (JSON).
pub(crate) const ABOUT_AT: usize = 3584;
/// Room for it, words.
pub(crate) const ABOUT_WORDS: usize = 2560;
/// The text about the devices (JSON): written once by the sampler, before its first sample, since a driver may take long to answer.
pub(crate) const DEVICES_AT: usize = ABOUT_AT + ABOUT_WORDS;
/// Room for it, words.
pub(crate) const DEVICES_WORDS: usize = 2048;
/// The ring.
pub(crate) const RING_AT: usize = DEVICES_AT + DEVICES_WORDS;
/// Words of a slot: a commit word and seven of payload.
pub(crate) const SLOT_WORDS: usize = 8;
/// Fewest slots of a ring.
pub(crate) const MIN_SLOTS: usize = 64;
/// Most slots of a ring: 4 GiB.
pub(crate) const MAX_SLOTS: usize = 1 << 26;

const _: () = assert!(OPEN_STEPS_AT + OPEN_STEPS * OPEN_STEP_WORDS <= ABOUT_AT);
const _: () = assert!(SEGMENTS_AT + SEGMENTS * SEGMENT_WORDS <= PHASE_NAME_COUNT_AT);
const _: () = assert!(RING_AT * 8 == 65_536);

/// Slots of a ring of about this many bytes: the largest power of two that is not larger.
pub(crate) fn slots_for(size_bytes: u64) -> usize {
    let slots = usize::try_from(size_bytes / 64).unwrap_or(MAX_SLOTS).clamp(MIN_SLOTS, MAX_SLOTS);
    if slots.is_power_of_two() { slots } else { slots.next_power_of_two() / 2 }
}

/// Words of a file with that many slots.
pub(crate) fn words_for(slots: usize) -> usize {
    RING_AT + slots * SLOT_WORDS
}
