//! The living descendants of a process.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// More processes than that below one training process are not walked.
const MOST: usize = 4096;

/// Adds the living descendants of the process to `pids`, nearest first; the process itself is not among them. `None` when `/proc` could
/// not be read.
pub(super) fn add_descendants(proc_root: &Path, pid: u32, pids: &mut Vec<u32>) -> Option<()> {
    // The kernel's lists of children cost one small file for each thread of the family. Kernels without them
    // (CONFIG_PROC_CHILDREN) need a look at every process of the host.
    let direct = |parent: u32, found: &mut Vec<u32>| children_of(proc_root, parent, found);
    let mut probe = Vec::new();
    if direct(pid, &mut probe).is_some() {
        walk(pid, pids, direct);
        return Some(());
    }
    let by_parent = parents(proc_root)?;
    walk(pid, pids, |parent, found| {
        found.extend(by_parent.get(&parent).into_iter().flatten());
        Some(())
    });
    Some(())
}

/// Breadth first. A process id that was taken anew while the walk went on could close a circle, so none is visited twice.
fn walk(pid: u32, pids: &mut Vec<u32>, mut children: impl FnMut(u32, &mut Vec<u32>) -> Option<()>) {
    let start = pids.len();
    let mut next = vec![pid];
    let mut found = Vec::new();
    while let Some(parent) = next.pop() {
        found.clear();
        // A process that has ended meanwhile has no children any more.
        let _ = children(parent, &mut found);
        for &child in &found {
            if pids.len() - start >= MOST {
                return;
            }
            if child != pid && !pids[start..].contains(&child) {
                pids.push(child);
                next.push(child);
            }
        }
    }
}

/// Children are listed thread by thread: data-loader workers belong to the thread that forked them.
fn children_of(proc_root: &Path, pid: u32, found: &mut Vec<u32>) -> Option<()> {
    let mut listed = None;
    for task in fs::read_dir(proc_root.join(pid.to_string()).join("task")).ok()?.flatten() {
        let Ok(text) = fs::read_to_string(task.path().join("children")) else { continue };
        listed = Some(());
        found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    listed
}

/// All processes of the host by their parent.
fn parents(proc_root: &Path) -> Option<HashMap<u32, Vec<u32>>> {
    let mut by_parent: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir(proc_root).ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(text) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The command stands in parentheses and may itself hold some: what follows the last one is `state parent …`.
        let parent = text.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)).and_then(|word| word.parse().ok());
        if let Some(parent) = parent {
            by_parent.entry(parent).or_default().push(pid);
        }
    }
    Some(by_parent)
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn process(root: &Path, pid: u32, parent: u32, children: Option<&str>) {
        let task = root.join(format!("{pid}/task/{pid}"));
        fs::create_dir_all(&task).expect("create");
        fs::write(root.join(format!("{pid}/stat")), format!("{pid} (a) b (c) S {parent} 1 1")).expect("write");
        if let Some(children) = children {
            fs::write(task.join("children"), children).expect("write");
        }
    }

    fn descendants(root: &Path, pid: u32) -> Vec<u32> {
        let mut pids = Vec::new();
        add_descendants(root, pid, &mut pids).expect("readable");
        pids.sort_unstable();
        pids
    }

    #[test]
    fn the_kernels_lists_are_followed() {
        let root = tempfile::tempdir().expect("temporary directory");
        process(root.path(), 10, 1, Some("11 12 "));
        process(root.path(), 11, 10, Some("13"));
        process(root.path(), 12, 10, Some(""));
        process(root.path(), 13, 11, Some("10")); // a circle, as pid reuse could make it
        process(root.path(), 20, 1, Some(""));
        assert_eq!(descendants(root.path(), 10), [11, 12, 13]);
        assert_eq!(descendants(root.path(), 20), [] as [u32; 0]);
    }

    #[test]
    fn without_them_all_processes_are_looked_at() {
        let root = tempfile::tempdir().expect("temporary directory");
        process(root.path(), 10, 1, None);
        process(root.path(), 11, 10, None);
        process(root.path(), 12, 11, None);
        process(root.path(), 20, 1, None);
        fs::create_dir(root.path().join("sys")).expect("create");
        assert_eq!(descendants(root.path(), 10), [11, 12]);
    }

    #[test]
    fn no_proc_at_all_is_said() {
        assert_eq!(add_descendants(Path::new("/nonexistent"), 1, &mut Vec::new()), None);
    }
}
