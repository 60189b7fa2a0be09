//! How the commands print: as text for people or as JSON for programs, always to a locked standard output, whose failure is the caller's.

use std::io::{self, IsTerminal as _, Write as _};

use crate::report::text::Style;

/// For whom it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Colour on a terminal only, and not where `NO_COLOR` is set.
pub(super) fn style() -> Style {
    Style::new(io::stdout().is_terminal(), std::env::var_os("NO_COLOR").as_deref())
}

/// Prints a text, with a newline at its end.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}
