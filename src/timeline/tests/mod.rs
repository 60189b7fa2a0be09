//! Tests of the timeline: against definitions written a second time, and of what must hold for any records.

mod cases;
mod correlation;
mod checks;
mod scenario;
mod streams;
mod tree;
