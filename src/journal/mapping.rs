//! The journal's bytes as words that several threads and processes may touch at once.

use std::fs::File;
use std::io;
#[cfg(not(loom))]
use std::io::Read;
use std::ptr::NonNull;

#[cfg(not(loom))]
use memmap2::{MmapOptions, MmapRaw};

use super::layout::RING_AT;
use super::ring::AtomicU64;

/// The words before the ring.
pub(crate) type Head = [AtomicU64; RING_AT];

/// Shared words: of a mapped file, or of plain memory (tests, fuzzing).
pub(crate) struct Mapping {
    /// The words of whichever it is, so that getting at them takes no decision: the hook does it many times a step.
    words: NonNull<AtomicU64>,
    /// At least those of the head.
    count: usize,
    /// Keeps them.
    _keep: Keep,
}

enum Keep {
    /// Not under loom, whose atomics are no plain words.
    #[cfg(not(loom))]
    File {
        _map: MmapRaw,
    },
    Memory {
        _words: Box<[AtomicU64]>,
    },
}

// SAFETY: the words are atomics, and live as long as what keeps them; nothing else is reached through the pointer.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the whole file, shared and writable. One that is too short for a head is copied.
    #[cfg(not(loom))]
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() < RING_AT as u64 * 8 {
            let mut bytes = Vec::new();
            file.take(RING_AT as u64 * 8).read_to_end(&mut bytes)?;
            return Ok(Self::of_bytes(&bytes));
        }
        let map = MmapOptions::new().map_raw(file)?;
        let count = map.len() / 8;
        if count < RING_AT {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let words = NonNull::new(map.as_mut_ptr().cast::<AtomicU64>()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { words, count, _keep: Keep::File { _map: map } })
    }

    /// Under loom nothing is mapped: the model is about the ring alone.
    #[cfg(loom)]
    pub(crate) fn of_file(_file: &File) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Copies bytes into plain memory; an incomplete last word is left out, and a head that is too short is filled up with zeros.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let missing = RING_AT.saturating_sub(words.len());
        let words: Box<[AtomicU64]> = words.chain(std::iter::repeat_n(0, missing)).map(AtomicU64::new).collect();
        Self { words: NonNull::from(&*words).cast(), count: words.len(), _keep: Keep::Memory { _words: words } }
    }

    /// The words before the ring. Their number is known, so that getting at one of them takes no check: the hook does it many times a
    /// step.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: as in `words`, and there are at least as many words as that.
        unsafe { self.words.cast::<Head>().as_ref() }
    }

    /// All words.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `words` points to the first of `count` aligned words (a mapping begins at a page) that `_keep` keeps as long as `self`
        // lives and does not move. They are only ever touched through atomics, by this process and others, so that shared access is no
        // data race. The file is not made shorter while it is mapped: its room was reserved when it was made, it is readable by its
        // owner only, and nobody in this house truncates it.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }
}

#[cfg(not(target_endian = "little"))]
compile_error!("the journal is little-endian: big-endian machines are not supported");
