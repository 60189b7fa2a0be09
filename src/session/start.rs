//! From a configuration to a run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::close::{Closing, close};
use super::resource::{executable_name, resource};
use crate::clock::nanoseconds;
use crate::config::{Config, GpuChoice};
use crate::error::{JournalError, StartError};
use crate::gpu;
use crate::hook::{Hook, Run};
use crate::host;
use crate::journal::{About, Reader, Writer, journal_path};
use crate::model::Identity;
use crate::notice::{self, notice};
use crate::otlp::file::FileSink;
use crate::otlp::push::Push;
use crate::pump::{Pump, PumpThread, Sinks, ThreadTime};
use crate::sampler::Sampler;

/// Ids of the runs that are open in this process.
static OPEN_RUNS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Journals made by this process so far: tells their files apart.
static JOURNALS: AtomicU32 = AtomicU32::new(0);

/// Beyond so many journals of one process id there is something else wrong.
const MOST_JOURNALS: u32 = 10_000;

/// A run id, taken until this is dropped.
pub(super) struct OpenRun(String);

impl OpenRun {
    fn take(run_id: &str) -> Result<Self, StartError> {
        let mut open = OPEN_RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        if open.iter().any(|other| other == run_id) {
            return Err(StartError::AlreadyStarted { run_id: run_id.to_owned() });
        }
        open.push(run_id.to_owned());
        Ok(Self(run_id.to_owned()))
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        OPEN_RUNS.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != self.0);
    }
}

/// Begins a run.
pub(super) fn start(config: Config, first_step: u64) -> Result<Run, StartError> {
    notice::set_silent(config.silent);
    config.warnings.iter().for_each(|warning| notice!("{warning}"));
    if config.disabled {
        return Ok(Run::none());
    }
    let identity = identity(&config)?;
    let open_run = OpenRun::take(&identity.run_id)?;

    let about = About {
        resource: resource(&config, &identity),
        sample_interval_ns: nanoseconds(config.sample_interval),
        step_spans: config.step_spans,
        identity,
    };
    let writer = Arc::new(create_journal(&config, &about)?);
    let reader = Reader::of(&writer)?;

    let thread_failed = |name: &'static str| move |source| StartError::Thread { name, source };
    let options = gpu_options(&config);
    let sampler =
        Sampler::start(&writer, Box::new(move || gpu::open(options)), config.sample_interval).map_err(thread_failed("sampler"))?;
    let push = Push::start(&config).map_err(thread_failed("stepline-push"))?;
    let pump_time = Arc::new(AtomicU64::new(0));
    let mut threads: Vec<ThreadTime> =
        sampler.cpu_times_ns().into_iter().map(|(component, cpu_time_ns)| ThreadTime { component, cpu_time_ns }).collect();
    threads.push(ThreadTime { component: "pump", cpu_time_ns: Arc::clone(&pump_time) });
    threads.extend(push.iter().map(|push| ThreadTime { component: "push", cpu_time_ns: push.cpu_time_ns() }));
    let sinks = Sinks {
        files: config.files.then(|| FileSink::new(files_directory(&config.directory, &about.identity))),
        push,
        export_interval: config.export_interval,
        threads,
    };
    let pump = PumpThread::start(Pump::new(reader, sinks), pump_time).map_err(thread_failed("stepline-pump"))?;

    let closing = Closing {
        writer: Arc::clone(&writer),
        sampler,
        pump,
        resource: about.resource,
        timeout: config.shutdown_timeout,
        summary: config.summary && !config.silent,
        _open_run: open_run,
    };
    Ok(Run::begin(Arc::new(Hook::new(writer, first_step)), Box::new(move || close(closing))))
}

/// Makes the journal. A container that is started again often has the process id of before, and finds the journal of a process that
/// was killed in its place: that one is left for recovery, and ours gets the next number.
fn create_journal(config: &Config, about: &About) -> Result<Writer, JournalError> {
    loop {
        let number = JOURNALS.fetch_add(1, Ordering::Relaxed);
        let path = journal_path(&config.journal_directory, &about.identity, std::process::id(), number);
        match Writer::create(&path, about, config.journal_size_bytes) {
            Err(JournalError::Create { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists && number < MOST_JOURNALS => {}
            result => return result,
        }
    }
}

fn gpu_options(config: &Config) -> gpu::Options {
    let choice = match &config.gpu {
        GpuChoice::Auto => gpu::Choice::Auto { nvml_path: config.nvml_path.clone() },
        GpuChoice::Off => gpu::Choice::Off,
        GpuChoice::Mirror => gpu::Choice::Mirror,
        GpuChoice::Replay(path) => gpu::Choice::Replay(path.clone()),
    };
    let process = std::process::id();
    let options = gpu::Options::from(choice);
    let own_device = config.launch.own_device().map(|number| number.to_string());
    gpu::Options {
        visible: options.visible.clone().or(own_device),
        ordinal: config.launch.local_rank.unwrap_or(config.launch.rank),
        own_pids: Box::new(move |pids| host::process_tree(process, pids)),
        ..options
    }
}

fn identity(config: &Config) -> Result<Identity, StartError> {
    let mut instance_id = [0_u8; 16];
    getrandom::fill(&mut instance_id).map_err(|error| StartError::NoRandomness { reason: error.to_string() })?;
    // Version 4, variant 1: what a random UUID looks like.
    instance_id[6] = instance_id[6] & 0x0f | 0x40;
    instance_id[8] = instance_id[8] & 0x3f | 0x80;
    let run_name = config.run_name.clone().or_else(executable_name).unwrap_or_else(|| "training".to_owned());
    let run_id = config.run_id.clone().unwrap_or_else(|| drawn_run_id(&run_name, &instance_id));
    Ok(Identity {
        instance_id,
        run_id,
        run_name,
        attempt: config.launch.attempt,
        rank: config.launch.rank,
        world_size: config.launch.world_size.max(1),
    })
}

/// `<name>-<date>-<time>-<four hex digits>`, UTC: sorts by time, and tells people which run it was.
fn drawn_run_id(run_name: &str, instance_id: &[u8; 16]) -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let digits: String = now.chars().filter(char::is_ascii_digit).collect();
    let (date, time) = digits.split_at(8.min(digits.len()));
    format!("{run_name}-{date}-{time}-{:02x}{:02x}", instance_id[0], instance_id[1])
}

/// `<directory>/<run>`, and below it a directory for each further attempt or rank.
fn files_directory(directory: &Path, identity: &Identity) -> PathBuf {
    let run = directory.join(crate::journal::file_name(&identity.run_id));
    match (identity.attempt, identity.rank) {
        (0, 0) => run,
        (0, rank) => run.join(format!("rank-{rank}")),
        (attempt, 0) => run.join(format!("attempt-{attempt}")),
        (attempt, rank) => run.join(format!("attempt-{attempt}-rank-{rank}")),
    }
}
