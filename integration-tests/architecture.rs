//! The house's rules about itself: who may know whom (docs/architecture.md), where foreign crates and wire names may stand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms and their floors. A module imports from floors below its own only.
const FLOORS: &[(&str, u8)] = &[
    ("error", 0),
    ("semconv", 0),
    ("model", 0),
    ("clock", 0),
    ("notice", 0),
    ("config", 1),
    ("journal", 1),
    ("gpu", 1),
    ("host", 1),
    ("timeline", 1),
    ("detect", 1),
    ("otlp", 1),
    ("hook", 2),
    ("sampler", 2),
    ("pump", 2),
    ("report", 2),
    ("session", 3),
    ("cli", 4),
];

/// Arrows that the floors alone would not allow.
const ALSO_ALLOWED: &[(&str, &str)] = &[("otlp", "config"), ("error", "notice")];

/// Words that are no name of anything.
const JUNK_DRAWERS: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc", "internal"];

/// A file this long is two things.
const MOST_LINES: usize = 560;

/// What is wrong in one source file, one line each. `path` is relative to the repository.
fn violations(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let inside = path.strip_prefix("src/").unwrap_or(path);
    let room = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    let floors: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    let mut complain = |what: String| found.push(format!("{path}: {what}"));

    if !text.starts_with("//!") {
        complain("has no module comment: say what it owns".to_owned());
    }
    if text.lines().count() > MOST_LINES {
        complain(format!("is {} lines long: find the two things in it", text.lines().count()));
    }
    if inside.split(['/', '.']).any(|part| JUNK_DRAWERS.contains(&part)) {
        complain("is named after nothing in particular".to_owned());
    }
    if room == "lib" || room == "bin" {
        return found;
    }
    let Some(floor) = floors.get(room) else {
        found.push(format!("{path}: is in a room that is not in the plan: {room}"));
        return found;
    };
    let mut complain = |what: String| found.push(format!("{path}: {what}"));
    for line in product_code(text) {
        for other in names_after(line, "crate::") {
            match floors.get(other) {
                None => complain(format!("goes through the crate's root: crate::{other}")),
                Some(_) if other == room || ALSO_ALLOWED.contains(&(room, other)) => {}
                Some(other_floor) if other_floor < floor => {}
                Some(_) => complain(format!("{room} must not know {other}")),
            }
        }
        if line.contains("opentelemetry") && !line.contains("https://opentelemetry.io") && room != "otlp" {
            complain("names opentelemetry outside of otlp".to_owned());
        }
        if line.contains("pyo3") {
            complain("names pyo3 outside of the Python package".to_owned());
        }
        if room != "semconv" {
            for literal in literals(line).filter(|literal| is_wire_name(literal)) {
                complain(format!("spells the wire name {literal:?}, which belongs into semconv.rs"));
            }
        }
    }
    found
}

/// The lines that are part of the product: no comments, and no tests (which stand at the end of a file, or in one of their own).
fn product_code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| !line.trim_start().starts_with("#[cfg(test)]"))
        .map(|line| if line.trim_start().starts_with("//") { "" } else { line })
        .map(|line| line.split(" // ").next().unwrap_or(line))
}

/// The words that stand right behind `prefix`.
fn names_after<'a>(line: &'a str, prefix: &str) -> impl Iterator<Item = &'a str> {
    line.split(prefix).skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
}

/// The string literals of a line.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

fn is_wire_name(literal: &str) -> bool {
    let first = literal.split('.').next().unwrap_or_default();
    literal.contains('.')
        && ["stepline", "hw", "process", "train"].contains(&first)
        && literal.chars().all(|c| c.is_ascii_lowercase() || c == '.' || c == '_')
}

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("src can be listed") {
        let path = entry.expect("src can be listed").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_stem().is_some_and(|stem| stem.to_string_lossy().contains("tests"))
}

#[test]
fn every_module_keeps_to_its_floor() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    sources(&root.join("src"), &mut paths);
    assert!(paths.len() > 30, "only {} files found", paths.len());
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| !is_test_file(path)) {
        let text = fs::read_to_string(path).expect("a source file can be read");
        let relative = path.strip_prefix(root).expect("below the root").to_string_lossy().replace('\\', "/");
        found.extend(violations(&relative, &text));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_forbidden_arrow_is_found() {
    let clean = "//! Owns something.\nuse crate::model::Span;\n";
    assert_eq!(violations("src/timeline/assemble.rs", clean), Vec::<String>::new());

    let upwards = "//! Owns something.\nuse crate::session::start;\n";
    assert_eq!(violations("src/hook/run.rs", upwards), ["src/hook/run.rs: hook must not know session"]);
    let sideways = "//! Owns something.\nfn f() { crate::gpu::open(); }\n";
    assert_eq!(violations("src/timeline/assemble.rs", sideways), ["src/timeline/assemble.rs: timeline must not know gpu"]);
    let through_the_root = "//! Owns something.\nuse crate::Run;\n";
    assert_eq!(violations("src/pump.rs", through_the_root), ["src/pump.rs: goes through the crate's root: crate::Run"]);
    let foreign = "//! Owns something.\nuse opentelemetry::KeyValue;\n";
    assert_eq!(violations("src/pump.rs", foreign), ["src/pump.rs: names opentelemetry outside of otlp"]);
    let wire_name = "//! Owns something.\nconst NAME: &str = \"hw.gpu.utilization\";\n";
    assert_eq!(
        violations("src/pump.rs", wire_name),
        ["src/pump.rs: spells the wire name \"hw.gpu.utilization\", which belongs into semconv.rs"]
    );
    let junk = "//! Owns something.\n";
    assert_eq!(violations("src/hook/utils.rs", junk), ["src/hook/utils.rs: is named after nothing in particular"]);
    assert_eq!(violations("src/hook/run.rs", "use std::io;\n"), ["src/hook/run.rs: has no module comment: say what it owns"]);
}

#[test]
fn comments_and_tests_may_speak_of_anything() {
    let text = "//! Owns something, see crate::session.\n/// As crate::cli does.\n#[cfg(test)]\nmod tests { use crate::session::x; }\n";
    assert_eq!(violations("src/hook/run.rs", text), Vec::<String>::new());
}

#[test]
fn no_dependency_asks_for_a_newer_rust_than_we_do() {
    let output = std::process::Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
            "--all-features",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let version_of = |package: &serde_json::Value| -> (u64, u64) {
        let text = package["rust_version"].as_str().unwrap_or("0.0");
        let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    };
    let root = packages.iter().find(|package| package["name"] == "stepline").expect("our own package");
    let by_id: BTreeMap<&str, &serde_json::Value> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes: BTreeMap<&str, &serde_json::Value> =
        metadata["resolve"]["nodes"].as_array().expect("nodes").iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    // What users build: everything that is reached without a dev-dependency.
    let mut reached = vec![root["id"].as_str().expect("an id")];
    let mut next = 0;
    while let Some(id) = reached.get(next).copied() {
        next += 1;
        for dependency in nodes[id]["deps"].as_array().expect("deps") {
            let kinds = dependency["dep_kinds"].as_array().expect("kinds");
            let id = dependency["pkg"].as_str().expect("an id");
            if kinds.iter().any(|kind| kind["kind"] != "dev") && !reached.contains(&id) {
                reached.push(id);
            }
        }
    }
    let ours = version_of(root);
    let newer: Vec<String> = reached
        .iter()
        .map(|id| by_id[id])
        .filter(|package| version_of(package) > ours)
        .map(|package| format!("{} {} wants {}", package["name"], package["version"], package["rust_version"]))
        .collect();
    assert!(newer.is_empty(), "rust-version in Cargo.toml is too low: {}", newer.join(", "));
}
