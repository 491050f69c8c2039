//! Checks of free memory before it is allocated: a program that runs out of memory is killed by the
//! system without a message.

use std::fs;
use std::path::{Path, PathBuf};

use question::Diagnostic;

/// Bytes of memory that this process can allocate, where the system reports them: the least of the
/// machine's available memory without swapping, and what the limits of the process and of its control
/// groups leave.
pub fn free() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = groups.lines().filter_map(group).flat_map(|folder| left_of_groups(&folder));
    [of_machine(), of_process()].into_iter().flatten().chain(of_groups).min()
}

/// Refuses `what`, which takes `bytes`, where less is free. `cure` is the advice to take less.
///
/// # Errors
/// That there is too little, with both figures.
pub fn demand(what: &str, bytes: u64, cure: &str) -> Result<(), Diagnostic> {
    question::memory::demand_of(free, what, bytes, cure)
}

/// The memory that the machine has left.
fn of_machine() -> Option<u64> {
    field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// The memory that the limits of the process leave of its address space and of its data (`ulimit
/// -v`, `-d`).
fn of_process() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let left = |limit: &str, taken: &str| {
        let rest = limits.lines().find_map(|line| line.strip_prefix(limit))?;
        // `unlimited` is not a number.
        let limit: u64 = rest.split_whitespace().next()?.parse().ok()?;
        Some(limit.saturating_sub(field(&status, taken)?))
    };
    let all = [left("Max address space", "VmSize:"), left("Max data size", "VmData:")];
    all.into_iter().flatten().min()
}

/// The folder of the control group that a line of /proc/self/cgroup names, if it counts memory.
fn group(line: &str) -> Option<PathBuf> {
    let (root, path) = match line.split(':').collect::<Vec<_>>()[..] {
        // Version 2 has one hierarchy, version 1 one for each thing that is counted.
        ["0", "", path] => ("/sys/fs/cgroup", path),
        [_, counted, path] if counted.split(',').any(|one| one == "memory") => {
            ("/sys/fs/cgroup/memory", path)
        }
        _ => return None,
    };
    Some(Path::new(root).join(path.trim_start_matches('/')))
}

/// The memory left in the control group of `folder`, and in each of its parents.
fn left_of_groups(folder: &Path) -> Vec<u64> {
    let root = Path::new("/sys/fs/cgroup");
    folder.ancestors().take_while(|folder| folder.starts_with(root)).filter_map(left_of).collect()
}

fn left_of(folder: &Path) -> Option<u64> {
    let number =
        |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // `max` is not a number.
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let taken = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    // Pages of files that were not used lately are reclaimed on demand.
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let pages = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
    let pages = pages.and_then(|pages| pages.trim().parse().ok()).unwrap_or(0);
    Some(limit.saturating_sub(taken.saturating_sub(pages)))
}

/// The figure in kB behind `name` in a list of /proc, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = rest.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_than_all_there_is_is_refused() {
        let Some(free) = free() else { return println!("skipped: the system does not say") };
        assert!(free > 0);
        assert!(demand("a schedule", free / 4, "").is_ok());
        let error = demand("a schedule", u64::MAX, "ask less").unwrap_err().to_string();
        assert!(error.starts_with("a schedule takes about ") && error.contains(" of memory, and "));
    }

    #[test]
    fn groups_are_found_where_they_are_counted() {
        let folder = |line| group(line).map(|folder| folder.to_string_lossy().into_owned());
        assert_eq!(folder("0::/user.slice/job"), Some("/sys/fs/cgroup/user.slice/job".to_owned()));
        let first = "5:cpuset,memory:/job";
        assert_eq!(folder(first), Some("/sys/fs/cgroup/memory/job".to_owned()));
        assert_eq!(folder("4:cpuset:/job"), None);
        assert_eq!(folder("nonsense"), None);
    }

    #[test]
    fn a_group_has_left_what_it_has_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.current", "700\n");
        write("memory.max", "max\n");
        assert_eq!(left_of(folder.path()), None);
        write("memory.max", "1000\n");
        assert_eq!(left_of(folder.path()), Some(300));
        write("memory.stat", "anon 500\ninactive_file 150\n");
        assert_eq!(left_of(folder.path()), Some(450));
    }
}
