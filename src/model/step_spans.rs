//! Which steps get a span.

/// Which steps get a span of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum StepSpans {
    /// The first of an epoch, one now and then, and those that stand out: slow, failed, a new memory peak, a number not finite.
    #[default]
    Auto,
    /// All.
    All,
    /// None.
    None,
    /// Each n-th (at least 1).
    Every(u64),
}
