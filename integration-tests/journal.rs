//! The journal between processes: read while its writer lives, and after it was killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use stepline::hook::Hook;
use stepline::journal::{OpenItem, Reader, Writer};
use stepline::model::{Record, StepRecord};
use stepline::{JournalError, Outcome, Phase, Run, Scalar};

use crate::support::recording::{ROOMY, Recording, about, path_in};

const DIRECTORY: &str = "STEPLINE_TEST_WRITES_INTO";

/// What the processes below run: trains until it is killed.
#[test]
#[ignore = "trains until it is killed: the tests below run it in a process of its own"]
fn trains_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let path = path_in(Path::new(&directory));
    let writer = Arc::new(Writer::create(&path, &about(), 64 << 20).unwrap());
    let run = Run::begin(Arc::new(Hook::new(writer, 0)), Box::new(Outcome::default));
    println!("\njournal {}", path.display());
    for epoch in run.epochs(0..) {
        for (step, batch) in epoch.steps(0..1000_u32) {
            step.phase(Phase::FORWARD, || std::hint::black_box(batch));
            step.phase("own", || std::hint::black_box(batch));
            step.record(Scalar::LOSS, f64::from(batch));
            step.micro_step();
        }
    }
}

/// A training in a process of its own, and its journal.
fn training_in(directory: &Path) -> (Child, PathBuf) {
    let mut training = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "journal::trains_until_it_is_killed"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(training.stdout.take().unwrap()).lines();
    let path = lines.find_map(|line| line.unwrap().strip_prefix("journal ").map(PathBuf::from));
    (training, path.expect("the training says where"))
}

fn kill(mut training: Child) {
    // SIGKILL on Unix: nothing of the training's own runs any more.
    training.kill().unwrap();
    training.wait().unwrap();
}

fn assert_whole(step: &StepRecord, reader: &Reader) {
    let names: Vec<_> = step.phases.iter().map(|phase| reader.names().phase(phase.phase)).collect();
    assert_eq!(names, ["data_wait", "forward", "own"], "{step:?}");
    assert_eq!(step.scalars, [(Scalar::LOSS, (step.step % 1000) as f64)]);
    assert_eq!(step.micro_steps, 1);
}

#[test]
fn a_killed_training_has_lost_nothing_and_counts_nothing_twice() {
    for round in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let (training, path) = training_in(directory.path());
        std::thread::sleep(Duration::from_millis(20 + 3 * round));
        kill(training);
        let mut reader = Reader::open(&path).unwrap();
        assert!(!reader.is_closed());
        let batch = reader.read(true);
        assert_eq!(reader.dropped(), 0);
        let mut steps: BTreeMap<u64, u32> = BTreeMap::new();
        let mut last_ns = 0;
        for record in &batch.records {
            assert!(record.time_ns() >= last_ns);
            last_ns = record.time_ns();
            if let Record::Step(step) = record {
                assert_whole(step, &reader);
                *steps.entry(step.step).or_default() += 1;
            }
        }
        let items = reader.open_items(last_ns);
        assert!(matches!(items[0], OpenItem::Run { .. }));
        for item in &items {
            if let OpenItem::Step(step) = item {
                assert!(step.interrupted && step.end_ns >= step.begin_ns);
                // A step that was begun for a batch that the loader did not have is none, but the crash came first.
                *steps.entry(step.step).or_default() += 1;
            }
        }
        assert!(batch.torn <= 2, "one record at most was being written, of two slots at most");
        assert!(steps.len() > 1000, "{} steps", steps.len());
        let expected: BTreeMap<u64, u32> = (0..steps.len() as u64).map(|step| (step, 1)).collect();
        assert!(steps == expected, "a step is missing or there twice");
    }
}

#[test]
fn another_process_reads_along() {
    let directory = tempfile::tempdir().unwrap();
    let (training, path) = training_in(directory.path());
    let mut reader = Reader::open(&path).unwrap();
    let mut next = 0;
    while next < 5_000 {
        for record in reader.read(false).records {
            if let Record::Step(step) = record {
                assert_eq!(step.step, next);
                assert_whole(&step, &reader);
                next += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(reader);
    std::thread::sleep(Duration::from_millis(20));
    kill(training);
    // Whoever comes next goes on where the first left off.
    let mut reader = Reader::open(&path).unwrap();
    let first =
        reader.read(true).records.into_iter().find_map(|record| if let Record::Step(step) = record { Some(step.step) } else { None });
    assert_eq!(first, Some(next));
}

#[test]
fn what_is_no_journal_is_refused_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let refusal = |name: &str, bytes: &[u8]| -> String {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let Err(error) = Reader::open(&path) else { panic!("{name} was read") };
        assert!(error.to_string().contains(name), "{error}");
        error.to_string()
    };
    assert!(refusal("empty", b"").contains("it is no journal"));
    assert!(refusal("text", "something else\n".repeat(10_000).as_bytes()).contains("it is no journal"));
    assert!(refusal("later", &[b"STEPLINE".as_slice(), &[2, 0, 0, 0, 0, 0, 0, 0]].concat()).contains("version 2"));
    let missing = Reader::open(&directory.path().join("missing"));
    assert!(matches!(missing, Err(JournalError::Open { .. })));
    let folder = Reader::open(directory.path());
    assert!(matches!(folder, Err(JournalError::Open { .. })));
}

#[cfg(unix)]
#[test]
fn a_journal_cannot_be_made_where_others_could_replace_it() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let journals = directory.path().join("journals");
    std::fs::create_dir(&journals).unwrap();
    std::fs::set_permissions(&journals, std::fs::Permissions::from_mode(0o777)).unwrap();
    let Err(error) = Writer::create(&path_in(directory.path()), &about(), ROOMY) else { panic!("it was made") };
    assert!(error.to_string().contains("others can write to it") && error.to_string().contains("STEPLINE_JOURNAL_DIR"), "{error}");
}

#[test]
fn a_full_ring_drops_and_counts_exactly_while_a_reader_drains_it() {
    let (run, mut recording) = Recording::start(64 * 64, 0);
    let written = 20_000;
    let mut read = 0;
    for (step, batch) in run.steps(0..written) {
        step.record(Scalar::LOSS, f64::from(batch));
        drop(step);
        if batch % 100 == 0 {
            read += recording.take().steps().len() as u64;
        }
    }
    read += recording.take().steps().len() as u64;
    assert!(recording.reader.dropped() > 0);
    assert_eq!(read + recording.reader.dropped(), written as u64);
    let outcome = run.finish();
    assert!(outcome.reasons.is_empty());
}
