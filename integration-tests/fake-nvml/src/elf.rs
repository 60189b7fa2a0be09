//! As much of the ELF format as it takes to make a library lose a function.

use std::ops::Range;

/// The bytes of the string table that the loader compares names with (`.dynstr`): the one string table that is loaded. `None` for a file
/// that is no 64-bit little-endian ELF.
fn dynamic_strings(file: &[u8]) -> Option<Range<usize>> {
    const STRING_TABLE: u64 = 3;
    const LOADED: u64 = 2;

    let number = |at: usize, length: usize| {
        let bytes = file.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (headers, size, count) = (number(0x28, 8)? as usize, number(0x3A, 2)? as usize, number(0x3C, 2)? as usize);
    (0..count).find_map(|section| {
        let header = headers + section * size;
        let is_it = number(header + 4, 4)? == STRING_TABLE && number(header + 8, 8)? & LOADED != 0;
        let offset = number(header + 0x18, 8)? as usize;
        let length = number(header + 0x20, 8)? as usize;
        is_it.then_some(offset..offset.checked_add(length)?)
    })
}

/// Takes a name out by changing its first letter. The loader's hash table still leads to the entry, but the loader then compares the names
/// and finds nothing: exactly what a library without the function does. False when the name is not there.
pub(crate) fn remove_symbol(file: &mut [u8], name: &str) -> bool {
    let Some(table) = dynamic_strings(file).and_then(|range| file.get_mut(range)) else { return false };
    let entry = [b"\0", name.as_bytes(), b"\0"].concat();
    let letter = table.windows(entry.len()).position(|window| window == entry).and_then(|place| table.get_mut(place + 1));
    letter.map(|letter| *letter = b'x').is_some()
}
