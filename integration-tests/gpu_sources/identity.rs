//! Which devices are this process's.

use fake_nvml::{Device, Mig, Model, Scenario, Target};
use stepline::gpu::GpuSource;
use stepline::gpu::nvml::{NvmlOptions, NvmlSource};
use stepline::gpu::visible::Doubt;

use super::{install, options};

/// What a process sees: the devices' numbers and ids.
struct Seen {
    indices: Vec<u32>,
    ids: Vec<String>,
    doubt: Option<Doubt>,
}

fn seen(scenario: &Scenario, visible: Option<&str>, pci_order: bool) -> Seen {
    let fake = install(scenario);
    let options = NvmlOptions { visible: visible.map(ToOwned::to_owned), pci_order, ..options(&fake) };
    let source = NvmlSource::open(options).expect("devices");
    Seen {
        indices: source.devices().iter().map(|device| device.index).collect(),
        ids: source.devices().iter().map(|device| device.id.clone()).collect(),
        doubt: source.doubt(),
    }
}

#[test]
fn row_11_device_0_of_the_process_is_gpu_2_of_the_host() {
    let four = (0..4).fold(Scenario::default(), |scenario, _| scenario.and(Device::new(Model::H100)));
    let two = seen(&four, Some("2,3"), false);
    assert_eq!((two.indices, two.doubt), (vec![2, 3], None));
    assert!(two.ids[0].starts_with("GPU-a2"), "{}", two.ids[0]);
    assert_eq!(seen(&four, Some("GPU-a3,GPU-a1"), false).indices, [3, 1]);
    assert_eq!(seen(&four, None, false).indices, [0, 1, 2, 3]);
}

#[test]
fn row_12_numbers_of_unequal_gpus_are_in_doubt() {
    let unequal = Scenario::with(Device::new(Model::T4)).and(Device::new(Model::H100));
    let by_number = seen(&unequal, Some("0"), false);
    assert_eq!((by_number.indices, by_number.doubt), (vec![0, 1], Some(Doubt::Order)), "both it could be");
    let by_place = seen(&unequal, Some("0"), true);
    assert_eq!((by_place.indices, by_place.doubt), (vec![0], None));
    let by_name = seen(&unequal, Some("GPU-a1"), false);
    assert_eq!((by_name.indices, by_name.doubt), (vec![1], None));
}

#[test]
fn row_14_an_instance_has_memory_and_no_utilization() {
    let cut = Device::new(Model::H100).mig(Mig::new("3g.40gb").memory_used(111 << 20)).mig(Mig::new("1g.10gb").memory_used(222 << 20));
    let fake = install(&Scenario::with(cut));
    let visible = Some("MIG-a01".to_owned());
    let mut source = NvmlSource::open(NvmlOptions { visible, ..options(&fake) }).expect("an instance");
    let device = source.devices()[0].clone();
    assert!(device.id.starts_with("MIG-a01"), "{}", device.id);
    assert!(device.name.contains("1g.10gb"), "{}", device.name);
    assert_eq!(device.memory_limit_bytes, Some(9_984 << 20));
    for _ in 0..3 {
        let reading = source.read(0).expect("there");
        assert_eq!(reading.memory_used_bytes, Some(222 << 20));
        assert_eq!((reading.utilization, reading.memory_bandwidth_utilization), (None, None), "absent, never 0");
    }
    let calls = fake.calls().expect("log");
    assert_eq!(calls.count("UtilizationRates", Target::Mig(0, 1)), 0);
    assert!(calls.count("PowerUsage", Target::Mig(0, 1)) <= 1 || source.read(0).expect("there").power_w.is_some());
}

#[test]
fn a_gpu_cut_into_instances_is_seen_as_its_first() {
    let cut = Device::new(Model::H100).mig(Mig::new("3g.40gb")).mig(Mig::new("1g.10gb"));
    let seen = seen(&Scenario::with(Device::new(Model::H100)).and(cut), None, false);
    assert_eq!((seen.ids.len(), seen.doubt), (1, Some(Doubt::Instance)));
    assert!(seen.ids[0].starts_with("MIG-a10"), "{}", seen.ids[0]);
}
