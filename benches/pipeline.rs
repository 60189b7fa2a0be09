//! What stepline costs beside the hook: creating and exporting 100,000 spans, the sampler, memory, start-up.
//!
//! Each figure comes from a process of its own (this program again, with a word that says what to do), so that none inherits another's
//! warm memory. CPU times are those of the kernel's own account, in nanoseconds. Prints a table and merges `target/bench.json`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program for the terminal that ends when something fails"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::{Value, json};
use stepline::{Phase, Scalar, StepSpans};

/// Spans of a step: itself and four phases.
const SPANS_A_STEP: u64 = 5;
const SPANS: u64 = 100_000;
/// How long the samplers are watched.
const SAMPLER_SECONDS: u64 = 60;
/// How long the training whose memory is watched runs.
const MEMORY_SECONDS: u64 = 20;
const STARTS: usize = 21;

fn main() {
    match env::args().nth(1).as_deref() {
        Some("sink") => sink(),
        Some("export") => export(),
        Some("sampler") => sampler(),
        Some("memory") => memory(),
        Some("start") => start(),
        // Whatever cargo passes (`--bench`): all of it.
        _ => all(),
    }
}

fn all() {
    let (mut sink, endpoint) = start_sink();
    let export = measured("export", &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint), ("STEPLINE_FILES", "off"), ("STEPLINE_GPU", "off")]);
    let export_files = measured("export", &[("STEPLINE_FILES", "on"), ("STEPLINE_GPU", "off")]);
    let with_export = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("STEPLINE_GPU", "mirror"), ("STEPLINE_SAMPLE_INTERVAL", "100")];
    let memory_on = measured("memory", &with_export);
    let memory_off = measured("memory", &[("STEPLINE_DISABLED", "1")]);
    let mut starts: Vec<f64> = (0..STARTS).map(|_| measured("start", &[])).collect();
    starts.sort_by(f64::total_cmp);
    let slow = begin("sampler", &[("STEPLINE_SAMPLE_INTERVAL", "1000"), ("STEPLINE_GPU", "mirror")]);
    let fast = begin("sampler", &[("STEPLINE_SAMPLE_INTERVAL", "100"), ("STEPLINE_GPU", "mirror")]);
    let (slow, fast) = (number(slow), number(fast));
    let _ = sink.kill();
    let _ = sink.wait();

    let rows = [
        row("export.100k_spans.cpu", "ms", export, 60.0, "opentelemetry-sdk, Python (baselines.md)", 6_300.0),
        row("export.100k_spans.files.cpu", "ms", export_files, f64::NAN, "", f64::NAN),
        row("sampler.1hz", "% of a core", slow, 0.05, "nvitop (baselines.md)", 0.06),
        row("sampler.10hz", "% of a core", fast, 0.3, "", f64::NAN),
        row("memory.resident_added", "MB", (memory_on - memory_off) / 1e6, 8.0, "opentelemetry-sdk, Python (baselines.md)", 16.0),
        row("start.median", "ms", starts[STARTS / 2], 15.0, "opentelemetry-sdk, Python (baselines.md)", 150.0),
    ];
    for row in &rows {
        let budget = row["budget"].as_f64().map_or(String::from("-"), |budget| format!("{budget}"));
        println!(
            "{:<32} {:>10.3} {:<12} budget {budget}",
            row["id"].as_str().unwrap_or(""),
            row["value"].as_f64().unwrap_or(f64::NAN),
            row["unit"].as_str().unwrap_or("")
        );
    }
    merge(&rows);
}

fn row(id: &str, unit: &str, value: f64, budget: f64, peer: &str, peer_value: f64) -> Value {
    let finite = |number: f64| if number.is_finite() { json!(number) } else { Value::Null };
    let peer = if peer.is_empty() { Value::Null } else { json!(peer) };
    json!({"id": id, "unit": unit, "value": finite(value), "budget": finite(budget), "peer": peer, "peer_value": finite(peer_value)})
}

/// Puts the rows into `target/bench.json`, in place of those of the same id.
fn merge(rows: &[Value]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench.json");
    let known = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Vec<Value>>(&text).ok()).unwrap_or_default();
    let mut all: Vec<Value> = known.into_iter().filter(|old| rows.iter().all(|row| row["id"] != old["id"])).collect();
    all.extend_from_slice(rows);
    let text = serde_json::to_string_pretty(&all).expect("JSON");
    fs::write(&path, text + "\n").expect("target/bench.json can be written");
}

/// This program again, in surroundings of its own.
fn begin(word: &str, variables: &[(&str, &str)]) -> (Child, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.arg(word).current_dir(directory.path()).stdout(Stdio::piped());
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("OTEL_") || name.starts_with("STEPLINE_")) {
        command.env_remove(name);
    }
    command.env("STEPLINE_SUMMARY", "off").env("STEPLINE_JOURNAL_DIR", directory.path().join("journal")).envs(variables.iter().copied());
    (command.spawn().expect("the child starts"), directory)
}

/// The number that it prints.
fn number((child, _directory): (Child, tempfile::TempDir)) -> f64 {
    let output = child.wait_with_output().expect("the child ends");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn measured(word: &str, variables: &[(&str, &str)]) -> f64 {
    number(begin(word, variables))
}

/// CPU time of the whole process in milliseconds from the start of the run to its end, everything delivered.
fn export() {
    let before = process_cpu_ms();
    let run = stepline::configure().run_name("bench").step_spans(StepSpans::All).journal_size_bytes(16 << 20).start().expect("it starts");
    for (step, _) in run.steps(0..SPANS / SPANS_A_STEP) {
        step.phase(Phase::FORWARD, || {});
        step.phase(Phase::BACKWARD, || {});
        step.phase(Phase::OPTIMIZER, || {});
        step.record(Scalar::LOSS, 0.5);
    }
    let outcome = run.finish();
    assert!(outcome.is_complete(), "{outcome:?}");
    println!("{}", process_cpu_ms() - before);
}

/// CPU time of all of stepline's threads as a share of the time that passed, in percent of one core.
fn sampler() {
    let begin = Instant::now();
    let run = stepline::configure().run_name("bench").start().expect("it starts");
    thread::sleep(Duration::from_secs(SAMPLER_SECONDS));
    let cpu_s: f64 = fs::read_dir("/proc/self/task")
        .expect("this process's threads")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            let is_sampler = ["stepline-host", "stepline-gpu"].contains(&name.trim());
            let account = fs::read_to_string(path.join("schedstat")).ok().filter(|_| is_sampler)?;
            account.split_whitespace().next()?.parse::<f64>().ok()
        })
        .sum::<f64>()
        / 1e9;
    println!("{}", 100.0 * cpu_s / begin.elapsed().as_secs_f64());
    run.finish();
}

/// The most resident memory of the process, bytes, over a training of a thousand steps a second.
fn memory() {
    let run = stepline::init();
    let begin = Instant::now();
    let mut most = 0.0_f64;
    for epoch in run.epochs(0..MEMORY_SECONDS) {
        for (step, _) in epoch.steps(0..1_000) {
            step.phase(Phase::FORWARD, || thread::sleep(Duration::from_micros(800)));
            step.phase(Phase::BACKWARD, || {});
            step.phase(Phase::OPTIMIZER, || {});
            step.record(Scalar::LOSS, 0.5);
        }
        most = most.max(resident_bytes());
        if begin.elapsed() > Duration::from_secs(MEMORY_SECONDS) {
            break;
        }
    }
    run.finish();
    println!("{}", most.max(resident_bytes()));
}

/// How long it takes until the training may begin, milliseconds.
fn start() {
    let begin = Instant::now();
    let run = stepline::init();
    println!("{}", begin.elapsed().as_secs_f64() * 1e3);
    run.finish();
}

fn resident_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
    line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).expect("KiB") * 1024.0
}

fn process_cpu_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn start_sink() -> (Child, String) {
    let mut child =
        Command::new(env::current_exe().expect("this program")).arg("sink").stdout(Stdio::piped()).spawn().expect("the sink starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("its output")).read_line(&mut line).expect("its address");
    (child, line.trim().to_owned())
}

/// Accepts everything, looks at nothing: its own cost must not matter.
fn sink() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("http://{}", listener.local_addr().expect("its address"));
    let _ = std::io::stdout().flush();
    for connection in listener.incoming() {
        thread::spawn(|| connection.map(answer));
    }
}

fn answer(connection: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut writer = connection;
    loop {
        let mut length = 0_u64;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}
