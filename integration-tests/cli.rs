//! The program `stepline`, as people run it: what it prints and how it ends.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fake_nvml::{Device, ErrorCode, Fault, Field, Installation, Model, Scenario};
use tempfile::TempDir;

const SMALL_RUN: &str = "integration-tests/data/runs/small";

struct Ended {
    status: Option<i32>,
    stdout: String,
    stderr: String,
    took: Duration,
}

/// Runs the program with these variables of ours alone, in directories of its own.
fn stepline(arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let (mut command, _directory) = command(arguments);
    let began = Instant::now();
    let Output { status, stdout, stderr } = command.envs(variables.iter().copied()).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ended { status: status.code(), stdout: text(stdout), stderr: text(stderr), took: began.elapsed() }
}

fn command(arguments: &[&str]) -> (Command, TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepline"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["OTEL_", "STEPLINE_", "CUDA_"].iter().any(|prefix| name.starts_with(prefix)) || name.to_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("STEPLINE_DIR", directory.path().join("runs"))
        .env("STEPLINE_JOURNAL_DIR", directory.path().join("journal"))
        .stdin(Stdio::null());
    (command, directory)
}

/// A server that answers each request with these bytes, and keeps what it was asked.
fn server(answer: &'static [u8]) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, requests) = std::sync::mpsc::channel();
    // Ends with the test program.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let request = request(&mut stream);
                if !request.is_empty() {
                    let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
                    let _ = stream.write_all(answer);
                    // Stays open, as servers do, so that what was written is read.
                    while stream.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {}
                }
            });
        }
    });
    (url, requests)
}

/// One request, to its end where it is one of HTTP/1.1; nothing where the connection was only tried.
fn request(stream: &mut TcpStream) -> Vec<u8> {
    let (mut request, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(length @ 1..) => request.extend_from_slice(&piece[..length]),
            _ => return request,
        }
        let text = String::from_utf8_lossy(&request).to_lowercase();
        if !request.starts_with(b"POST ") {
            // HTTP/2 or TLS: answered at once.
            return request;
        }
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        if request.len() >= head.len() + 4 + length.parse::<usize>().expect("a number") {
            return request;
        }
    }
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 18\r\n\r\n404 page not found";
const GRPC: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The lines from the one that begins so to the next empty one.
fn section<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    text.lines().skip_while(|line| !line.starts_with(begin)).take_while(|line| !line.is_empty()).collect()
}

/// What was broken into lines, in one.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_command_has_an_example_and_says_how_it_ends() {
    for command in ["report", "doctor"] {
        let help = stepline(&[command, "--help"], &[]);
        assert_eq!(help.status, Some(0));
        assert!(help.stdout.contains("Example: ") && help.stdout.contains("Exit status: "), "{}", help.stdout);
        let short = stepline(&["help", command], &[]);
        assert!(short.stdout.contains("Example: "), "{}", short.stdout);
    }
    let nothing = stepline(&[], &[]);
    assert!(nothing.stderr.contains("report") && nothing.stderr.contains("doctor"), "{}", nothing.stderr);
    assert_ne!(stepline(&["repot"], &[]).status, Some(0));
}

#[test]
fn report_of_a_recorded_run() {
    let report = stepline(&["report", SMALL_RUN], &[]);
    assert_eq!((report.status, report.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(report.stdout, @r"
    stepline  trainee · 4 epochs · 24 steps · 1.1 s · finished
    gpu 0     simulated, mirrors this process · 11 readings, one every 100 ms

    epoch     time   steps   step p50 / p95   data wait   gpu memory max      process memory   gpu util   energy
        0   150 ms       6   24.0 / 28.4 ms      <0.1 %   10.9 MiB                  10.6 MiB       45 %        –
        1   144 ms       6   24.0 / 24.0 ms      <0.1 %   10.9 MiB                  10.7 MiB       48 %     25 J
      ▲ 2   612 ms       6   24.0 / 24.0 ms      <0.1 %    311 MiB  +2738 %          311 MiB       49 %    109 J
        3   145 ms       6   24.1 / 24.1 ms      <0.1 %   11.0 MiB                  10.8 MiB       45 %     24 J

    memory peak 311 MiB of 23.5 GiB (1 %): epoch 2, in validation, 300 MiB above the median epoch
    integration-tests/data/runs/small/  13 spans, 236 points, nothing dropped
    ");
}

#[test]
fn report_as_json_and_of_the_directory_above() {
    let report = stepline(&["report", "--format", "json", SMALL_RUN], &[]);
    let json: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!((json["summary"]["steps"].as_u64(), json["summary"]["status"].as_str()), (Some(24), Some("finished")));
    assert_eq!(json["summary"]["gpu_memory_peak"]["epoch"].as_u64(), Some(2));

    let above = Path::new(SMALL_RUN).parent().expect("a parent");
    let of_parent = stepline(&["report"], &[("STEPLINE_DIR", above.to_str().expect("UTF-8"))]);
    assert_eq!(of_parent.status, Some(0));
    assert!(of_parent.stdout.contains("24 steps"), "{}", of_parent.stdout);
}

#[test]
fn report_of_what_is_no_run_ends_with_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    for (what, begin) in [(path, "stepline: there is no run in "), ("/nonexistent/run", "stepline: cannot read /nonexistent/run: ")] {
        let report = stepline(&["report", what], &[]);
        assert_eq!((report.status, report.stdout.as_str()), (Some(1), ""));
        assert!(report.stderr.starts_with(begin) && report.stderr.lines().count() == 1, "{}", report.stderr);
    }
    // What can be read of a file that breaks off is shown, and what cannot is counted.
    let traces = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(SMALL_RUN).join("traces.jsonl")).expect("a file");
    std::fs::write(directory.path().join("traces.jsonl"), format!("\u{0}\u{1}garbage\n{traces}{{\"resourceSpans\":[{{\"re"))
        .expect("written");
    let report = stepline(&["report", path], &[]);
    assert_eq!((report.status, report.stderr.as_str()), (Some(0), ""));
    assert!(report.stdout.contains("24 steps") && report.stdout.contains("note: 2 lines could not be read"), "{}", report.stdout);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for arguments in [["report", SMALL_RUN], ["doctor", "--format=json"]] {
        let (mut command, _directory) = command(&arguments);
        let mut child = command.env("STEPLINE_GPU", "off").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn doctor_without_a_gpu_and_without_an_endpoint() {
    let doctor = stepline(&["doctor"], &[("STEPLINE_GPU", "off")]);
    assert_eq!((doctor.status, doctor.stderr.as_str()), (Some(0), ""), "{}", doctor.stdout);
    assert_eq!(section(&doctor.stdout, "gpu "), ["gpu        none: switched off (STEPLINE_GPU=off)"]);
    assert!(doctor.stdout.starts_with(concat!("stepline   ", env!("CARGO_PKG_VERSION"), " · ")), "{}", doctor.stdout);
    assert!(section(&doctor.stdout, "endpoint")[0].contains("OTEL_EXPORTER_OTLP_ENDPOINT"));
    assert!(section(&doctor.stdout, "journal").iter().all(|line| line.ends_with("· usable")), "{}", doctor.stdout);
    assert!(section(&doctor.stdout, "setting").iter().any(|line| line.starts_with("gpu ") && line.ends_with(" STEPLINE_GPU")));
    assert!(doctor.stdout.ends_with("\n\nall that was asked for works\n"), "{}", doctor.stdout);
    assert!(!doctor.stdout.contains('\x1b'), "no colour where there is no terminal");
    assert!(doctor.stdout.lines().all(|line| line.chars().count() <= 140), "{}", doctor.stdout);
}

#[test]
fn doctor_leaves_nothing_behind() {
    let (mut command, directory) = command(&["doctor"]);
    assert!(command.env("STEPLINE_GPU", "mirror").output().expect("the program runs").status.success());
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
}

#[test]
fn doctor_says_what_each_gpu_can_tell_and_why_not() {
    let scenario = Scenario::with(
        Device::new(Model::H100)
            .field(Field::MemoryUsedBytes, 300_u64 << 20)
            .field(Field::UtilizationGpuPercent, 37)
            .field(Field::EnergyMj, 7_500)
            .field(Field::PcieRxBytes, 5_u64 << 30)
            .field(Field::PcieTxBytes, 3_u64 << 30)
            .field(Field::PowerMw, ErrorCode::NotSupported)
            .field(Field::TemperatureCelsius, ErrorCode::Unknown),
    )
    .and(Device::new(Model::H100));
    let fake = Installation::new(&scenario).expect("a fake NVML library");
    let library = fake.library().to_str().expect("UTF-8");
    let doctor = stepline(&["doctor"], &[("STEPLINE_NVML_PATH", library), ("CUDA_VISIBLE_DEVICES", "0,9")]);
    assert_eq!(doctor.status, Some(0), "{}", doctor.stdout);
    assert!(doctor.stderr.lines().all(|line| line.starts_with("stepline: ")), "{}", doctor.stderr);
    let gpu = section(&doctor.stdout, "gpu ").join("\n").replace(library, "LIBRARY");
    insta::assert_snapshot!(gpu, @r"
    gpu        NVML, driver 590.48.01, LIBRARY
               CUDA_VISIBLE_DEVICES=0,9 is the driver's number 0; only 1 of its 2 entries name a GPU, and CUDA stops
               reading at the first that does not
    gpu 0      NVIDIA H100 80GB HBM3 · 79.6 GiB · GPU-a0000000-fa4e-4000-8000-000000000000
               supported      memory 300 MiB used, 479 MiB reserved by the driver
                              utilization 37 %, 0 % of memory bandwidth · energy 7.5 J · SM clock 345 MHz
                              memory clock 2619 MHz · throttle reasons idle · process memory –
                              PCIe bytes 5.00 GiB received, 3.00 GiB sent · corrected ECC errors 0
                              uncorrected ECC errors 0 · time throttled for power 0.0 s · time throttled for heat 0.0 s
               not supported  power, fan speed (not supported by this device)
               failing        temperature (unknown error)
    ");

    let json = stepline(&["doctor", "--format", "json"], &[("STEPLINE_NVML_PATH", library)]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    let devices = json["gpu"]["devices"].as_array().expect("devices");
    assert_eq!((devices.len(), json["gpu"]["library"].as_str()), (2, Some(library)));
    let field = |name: &str| {
        let fields = devices[0]["fields"].as_array().expect("fields");
        fields.iter().find(|field| field["name"] == name).expect("the field").clone()
    };
    assert_eq!((field("power")["state"].as_str(), field("temperature")["state"].as_str()), (Some("not_supported"), Some("failing")));
    assert_eq!(
        (field("memory")["now"][0]["value"].as_f64(), field("memory")["now"][0]["unit"].as_str()),
        (Some(314_572_800.0), Some("By"))
    );
    // A field that the doctor has no words for would have no value.
    for field in devices[1]["fields"].as_array().expect("fields") {
        let has_value = field["now"].as_array().is_some_and(|now| !now.is_empty());
        assert!(field["state"] != "supported" || has_value || field["name"] == "process memory", "{field}");
    }
}

#[test]
fn doctor_on_a_driver_that_is_broken_or_hangs() {
    let one = || Scenario::with(Device::new(Model::T4));
    for (scenario, source, advice) in [
        (one().fault(Fault::error(ErrorCode::LibRmVersionMismatch).function("nvmlInit_v2")), "are of different versions", "Reboot"),
        (
            one().fault(Fault::delay(Duration::from_secs(20)).function("nvmlDeviceGetCount_v2")),
            "unknown: the driver hangs",
            "does not answer: 3 s",
        ),
        (one().fault(Fault::delay(Duration::from_secs(20)).function("PowerUsage")), "NVML, driver", "does not answer: 3 s"),
    ] {
        let fake = Installation::new(&scenario).expect("a fake NVML library");
        let doctor = stepline(&["doctor"], &[("STEPLINE_NVML_PATH", fake.library().to_str().expect("UTF-8"))]);
        assert_eq!(doctor.status, Some(1), "{}", doctor.stdout);
        assert!(in_one_line(&doctor.stdout).contains(source), "{}", doctor.stdout);
        assert!(in_one_line(&section(&doctor.stdout, "1 problem").join(" ")).contains(advice), "{}", doctor.stdout);
        assert!(doctor.took < Duration::from_secs(6), "{:?}", doctor.took);
    }
    let wrong = stepline(&["doctor"], &[("STEPLINE_NVML_PATH", "/nonexistent/nvml.so")]);
    assert_eq!(wrong.status, Some(1));
    assert!(wrong.stdout.contains("/nonexistent/nvml.so"), "{}", wrong.stdout);
}

#[test]
fn doctor_at_an_endpoint_that_answers() {
    let (url, requests) = server(OK);
    let variables =
        [("STEPLINE_GPU", "off"), ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2hunter2")];
    let doctor = stepline(&["doctor"], &variables);
    assert_eq!((doctor.status, doctor.stderr.as_str()), (Some(0), ""), "{}", doctor.stdout);
    for (line, signal) in section(&doctor.stdout, "traces ").into_iter().zip(["traces", "metrics", "logs"]) {
        assert!(line.contains(&format!("{url}/v1/{signal} · http/protobuf · answers in ")), "{line}");
    }
    let asked: Vec<String> = requests.try_iter().collect();
    assert!(
        asked.len() == 3 && asked.iter().all(|request| request.contains("stepline-doctor") && request.contains("hunter2")),
        "{asked:?}"
    );
    let headers = section(&doctor.stdout, "setting").into_iter().find(|line| line.starts_with("headers ")).expect("a line");
    assert!(headers.contains("api-key (values not shown)") && headers.ends_with(" OTEL_EXPORTER_OTLP_HEADERS"), "{headers}");
    assert!(!doctor.stdout.contains("hunter2"));
}

#[test]
fn doctor_at_endpoints_that_do_not_work_says_why() {
    let free_port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let black_hole = TcpListener::bind("127.0.0.1:0").expect("a port");
    let black_hole = format!("http://{}", black_hole.local_addr().expect("an address"));
    let (not_found, _) = server(NOT_FOUND);
    let (grpc, _) = server(GRPC);
    let secure = not_found.replace("http://", "https://");
    for (endpoint, protocol, reason) in [
        (
            format!("http://127.0.0.1:{free_port}"),
            "http/protobuf",
            format!("nothing listens on 127.0.0.1:{free_port} (connection refused)"),
        ),
        (format!("http://127.0.0.1:{free_port}"), "grpc", "connection refused".to_owned()),
        ("http://no-such-host.invalid:4318".to_owned(), "http/protobuf", "the host no-such-host.invalid cannot be found".to_owned()),
        (not_found.clone(), "http/protobuf", "404 Not Found".to_owned()),
        (format!("{not_found}/base"), "http/json", "\"/base/v1/<signal>\" the right path".to_owned()),
        (not_found, "grpc", "speaks HTTP, not gRPC".to_owned()),
        (grpc, "http/protobuf", "speaks gRPC, not HTTP".to_owned()),
        (secure, "http/protobuf", "does not speak TLS".to_owned()),
        (black_hole, "http/protobuf", "no answer within".to_owned()),
    ] {
        let variables = [
            ("STEPLINE_GPU", "off"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2hunter2"),
        ];
        let doctor = stepline(&["doctor"], &variables);
        assert_eq!(doctor.status, Some(1), "{endpoint}: {}", doctor.stdout);
        let last = in_one_line(&doctor.stdout);
        assert!(
            last.contains(&reason) && last.contains("(the address comes from OTEL_EXPORTER_OTLP_ENDPOINT)"),
            "{reason}:\n{}",
            doctor.stdout
        );
        assert!(section(&doctor.stdout, "traces ")[0].ends_with(" · DOES NOT WORK"), "{}", doctor.stdout);
        assert!(doctor.took < Duration::from_secs(6), "{endpoint}: {:?}", doctor.took);
        assert!(!doctor.stdout.contains("hunter2") && !doctor.stderr.contains("hunter2"));
        assert_eq!(doctor.stderr, "", "everything is said once, in the report");
    }
}

#[test]
fn doctor_on_wrong_settings() {
    let variables = [("STEPLINE_GPU", "off"), ("STEPLINE_SAMPLE_INTERVAL", "soon"), ("STEPLINE_SUMARY", "off")];
    let doctor = stepline(&["doctor"], &variables);
    assert_eq!(doctor.status, Some(1), "{}", doctor.stdout);
    let problems = in_one_line(&section(&doctor.stdout, "2 problems").join(" "));
    assert!(problems.contains("STEPLINE_SAMPLE_INTERVAL") && problems.contains("soon"), "{problems}");
    assert!(problems.contains("STEPLINE_SUMARY") && problems.contains("STEPLINE_SUMMARY"), "{problems}");
    let json = stepline(&["doctor", "--format=json"], &variables);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(json["problems"].as_array().map(Vec::len), Some(2));
}

#[test]
fn doctor_on_directories_that_cannot_be_used() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let file = file.to_str().expect("UTF-8");
    let doctor = stepline(&["doctor"], &[("STEPLINE_GPU", "off"), ("STEPLINE_DIR", file), ("STEPLINE_JOURNAL_DIR", file)]);
    assert_eq!(doctor.status, Some(1));
    assert!(section(&doctor.stdout, "journal ").iter().all(|line| line.ends_with(" · NOT USABLE")), "{}", doctor.stdout);
    let problems = in_one_line(&section(&doctor.stdout, "2 problems").join(" "));
    assert!(problems.contains("Set STEPLINE_JOURNAL_DIR to") && problems.contains("Set STEPLINE_DIR to"), "{problems}");
}
