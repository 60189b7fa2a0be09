use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::model::{Delivery, EpochSummary, PeakSummary};

const MIB: u64 = 1024 * 1024;

fn epoch(number: u64, memory_mib: u64) -> EpochSummary {
    EpochSummary {
        epoch: number,
        duration_s: 3.4,
        steps: 307,
        step_p50_s: Some(0.0098),
        step_p95_s: Some(0.0131),
        data_wait_ratio: Some(0.04),
        gpu_memory_max_bytes: Some(memory_mib * MIB),
        gpu_memory_max_phase: None,
        process_memory_max_bytes: Some((memory_mib - 2) * MIB),
        gpu_utilization_mean: Some(0.61),
        energy_j: Some(98.0),
        error_type: None,
        interrupted: false,
    }
}

fn report(epochs: Vec<EpochSummary>) -> Report {
    let summary = RunSummary {
        run_name: "wine".to_owned(),
        status: "finished".to_owned(),
        duration_s: 21.4,
        steps: 1842,
        has_epochs: true,
        epochs,
        devices: vec![DeviceSummary {
            readings: 214,
            interval_s: Some(0.1),
            simulated: Some("mirrors this process".to_owned()),
            ..DeviceSummary::default()
        }],
        ..RunSummary::default()
    };
    Report {
        summary,
        directory: Some(PathBuf::from("stepline-runs/wine-1")),
        spans: 1204,
        points: 9310,
        outcome: Some(Outcome::default()),
        ..Report::default()
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn answers_which_epoch_ate_the_memory() {
    let mut report =
        report([312, 312, 314, 688, 312, 310].into_iter().enumerate().map(|(number, mib)| epoch(number as u64, mib)).collect());
    report.summary.epochs[1].gpu_utilization_mean = None;
    report.summary.epochs[2].step_p50_s = None;
    report.summary.gpu_memory_peak = Some(PeakSummary {
        used_bytes: 688 * MIB,
        limit_bytes: None,
        epoch: Some(3),
        phase: Some("validation".to_owned()),
        above_median_bytes: Some(376 * MIB),
    });
    insta::assert_snapshot!(render(&report, Style::default()), @r"
    stepline  wine · 6 epochs · 1842 steps · 21.4 s · finished
    gpu 0     simulated, mirrors this process · 214 readings, one every 100 ms

    epoch    time   steps   step p50 / p95   data wait   gpu memory max    process memory   gpu util   energy
        0   3.4 s     307    9.8 / 13.1 ms         4 %   312 MiB                  310 MiB       61 %     98 J
        1   3.4 s     307    9.8 / 13.1 ms         4 %   312 MiB                  310 MiB          –     98 J
        2   3.4 s     307      – / 13.1 ms         4 %   314 MiB                  312 MiB       61 %     98 J
      ▲ 3   3.4 s     307    9.8 / 13.1 ms         4 %   688 MiB  +121 %          686 MiB       61 %     98 J
        4   3.4 s     307    9.8 / 13.1 ms         4 %   312 MiB                  310 MiB       61 %     98 J
        5   3.4 s     307    9.8 / 13.1 ms         4 %   310 MiB                  308 MiB       61 %     98 J

    memory peak 688 MiB: epoch 3, in validation, 376 MiB above the median epoch
    stepline-runs/wine-1/  1204 spans, 9310 points, nothing dropped
    ");
}

#[test]
fn leaves_out_what_nothing_is_known_of() {
    let mut report = report(vec![EpochSummary { epoch: 7, duration_s: 0.03, steps: 1, ..EpochSummary::default() }]);
    report.summary.devices.clear();
    report.summary.status = "failed".to_owned();
    report.summary.error_type = Some("panic".to_owned());
    report.summary.epochs[0].interrupted = true;
    report.outcome = None;
    insta::assert_snapshot!(render(&report, Style::default()), @r"
    stepline  wine · 1 epoch · 1842 steps · 21.4 s · failed (panic)

    epoch      time   steps
        7   30.0 ms       1   interrupted

    stepline-runs/wine-1/  1204 spans, 9310 points
    ");
}

#[test]
fn says_what_was_lost_and_why() {
    let mut report = report(Vec::new());
    report.outcome = Some(Outcome {
        traces: Delivery { delivered: 1000, spooled: 14, dropped: 3 },
        journal_dropped: 2,
        files_dropped: 1,
        reasons: vec!["the endpoint did not answer".to_owned()],
        ..Outcome::default()
    });
    report.notes = vec!["one line could not be read".to_owned()];
    report.summary.nonfinite_scalars = 1;
    report.summary.energy_j = Some(633.0);
    let text = render(&report, Style::default());
    assert_eq!(
        lines(&text)[2..],
        [
            "",
            "energy 633 J",
            "1 recorded number was NaN or infinite",
            "stepline-runs/wine-1/  1204 spans, 9310 points, 2 records dropped by the full journal, 1 item not written to the files, 3 items not delivered",
            "sent: 1000 delivered, 14 waiting on disk, 3 lost",
            "  the endpoint did not answer",
            "note: one line could not be read",
        ]
    );
}

#[test]
fn a_run_without_epochs_shows_stretches() {
    let mut report = report((0..10).map(|number| epoch(number, 300)).collect());
    report.summary.has_epochs = false;
    let text = render(&report, Style::default());
    assert!(lines(&text)[0].ends_with("wine · 1842 steps · 21.4 s · finished"), "{text}");
    assert!(lines(&text)[3].starts_with("stretch   "), "{text}");
}

#[test]
fn without_a_device_the_process_is_compared() {
    let mut report = report([300, 300, 900].into_iter().enumerate().map(|(number, mib)| epoch(number as u64, mib)).collect());
    report.summary.epochs.iter_mut().for_each(|epoch| epoch.gpu_memory_max_bytes = None);
    let text = render(&report, Style::default());
    assert!(
        text.contains("898 MiB  +201 %") && text.contains("process memory peak 898 MiB: epoch 2, 600 MiB above the median epoch"),
        "{text}"
    );
    assert!(!text.contains("gpu memory"), "{text}");
}

#[test]
fn a_long_run_shows_its_ends_and_what_stands_out() {
    let mut epochs: Vec<EpochSummary> = (0..1000).map(|number| epoch(number, 300)).collect();
    epochs[500].gpu_memory_max_bytes = Some(900 * MIB);
    epochs[501].error_type = Some("panic".to_owned());
    let text = render(&report(epochs), Style::default());
    let first_cells: Vec<&str> = lines(&text)[4..14].iter().map(|line| line.trim().split("   ").next().unwrap_or_default()).collect();
    assert_eq!(first_cells, ["0", "1", "2", "..", "▲ 500", "501", "..", "997", "998", "999"]);
}

#[test]
fn colours_on_a_terminal_only_and_not_against_no_color() {
    assert!(Style::new(true, None).colour && Style::new(true, Some(OsStr::new(""))).colour);
    assert!(!Style::new(false, None).colour && !Style::new(true, Some(OsStr::new("1"))).colour);
    let mut report = report(vec![epoch(0, 300), epoch(1, 300), epoch(2, 900)]);
    let plain = render(&report, Style::default());
    let coloured = render(&report, Style { colour: true });
    assert!(!plain.contains('\x1b') && coloured.contains('\x1b'));
    assert_eq!(coloured.replace("\x1b[2m", "").replace("\x1b[33m", "").replace("\x1b[0m", ""), plain);
    report.summary.run_name = "a\x1b[2Jb\u{202e}c".to_owned();
    assert!(lines(&render(&report, Style::default()))[0].starts_with("stepline  a?[2Jb?c · "));
}

#[test]
fn nothing_at_all_is_two_lines() {
    assert_eq!(render(&Report::default(), Style::default()), "stepline  run · 0 steps · 0.0 s\n");
}

proptest! {
    #[test]
    fn all_rows_are_aligned_and_few(memories in prop::collection::vec(prop::option::of(3_u64..100_000), 1..60)) {
        let epochs = memories.iter().enumerate().map(|(number, mib)| match mib {
            Some(mib) => epoch(number as u64, *mib),
            None => EpochSummary { epoch: number as u64, ..EpochSummary::default() },
        });
        let text = render(&report(epochs.collect()), Style::default());
        let table: Vec<&str> = lines(&text).into_iter().skip(3).take_while(|line| !line.is_empty()).collect();
        let rows = table.iter().filter(|line| line.trim() != "..").count() - 1;
        prop_assert!(rows <= 20 && rows >= memories.len().min(6));
        // Right-aligned columns end where their header ends.
        let energy_ends = table[0].chars().count();
        if table[0].contains("energy") {
            for line in table.iter().filter(|line| line.trim() != "..") {
                prop_assert_eq!(line.chars().count(), energy_ends, "{}", text);
            }
        }
        prop_assert!(!text.contains("NaN") && !text.contains("inf"));
    }
}
