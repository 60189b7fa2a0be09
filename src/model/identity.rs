//! Who wrote a journal, and the ids that follow from it.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// A trace id: 16 bytes, never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TraceId(pub [u8; 16]);

/// A span id: 8 bytes, never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpanId(pub [u8; 8]);

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Who wrote a journal: one process of one attempt of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Drawn once per process and start: no two writers share it. `service.instance.id` on the wire.
    pub instance_id: [u8; 16],
    /// The training job: all its ranks and all its attempts share it.
    pub run_id: String,
    /// What people call the run.
    pub run_name: String,
    /// 0 for the first start of the job, one more for each restart.
    pub attempt: u32,
    /// Number of this training process within the run, from 0.
    pub rank: u32,
    /// Training processes of the run.
    pub world_size: u32,
}

impl Identity {
    /// Largest world size whose ranks all share the run's trace; above it each further rank has a trace of its own (design.md section 5).
    const MAX_RANKS_IN_ONE_TRACE: u32 = 16;

    fn hash_128(&self, kind: &str, index: u64) -> [u8; 16] {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&self.instance_id);
        bytes.extend_from_slice(kind.as_bytes());
        bytes.extend_from_slice(&index.to_le_bytes());
        xxh3_128(&bytes).max(1).to_be_bytes()
    }

    fn hash_64(&self, kind: &str, index: u64) -> [u8; 8] {
        let mut bytes = [0_u8; 48];
        let name = kind.as_bytes();
        let name = &name[..name.len().min(24)];
        bytes[..16].copy_from_slice(&self.instance_id);
        bytes[16..24].copy_from_slice(&index.to_le_bytes());
        bytes[24..24 + name.len()].copy_from_slice(name);
        xxh3_64(&bytes).max(1).to_be_bytes()
    }

    fn shared_key(&self, kind: &str) -> Vec<u8> {
        format!("{kind}\0{}\0{}", self.run_id, self.attempt).into_bytes()
    }

    /// The trace that this rank's `train.run` stands in. Ranks agree on it without talking: it follows from run id and attempt.
    #[must_use]
    pub fn run_trace_id(&self) -> TraceId {
        if self.rank < Self::MAX_RANKS_IN_ONE_TRACE {
            TraceId(xxh3_128(&self.shared_key("run trace")).max(1).to_be_bytes())
        } else {
            self.trace_id("run", 0)
        }
    }

    /// The span of rank 0's `train.run`: the root of the run's trace.
    #[must_use]
    pub fn root_span_id(&self) -> SpanId {
        SpanId(xxh3_64(&self.shared_key("root span")).max(1).to_be_bytes())
    }

    /// The trace that [`root_span_id`](Self::root_span_id) stands in.
    #[must_use]
    pub fn root_trace_id(&self) -> TraceId {
        TraceId(xxh3_128(&self.shared_key("run trace")).max(1).to_be_bytes())
    }

    /// This rank's own `train.run` span.
    #[must_use]
    pub fn run_span_id(&self) -> SpanId {
        if self.rank == 0 { self.root_span_id() } else { self.span_id("run", 0) }
    }

    /// Whether this rank's run span is a child of rank 0's, in the same trace.
    #[must_use]
    pub fn is_child_of_root(&self) -> bool {
        self.rank != 0 && self.rank < Self::MAX_RANKS_IN_ONE_TRACE
    }

    /// The id of the `index`-th trace of a kind: the same each time it is asked for.
    #[must_use]
    pub fn trace_id(&self, kind: &str, index: u64) -> TraceId {
        TraceId(self.hash_128(kind, index))
    }

    /// The id of the `index`-th span of a kind: the same each time it is asked for.
    #[must_use]
    pub fn span_id(&self, kind: &str, index: u64) -> SpanId {
        SpanId(self.hash_64(kind, index))
    }

    /// [`instance_id`](Self::instance_id) as the text of a UUID.
    #[must_use]
    pub fn instance_uuid(&self) -> String {
        let hex: String = self.instance_id.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}
