//! The table on standard output, and `target/bench.json`: a list of `{id, unit, value, budget, peer, peer_value}`.

use std::path::Path;

use serde_json::{Value, json};

/// What a step may take, by callgrind: what it takes now and a little.
pub const STEP_INSTRUCTIONS: f64 = 1_750.0;

/// One figure.
pub struct Row {
    pub id: &'static str,
    pub unit: &'static str,
    pub value: f64,
    pub budget: Option<f64>,
    pub peer: Option<(&'static str, f64)>,
}

impl Row {
    pub fn new(id: &'static str, unit: &'static str, value: f64) -> Self {
        Self { id, unit, value, budget: None, peer: None }
    }

    pub fn budget(self, budget: f64) -> Self {
        Self { budget: Some(budget), ..self }
    }

    pub fn peer(self, name: &'static str, value: f64) -> Self {
        Self { peer: Some((name, value)), ..self }
    }

    fn json(&self) -> Value {
        let rounded = |number: f64| (number * 1000.0).round() / 1000.0;
        json!({
            "id": self.id,
            "unit": self.unit,
            "value": rounded(self.value),
            "budget": self.budget,
            "peer": self.peer.map(|(name, _)| name),
            "peer_value": self.peer.map(|(_, value)| rounded(value)),
        })
    }
}

pub fn print(rows: &[Row]) {
    println!("{:<34} {:>10} {:>10}  {:<14} peer", "", "value", "budget", "unit");
    for row in rows {
        let budget = row.budget.map_or("-".to_owned(), |budget| format!("{budget}"));
        let peer = row.peer.map_or(String::new(), |(name, value)| format!("{value:.1} {name} ({:.1}x)", value / row.value));
        println!("{:<34} {:>10.1} {budget:>10}  {:<14} {peer}", row.id, row.value, row.unit);
    }
}

/// Puts the rows into the file, in place of those of the same id; what other benches wrote stays.
pub fn merge(rows: &[Row]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench.json");
    let known = std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Vec<Value>>(&text).ok());
    let mut all: Vec<Value> = known.unwrap_or_default();
    all.retain(|old| rows.iter().all(|row| old["id"] != row.id));
    all.extend(rows.iter().map(Row::json));
    let text = serde_json::to_string_pretty(&all).expect("numbers and text");
    std::fs::create_dir_all(path.parent().expect("it has a directory")).expect("target/ can be made");
    std::fs::write(&path, text + "\n").expect("target/bench.json can be written");
}
