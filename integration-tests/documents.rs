//! The documents against what they speak of. `UPDATE_DOCUMENTS=1` writes what is generated.

use std::fs;
use std::path::{Path, PathBuf};

use stepline::config::variables_table;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text between the two marks of a document is exactly `expected`.
fn generated(path: &str, expected: &str) {
    let path = repository(path);
    let text = fs::read_to_string(&path).expect("the document");
    let (before, rest) = text.split_once("<!-- variables -->\n").expect("the first mark");
    let (between, after) = rest.split_once("<!-- end -->").expect("the second mark");
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        fs::write(&path, format!("{before}<!-- variables -->\n{expected}<!-- end -->{after}")).expect("the document can be written");
    } else {
        assert_eq!(between, expected, "{} is out of date: run the test with UPDATE_DOCUMENTS=1", path.display());
    }
}

#[test]
fn the_tables_of_variables_are_those_of_the_code() {
    let table = variables_table();
    generated("docs/configuration.md", &table);
    let own: String = table
        .lines()
        .enumerate()
        .filter(|(place, line)| *place < 2 || line.starts_with("| `STEPLINE_"))
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    generated("README.md", &own);
}

#[test]
fn the_make_targets_that_the_documents_name_exist() {
    let makefile = fs::read_to_string(repository("Makefile")).expect("the Makefile");
    for document in ["README.md", "CONTRIBUTING.md", "collector-config/README.md", ".ci/run"] {
        let text = fs::read_to_string(repository(document)).expect("a document");
        for line in text.lines().filter(|line| line.contains("make ")) {
            let commands = line.split("make ").skip(1).map(|rest| rest.split(['`', '#', '"', ';']).next().unwrap_or_default());
            // Only what stands as a command: `make x` or a line of a console.
            let is_command = line.contains("`make ") || line.starts_with("$ make ") || line.starts_with("make ");
            for target in commands.filter(|_| is_command).flat_map(str::split_whitespace) {
                let is_target = !target.contains(['=', '/', '-', '.']);
                assert!(!is_target || makefile.contains(&format!("\n{target}:")), "{document}: make {target}");
            }
        }
    }
}
