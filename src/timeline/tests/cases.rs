//! Single cases that have gone wrong elsewhere.
