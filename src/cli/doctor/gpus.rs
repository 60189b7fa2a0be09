//! The GPUs: where readings come from, or why there are none; what each device can tell, and what it tells now.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::fields::{Value, values};
use super::watch::Watch;
use crate::config::{Config, GpuChoice};
use crate::gpu::GpuSource;
use crate::gpu::amdgpu::{self, AmdgpuSource};
use crate::gpu::scripted::mirror::Mirror;
use crate::gpu::scripted::replay::Replay;

#[cfg(any(target_os = "linux", target_os = "windows"))]
mod nvml;

/// Between two readings: simulated utilization and NVML's own window need some time to be about something.
const BETWEEN: Duration = Duration::from_millis(200);

/// Readings of each device at most: a driver that is slow at first has its other fields asked in the next one.
const MOST_ROUNDS: usize = 4;

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Gpus {
    /// Where readings come from, or why there are none: one line.
    pub(super) source: String,
    pub(super) driver_version: Option<String>,
    /// NVML's library.
    pub(super) library: Option<String>,
    /// What `CUDA_VISIBLE_DEVICES` means; absent where it means nothing.
    pub(super) visible: Option<String>,
    pub(super) devices: Vec<Device>,
    /// What is wrong, and what to do.
    #[serde(skip)]
    pub(super) problems: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Device {
    /// The driver's number.
    pub(super) index: u32,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) memory_bytes: Option<u64>,
    /// What else is to be known about its readings.
    pub(super) note: Option<String>,
    pub(super) answers: bool,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Field {
    pub(super) name: &'static str,
    #[serde(flatten)]
    pub(super) state: State,
    /// What it says now.
    pub(super) now: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "why", rename_all = "snake_case")]
pub(super) enum State {
    Supported,
    NotSupported(String),
    #[cfg_attr(not(any(target_os = "linux", target_os = "windows")), allow(dead_code, reason = "only NVML tells it apart"))]
    Failing(String),
    /// There was no time.
    NotAsked,
}

/// The fields of each device as the source itself judges them; `None`: it does not, so what gives a number counts as supported.
type Judge<S> = fn(&S) -> Option<Vec<Vec<(&'static str, State)>>>;

/// What is reported on the way: what was found so far, and what is being done.
type Progress<'a> = &'a dyn Fn((Gpus, String));

/// Looks for about as long as the limit.
pub(super) fn look(config: &Config, limit: Duration) -> Gpus {
    let config = config.clone();
    let deadline = Instant::now() + limit;
    let watch = Watch::start("doctor-gpu", move |say| look_at(&config, deadline, say));
    let (last, ended) = watch.wait(deadline);
    let (mut gpus, doing) = last.unwrap_or_default();
    if !ended {
        gpus.problems.push(format!(
            "the GPU driver does not answer: {} s were not enough for {doing}. A run goes on without it. Does nvidia-smi answer? \
             A driver that hangs needs the host restarted",
            limit.as_secs()
        ));
        if gpus.devices.is_empty() {
            gpus.source = format!("unknown: the driver hangs while {doing}");
        }
    }
    for device in &gpus.devices {
        let place = format!("gpu {} ({})", device.index, device.id);
        let is_known = device.fields.iter().any(|field| field.state != State::NotAsked);
        if is_known && !device.fields.iter().any(|field| field.state == State::Supported) {
            gpus.problems.push(format!("{place} gives no field that can be used: runs have no readings of it"));
        }
        if !device.answers && ended {
            gpus.problems.push(format!("{place} does not answer: look for Xid in the kernel's log (dmesg), reset it or restart the host"));
        }
    }
    gpus
}

fn look_at(config: &Config, deadline: Instant, say: Progress<'_>) {
    match &config.gpu {
        GpuChoice::Off => say((Gpus { source: "none: switched off (STEPLINE_GPU=off)".to_owned(), ..Gpus::default() }, String::new())),
        GpuChoice::Mirror => {
            let gpus = Gpus { source: "simulated, mirrors this process (STEPLINE_GPU=mirror)".to_owned(), ..Gpus::default() };
            let ordinal = config.launch.local_rank.unwrap_or(config.launch.rank);
            examine(Mirror::new(ordinal), |_| None, gpus, deadline, say);
        }
        GpuChoice::Replay(path) => match Replay::open(path) {
            Ok(replay) => {
                let mut gpus = Gpus { source: format!("simulated, plays back {}", path.display()), ..Gpus::default() };
                if replay.malformed_rows() > 0 {
                    gpus.problems.push(format!("{} rows of {} cannot be read and are left out", replay.malformed_rows(), path.display()));
                }
                examine(replay, |_| None, gpus, deadline, say);
            }
            Err(error) => say((broken(error.to_string()), String::new())),
        },
        GpuChoice::Auto => real_devices(config, deadline, say),
    }
}

fn broken(why: String) -> Gpus {
    Gpus { source: format!("none: {why}"), problems: vec![why], ..Gpus::default() }
}

#[cfg(any(target_os = "linux", target_os = "windows"))]
fn real_devices(config: &Config, deadline: Instant, say: Progress<'_>) {
    say((Gpus::default(), "loading NVML and finding the devices".to_owned()));
    let options = crate::gpu::Options::from(crate::gpu::Choice::Auto { nvml_path: config.nvml_path.clone() });
    match nvml::open(options, config.nvml_path.as_deref(), config.launch.own_device()) {
        Ok((source, gpus)) => examine(source, nvml::judge, gpus, deadline, say),
        Err(none) => other_devices(*none, deadline, say),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "windows")))]
fn real_devices(_config: &Config, deadline: Instant, say: Progress<'_>) {
    other_devices(Gpus { source: "none: there is no NVML on this system".to_owned(), ..Gpus::default() }, deadline, say);
}

/// AMD's, where NVML has none. What was wrong with NVML stays said.
fn other_devices(none: Gpus, deadline: Instant, say: Progress<'_>) {
    match AmdgpuSource::open(std::path::Path::new(amdgpu::DEFAULT_ROOT)) {
        Some(source) => {
            let gpus = Gpus { source: format!("amdgpu, through {}", amdgpu::DEFAULT_ROOT), ..none };
            examine(source, |_| None, gpus, deadline, say);
        }
        None => say((Gpus { source: format!("{}; no AMD GPU in {}", none.source, amdgpu::DEFAULT_ROOT), ..none }, String::new())),
    }
}

/// Reads each device until every field has had its turn.
fn examine<S: GpuSource>(mut source: S, judge: Judge<S>, mut gpus: Gpus, deadline: Instant, say: Progress<'_>) {
    gpus.driver_version = source.devices().iter().find_map(|device| device.driver_version.clone());
    gpus.devices = source.devices().iter().map(device).collect();
    for round in 0..MOST_ROUNDS {
        if round > 0 {
            // Two rounds always, and more of them only for what was not asked.
            let open = gpus.devices.iter().flat_map(|device| &device.fields).any(|field| field.state == State::NotAsked);
            if (round > 1 && !open) || deadline.saturating_duration_since(Instant::now()) < BETWEEN * 2 {
                break;
            }
            thread::sleep(BETWEEN);
        }
        for place in 0..gpus.devices.len() {
            say((gpus.clone(), format!("reading gpu {}", gpus.devices[place].index)));
            let fast = source.read(place);
            let slow = source.read_slow(place);
            gpus.devices[place].answers = fast.is_ok() && slow.is_ok();
            let readings = values(&fast.unwrap_or_default(), &slow.unwrap_or_default());
            gpus.devices[place].take(readings);
        }
        match judge(&source) {
            Some(judged) => gpus.devices.iter_mut().zip(judged).for_each(|(device, fields)| device.judged(fields)),
            None => gpus.devices.iter_mut().for_each(Device::judge_by_values),
        }
    }
    say((gpus, "closing the driver".to_owned()));
}

fn device(device: &crate::model::GpuDevice) -> Device {
    let note = device.simulated.as_ref().map(|what| format!("simulated, {what}"));
    Device {
        index: device.index,
        id: device.id.clone(),
        name: device.name.clone(),
        memory_bytes: device.memory_limit_bytes,
        note: note.or_else(|| device.memory_used_includes_reserved.then(|| "memory in use includes what the driver reserves".to_owned())),
        answers: true,
        fields: Vec::new(),
    }
}

impl Device {
    /// Takes in what a reading says; what it does not say stays as the one before said it.
    fn take(&mut self, readings: Vec<(&'static str, Vec<Value>)>) {
        for (name, now) in readings {
            match self.fields.iter_mut().find(|field| field.name == name) {
                Some(field) if !now.is_empty() => field.now = now,
                Some(_) => {}
                None => self.fields.push(Field { name, state: State::NotAsked, now }),
            }
        }
    }

    fn judged(&mut self, fields: Vec<(&'static str, State)>) {
        for (name, state) in fields {
            match self.fields.iter_mut().find(|field| field.name == name) {
                Some(field) => field.state = state,
                None => self.fields.push(Field { name, state, now: Vec::new() }),
            }
        }
    }

    fn judge_by_values(&mut self) {
        for field in &mut self.fields {
            field.state = if field.now.is_empty() { State::NotSupported("not given".to_owned()) } else { State::Supported };
        }
    }
}
