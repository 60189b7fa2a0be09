//! Tests of the journal: hostile bytes, crashes, many threads, and the model of the ring.

mod corruption;
mod crash;
mod layout_document;
mod threads;

use std::sync::Arc;

use tempfile::TempDir;

use super::layout::MIN_SLOTS;
use super::*;
pub(super) use crate::model::{Phase, Scalar, Value};

pub(super) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Bytes of the smallest ring.
pub(super) const SMALLEST: u64 = MIN_SLOTS as u64 * 64;

pub(super) fn about() -> About {
    About {
        identity: Identity { instance_id: [7; 16], run_id: "wine-1".into(), run_name: "wine".into(), attempt: 2, rank: 1, world_size: 4 },
        resource: vec![Attribute { key: "service.name".into(), value: Value::Text("wine".into()) }],
        sample_interval_ns: 1_000_000_000,
        step_spans: StepSpans::Every(3),
    }
}

/// A journal in a directory of its own, which lives as long as the first part.
pub(super) fn journal(ring_bytes: u64) -> Result<(TempDir, Arc<Writer>), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let path = journal_path(&directory.path().join("journals"), &about().identity, std::process::id(), 0);
    let writer = Writer::create(&path, &about(), ring_bytes)?;
    Ok((directory, Arc::new(writer)))
}

#[test]
fn says_who_wrote_it() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    let reader = Reader::open(writer.path())?;
    assert_eq!(*reader.about(), about());
    assert_eq!(reader.pid(), std::process::id());
    assert_eq!(reader.devices(), None);
    assert!(!reader.is_closed());
    writer.close();
    assert!(reader.is_closed());
    Ok(())
}

#[test]
fn a_journal_is_its_writers_alone() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    assert!(Writer::create(writer.path(), &about(), SMALLEST).is_err(), "an existing journal was overwritten");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| std::fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777);
        assert_eq!(mode(writer.path())?, 0o600);
        for directory in writer.path().ancestors().skip(1).take(2) {
            assert_eq!(mode(directory)?, 0o700);
        }
        let link = writer.path().with_extension("link");
        std::os::unix::fs::symlink(writer.path(), &link)?;
        assert!(Reader::open(&link).is_err(), "a link was followed");
    }
    Ok(())
}

#[test]
fn ranks_that_start_at_once_share_a_directory_that_none_of_them_found() -> Outcome {
    for _ in 0..20 {
        let root = tempfile::tempdir()?;
        let directory = root.path().join("several/levels/down");
        let failures: Vec<String> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..4)
                .map(|rank| {
                    let path = journal_path(&directory, &Identity { rank, ..about().identity }, 1, 0);
                    scope.spawn(move || Writer::create(&path, &about(), SMALLEST).err().map(|error| error.to_string()))
                })
                .collect();
            ranks.into_iter().filter_map(|rank| rank.join().unwrap_or_else(|_| Some("panic".into()))).collect()
        });
        assert!(failures.is_empty(), "{failures:?}");
    }
    Ok(())
}

#[test]
fn attributes_beyond_the_room_for_them_are_an_error_that_says_so() -> Outcome {
    let directory = tempfile::tempdir()?;
    let resource = vec![Attribute { key: "long".into(), value: Value::Text("x".repeat(50_000).into()) }];
    let path = directory.path().join("run/0-1.journal");
    let error = Writer::create(&path, &About { resource, ..about() }, SMALLEST).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("the resource attributes take 50"), "{error}");
    assert!(!path.exists(), "a journal that nobody writes was left behind");
    Ok(())
}

#[test]
fn names_beyond_the_room_for_them_are_other_and_counted() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    let mut reader = Reader::of(&writer)?;
    let phases: Vec<_> = (0..70).map(|index| writer.phase_name(&format!("own {index}"))).collect();
    assert_eq!(phases.iter().filter(|phase| **phase == Phase::OTHER).count(), 6);
    assert_eq!(writer.phase_name("own 3"), phases[3]);
    assert_eq!(writer.phase_name("forward"), Phase::FORWARD);
    assert_eq!(writer.scalar_name("loss"), Scalar::LOSS);
    assert_eq!(writer.scalar_name(""), Scalar::OTHER);
    let long = "ü".repeat(40);
    let scalar = writer.scalar_name(&long);
    reader.read(false);
    assert_eq!(reader.names_refused(), 7);
    assert_eq!(reader.names().phase(phases[63]), "own 63");
    assert_eq!(reader.names().scalar(scalar), "ü".repeat(28));
    Ok(())
}
