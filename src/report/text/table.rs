//! The table of epochs.

use super::rows::{StandOut, select};
use super::{Style, plain};
use crate::model::{EpochSummary, RunSummary};
use crate::report::format::{ABSENT, bytes, duration, energy, percent, two_durations};

/// Between two columns.
const GAP: &str = "   ";

struct Column {
    header: &'static str,
    /// One a row; `None`: not known.
    cells: Vec<Option<String>>,
    /// What stands behind a cell, on its left side: `+120 %`.
    notes: Option<Vec<String>>,
}

/// Appends the table. Columns of which nothing is known in any row are left out.
pub(super) fn write(text: &mut String, summary: &RunSummary, stand_out: &StandOut, style: Style) {
    let rows = select(summary, stand_out);
    let shown: Vec<&EpochSummary> = rows.iter().flatten().copied().collect();
    let columns: Vec<Vec<String>> = columns(summary, &shown, stand_out)
        .into_iter()
        .filter(|column| column.cells.iter().any(Option::is_some))
        .map(Column::lines)
        .collect();
    let line = |place: usize| {
        let cells: Vec<&str> = columns.iter().map(|column| column[place].as_str()).collect();
        cells.join(GAP).trim_end().to_owned()
    };
    let gap = format!("{:>width$}", "..", width = columns.first().map_or(0, |column| width(&column[0])));
    text.push_str(&style.dim(&line(0)));
    text.push('\n');
    let mut place = 0;
    for row in rows {
        match row {
            None => text.push_str(&gap),
            Some(epoch) => {
                place += 1;
                let line = line(place) + &ending(epoch);
                text.push_str(&if stand_out.excess(epoch).is_some() { style.striking(&line) } else { line });
            }
        }
        text.push('\n');
    }
}

/// What is said behind the row of an epoch that did not end as it should.
fn ending(epoch: &EpochSummary) -> String {
    match &epoch.error_type {
        _ if epoch.interrupted => format!("{GAP}interrupted"),
        Some(error_type) => format!("{GAP}failed ({})", plain(error_type)),
        None => String::new(),
    }
}

fn columns(summary: &RunSummary, epochs: &[&EpochSummary], stand_out: &StandOut) -> Vec<Column> {
    let column = |header, cell: &dyn Fn(&EpochSummary) -> Option<String>| Column {
        header,
        cells: epochs.iter().map(|epoch| cell(epoch)).collect(),
        notes: None,
    };
    let notes = |is_process: bool| {
        (stand_out.any() && stand_out.is_process() == is_process).then(|| {
            epochs.iter().map(|epoch| stand_out.excess(epoch).map_or_else(String::new, |excess| format!("+{}", percent(excess)))).collect()
        })
    };
    vec![
        column(if summary.has_epochs { "epoch" } else { "stretch" }, &|epoch| {
            Some(format!("{}{}", if stand_out.excess(epoch).is_some() { "▲ " } else { "" }, epoch.epoch))
        }),
        column("time", &|epoch| Some(duration(epoch.duration_s))),
        column("steps", &|epoch| Some(epoch.steps.to_string())),
        column("step p50 / p95", &|epoch| two_durations(epoch.step_p50_s, epoch.step_p95_s)),
        column("data wait", &|epoch| epoch.data_wait_ratio.map(percent)),
        Column { notes: notes(false), ..column("gpu memory max", &|epoch| epoch.gpu_memory_max_bytes.map(bytes)) },
        Column { notes: notes(true), ..column("process memory", &|epoch| epoch.process_memory_max_bytes.map(bytes)) },
        column("gpu util", &|epoch| epoch.gpu_utilization_mean.map(percent)),
        column("energy", &|epoch| epoch.energy_j.map(energy)),
    ]
}

impl Column {
    /// The header and the cells, all of one width.
    fn lines(self) -> Vec<String> {
        let cells: Vec<String> = self.cells.into_iter().map(|cell| cell.unwrap_or_else(|| ABSENT.to_owned())).collect();
        let has_notes = self.notes.is_some();
        let cells = match self.notes {
            None => cells,
            Some(notes) => {
                let (cell_width, note_width) = (widest(&cells), widest(&notes));
                cells.iter().zip(&notes).map(|(cell, note)| format!("{cell:>cell_width$}  {note:<note_width$}")).collect()
            }
        };
        let column_width = widest(&cells).max(width(self.header));
        // Above the values, not above what is said about them.
        let header = if has_notes { format!("{:<column_width$}", self.header) } else { format!("{:>column_width$}", self.header) };
        std::iter::once(header)
            .chain(cells.iter().map(|cell| if has_notes { format!("{cell:<column_width$}") } else { format!("{cell:>column_width$}") }))
            .collect()
    }
}

fn widest(cells: &[String]) -> usize {
    cells.iter().map(|cell| width(cell)).max().unwrap_or(0)
}

/// All signs that the table uses are one column wide.
fn width(text: &str) -> usize {
    text.chars().count()
}
