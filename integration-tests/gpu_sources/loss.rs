//! Devices that stop answering, and return.

use std::thread::sleep;
use std::time::Duration;

use fake_nvml::{Device, ErrorCode, Fault, Model, Scenario};
use stepline::gpu::{GpuLost, GpuSource};

use super::{HURRY, install, open};

fn two() -> Scenario {
    Scenario::with(Device::new(Model::H100)).and(Device::new(Model::T4))
}

#[test]
fn row_5_one_lost_gpu_does_not_disturb_the_other() {
    let fake = install(&two().fault(Fault::error(ErrorCode::GpuIsLost).device(1).from_call(5).counting("UtilizationRates")));
    let mut source = open(&fake);
    for number in 1..=12 {
        let (first, second) = (source.read(0), source.read(1));
        assert!(first.is_ok_and(|reading| reading.memory_used_bytes.is_some()), "reading {number}");
        assert_eq!(second.is_err(), number >= 5, "reading {number}");
    }
    let calls = fake.calls().expect("log");
    assert_eq!(calls.count("MemoryInfo_v2", 0), 13, "one to know the device, and one a reading");
    assert_eq!(calls.count("UtilizationRates", 1), 5);
    assert_eq!(calls.count_all("nvmlInit_v2"), 1, "the library is not begun anew for one of two");
    assert_eq!(source.read_slow(1), Err(GpuLost));
}

#[test]
fn a_lost_gpu_is_tried_seldom_and_may_return() {
    let fake = install(&two());
    let mut source = open(&fake);
    source.read(1).expect("there");
    fake.change(&two().fault(Fault::error(ErrorCode::GpuIsLost).device(1))).expect("changed");
    assert_eq!(source.read(1), Err(GpuLost));
    let before = fake.calls().expect("log");
    for _ in 0..100 {
        assert_eq!(source.read(1), Err(GpuLost));
        sleep(Duration::from_millis(2));
    }
    let tries = fake.calls().expect("log").since(&before).count_all("nvmlDeviceGetHandleByUUID");
    assert!((2..=6).contains(&tries), "after 20, 40, 80 ms, then every 80 ms: {tries} tries in 200 ms");
    fake.change(&two()).expect("changed");
    sleep(HURRY.longest_retry * 2);
    assert!(source.read(1).expect("it is back").temperature_c.is_some());
    assert!(source.read_slow(1).is_ok());
}

#[test]
fn row_6_when_nothing_answers_any_more_the_series_end_and_beginning_anew_is_bounded() {
    let lost = Fault::error(ErrorCode::Unknown).from_call(9).counting("UtilizationRates");
    let fake = install(&two().fault(lost));
    let mut source = open(&fake);
    for number in 1..=4 {
        assert!(source.read(0).is_ok() && source.read(1).is_ok(), "reading {number}");
    }
    // The fault begins in the middle of a reading; from then on no value is given any more.
    let _ = source.read(0);
    for _ in 0..200 {
        assert_eq!(source.read(0), Err(GpuLost));
        assert_eq!(source.read(1), Err(GpuLost));
        assert_eq!(source.read_slow(0), Err(GpuLost));
        sleep(Duration::from_millis(3));
    }
    let calls = fake.calls().expect("log");
    assert_eq!(calls.count_all("nvmlInit_v2"), 1 + HURRY.new_beginnings as usize, "the first, and a few attempts");
    let before = calls;
    sleep(HURRY.longest_retry * 2);
    assert_eq!(source.read(0), Err(GpuLost));
    assert_eq!(fake.calls().expect("log").since(&before).calls().len(), 0, "then it is left alone");
}

#[test]
fn after_a_reset_of_all_devices_beginning_anew_brings_them_back() {
    let scenario = Scenario::with(Device::new(Model::H100));
    let fake = install(&scenario);
    let mut source = open(&fake);
    source.read(0).expect("there");
    fake.change(&scenario.clone().fault(Fault::error(ErrorCode::ResetRequired))).expect("changed");
    assert_eq!(source.read(0), Err(GpuLost));
    sleep(HURRY.first_retry * 2);
    assert_eq!(source.read(0), Err(GpuLost));
    fake.change(&scenario).expect("changed");
    sleep(HURRY.longest_retry * 2);
    assert!(source.read(0).expect("back").memory_used_bytes.is_some());
    drop(source);
    let calls = fake.calls().expect("log");
    let worked = calls.of("nvmlInit_v2").filter(|call| call.result == ErrorCode::Success).count();
    assert!(worked >= 2);
}

#[test]
fn row_23_an_unplugged_gpu_ends_and_a_plugged_one_returns() {
    let fake = install(&two());
    let mut source = open(&fake);
    assert!(source.read(0).is_ok() && source.read(1).is_ok());
    fake.change(&two().fault(Fault::unplug(0))).expect("changed");
    assert_eq!(source.read_slow(0), Err(GpuLost), "seen by the count");
    assert_eq!(source.read(0), Err(GpuLost));
    let name = source.devices()[1].name.clone();
    assert_eq!(name, "Tesla T4");
    let temperature = source.read(1).expect("there").temperature_c;
    assert_eq!(temperature, Some(40.0), "still the T4, though it has another number now");
    fake.change(&two()).expect("changed");
    sleep(HURRY.longest_retry);
    assert_eq!(source.read(0).expect("back").temperature_c, Some(41.0));
}

#[test]
fn failing_to_answer_at_all_is_being_lost_whatever_the_code() {
    let fake = install(&two());
    let mut source = open(&fake);
    source.read(0).expect("there");
    fake.change(&two().fault(Fault::error(ErrorCode::Timeout).device(0))).expect("changed");
    assert_eq!(source.read(0), Err(GpuLost), "no stale and no empty reading");
    assert!(source.read(1).is_ok());
}
