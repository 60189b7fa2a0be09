//! One server as a child process: start it, know when it is ready, stop it. Knows nothing of what it serves.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The collector finishes the requests under way before it goes.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const LOG_TAIL_LINES: usize = 25;

pub(super) struct Server {
    name: &'static str,
    program: PathBuf,
    args: Vec<String>,
    envs: Vec<(&'static str, String)>,
    ready_url: String,
    directory: PathBuf,
    child: Option<Child>,
}

impl Server {
    pub(super) fn new(name: &'static str, program: &Path, directory: &Path) -> Self {
        Self {
            name,
            program: program.to_owned(),
            args: Vec::new(),
            envs: Vec::new(),
            ready_url: String::new(),
            directory: directory.to_owned(),
            child: None,
        }
    }

    pub(super) fn args<const N: usize>(mut self, args: [String; N]) -> Self {
        self.args.extend(args);
        self
    }

    pub(super) fn envs<const N: usize>(mut self, envs: [(&'static str, String); N]) -> Self {
        self.envs.extend(envs);
        self
    }

    /// The address that answers 200 once the server can be used.
    pub(super) fn ready_at(mut self, url: String) -> Self {
        self.ready_url = url;
        self
    }

    pub(super) fn spawn(&mut self) -> Result<(), String> {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).map_err(|error| error.to_string())?;
        let log_too = log.try_clone().map_err(|error| error.to_string())?;
        let child = Command::new(&self.program)
            .args(&self.args)
            // Nothing of the caller's environment (OTEL_*, proxies) changes what is tested.
            .env_clear()
            .envs(self.envs.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .spawn()
            .map_err(|error| format!("{} could not be started from {}: {error}", self.name, self.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    pub(super) fn wait_until_ready(&mut self, timeout: Duration) -> Result<(), String> {
        let http = http_agent(Duration::from_secs(2));
        let deadline = Instant::now() + timeout;
        loop {
            // First the process: another server that took the port in the meantime could answer in its place.
            if let Some(child) = &mut self.child
                && let Ok(Some(status)) = child.try_wait()
            {
                self.child = None;
                return Err(self.failure(&format!("ended before it was ready ({status})")));
            }
            if http.get(&self.ready_url).call().is_ok_and(|response| response.status() == 200) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.failure(&format!("was not ready at {} within {timeout:?}", self.ready_url)));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// SIGTERM, then waits for the end. Nothing happens when it does not run.
    pub(super) fn terminate(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // std can only send SIGKILL.
        let sent = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -TERM could not be run");
        let deadline = Instant::now() + STOP_TIMEOUT;
        while child.try_wait().expect("waiting for a child").is_none() {
            if Instant::now() > deadline {
                self.child = Some(child);
                self.kill();
                panic!("{}", self.failure(&format!("did not end within {STOP_TIMEOUT:?} of SIGTERM")));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// SIGKILL, then waits for the end. Nothing happens when it does not run.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join(self.name).with_extension("log")
    }

    fn failure(&self, what: &str) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n");
        format!("{} {what}; the end of its log:\n{tail}", self.name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A client that reports every status as an answer, and that no proxy variable of the caller leads astray.
pub(super) fn http_agent(timeout: Duration) -> ureq::Agent {
    ureq::Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false).proxy(None).build().into()
}

/// Asks `condition` until it answers, and gives up with `what` when `timeout` has passed.
///
/// # Panics
/// When the time is over.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, timeout: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(answer) = condition() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {timeout:?}: {what}");
        thread::sleep(POLL_INTERVAL);
    }
}
