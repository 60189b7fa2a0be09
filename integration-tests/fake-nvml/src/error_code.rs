//! NVML's return codes, by the names that people use for them.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

macro_rules! error_codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        /// What an NVML function returns. In a scenario and in the log of calls it stands by its name here.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $(#[doc = $text] $name,)*
        }

        impl ErrorCode {
            /// The number that crosses the C boundary.
            pub fn code(self) -> u32 {
                match self { $(Self::$name => $code,)* }
            }

            /// The name, as a scenario spells it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The code of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $(stringify!($name) => Some(Self::$name),)* _ => None }
            }

            pub(crate) fn text_of(code: u32) -> &'static CStr {
                // Texts are literals without an inner zero, so the conversion below always finds exactly one at the end.
                let bytes: &'static [u8] = match code {
                    $($code => concat!($text, "\0").as_bytes(),)*
                    _ => b"Unknown Error\0",
                };
                CStr::from_bytes_with_nul(bytes).unwrap_or(c"Unknown Error")
            }
        }
    };
}

error_codes! {
    Success = 0, "The operation was successful";
    Uninitialized = 1, "Uninitialized";
    InvalidArgument = 2, "Invalid Argument";
    NotSupported = 3, "Not Supported";
    NoPermission = 4, "Insufficient Permissions";
    AlreadyInitialized = 5, "Already Initialized";
    NotFound = 6, "Not Found";
    InsufficientSize = 7, "Insufficient Size";
    InsufficientPower = 8, "Insufficient External Power";
    DriverNotLoaded = 9, "Driver Not Loaded";
    Timeout = 10, "Timeout";
    IrqIssue = 11, "Interrupt Request Issue";
    LibraryNotFound = 12, "NVML Shared Library Not Found";
    FunctionNotFound = 13, "Function Not Found";
    CorruptedInforom = 14, "Corrupted infoROM";
    GpuIsLost = 15, "GPU is lost";
    ResetRequired = 16, "GPU requires reset";
    OperatingSystem = 17, "GPU access blocked by the operating system";
    LibRmVersionMismatch = 18, "Driver/library version mismatch";
    InUse = 19, "In use by another client";
    Memory = 20, "Insufficient Memory";
    NoData = 21, "No data";
    VgpuEccNotSupported = 22, "Vgpu Ecc Not Supported";
    InsufficientResources = 23, "Insufficient Resources";
    FreqNotSupported = 24, "Frequency Not Supported";
    ArgumentVersionMismatch = 25, "Argument Version Mismatch";
    Deprecated = 26, "Deprecated";
    NotReady = 27, "Not Ready";
    GpuNotFound = 28, "GPU Not Found";
    InvalidState = 29, "Invalid State";
    ResetTypeNotSupported = 30, "Reset Type Not Supported";
    Unknown = 999, "Unknown Error";
}
