//! Bad surroundings and bad input, with a real training process: the result is the same bit by bit as without stepline, the end comes
//! within five seconds, and what was lost is counted.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use fake_nvml::{Device, ErrorCode, Fault, Field, Installation, Model, Scenario};
use stepline::model::{Number, Points, Value};
use stepline::semconv::{attributes as keys, events, metrics, spans as names};

use crate::support::invariants;
use crate::support::trainee::{Finished, Trainee};

const WISHES: [&str; 3] = ["epochs=2", "steps=20", "phase_ms=1"];

/// What must hold wherever a training runs.
fn unharmed(run: &Finished, wishes: &[&str]) {
    let control = Trainee::new(wishes).env("STEPLINE_DISABLED", "1").run();
    assert!(control.succeeded && control.stderr.is_empty(), "{}", control.stderr);
    assert!(run.succeeded, "{}", run.stderr);
    assert_eq!(run.result(), control.result());
    assert!(run.finish_ms() < 5_500, "finish took {} ms", run.finish_ms());
}

/// The last value of a metric's only series without attributes.
fn last_count(run: &Finished, metric: &str) -> i64 {
    let [series] = &run.series(metric)[..] else { panic!("one series of {metric}") };
    let Points::Numbers(points) = &series.points else { panic!("numbers") };
    match points.last().expect("a point").value {
        Number::I64(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_special() {
    let run = Trainee::new(&WISHES).run();
    unharmed(&run, &WISHES);
    assert_eq!(last_count(&run, metrics::STEPS.name), 40);
    assert_eq!(last_count(&run, metrics::SAMPLES.name), 40 * 32);
    assert_eq!(invariants::check(&run.files()), Vec::<String>::new());
    invariants::otlpcheck(&run.files()).require();
    assert!(run.journal_is_gone());
}

#[test]
fn a_run_of_a_few_milliseconds() {
    let wishes = ["epochs=1", "steps=3"];
    let run = Trainee::new(&wishes).run();
    unharmed(&run, &wishes);
    assert_eq!(last_count(&run, metrics::STEPS.name), 3);
    assert!(run.spans().iter().any(|span| span.name == names::RUN));
    assert!(run.stderr.contains("1 epoch · 3 steps"), "{}", run.stderr);
}

#[test]
fn a_hundred_thousand_steps_at_once_are_counted_or_counted_as_lost() {
    let wishes = ["epochs=1", "steps=100000"];
    let run = Trainee::new(&wishes).run();
    unharmed(&run, &wishes);
    let counted = last_count(&run, metrics::STEPS.name) as u64;
    let lost = run.ledger().journal_dropped;
    assert!(counted <= 100_000 && counted + lost >= 100_000, "{counted} counted, {lost} lost");
    assert!(lost > 0 || counted == 100_000);
}

#[test]
fn wrong_and_unknown_variables_warn_and_fall_back() {
    let run = Trainee::new(&WISHES)
        .env("STEPLINE_SAMPLE_INTERVAL", "soon")
        .env("STEPLINE_STEP_SPANS", "every:0")
        .env("STEPLINE_JOURNAL_SIZE", "-1")
        .env("STEPLINE_SUMARY", "off")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")
        .run();
    unharmed(&run, &WISHES);
    for word in ["STEPLINE_SAMPLE_INTERVAL", "STEPLINE_STEP_SPANS", "STEPLINE_JOURNAL_SIZE", "carrier-pigeon"] {
        assert!(run.stderr.contains(word), "{word} is not spoken of:\n{}", run.stderr);
    }
    assert!(run.stderr.contains("STEPLINE_SUMARY") && run.stderr.contains("STEPLINE_SUMMARY"), "{}", run.stderr);
    assert_eq!(last_count(&run, metrics::STEPS.name), 40);
}

#[test]
fn a_secret_appears_nowhere() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let run = Trainee::new(&WISHES)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", listener.local_addr().expect("an address")))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2hunter2")
        .env("STEPLINE_SHUTDOWN_TIMEOUT", "500")
        .run();
    unharmed(&run, &WISHES);
    assert!(!run.stderr.contains("hunter2") && !run.stdout.contains("hunter2"));
    for file in run.files() {
        assert!(!std::fs::read_to_string(file).expect("a file").contains("hunter2"));
    }
}

#[test]
fn endpoints_that_do_not_answer() {
    let closed_port = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    // Accepts (the system does, for it), and never answers.
    let black_hole = TcpListener::bind("127.0.0.1:0").expect("a port");
    let black_hole_port = black_hole.local_addr().expect("an address").port();
    for (endpoint, protocol) in [
        (format!("http://127.0.0.1:{closed_port}"), "http/protobuf"),
        (format!("http://127.0.0.1:{closed_port}"), "grpc"),
        (format!("http://127.0.0.1:{black_hole_port}"), "http/protobuf"),
        (format!("http://127.0.0.1:{black_hole_port}"), "grpc"),
        ("http://no-such-host.invalid:4318".to_owned(), "http/protobuf"),
        ("not a url".to_owned(), "http/protobuf"),
    ] {
        let run = Trainee::new(&WISHES).env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol).run();
        unharmed(&run, &WISHES);
        let ledger = run.ledger();
        let spans = run.spans().len() as u64;
        if endpoint.starts_with("http") {
            assert_eq!(ledger.spans, (0, spans), "{endpoint} {protocol}: {:?}", run.reasons());
            assert!(ledger.points.1 > 0 && ledger.events.1 > 0);
            assert!(run.reasons().iter().any(|reason| reason.contains(&endpoint)), "the reasons name the address: {:?}", run.reasons());
        }
        assert!(run.stderr.lines().filter(|line| line.starts_with("stepline:")).count() <= 4, "{}", run.stderr);
    }
}

#[test]
fn directories_that_cannot_be_written_to() {
    // As root no permission stops us, but nothing can be made below a plain file.
    let file = tempfile::NamedTempFile::new().expect("a file");
    let below = file.path().join("below");

    let run = Trainee::new(&WISHES).env("STEPLINE_DIR", &below).run();
    unharmed(&run, &WISHES);
    assert!(run.ledger().files_dropped > 0);
    let said = run.stderr.lines().filter(|line| line.starts_with("stepline: ")).count();
    assert_eq!(said, 1, "one line says so:\n{}", run.stderr);

    let with_init = ["epochs=2", "steps=20", "phase_ms=1", "init=1"];
    let run = Trainee::new(&with_init).env("STEPLINE_JOURNAL_DIR", &below).run();
    unharmed(&run, &with_init);
    assert!(run.stderr.contains("STEPLINE_JOURNAL_DIR") && run.stderr.contains("goes on without stepline"), "{}", run.stderr);
}

/// A file system of one megabyte, unmounted at the end; `None` where we may not mount.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).expect("a directory");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).status();
        if mounted.is_ok_and(|status| status.success()) {
            Some(Self(at.to_owned()))
        } else {
            eprintln!("skipped: a small file system cannot be mounted here (it takes root)");
            None
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk() {
    let place = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::mount(&place.path().join("disk")) else { return };

    // The journal's room is reserved when it is made: an error at the start, not a crash in the training.
    let with_init = ["epochs=2", "steps=20", "phase_ms=1", "init=1"];
    let run = Trainee::new(&with_init).env("STEPLINE_JOURNAL_DIR", disk.0.join("journal")).run();
    unharmed(&run, &with_init);
    assert!(run.stderr.contains("make room"), "{}", run.stderr);

    // Files: what does not fit is counted, and the training goes on.
    std::fs::write(disk.0.join("ballast"), vec![0_u8; 1000 << 10]).expect("almost everything");
    let run = Trainee::new(&WISHES).env("STEPLINE_DIR", disk.0.join("runs")).run();
    unharmed(&run, &WISHES);
    assert!(run.ledger().files_dropped > 0, "{}", run.stderr);
}

#[test]
fn no_driver_is_a_normal_state() {
    let run = Trainee::new(&WISHES).env("STEPLINE_GPU", "auto").run();
    unharmed(&run, &WISHES);
    assert!(!run.stderr.to_lowercase().contains("nvml"), "{}", run.stderr);
    assert!(run.series(metrics::GPU_MEMORY_USAGE.name).is_empty());
    let epoch = run.spans().into_iter().find(|span| span.name == names::EPOCH).expect("an epoch");
    assert_eq!(epoch.attribute(keys::GPU_MEMORY_USAGE_MAX), None, "absent, not 0");
}

fn on_driver(scenario: &Scenario, wishes: &[&str]) -> (Finished, Installation) {
    let installation = Installation::new(scenario).expect("the fake driver");
    let run = Trainee::new(wishes).env("STEPLINE_GPU", "auto").env("STEPLINE_NVML_PATH", installation.library()).run();
    (run, installation)
}

#[test]
fn a_driver_that_does_not_start() {
    let scenario = Scenario::with(Device::new(Model::H100)).fault(Fault::error(ErrorCode::LibRmVersionMismatch).function("nvmlInit_v2"));
    let (run, _installation) = on_driver(&scenario, &WISHES);
    unharmed(&run, &WISHES);
    assert_eq!(run.stderr.lines().filter(|line| line.starts_with("stepline: ")).count(), 1, "{}", run.stderr);
    assert_eq!(last_count(&run, metrics::STEPS.name), 40);
}

#[test]
fn an_unsupported_field_and_a_lost_gpu_beside_a_healthy_one() {
    let scenario = Scenario::with(Device::new(Model::H100).field(Field::PowerMw, ErrorCode::NotSupported))
        .and(Device::new(Model::H100))
        .fault(Fault::error(ErrorCode::GpuIsLost).device(1_u32).from_second(0.5));
    let wishes = ["epochs=2", "steps=40", "phase_ms=10"];
    let (run, installation) = on_driver(&scenario, &wishes);
    unharmed(&run, &wishes);

    let points = |metric: &str, device: usize| {
        let id = stepline_device_id(&run, device);
        let series = run.series(metric).into_iter().find(|series| {
            series.attributes.iter().any(|attribute| attribute.key == keys::HW_ID && attribute.value == Value::Text(id.clone().into()))
        });
        series.map_or(0, |series| if let Points::Numbers(points) = series.points { points.len() } else { 0 })
    };
    let healthy = points(metrics::GPU_UTILIZATION.name, 0);
    let lost = points(metrics::GPU_UTILIZATION.name, 1);
    assert!(healthy > 10 && lost > 1 && lost < healthy, "{healthy} readings of the healthy device, {lost} of the lost one");
    assert_eq!(points(metrics::POWER.name, 0), 0, "no series, and not 0 W");
    let calls = installation.calls().expect("the log of calls");
    assert_eq!(calls.count("nvmlDeviceGetPowerUsage", 0_u32), 1, "what is not supported is asked once");
    let logs = std::fs::read_to_string(run.run_directory().join("logs.jsonl")).expect("logs");
    assert_eq!(logs.matches(events::GPU_LOST).count(), 1);
    assert_eq!(invariants::check(&run.files()), Vec::<String>::new());
}

/// The id of the device with this number on its host, as the run's span tells it.
fn stepline_device_id(run: &Finished, device: usize) -> String {
    let span = run.spans().into_iter().find(|span| span.name == names::RUN).expect("the run's span");
    let (Some(Value::Texts(ids)), Some(Value::I64s(indices))) = (span.attribute(keys::GPU_IDS), span.attribute(keys::GPU_INDICES)) else {
        panic!("{span:?}")
    };
    // A device that was lost at the end may be missing among the ids with aggregates.
    let place = indices.iter().position(|index| *index == device as i64).expect("the device");
    ids.get(place).cloned().unwrap_or_else(|| match span.attribute(keys::GPU_LOST_IDS) {
        Some(Value::Texts(lost)) => lost[0].clone(),
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_driver_that_takes_two_seconds_a_call() {
    let scenario = Scenario::with(Device::new(Model::H100)).fault(Fault::delay(std::time::Duration::from_secs(2)).from_second(0.3));
    let wishes = ["epochs=2", "steps=60", "phase_ms=10"];
    let (run, _installation) = on_driver(&scenario, &wishes);
    unharmed(&run, &wishes);
    assert_eq!(last_count(&run, metrics::STEPS.name), 120);
    // The host goes on being read on time, whatever the driver does.
    let [threads] = &run.series(metrics::PROCESS_THREAD_COUNT.name)[..] else { panic!("one series") };
    let Points::Numbers(points) = &threads.points else { panic!("numbers") };
    let longest = points.windows(2).map(|pair| pair[1].time_ns - pair[0].time_ns).max().expect("points");
    assert!(points.len() > 10 && longest < 1_900_000_000, "{} readings, {longest} ns apart", points.len());
}

#[test]
fn a_loss_that_is_not_a_number_is_told_and_never_a_value() {
    let wishes = ["epochs=2", "steps=20", "phase_ms=1", "nan_step=7"];
    let run = Trainee::new(&wishes).run();
    unharmed(&run, &wishes);
    let step = run
        .spans()
        .into_iter()
        .find(|span| span.name == names::STEP && span.number(keys::STEP_INDEX) == Some(7.0))
        .expect("the step's span is kept");
    assert_eq!(step.text(keys::STEP_LOSS), Some("NaN"));
    assert_eq!(last_count(&run, metrics::SCALARS_NONFINITE.name), 1);
    for file in run.files() {
        let text = std::fs::read_to_string(file).expect("a file");
        assert!(!text.contains("\"asDouble\":\"NaN\"") && !text.contains("\"doubleValue\":\"NaN\""));
    }
    assert_eq!(invariants::check(&run.files()), Vec::<String>::new());
    invariants::otlpcheck(&run.files()).require();
}

#[test]
fn a_panic_and_a_failed_step_are_marked() {
    let run = Trainee::new(&["epochs=2", "steps=20", "phase_ms=1", "fail_step=3", "panic_step=25"]).run();
    assert!(!run.succeeded, "the panic is the training's own and passes through");
    let spans = run.spans();
    let error_of = |name: &str, key: &str, number: f64| {
        let span = spans.iter().find(|span| span.name == name && span.number(key) == Some(number));
        span.unwrap_or_else(|| panic!("{name} {number}")).error_type.clone()
    };
    assert_eq!(error_of(names::STEP, keys::STEP_INDEX, 3.0).as_deref(), Some("diverged"));
    assert_eq!(error_of(names::STEP, keys::STEP_INDEX, 25.0).as_deref(), Some("panic"));
    assert_eq!(error_of(names::EPOCH, keys::EPOCH_INDEX, 1.0).as_deref(), Some("panic"));
    assert_eq!(error_of(names::EPOCH, keys::EPOCH_INDEX, 0.0), None);
    let run_span = spans.iter().find(|span| span.name == names::RUN).expect("the run");
    assert_eq!(run_span.error_type.as_deref(), Some("panic"));
    assert_eq!(invariants::check(&run.files()), Vec::<String>::new());
    invariants::otlpcheck(&run.files()).require();
}

#[cfg(target_os = "linux")]
#[test]
fn a_wall_clock_that_steps_back_two_hours() {
    let tests = std::env::current_exe().expect("this program");
    let library = tests.parent().expect("a directory").join("libfake_clock.so");
    assert!(library.is_file(), "{} is built with the tests", library.display());
    let wishes = ["epochs=2", "steps=40", "phase_ms=10"];
    let run = Trainee::new(&wishes).env("LD_PRELOAD", &library).run();
    unharmed(&run, &wishes);
    let spans = run.spans();
    let training = spans.iter().find(|span| span.name == names::RUN).expect("the run");
    for span in &spans {
        assert!(span.begin_ns <= span.end_ns && training.begin_ns <= span.begin_ns && span.end_ns <= training.end_ns, "{}", span.name);
    }
    let taken_s = (training.end_ns - training.begin_ns) as f64 / 1e9;
    assert!((0.8..60.0).contains(&taken_s), "{taken_s} s");
    assert_eq!(invariants::check(&run.files()), Vec::<String>::new());
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_does_nothing_and_ends() {
    let wishes = ["epochs=2", "steps=20", "phase_ms=1", "fork_step=10"];
    let run = Trainee::new(&wishes).run();
    unharmed(&run, &["epochs=2", "steps=20", "phase_ms=1"]);
    assert!(run.stdout.contains("child 0"), "the child ends by itself, as it would without stepline:\n{}\n{}", run.stdout, run.stderr);
    assert_eq!(last_count(&run, metrics::STEPS.name), 40, "the child's steps are not among the parent's");
    assert_eq!(invariants::check(&run.files()), Vec::<String>::new());
}

/// As a container does that is started again: the same run id, the same process id, and a journal of before in the place of ours.
#[cfg(unix)]
#[test]
fn a_journal_of_a_process_with_the_same_id_is_left_alone() {
    let place = tempfile::tempdir().expect("a directory");
    let script = "umask 077; mkdir -p \"$STEPLINE_JOURNAL_DIR/again\"; echo before > \"$STEPLINE_JOURNAL_DIR/again/0-$$.journal\"; \
                  exec \"$0\" epochs=1 steps=3";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(crate::support::trainee::program("trainee"))
        .env("STEPLINE_RUN_ID", "again")
        .env("STEPLINE_GPU", "off")
        .env("STEPLINE_JOURNAL_DIR", place.path().join("journal"))
        .env("STEPLINE_DIR", place.path().join("runs"))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(place.path().join("runs/again/traces.jsonl").is_file());
    let left: Vec<_> =
        std::fs::read_dir(place.path().join("journal/again")).expect("the journals").map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(std::fs::read_to_string(&left[0]).expect("the old one"), "before\n");
}
