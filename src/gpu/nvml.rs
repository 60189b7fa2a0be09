//! NVIDIA devices, through NVML: the library that comes with the driver, loaded at run time. CUDA is never touched.
//!
//! Each field is asked of each device on its own. What a device does not have is asked once; what fails is asked again later; what takes
//! long is asked less often. A device that does not answer is lost until it does, and the others go on.

mod card;
mod discover;
mod fields;
mod gate;
mod library;
mod processes;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nvml_wrapper::error::{NvmlError, nvml_try};

pub use gate::{Capability, Patience};
pub use library::{NvmlUnavailable, usual_places};

use super::visible::Doubt;
use super::{GpuLost, GpuSource, OwnPids};
use crate::model::{GpuDevice, GpuReading, GpuSlowReading};
use crate::notice::notice;
use card::Card;
use gate::{CHEAP_LIMIT, DEAR_LIMIT, Turn, concerns_all};
use library::Library;

/// How old a list of this run's processes may be.
const PIDS_AGE: Duration = Duration::from_secs(1);

/// What [`NvmlSource::open`] needs to know.
pub struct NvmlOptions {
    /// The library to try first (`STEPLINE_NVML_PATH`).
    pub path: Option<PathBuf>,
    /// Where it is looked for otherwise: [`usual_places`].
    pub places: Vec<PathBuf>,
    /// `CUDA_VISIBLE_DEVICES`, when it is set.
    pub visible: Option<String>,
    /// Whether `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`.
    pub pci_order: bool,
    /// This run's processes.
    pub own_pids: OwnPids,
    /// How patient the source is.
    pub patience: Patience,
}

impl NvmlOptions {
    /// The usual places and patience, all devices.
    #[must_use]
    pub fn new(own_pids: OwnPids) -> Self {
        Self { path: None, places: usual_places(), visible: None, pci_order: false, own_pids, patience: Patience::default() }
    }
}

impl std::fmt::Debug for NvmlOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NvmlOptions").field("path", &self.path).field("visible", &self.visible).finish_non_exhaustive()
    }
}

/// The NVIDIA devices that this process may use.
pub struct NvmlSource {
    library: Option<Library>,
    library_name: String,
    devices: Vec<GpuDevice>,
    cards: Vec<Card>,
    count: u32,
    doubt: Option<Doubt>,
    own_pids: OwnPids,
    pids: Vec<u32>,
    pids_read: Option<Instant>,
    patience: Patience,
    beginnings: u32,
    next_beginning: Option<Instant>,
    hinted: bool,
}

/// What is known about the fields of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCapabilities {
    /// Its place in [`GpuSource::devices`].
    pub device: usize,
    /// The fields by name, in the order in which they are asked.
    pub fields: Vec<(&'static str, Capability)>,
}

impl NvmlSource {
    /// Loads the library and finds the devices. Takes milliseconds where the driver is awake and seconds where it must wake up: for the
    /// sampler's thread, not for the training's.
    ///
    /// # Errors
    /// [`NvmlUnavailable`]; a machine without NVIDIA devices [is normal](NvmlUnavailable::is_normal).
    pub fn open(options: NvmlOptions) -> Result<Self, NvmlUnavailable> {
        let library = library::load(options.path.as_deref(), &options.places)?;
        let found = discover::discover(library.nvml, options.visible.as_deref(), options.pci_order, &options.patience);
        let discovery = match found {
            Ok(discovery) => discovery,
            Err(error) => {
                shut_down(&library);
                return Err(error);
            }
        };
        if let Some(doubt) = discovery.doubt {
            notice!("{}", doubt.advice());
        }
        Ok(Self {
            library_name: library.name.to_string_lossy().into_owned(),
            library: Some(library),
            devices: discovery.devices,
            cards: discovery.cards,
            count: discovery.count,
            doubt: discovery.doubt,
            own_pids: options.own_pids,
            pids: Vec::new(),
            pids_read: None,
            patience: options.patience,
            beginnings: 0,
            next_beginning: None,
            hinted: false,
        })
    }

    /// What is known about the fields of each device. Complete after one [`read`](GpuSource::read) and one
    /// [`read_slow`](GpuSource::read_slow) of each.
    #[must_use]
    pub fn capabilities(&self) -> Vec<DeviceCapabilities> {
        self.cards.iter().enumerate().map(|(device, card)| DeviceCapabilities { device, fields: card.capabilities() }).collect()
    }

    /// Why it is not certain that these are the devices that the training uses; `None` when it is.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }

    /// The library in use.
    #[must_use]
    pub fn library(&self) -> &str {
        &self.library_name
    }

    /// Makes sure that the device has a handle: one that was lost is looked for when it is time to.
    fn revive(&mut self, device: usize) -> Result<(), GpuLost> {
        let lost = self.cards.get(device).ok_or(GpuLost)?.lost.as_ref();
        let Some(lost) = lost else { return Ok(()) };
        if Instant::now() < lost.next_try {
            return Err(GpuLost);
        }
        if self.cards.iter().all(|card| card.lost.is_some()) {
            self.begin_anew();
        }
        let card = self.cards.get_mut(device).ok_or(GpuLost)?;
        // By its UUID: after a reset or a re-plug it may have another number.
        match self.library.as_ref().map(|library| library.nvml.device_by_uuid(card.uuid.as_str())) {
            Some(Ok(handle)) => {
                card.found(handle);
                Ok(())
            }
            Some(Err(_)) | None => {
                card.lose(None, &self.patience);
                Err(GpuLost)
            }
        }
    }

    /// No device answers: the library may have to be shut down and initialised again, after a reset of the devices or a reload of the
    /// driver. Tried a few times; where the container has lost its access it will never work.
    fn begin_anew(&mut self) {
        let now = Instant::now();
        if self.beginnings >= self.patience.new_beginnings || self.next_beginning.is_some_and(|time| now < time) {
            return;
        }
        let wait = self.patience.first_retry * 2_u32.saturating_pow(self.beginnings);
        self.next_beginning = Some(now + wait.min(self.patience.longest_retry));
        self.beginnings += 1;
        // Handles do not outlive what they came from.
        self.cards.iter_mut().for_each(|card| card.handle = None);
        if let Some(library) = self.library.take() {
            shut_down(&library);
        }
        self.library = library::initialise(self.library_name.as_ref()).ok();
    }

    /// What the end of a reading means for the whole.
    fn conclude(&mut self, outcome: Result<bool, NvmlError>) -> Result<(), GpuLost> {
        match outcome {
            Ok(answered) => {
                if answered {
                    self.beginnings = 0;
                    self.next_beginning = None;
                }
                Ok(())
            }
            Err(error) => {
                if concerns_all(&error) && !self.hinted && self.cards.iter().all(|card| card.lost.is_some()) {
                    self.hinted = true;
                    notice!(
                        "NVML answers nothing but errors any more. In a container this happens when `systemctl daemon-reload` on the host \
                         takes away its access to the devices: start the container anew to have GPU readings again"
                    );
                }
                Err(GpuLost)
            }
        }
    }

    /// Devices come and go (Thunderbolt, virtual machines). When their number changes each is looked for by its UUID.
    fn recount(&mut self) {
        let Some(nvml) = self.library.as_ref().map(|library| library.nvml) else { return };
        let Ok(count) = nvml.device_count() else { return };
        if count == self.count {
            return;
        }
        self.count = count;
        for card in &mut self.cards {
            match (nvml.device_by_uuid(card.uuid.as_str()), &mut card.lost) {
                (Ok(handle), None) => card.found(handle),
                (Ok(_), Some(lost)) => lost.next_try = Instant::now(),
                (Err(_), None) => card.lose(Some("the driver does not count it any more"), &self.patience),
                (Err(_), Some(_)) => {}
            }
        }
    }
}

impl GpuSource for NvmlSource {
    fn devices(&self) -> &[GpuDevice] {
        &self.devices
    }

    fn read(&mut self, device: usize) -> Result<GpuReading, GpuLost> {
        self.revive(device)?;
        let patience = self.patience;
        let mut turn = Turn::new(&patience, CHEAP_LIMIT);
        let card = self.cards.get_mut(device).ok_or(GpuLost)?;
        let reading = card.read(&mut turn)?;
        let outcome = card.finish(turn);
        self.conclude(outcome)?;
        Ok(reading)
    }

    fn read_slow(&mut self, device: usize) -> Result<GpuSlowReading, GpuLost> {
        if device == 0 {
            self.recount();
        }
        self.revive(device)?;
        let patience = self.patience;
        let mut turn = Turn::new(&patience, DEAR_LIMIT);
        let (own_pids, pids, pids_read) = (&mut self.own_pids, &mut self.pids, &mut self.pids_read);
        let card = self.cards.get_mut(device).ok_or(GpuLost)?;
        let reading = card.read_slow(&mut turn, |listed| {
            let now = Instant::now();
            if listed.is_empty() {
                return None;
            }
            if pids_read.is_none_or(|read| now.saturating_duration_since(read) > PIDS_AGE) {
                pids.clear();
                own_pids(pids);
                *pids_read = Some(now);
            }
            processes::own_memory(listed, pids, processes::ids_are_ours)
        })?;
        let outcome = card.finish(turn);
        self.conclude(outcome)?;
        Ok(reading)
    }
}

impl Drop for NvmlSource {
    fn drop(&mut self) {
        self.cards.clear();
        if let Some(library) = self.library.take() {
            shut_down(&library);
        }
    }
}

impl std::fmt::Debug for NvmlSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NvmlSource").field("library", &self.library_name).field("devices", &self.devices).finish_non_exhaustive()
    }
}

/// Undoes one initialisation; NVML counts them, so that other users in this process (the framework's own readings) are not disturbed.
#[allow(unsafe_code, reason = "nvml-wrapper shuts down when its object is dropped only, and ours is leaked")]
fn shut_down(library: &Library) {
    if let Ok(function) = library.nvml.lib().nvmlShutdown.as_ref() {
        // SAFETY: NVML's own function without arguments. It is called once for each successful initialisation, since the library was
        // taken out of its place before, and no handle is used after: the cards hold none while they are lost, and are gone in `drop`.
        let _ = nvml_try(unsafe { function() });
    }
}
