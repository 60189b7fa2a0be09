//! Systems of which stepline reads nothing.

use crate::model::{HostReading, ProcessReading};

#[derive(Debug)]
pub(super) struct Source;

impl Source {
    pub(super) fn new(_pid: u32) -> Self {
        Self
    }

    pub(super) fn read_process(&mut self) -> ProcessReading {
        ProcessReading::default()
    }

    pub(super) fn read_children(&mut self, _reading: &mut ProcessReading) {}

    pub(super) fn read_host(&mut self) -> HostReading {
        HostReading::default()
    }
}

pub(super) fn process_start_unix_ns(_pid: u32) -> Option<u64> {
    None
}

pub(super) fn add_descendants(_pid: u32, _pids: &mut Vec<u32>) {}
