//! OTLP: messages from the model's words, and where they go.
//!
//! Knows the wire; of the house it knows only the model, the names and (where it sends) the configuration.

pub mod encode;
pub mod file;
pub mod push;
