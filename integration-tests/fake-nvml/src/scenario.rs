//! The scenario: which devices there are, what they report and what goes wrong. Its JSON form is the file that steers the library.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;
use crate::fault::Fault;
use crate::field::Field;
use crate::model::{self, MIB, Model, Origin};
use crate::value::{Mirror, Value};

/// A whole scenario. [`Scenario::default`] has no device; the crate's front page shows the JSON form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// What SystemGetDriverVersion answers. From 580.82 on nvml-wrapper renumbers some field ids.
    pub driver_version: String,
    /// What SystemGetNVMLVersion answers.
    pub nvml_version: String,
    /// What SystemGetCudaDriverVersion answers: 13010 is 13.1.
    pub cuda_version: i32,
    /// The GPUs, in NVML's order.
    pub devices: Vec<Device>,
    /// What goes wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            driver_version: "590.48.01".into(),
            nvml_version: "13.590.48.01".into(),
            cuda_version: 13_010,
            devices: Vec::new(),
            faults: Vec::new(),
        }
    }
}

impl Scenario {
    /// One GPU.
    pub fn with(device: Device) -> Self {
        Self::default().and(device)
    }

    /// One GPU more.
    pub fn and(mut self, device: Device) -> Self {
        self.devices.push(device);
        self
    }

    /// One fault more.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Reads a scenario file; recorded files that it names are read too.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, as text for the person who wrote it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut scenario: Self = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        scenario.load_replays(path.parent().unwrap_or(Path::new("."))).map_err(|error| format!("{}: {error}", path.display()))?;
        scenario.check().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(scenario)
    }

    /// Writes the scenario so that a reader sees the old file or the new one, never half of one.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the scenario contradicts itself, otherwise what the file system says.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        self.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        std::fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(&new, path)
    }

    fn check(&self) -> Result<(), String> {
        for (index, fault) in self.faults.iter().enumerate() {
            fault.check().map_err(|error| format!("fault {index}: {error}"))?;
        }
        for (index, device) in self.devices.iter().enumerate() {
            device.check().map_err(|error| format!("device {index}: {error}"))?;
        }
        Ok(())
    }

    fn load_replays(&mut self, directory: &Path) -> Result<(), String> {
        let values = self.devices.iter_mut().flat_map(|device| {
            let of_processes = device.processes.iter_mut().filter_map(|process| process.memory_bytes.as_mut());
            let of_migs = device.mig.iter_mut().map(|mig| &mut mig.memory_used_bytes);
            device.fields.values_mut().chain(device.field_values.values_mut()).chain(of_migs).chain(of_processes)
        });
        for value in values {
            if let Value::Replay(replayed) = value {
                *value = Value::Seconds(replayed.replay.load(directory)?);
            }
        }
        Ok(())
    }
}

/// One GPU: a model's defaults, and what differs from them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Device {
    /// Where everything that is not said here comes from.
    pub model: Model,
    /// Instead of the model's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Instead of a UUID made from the GPU's place, which differs from others in its first digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Instead of a bus id made from the GPU's place: `00000000:18:00.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_bus_id: Option<String>,
    /// The device follows the calling process: memory, utilization, power and energy, and the process stands in the list of processes.
    /// What `fields` says holds all the same. `base` is memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Mirror>,
    /// Mirrored power without any CPU use; unless given, the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_power_mw: Option<u64>,
    /// Mirrored power with one core busy; unless given, the model's limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_power_mw: Option<u64>,
    /// What differs from the model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<Field, Value>,
    /// What FieldValues answers to an id that no field stands for; others are NotSupported.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub field_values: BTreeMap<u32, Value>,
    /// Who holds memory on the device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
    /// The MIG devices. With any, MIG mode is on and the GPU itself has no utilization.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mig: Vec<Mig>,
}

impl Device {
    /// A GPU as its model is.
    pub fn new(model: Model) -> Self {
        Self { model, ..Self::default() }
    }

    /// A GPU that follows the calling process.
    pub fn mirror(model: Model) -> Self {
        Self { model, mirror: Some(Mirror::default()), ..Self::default() }
    }

    /// What a field reports instead of the model's number.
    pub fn field(mut self, field: Field, value: impl Into<Value>) -> Self {
        self.fields.insert(field, value.into());
        self
    }

    /// Every field fails with this error (identity still answers).
    pub fn all_fields(mut self, error: ErrorCode) -> Self {
        self.fields.extend(Field::ALL.iter().map(|field| (*field, Value::from(error))));
        self
    }

    /// What FieldValues answers to that id.
    pub fn field_value(mut self, id: u32, value: impl Into<Value>) -> Self {
        self.field_values.insert(id, value.into());
        self
    }

    /// Another UUID.
    pub fn uuid(mut self, uuid: impl Into<String>) -> Self {
        self.uuid = Some(uuid.into());
        self
    }

    /// Another bus id, `00000000:18:00.0`.
    pub fn pci_bus_id(mut self, pci_bus_id: impl Into<String>) -> Self {
        self.pci_bus_id = Some(pci_bus_id.into());
        self
    }

    /// One process more.
    pub fn process(mut self, process: Process) -> Self {
        self.processes.push(process);
        self
    }

    /// One MIG device more.
    pub fn mig(mut self, mig: Mig) -> Self {
        self.mig.push(mig);
        self
    }

    fn check(&self) -> Result<(), String> {
        for (field, value) in &self.fields {
            let mirrored = matches!(
                field,
                Field::MemoryUsedBytes
                    | Field::UtilizationGpuPercent
                    | Field::PowerMw
                    | Field::PowerInstantMw
                    | Field::PowerAverageMw
                    | Field::EnergyMj
            );
            if matches!(value, Value::Mirror(_)) && !mirrored {
                return Err(format!("{field:?} cannot be mirrored"));
            }
            value.check().map_err(|error| format!("{field:?}: {error}"))?;
        }
        for (id, value) in &self.field_values {
            if matches!(value, Value::Mirror(_)) {
                return Err(format!("field value {id} cannot be mirrored"));
            }
            value.check().map_err(|error| format!("field value {id}: {error}"))?;
        }
        if self.mig.len() > self.model.facts().max_mig_devices as usize {
            return Err(format!("{} MIG devices on a card that takes {}", self.mig.len(), self.model.facts().max_mig_devices));
        }
        for (index, process) in self.processes.iter().enumerate() {
            process.memory_bytes.as_ref().map_or(Ok(()), Value::check).map_err(|error| format!("process {index}: {error}"))?;
        }
        self.mig.iter().enumerate().try_for_each(|(index, mig)| mig.check().map_err(|error| format!("mig {index}: {error}")))
    }

    /// Where a field's number comes from.
    pub(crate) fn origin(&self, field: Field) -> Origin {
        if let Some(value) = self.fields.get(&field) {
            return Origin::Value(value.clone());
        }
        match (&self.mirror, field) {
            (Some(mirror), Field::MemoryUsedBytes) => Origin::Value(Value::mirror(mirror.base)),
            (Some(_), Field::UtilizationGpuPercent | Field::PowerMw) => Origin::Value(Value::mirror(0)),
            // What the recorded MIG card printed.
            _ if !self.mig.is_empty() && matches!(field, Field::UtilizationGpuPercent | Field::UtilizationMemoryPercent) => {
                Origin::Value(ErrorCode::NotSupported.into())
            }
            _ => self.model.default_of(field),
        }
    }

    pub(crate) fn name_or_default(&self) -> &str {
        self.name.as_deref().unwrap_or(self.model.facts().name)
    }

    pub(crate) fn uuid_at(&self, gpu: u32) -> String {
        self.uuid.clone().unwrap_or_else(|| format!("GPU-a{gpu:x}{:0>6}-fa4e-4000-8000-{gpu:012x}", 0))
    }

    pub(crate) fn pci_bus_id_at(&self, gpu: u32) -> String {
        self.pci_bus_id.clone().unwrap_or_else(|| format!("00000000:{:02X}:00.0", 0x10 + gpu))
    }

    pub(crate) fn mirrored_power_mw(&self) -> (u64, u64) {
        let facts = self.model.facts();
        (self.idle_power_mw.unwrap_or(facts.idle_power_mw), self.max_power_mw.unwrap_or(facts.power_limit_mw))
    }
}

/// Which of NVML's three lists a process stands in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessKind {
    /// Has a CUDA context.
    #[default]
    Compute,
    /// Draws.
    Graphics,
    /// Reaches the card through MPS.
    Mps,
}

/// A process on a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    /// Its id; unless given, the calling process's. In a container NVML gives the host's ids, which mean nothing inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Which list it stands in.
    pub kind: ProcessKind,
    /// What it holds; unless given, "not available" as under Windows' WDDM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Value>,
    /// Its share of the SMs for ProcessUtilization; unless given, it does not stand there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_percent: Option<u32>,
    /// The MIG device that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<u32>,
    /// It comes at that second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_second: Option<f64>,
    /// It goes at that second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_second: Option<f64>,
}

impl Process {
    /// The calling process, holding so much.
    pub fn own(memory_bytes: impl Into<Value>) -> Self {
        Self { memory_bytes: Some(memory_bytes.into()), ..Self::default() }
    }

    /// Some process, holding so much.
    pub fn other(pid: u32, memory_bytes: impl Into<Value>) -> Self {
        Self { pid: Some(pid), ..Self::own(memory_bytes) }
    }
}

/// A MIG device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mig {
    /// The profile's name. `3g.40gb`, `2g.20gb`, `1g.10gb` and `1g.20gb` have recorded sizes; others need `memory_total_bytes`.
    pub profile: String,
    /// Instead of a UUID made from the two places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Instead of the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// What processes on it hold.
    #[serde(default = "no_memory")]
    pub memory_used_bytes: Value,
}

fn no_memory() -> Value {
    Value::from(0)
}

impl Mig {
    /// A MIG device of that profile.
    pub fn new(profile: impl Into<String>) -> Self {
        Self { profile: profile.into(), uuid: None, memory_total_bytes: None, memory_used_bytes: no_memory() }
    }

    /// What processes on it hold.
    pub fn memory_used(mut self, value: impl Into<Value>) -> Self {
        self.memory_used_bytes = value.into();
        self
    }

    fn check(&self) -> Result<(), String> {
        if self.memory_total_bytes.is_none() && model::slice_of(&self.profile).is_none() {
            return Err(format!("the size of {:?} is not known here; give memory_total_bytes", self.profile));
        }
        self.memory_used_bytes.check()
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.memory_total_bytes.or_else(|| model::slice_of(&self.profile).map(|slice| slice.memory_mib * MIB)).unwrap_or(0)
    }

    pub(crate) fn uuid_at(&self, gpu: u32, mig: u32) -> String {
        self.uuid.clone().unwrap_or_else(|| format!("MIG-a{gpu:x}{mig:x}{:0>5}-fa4e-5000-8000-{gpu:06x}{mig:06x}", 0))
    }
}
