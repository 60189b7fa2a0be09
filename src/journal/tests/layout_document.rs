//! `docs/journal.md` gives the offsets that the code uses.

use super::super::layout::*;

#[test]
fn the_document_gives_the_offsets_that_the_code_uses() {
    let document = include_str!("../../../docs/journal.md");
    let places = [
        ("magic", MAGIC_AT),
        ("version", VERSION_AT),
        ("slots", SLOTS_AT),
        ("tick kind", TICK_KIND_AT),
        ("pid", PID_AT),
        ("created", CREATED_AT),
        ("about length", ABOUT_LENGTH_AT),
        ("about check", ABOUT_CHECK_AT),
        ("devices length", DEVICES_LENGTH_AT),
        ("devices check", DEVICES_CHECK_AT),
        ("head", HEAD_AT),
        ("tail", TAIL_AT),
        ("dropped", DROPPED_AT),
        ("dropped important", DROPPED_IMPORTANT_AT),
        ("names refused", NAMES_REFUSED_AT),
        ("last step", LAST_STEP_AT),
        ("closed", CLOSED_AT),
        ("segment count", SEGMENT_COUNT_AT),
        ("segments", SEGMENTS_AT),
        ("phase name count", PHASE_NAME_COUNT_AT),
        ("scalar name count", SCALAR_NAME_COUNT_AT),
        ("phase names", PHASE_NAMES_AT),
        ("scalar names", SCALAR_NAMES_AT),
        ("open run", OPEN_RUN_AT),
        ("open epochs", OPEN_EPOCHS_AT),
        ("open phases", OPEN_PHASES_AT),
        ("open steps", OPEN_STEPS_AT),
        ("about", ABOUT_AT),
        ("devices", DEVICES_AT),
        ("ring", RING_AT),
    ];
    for (name, word) in places {
        let row = format!("| {} | {name} |", word * 8);
        assert!(document.contains(&row), "docs/journal.md lacks the row `{row} ..`");
    }
    let rows = document.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit());
    let in_document = rows.filter(|row| places.iter().any(|(name, _)| row.contains(&format!("| {name} |")))).count();
    assert_eq!(in_document, places.len(), "docs/journal.md gives an offset twice");
    for (what, number) in [
        ("own names", crate::model::MAX_OWN_NAMES),
        ("clock segments", SEGMENTS),
        ("open epochs", OPEN_EPOCHS),
        ("open phases", OPEN_PHASES),
        ("open steps", OPEN_STEPS),
        ("phases a step", STEP_PHASES),
        ("numbers a step", STEP_SCALARS),
        ("bytes of an open step", OPEN_STEP_WORDS * 8),
        ("bytes of a name", NAME_WORDS * 8),
    ] {
        let row = format!("| {what} | {number} |");
        assert!(document.contains(&row), "docs/journal.md lacks the row `{row}`");
    }
}
