//! The resource: who sends all this. No command line, no environment, no user name: only what identifies.

use crate::config::{Config, GpuChoice};
use crate::model::{Attribute, Identity};
use crate::semconv::attributes as name;

/// The attributes of this process, in the order of their names' groups; each name once. What `OTEL_RESOURCE_ATTRIBUTES` or the code
/// say goes before what was found out, except for what makes the run's own identity.
pub(super) fn resource(config: &Config, identity: &Identity) -> Vec<Attribute> {
    let mut attributes: Vec<Attribute> = Vec::new();
    let mut put = |attribute: Attribute| {
        if !attributes.iter().any(|other| other.key == attribute.key) {
            attributes.push(attribute);
        }
    };
    put(Attribute::text(name::SERVICE_INSTANCE_ID, identity.instance_uuid()));
    put(Attribute::text(name::RUN_ID, identity.run_id.clone()));
    put(Attribute::text(name::RUN_NAME, identity.run_name.clone()));
    put(Attribute::int(name::ATTEMPT, u64::from(identity.attempt)));
    put(Attribute::int(name::RANK, u64::from(identity.rank)));
    put(Attribute::int(name::WORLD_SIZE, u64::from(identity.world_size)));
    if let Some(local_rank) = config.launch.local_rank {
        put(Attribute::int(name::LOCAL_RANK, u64::from(local_rank)));
    }
    if let Some(launcher) = config.launch.launcher {
        put(Attribute::text(name::LAUNCHER, launcher));
    }
    match &config.gpu {
        GpuChoice::Mirror => put(Attribute::text(name::GPU_SIMULATED, "mirror")),
        GpuChoice::Replay(_) => put(Attribute::text(name::GPU_SIMULATED, "replay")),
        GpuChoice::Auto | GpuChoice::Off => {}
    }
    if let Some(service_name) = &config.service_name {
        put(Attribute::text(name::SERVICE_NAME, service_name.clone()));
    }
    for (key, value) in &config.resource_attributes {
        put(Attribute { key: key.clone().into(), value: crate::model::Value::Text(value.clone().into()) });
    }
    put(Attribute::text(name::SERVICE_NAME, identity.run_name.clone()));
    put(Attribute::text(name::TELEMETRY_SDK_NAME, "stepline"));
    put(Attribute::text(name::TELEMETRY_SDK_LANGUAGE, "rust"));
    put(Attribute::text(name::TELEMETRY_SDK_VERSION, env!("CARGO_PKG_VERSION")));
    if let Some(host_name) = host_name() {
        put(Attribute::text(name::HOST_NAME, host_name));
    }
    put(Attribute::text(name::HOST_ARCH, host_arch()));
    put(Attribute::text(name::OS_TYPE, if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS }));
    put(Attribute::int(name::PROCESS_PID, u64::from(std::process::id())));
    if let Some(begin_ns) = crate::host::process_start_unix_ns() {
        let begin = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(begin_ns);
        put(Attribute::text(name::PROCESS_CREATION_TIME, humantime::format_rfc3339_millis(begin).to_string()));
    }
    if let Some(executable) = executable_name() {
        put(Attribute::text(name::PROCESS_EXECUTABLE_NAME, executable));
    }
    attributes
}

/// Name of the program's file, without its path.
pub(super) fn executable_name() -> Option<String> {
    std::env::current_exe().ok()?.file_name()?.to_str().map(str::to_owned)
}

fn host_name() -> Option<String> {
    #[cfg(unix)]
    {
        rustix::system::uname().nodename().to_str().ok().filter(|name| !name.is_empty()).map(str::to_owned)
    }
    #[cfg(not(unix))]
    {
        std::env::var("COMPUTERNAME").ok()
    }
}

/// The conventions' words for architectures.
fn host_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
