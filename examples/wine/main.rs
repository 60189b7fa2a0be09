//! wine
fn main() {}
