//! What stands at the head of the file: what it is, who writes it, which devices its samples speak of. Written once, checksummed.

use std::io;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::About;
use super::layout::{
    ABOUT_AT, ABOUT_CHECK_AT, ABOUT_LENGTH_AT, ABOUT_WORDS, CREATED_AT, DEVICES_AT, DEVICES_CHECK_AT, DEVICES_LENGTH_AT, DEVICES_WORDS,
    MAGIC, MAGIC_AT, MAX_SLOTS, MIN_SLOTS, PID_AT, SLOTS_AT, TICK_KIND_AT, VERSION, VERSION_AT, words_for,
};
use super::ring::{AtomicU64, Ordering};
use super::ticks::TickKind;
use crate::model::GpuDevice;

/// Writes the head; the clock's first piece must stand already. Last comes the magic word: a file that has it is whole.
pub(super) fn write(words: &[AtomicU64], slots: usize, tick_kind: TickKind, about: &About) -> io::Result<()> {
    let text = serde_json::to_vec(about)?;
    if text.len() > ABOUT_WORDS * 8 {
        let what = format!("the resource attributes take {} bytes, more than the journal's {}", text.len(), ABOUT_WORDS * 8);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    store_bytes(&words[ABOUT_AT..], &text);
    let set = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
    set(VERSION_AT, VERSION);
    set(SLOTS_AT, slots as u64);
    set(TICK_KIND_AT, tick_kind as u64);
    set(PID_AT, u64::from(std::process::id()));
    set(CREATED_AT, crate::clock::Anchor::now().unix_ns());
    set(ABOUT_LENGTH_AT, text.len() as u64);
    set(ABOUT_CHECK_AT, about_check(words, &text));
    words[MAGIC_AT].store(MAGIC, Ordering::Release);
    Ok(())
}

/// Reads the head: slots of the ring, and who writes; or what is wrong with it.
pub(super) fn read(words: &[AtomicU64]) -> Result<(usize, About), String> {
    let word = |at: usize| words.get(at).map_or(0, |word| word.load(Ordering::Acquire));
    if words.is_empty() || word(MAGIC_AT) != MAGIC {
        return Err("it is no journal, or one whose writer died while making it".to_owned());
    }
    if word(VERSION_AT) != VERSION {
        let version = word(VERSION_AT);
        return Err(format!(
            "it is a journal of version {version}, and this stepline reads version {VERSION}: read it with the stepline that wrote it"
        ));
    }
    let slots = usize::try_from(word(SLOTS_AT)).unwrap_or(usize::MAX);
    if !(MIN_SLOTS..=MAX_SLOTS).contains(&slots) || !slots.is_power_of_two() {
        return Err(format!("its head is damaged: a ring of {slots} slots"));
    }
    if words.len() < words_for(slots) {
        return Err(format!("it was cut short: {} bytes instead of {}", words.len() * 8, words_for(slots) * 8));
    }
    let length = usize::try_from(word(ABOUT_LENGTH_AT)).unwrap_or(usize::MAX);
    if length > ABOUT_WORDS * 8 {
        return Err(format!("its head is damaged: {length} bytes about the writer"));
    }
    let text = load_bytes(&words[ABOUT_AT..], length);
    if about_check(words, &text) != word(ABOUT_CHECK_AT) {
        return Err("its head is damaged: the checksum does not fit".to_owned());
    }
    let about = serde_json::from_slice(&text).map_err(|error| format!("its head is damaged: {error}"))?;
    Ok((slots, about))
}

/// Writes which devices the samples will speak of. Those that there is no room for are left out; `false` if that was so.
pub(super) fn write_devices(words: &[AtomicU64], devices: &[GpuDevice]) -> bool {
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

/// Reads them; `None` as long as nobody has said, or if that part is damaged.
pub(super) fn read_devices(words: &[AtomicU64]) -> Option<Vec<GpuDevice>> {
    let check = words[DEVICES_CHECK_AT].load(Ordering::Acquire);
    let length = usize::try_from(words[DEVICES_LENGTH_AT].load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    if check == 0 || length > DEVICES_WORDS * 8 {
        return None;
    }
    let text = load_bytes(&words[DEVICES_AT..], length);
    if devices_check(&text) == check { serde_json::from_slice(&text).ok() } else { None }
}

/// Checksum over the words that never change and the text about the writer.
fn about_check(words: &[AtomicU64], text: &[u8]) -> u64 {
    let mut bytes = [0_u8; 40];
    for (chunk, at) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([SLOTS_AT, TICK_KIND_AT, PID_AT, CREATED_AT, ABOUT_LENGTH_AT]) {
        *chunk = words[at].load(Ordering::Relaxed).to_le_bytes();
    }
    xxh3_64_with_seed(text, xxh3_64(&bytes))
}

/// Checksum of the text about the devices; never 0.
fn devices_check(text: &[u8]) -> u64 {
    xxh3_64(text).max(1)
}

/// Writes bytes into words, the last one filled up with zeros.
pub(super) fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
}

/// Reads bytes back.
pub(super) fn load_bytes(words: &[AtomicU64], length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().take(length.div_ceil(8)).flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}
