//! The composition root: from the configuration to threads, and back down in order.
//!
//! Start: configuration, identity, journal, sampler, sinks, pump. End: last sample, journal closed, everything read and sent, summary;
//! one deadline for all of it.

mod builder;
mod close;
mod resource;
mod start;

pub use builder::{Builder, configure, init};
