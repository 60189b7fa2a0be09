//! Which device a call is about.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which device a call or a fault is about. GPUs are counted by their place in the scenario, which is NVML's index as long as none is
/// unplugged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Spelling", into = "Spelling")]
pub enum Target {
    /// No device: initialisation, versions, the count. Written `-`.
    System,
    /// A GPU. Written `0`.
    Gpu(u32),
    /// A MIG device of a GPU. Written `0:1`.
    Mig(u32, u32),
}

impl Target {
    pub(crate) fn gpu(self) -> Option<u32> {
        match self {
            Self::System => None,
            Self::Gpu(gpu) | Self::Mig(gpu, _) => Some(gpu),
        }
    }

    /// Whether what is said about `self` holds for `other`: a MIG device shares its GPU's fate.
    pub(crate) fn covers(self, other: Self) -> bool {
        self == other || matches!((self, other), (Self::Gpu(gpu), Self::Mig(parent, _)) if gpu == parent)
    }
}

impl From<u32> for Target {
    fn from(gpu: u32) -> Self {
        Self::Gpu(gpu)
    }
}

impl From<(u32, u32)> for Target {
    fn from((gpu, mig): (u32, u32)) -> Self {
        Self::Mig(gpu, mig)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("-"),
            Self::Gpu(gpu) => write!(f, "{gpu}"),
            Self::Mig(gpu, mig) => write!(f, "{gpu}:{mig}"),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.parse::<u32>().map_err(|_| format!("{text:?} is no device: 0, \"0:1\" or \"-\" is"));
        match text.split_once(':') {
            _ if text == "-" => Ok(Self::System),
            None => number(text).map(Self::Gpu),
            Some((gpu, mig)) => Ok(Self::Mig(number(gpu)?, number(mig)?)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Spelling {
    Number(u32),
    Text(String),
}

impl TryFrom<Spelling> for Target {
    type Error = String;

    fn try_from(spelling: Spelling) -> Result<Self, String> {
        match spelling {
            Spelling::Number(gpu) => Ok(Self::Gpu(gpu)),
            Spelling::Text(text) => text.parse(),
        }
    }
}

impl From<Target> for Spelling {
    fn from(target: Target) -> Self {
        match target {
            Target::Gpu(gpu) => Self::Number(gpu),
            other => Self::Text(other.to_string()),
        }
    }
}
