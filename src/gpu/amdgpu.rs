//! AMD devices, through the files that the amdgpu driver keeps in `/sys`. No library is needed.
//!
//! Units are those of the kernel's documentation: percent, bytes, microwatts, thousandths of a degree.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{GpuLost, GpuSource, plausible};
use crate::model::{GpuDevice, GpuReading, GpuSlowReading};

/// Where the kernel lists its graphics cards.
pub const DEFAULT_ROOT: &str = "/sys/class/drm";

/// AMD's number in PCI's list of vendors.
const VENDOR_ID: &str = "0x1002";

/// The AMD devices of a host.
#[derive(Debug)]
pub struct AmdgpuSource {
    devices: Vec<GpuDevice>,
    cards: Vec<Card>,
}

/// The files of one device that are there. One that is not, or that cannot be read, is not asked again.
#[derive(Debug)]
struct Card {
    directory: PathBuf,
    used: Option<PathBuf>,
    busy: Option<PathBuf>,
    memory_busy: Option<PathBuf>,
    power: Option<PathBuf>,
    temperature: Option<PathBuf>,
}

impl AmdgpuSource {
    /// The devices below `root` ([`DEFAULT_ROOT`]); `None` when there are none.
    #[must_use]
    pub fn open(root: &Path) -> Option<Self> {
        let mut numbered: Vec<(u32, PathBuf)> = fs::read_dir(root)
            .ok()?
            .flatten()
            // `card0`, and not its outputs (`card0-DP-1`).
            .filter_map(|entry| Some((entry.file_name().to_str()?.strip_prefix("card")?.parse().ok()?, entry.path().join("device"))))
            .filter(|(_, directory)| text(&directory.join("vendor")).as_deref() == Some(VENDOR_ID))
            .collect();
        numbered.sort_unstable();
        let (mut devices, mut cards) = (Vec::new(), Vec::new());
        for (index, (_, directory)) in (0_u32..).zip(numbered) {
            devices.push(device(index, &directory));
            cards.push(Card::new(directory));
        }
        (!devices.is_empty()).then_some(Self { devices, cards })
    }
}

impl GpuSource for AmdgpuSource {
    fn devices(&self) -> &[GpuDevice] {
        &self.devices
    }

    fn read(&mut self, device: usize) -> Result<GpuReading, GpuLost> {
        let (Some(card), Some(device)) = (self.cards.get(device), self.devices.get(device)) else { return Err(GpuLost) };
        let value = |path: &Option<PathBuf>| path.as_deref().and_then(number);
        let reading = GpuReading {
            memory_used_bytes: value(&card.used).and_then(|used| plausible::memory_bytes(used, device.memory_limit_bytes)),
            utilization: value(&card.busy).and_then(|percent| plausible::share(percent as f64)),
            memory_bandwidth_utilization: value(&card.memory_busy).and_then(|percent| plausible::share(percent as f64)),
            power_w: value(&card.power).and_then(|microwatts| plausible::power_w(microwatts as f64 / 1e6)),
            temperature_c: value(&card.temperature).and_then(|thousandths| plausible::temperature_c(thousandths as f64 / 1e3)),
            ..GpuReading::default()
        };
        // A card that was unplugged takes its directory with it; one that sleeps or resets does not.
        if reading == GpuReading::default() && !card.directory.exists() {
            return Err(GpuLost);
        }
        Ok(reading)
    }

    fn read_slow(&mut self, device: usize) -> Result<GpuSlowReading, GpuLost> {
        match self.cards.get(device) {
            Some(card) if card.directory.exists() => Ok(GpuSlowReading::default()),
            _ => Err(GpuLost),
        }
    }
}

impl Card {
    fn new(directory: PathBuf) -> Self {
        let readable = |path: PathBuf| number(&path).is_some().then_some(path);
        let sensors: Vec<PathBuf> =
            fs::read_dir(directory.join("hwmon")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        let sensor = |name: &str| sensors.iter().find_map(|sensor| readable(sensor.join(name)));
        Self {
            used: readable(directory.join("mem_info_vram_used")),
            busy: readable(directory.join("gpu_busy_percent")),
            memory_busy: readable(directory.join("mem_busy_percent")),
            // Newer devices give the power of this instant instead of its average.
            power: sensor("power1_average").or_else(|| sensor("power1_input")),
            temperature: sensor("temp1_input"),
            directory,
        }
    }
}

fn device(index: u32, directory: &Path) -> GpuDevice {
    let unique_id = text(&directory.join("unique_id")).filter(|id| !id.is_empty());
    // Integrated devices have no number of their own: their place on the bus tells them apart on this host.
    let place = || fs::canonicalize(directory).ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let id = match unique_id.clone().or_else(place) {
        Some(id) => format!("GPU-amd-{id}"),
        None => format!("GPU-amd-{index}"),
    };
    GpuDevice {
        id,
        index,
        name: text(&directory.join("product_name")).filter(|name| !name.is_empty()).unwrap_or_else(|| "AMD GPU".to_owned()),
        vendor: "AMD".to_owned(),
        driver_version: None,
        serial_number: text(&directory.join("serial_number")).filter(|serial| !serial.is_empty()),
        memory_limit_bytes: number(&directory.join("mem_info_vram_total")).and_then(plausible::memory_limit_bytes),
        simulated: None,
        memory_used_includes_reserved: false,
    }
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// A file of one short line.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(256).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn card(root: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let directory = root.join(name).join("device");
        for (file, content) in files {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("create");
            fs::write(path, format!("{content}\n")).expect("write");
        }
        directory
    }

    #[test]
    fn the_files_are_read_in_their_units() {
        let root = tempfile::tempdir().expect("temporary directory");
        card(
            root.path(),
            "card1",
            &[
                ("vendor", "0x1002"),
                ("unique_id", "a1b2c3"),
                ("product_name", "Instinct MI210"),
                ("gpu_busy_percent", "37"),
                ("mem_info_vram_used", "1048576"),
                ("mem_info_vram_total", "68702699520"),
                ("hwmon/hwmon3/power1_average", "41000000"),
                ("hwmon/hwmon3/temp1_input", "45500"),
            ],
        );
        card(root.path(), "card0", &[("vendor", "0x10de"), ("gpu_busy_percent", "99")]);
        card(root.path(), "card1-DP-1", &[("vendor", "0x1002")]);
        let mut source = AmdgpuSource::open(root.path()).expect("one AMD device");
        assert_eq!(source.devices().len(), 1, "neither another vendor's nor an output");
        let device = &source.devices()[0];
        assert_eq!((device.id.as_str(), device.name.as_str(), device.vendor.as_str()), ("GPU-amd-a1b2c3", "Instinct MI210", "AMD"));
        assert_eq!(device.memory_limit_bytes, Some(68_702_699_520));
        let reading = source.read(0).expect("there");
        assert_eq!(reading.memory_used_bytes, Some(1 << 20));
        assert_eq!(reading.utilization, Some(0.37));
        assert_eq!(reading.power_w, Some(41.0));
        assert_eq!(reading.temperature_c, Some(45.5));
        assert_eq!((reading.energy_j, reading.fan_speed_ratio), (None, None));
    }

    #[test]
    fn missing_and_impossible_values_are_absent_and_a_card_can_go() {
        let root = tempfile::tempdir().expect("temporary directory");
        let files = [("vendor", "0x1002"), ("gpu_busy_percent", "250"), ("mem_info_vram_used", "9"), ("mem_info_vram_total", "8")];
        let directory = card(root.path(), "card0", &files);
        let mut source = AmdgpuSource::open(root.path()).expect("one AMD device");
        assert_eq!(source.read(0), Ok(GpuReading::default()));
        fs::remove_dir_all(directory).expect("unplugged");
        assert_eq!(source.read(0), Err(GpuLost));
        assert_eq!(source.read_slow(0), Err(GpuLost));
        assert_eq!(source.read(1), Err(GpuLost));
    }

    #[test]
    fn without_amd_devices_there_is_no_source() {
        let root = tempfile::tempdir().expect("temporary directory");
        assert!(AmdgpuSource::open(root.path()).is_none());
        assert!(AmdgpuSource::open(Path::new("/nonexistent")).is_none());
    }
}
