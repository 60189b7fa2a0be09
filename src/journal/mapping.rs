//! The journal's bytes as words that several threads and processes may touch at once.

use std::fs::File;
use std::io;

#[cfg(not(loom))]
use memmap2::{MmapOptions, MmapRaw};

use super::ring::AtomicU64;

/// Shared words: of a mapped file, or of plain memory (tests, fuzzing, files that cannot be mapped writable).
pub(crate) enum Mapping {
    /// A mapped file. `words` are the whole words in it. Not under loom, whose atomics are no plain words.
    #[cfg(not(loom))]
    File {
        /// Keeps the mapping.
        map: MmapRaw,
        /// Whole words.
        words: usize,
    },
    /// Plain memory.
    Memory(Box<[AtomicU64]>),
}

impl Mapping {
    /// Maps the whole file, shared and writable.
    #[cfg(not(loom))]
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        let map = MmapOptions::new().map_raw(file)?;
        let words = map.len() / 8;
        Ok(Self::File { map, words })
    }

    /// Under loom nothing is mapped: the model is about the ring alone.
    #[cfg(loom)]
    pub(crate) fn of_file(_file: &File) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Copies bytes into plain memory; an incomplete last word is left out.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self::Memory(bytes.as_chunks::<8>().0.iter().map(|word| AtomicU64::new(u64::from_le_bytes(*word))).collect())
    }

    /// All words.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        match self {
            #[cfg(not(loom))]
            // SAFETY: the mapping is page-aligned, lives as long as `self`, and is at least `words * 8` bytes long; it is only ever
            // touched through atomics, by this process and others, so that shared access is no data race. The file is not made
            // shorter while it is mapped: its room was reserved when it was made, it is readable by its owner only, and nobody in
            // this house truncates it.
            Self::File { map, words } => unsafe { std::slice::from_raw_parts(map.as_ptr().cast::<AtomicU64>(), *words) },
            Self::Memory(words) => words,
        }
    }
}

#[cfg(not(target_endian = "little"))]
compile_error!("the journal is little-endian: big-endian machines are not supported");
