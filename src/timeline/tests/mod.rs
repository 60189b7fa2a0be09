//! Tests of the timeline as a whole.
