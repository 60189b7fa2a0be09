//! The words of the house as plain data: what a journal holds, what the timeline makes of it, what goes on the wire.
//!
//! No I/O, no clocks, no names on the wire (those are in `semconv`). All times are nanoseconds since the Unix epoch, taken from
//! the wall-clock anchor plus monotonic time, so that differences between them are monotonic.

mod device;
mod histogram;
mod identity;
mod names;
mod outcome;
mod record;
mod series;
mod span;
mod step_spans;
mod summary;

pub use device::{GpuDevice, GpuHealth, GpuReading, GpuSlowReading, HostReading, ProcessReading};
pub use histogram::{ExponentialHistogram, MAX_BUCKETS};
pub use identity::{Identity, SpanId, TraceId};
pub use names::{MAX_OWN_NAMES, NameTable, Phase, Scalar};
pub use outcome::{Delivery, Outcome, Signal};
pub use record::{EndStatus, GpuEvent, Owner, PhaseInterval, PhaseRecord, Record, StepRecord};
pub use series::{Event, Exemplar, HistogramPoint, Number, NumberPoint, Points, Series, Severity};
pub use span::{Attribute, Link, Span, SpanEvent, Value};
pub use step_spans::StepSpans;
pub use summary::{DeviceSummary, EpochSummary, PeakSummary, RunSummary};
