//! The tree of one small run, for people.
