//! docs/metrics.md lists the metrics that there are, as they are.

use std::collections::BTreeMap;

use stepline::semconv::{self, Kind};

const DOCUMENT: &str = include_str!("../docs/metrics.md");

/// Name, unit and kind of each row of the document's tables of metrics.
fn documented() -> BTreeMap<String, (String, String)> {
    let mut rows = BTreeMap::new();
    let mut in_table = false;
    for line in DOCUMENT.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        if cells.first() == Some(&"metric") {
            assert_eq!(cells[1..3], ["kind", "unit"], "the columns of {line}");
            in_table = true;
        } else if !line.starts_with('|') {
            in_table = false;
        } else if in_table && !line.starts_with("|--") && !line.starts_with("| --") {
            let before = rows.insert(cells[0].to_owned(), (cells[1].to_owned(), cells[2].to_owned()));
            assert!(before.is_none(), "{} stands twice", cells[0]);
        }
    }
    rows
}

#[test]
fn the_document_and_semconv_say_the_same() {
    let documented = documented();
    let defined: BTreeMap<String, (String, String)> = semconv::metrics::ALL
        .iter()
        .map(|metric| {
            let kind = match metric.kind {
                Kind::Gauge => "gauge",
                Kind::Counter => "counter",
                Kind::UpDownCounter => "updowncounter",
                Kind::Histogram => "histogram",
            };
            (metric.name.to_owned(), (kind.to_owned(), metric.unit.to_owned()))
        })
        .collect();
    assert_eq!(documented, defined, "docs/metrics.md on the left, src/semconv.rs on the right");
}

#[test]
fn the_document_names_all_spans_and_events() {
    let semconv = include_str!("../src/semconv.rs");
    for module in ["spans", "events", "attributes"] {
        let body = semconv.split(&format!("pub mod {module} {{")).nth(1).and_then(|rest| rest.split("\n}").next()).unwrap();
        for name in body.lines().filter_map(|line| line.trim().strip_prefix("pub const ")?.split('"').nth(1)) {
            assert!(DOCUMENT.contains(&format!("`{name}")), "docs/metrics.md does not speak of {name}");
        }
    }
}
