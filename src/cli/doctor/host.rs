//! What can be read of this process and its host.

use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::fields::Value;
use crate::host::HostSource;

/// CPU use is a share of the time between two readings.
const BETWEEN: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize)]
pub(super) struct Host {
    /// What can be read, with what it says now.
    pub(super) readable: Vec<Item>,
    /// What cannot.
    pub(super) unreadable: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
pub(super) struct Item {
    pub(super) name: &'static str,
    #[serde(flatten)]
    pub(super) value: Value,
}

pub(super) fn look() -> Host {
    let mut source = HostSource::new();
    let _ = source.read_host();
    thread::sleep(BETWEEN);
    let host = source.read_host();
    let mut process = source.read_process();
    source.read_children(&mut process);
    let whole = |number: Option<u64>| number.map(|number| number as f64);
    let all = [
        ("host memory in use", whole(host.memory_used_bytes), "By"),
        ("host memory", whole(host.memory_limit_bytes), "By"),
        ("host CPU", host.cpu_utilization, "1"),
        ("process memory", whole(process.resident_bytes), "By"),
        ("memory of its children", whole(process.children_resident_bytes), "By"),
        ("process CPU time", process.cpu_user_s.zip(process.cpu_system_s).map(|(user, system)| user + system), "s"),
        ("threads", process.threads.map(f64::from), "{thread}"),
        ("bytes read", whole(process.read_bytes), "By"),
        ("bytes written", whole(process.written_bytes), "By"),
    ];
    let mut found = Host { readable: Vec::new(), unreadable: Vec::new() };
    for (name, value, unit) in all {
        match value {
            Some(value) => found.readable.push(Item { name, value: Value { what: "", value, unit } }),
            None => found.unreadable.push(name),
        }
    }
    found
}
