//! Which epochs stand out, and which are shown.

use crate::model::{EpochSummary, RunSummary};

/// Up to so many epochs are shown one by one.
pub(super) const MAX_ROWS: usize = 20;
/// Of more, so many at each end, and the rest of the room goes to those that stand out.
const ROWS_AT_THE_ENDS: usize = 3;

/// Above the median by more than this share and by more bytes than this, an epoch's memory stands out: as `detect` has it.
const STRIKING_SHARE: f64 = 0.25;
const STRIKING_BYTES: f64 = 64.0 * 1024.0 * 1024.0;
/// The median of fewer epochs says nothing.
const MIN_EPOCHS: usize = 3;

/// What the epochs' memory is compared with. The devices' memory where there is any, else the process's.
pub(super) struct StandOut {
    of: fn(&EpochSummary) -> Option<u64>,
    is_process: bool,
    median: Option<f64>,
    any: bool,
}

impl StandOut {
    pub(super) fn of(summary: &RunSummary) -> Self {
        let is_process = summary.epochs.iter().all(|epoch| epoch.gpu_memory_max_bytes.is_none());
        let of = if is_process {
            |epoch: &EpochSummary| epoch.process_memory_max_bytes
        } else {
            |epoch: &EpochSummary| epoch.gpu_memory_max_bytes
        };
        let mut stand_out = Self { of, is_process, median: median(summary.epochs.iter().filter_map(of).collect()), any: false };
        stand_out.any = summary.epochs.iter().any(|epoch| stand_out.excess(epoch).is_some());
        stand_out
    }

    /// Whether any epoch does.
    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// Whether it is the process's memory that is compared.
    pub(super) fn is_process(&self) -> bool {
        self.is_process
    }

    /// How far the epoch's memory is above the median, as a share of it, if it stands out.
    pub(super) fn excess(&self, epoch: &EpochSummary) -> Option<f64> {
        let median = self.median?;
        let above = (self.of)(epoch)? as f64 - median;
        (above > STRIKING_BYTES && above > median * STRIKING_SHARE).then(|| above / median)
    }

    /// How far so many bytes are above the median.
    pub(super) fn above_median(&self, used: u64) -> Option<u64> {
        let above = used as f64 - self.median?;
        (above >= 1.0).then_some(above as u64)
    }

    /// The process's highest memory and the epoch that it was in.
    pub(super) fn process_peak(&self, summary: &RunSummary) -> Option<(u64, u64)> {
        summary.epochs.iter().filter_map(|epoch| Some((epoch.process_memory_max_bytes?, epoch.epoch))).max_by_key(|(used, _)| *used)
    }
}

fn median(mut values: Vec<u64>) -> Option<f64> {
    if values.len() < MIN_EPOCHS {
        return None;
    }
    values.sort_unstable();
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 { values[middle] as f64 } else { (values[middle - 1] as f64 + values[middle] as f64) / 2.0 };
    (median > 0.0).then_some(median)
}

/// The epochs to show, in order; `None` stands for those left out.
pub(super) fn select<'a>(summary: &'a RunSummary, stand_out: &StandOut) -> Vec<Option<&'a EpochSummary>> {
    let epochs = &summary.epochs;
    if epochs.len() <= MAX_ROWS {
        return epochs.iter().map(Some).collect();
    }
    let mut shown: Vec<usize> = (0..ROWS_AT_THE_ENDS).chain(epochs.len() - ROWS_AT_THE_ENDS..epochs.len()).collect();
    // What failed first, then the largest.
    let mut striking: Vec<(usize, f64)> = (ROWS_AT_THE_ENDS..epochs.len() - ROWS_AT_THE_ENDS)
        .filter_map(|place| {
            let epoch = &epochs[place];
            let failed = (epoch.error_type.is_some() || epoch.interrupted).then_some(f64::INFINITY);
            Some((place, failed.or_else(|| stand_out.excess(epoch))?))
        })
        .collect();
    striking.sort_by(|one, other| other.1.total_cmp(&one.1));
    shown.extend(striking.into_iter().map(|(place, _)| place).take(MAX_ROWS - shown.len()));
    shown.sort_unstable();
    let mut rows = Vec::new();
    let mut next = 0;
    for place in shown {
        if place > next {
            rows.push(None);
        }
        rows.push(Some(&epochs[place]));
        next = place + 1;
    }
    rows
}
