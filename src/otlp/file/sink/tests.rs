use std::os::unix::fs::PermissionsExt as _;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

use super::*;
use crate::model::{Span, SpanId, TraceId};
use crate::otlp::encode::Encoder;

fn request(number: u64) -> ExportTraceServiceRequest {
    Encoder::new(&[]).traces(vec![Span {
        trace_id: TraceId([1; 16]),
        span_id: SpanId(number.to_be_bytes()),
        parent_span_id: None,
        parent_is_remote: false,
        name: "train.run".into(),
        begin_ns: 1,
        end_ns: 2,
        attributes: Vec::new(),
        events: Vec::new(),
        links: Vec::new(),
        error_type: None,
    }])
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn writes_one_line_a_request_that_only_the_owner_can_read() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("runs/wine");
    let mut sink = FileSink::new(&directory);
    assert!(!directory.exists(), "nothing is touched before the first write");
    sink.write(&request(1)).unwrap();
    sink.write(&ExportTraceServiceRequest::default()).unwrap();
    sink.write(&request(2)).unwrap();
    let path = directory.join("traces.jsonl");
    let written = lines(&path);
    assert_eq!(written.len(), 2);
    assert_eq!(serde_json::from_str::<ExportTraceServiceRequest>(&written[1]).unwrap(), request(2));
    assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
    assert!(!directory.join("logs.jsonl").exists());
}

#[test]
fn goes_on_after_a_torn_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("traces.jsonl");
    fs::write(&path, "{\"resourceSp").unwrap();
    let mut sink = FileSink::new(directory.path());
    sink.write(&request(1)).unwrap();
    sink.write(&request(2)).unwrap();
    let written = lines(&path);
    assert_eq!((written.len(), written[0].as_str()), (3, "{\"resourceSp"));
    assert!(written[1..].iter().all(|line| serde_json::from_str::<ExportTraceServiceRequest>(line).is_ok()));
}

#[test]
fn puts_a_full_file_away_under_the_next_number() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("traces.7.jsonl"), "").unwrap();
    fs::write(directory.path().join("traces.old.jsonl"), "").unwrap();
    let mut sink = FileSink::new(directory.path()).max_file_bytes(1);
    (1..=3).for_each(|number| sink.write(&request(number)).unwrap());
    for (name, number) in [("traces.8.jsonl", 1), ("traces.9.jsonl", 2), ("traces.jsonl", 3)] {
        let written = lines(&directory.path().join(name));
        assert_eq!(serde_json::from_str::<ExportTraceServiceRequest>(&written[0]).unwrap(), request(number));
        assert_eq!(written.len(), 1, "{name}");
    }
}

#[test]
fn writes_to_no_link_and_to_no_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    fs::write(&victim, "").unwrap();
    std::os::unix::fs::symlink(&victim, directory.path().join("traces.jsonl")).unwrap();
    let error = FileSink::new(directory.path()).write(&request(1)).unwrap_err();
    assert!(error.to_string().contains("is a symbolic link"), "{error}");
    assert_eq!(fs::read(&victim).unwrap(), b"");

    fs::remove_file(directory.path().join("traces.jsonl")).unwrap();
    let pipe = directory.path().join("traces.jsonl");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0).unwrap();
    let error = FileSink::new(directory.path()).write(&request(1)).unwrap_err();
    assert!(error.to_string().contains("no regular file"), "{error}");

    let link = directory.path().join("link");
    std::os::unix::fs::symlink(directory.path(), &link).unwrap();
    let error = FileSink::new(&link).write(&request(1)).unwrap_err();
    assert!(error.to_string().contains("is a symbolic link"), "{error}");
}

#[test]
fn tries_again_after_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("traces.jsonl");
    fs::create_dir(&path).unwrap();
    let mut sink = FileSink::new(directory.path());
    assert!(sink.prepare().is_err());
    let error = sink.write(&request(1)).unwrap_err();
    assert!(error.to_string().contains("traces.jsonl"), "{error}");
    fs::remove_dir(&path).unwrap();
    sink.write(&request(2)).unwrap();
    // Somebody clears up while the run goes on.
    fs::remove_file(&path).unwrap();
    sink.write(&request(3)).unwrap();
    assert_eq!(lines(&path).len(), 1);
}

/// A write that the system cuts short leaves no part of a line behind. The limit on file sizes stands in for a full disk.
#[test]
fn a_full_disk_leaves_whole_lines_only() {
    if std::env::var_os("STEPLINE_TEST_FILE_LIMIT").is_none() {
        // In a process of its own, since the limit holds for all of it.
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([test.as_str(), "--exact", "--nocapture"])
            .env("STEPLINE_TEST_FILE_LIMIT", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut sink = FileSink::new(directory.path());
    sink.write(&request(1)).unwrap();
    let path = directory.path().join("traces.jsonl");
    let line_bytes = fs::metadata(&path).unwrap().len();
    // Beyond the limit a write returns EFBIG, once the signal that comes with it is ignored.
    ignore_file_size_signal();
    let limit =
        |bytes| rustix::process::setrlimit(rustix::process::Resource::Fsize, rustix::process::Rlimit { current: bytes, maximum: None });
    limit(Some(line_bytes + 40)).unwrap();
    let error = sink.write(&request(2)).unwrap_err();
    assert!(error.to_string().starts_with("cannot write to"), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), line_bytes, "the part that went through was taken back");
    limit(None).unwrap();
    sink.write(&request(3)).unwrap();
    assert_eq!(lines(&path).len(), 2);
}

#[allow(unsafe_code)]
fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal touches no memory of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
