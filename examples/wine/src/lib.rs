//! wine
