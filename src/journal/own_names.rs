//! The user's own names of phases and numbers: each stands in the journal's head once, before the first record that uses it.

use std::sync::{Mutex, OnceLock, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use super::encode;
use super::head::{load_bytes, store_bytes};
use super::layout::{NAME_BYTES, NAME_WORDS};
use super::ring::{AtomicU64, Ordering};
use crate::model::MAX_OWN_NAMES;

/// The writer's side of one kind: found without a lock, added under one.
pub(super) struct OwnNames {
    names: [OnceLock<Box<str>>; MAX_OWN_NAMES],
    adding: Mutex<()>,
}

impl Default for OwnNames {
    fn default() -> Self {
        Self { names: [const { OnceLock::new() }; MAX_OWN_NAMES], adding: Mutex::new(()) }
    }
}

impl OwnNames {
    /// The number of a name that was added before.
    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let name = shortened(name);
        self.names.iter().map_while(OnceLock::get).position(|known| **known == *name)
    }

    /// Adds a name; `None` when there is no room for it, or nothing to it.
    pub(super) fn add(&self, name: &str, words: &[AtomicU64], names_at: usize, count_at: usize) -> Option<usize> {
        // Full: without the lock, since every further use of a refused name comes here.
        if name.is_empty() || self.names[MAX_OWN_NAMES - 1].get().is_some() {
            return None;
        }
        let name = shortened(name);
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        if let Some(index) = self.find(name) {
            return Some(index);
        }
        let index = self.names.iter().position(|known| known.get().is_none())?;
        let at = names_at + index * NAME_WORDS;
        store_bytes(&words[at + 1..at + NAME_WORDS], name.as_bytes());
        words[at].store(name_word(name.as_bytes()), Ordering::Release);
        words[count_at].store(index as u64 + 1, Ordering::Release);
        let _ = self.names[index].set(name.into());
        Some(index)
    }
}

#[inline]
fn shortened(name: &str) -> &str {
    encode::cut(name, NAME_BYTES)
}

/// The reader's side: all names of a table. The count beside it only says when to look again: a name stands for itself.
pub(super) fn read(words: &[AtomicU64], names_at: usize) -> Vec<String> {
    let (entries, _) = words[names_at..names_at + MAX_OWN_NAMES * NAME_WORDS].as_chunks::<NAME_WORDS>();
    let used = entries.iter().rposition(|entry| entry[0].load(Ordering::Acquire) != 0).map_or(0, |last| last + 1);
    entries[..used].iter().enumerate().map(|(index, entry)| name(index, entry)).collect()
}

fn name(index: usize, entry: &[AtomicU64; NAME_WORDS]) -> String {
    let first = entry[0].load(Ordering::Acquire);
    let text = load_bytes(&entry[1..], usize::from(first as u8).min(NAME_BYTES));
    // A damaged name must not stand for another.
    if name_word(&text) == first { String::from_utf8_lossy(&text).into_owned() } else { format!("damaged name {index}") }
}

/// First word of a name in the table: its length, and a checksum of its text.
fn name_word(name: &[u8]) -> u64 {
    (xxh3_64(name) & !0xff) | name.len() as u64
}
