//! Tests of the timeline: against definitions written a second time, and of what must hold for any records.

// A test that finds nothing where something must be has failed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
mod checks;
mod correlation;
mod devices;
mod scenario;
mod streams;
mod tree;
