//! The command line.

use std::env;

/// What can be chosen.
pub struct Options {
    /// How many epochs to train.
    pub epochs: u64,
    /// How many times an epoch goes through the wines: with 1,280 of them once would be over in an instant.
    pub passes: usize,
    /// Whether to print a checksum of all losses and the final weights.
    pub print_checksum: bool,
}

const USAGE: &str = "usage: wine [--epochs N] [--passes N] [--print-checksum]";

impl Options {
    /// Reads the arguments that the program was started with.
    pub fn from_arguments() -> Result<Self, String> {
        let mut options = Self { epochs: 6, passes: 70, print_checksum: false };
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--epochs" => options.epochs = number(&argument, arguments.next())?,
                "--passes" => options.passes = number(&argument, arguments.next())?,
                "--print-checksum" => options.print_checksum = true,
                _ => return Err(format!("unknown argument {argument}; {USAGE}")),
            }
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr>(name: &str, value: Option<String>) -> Result<T, String> {
    value.and_then(|value| value.parse().ok()).ok_or_else(|| format!("{name} needs a whole number; {USAGE}"))
}
