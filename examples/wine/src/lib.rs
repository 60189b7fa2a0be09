//! What the example trains, and on what: nothing in here knows of stepline. The training loop, with the hook in it, is `main.rs`.

mod checksum;
mod cpu;
mod data;
mod model;
mod neighbours;
mod options;

pub use checksum::Checksum;
pub use cpu::settle;
pub use data::{Batch, Batches, Wines};
pub use model::{Classifier, learning_rate};
pub use neighbours::{NeighbourAccuracy, neighbour_accuracy};
pub use options::Options;
