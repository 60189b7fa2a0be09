//! The report for programs.

use super::Report;

/// The report as JSON, indented. What is not known is `null`, never 0.
#[must_use]
pub fn render(report: &Report) -> String {
    // A report holds text and numbers only: that cannot fail.
    serde_json::to_string_pretty(report).unwrap_or_default()
}
