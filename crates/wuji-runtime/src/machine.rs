//! The available memory: of the machine, and of the control groups of this process.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes, as the system counts them.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Amounts {
    /// The memory of the machine, or the limit of this process.
    pub(crate) total: u64,
    /// Memory that can be used now without swapping.
    pub(crate) available: u64,
}

impl Amounts {
    /// The current amounts. Unlimited if the system does not report them.
    pub(crate) fn now() -> Amounts {
        Amounts::under(Path::new("/"))
    }

    /// Reads the files in `proc` and `sys` under this folder.
    fn under(root: &Path) -> Amounts {
        let mut all = machine(root);
        for group in groups(root) {
            if let Some(group) = group.amounts() {
                all.total = all.total.min(group.total);
                all.available = all.available.min(group.available);
            }
        }
        all
    }
}

fn machine(root: &Path) -> Amounts {
    let text = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let bytes = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    let total = bytes("MemTotal:").unwrap_or(u64::MAX);
    let free = bytes("MemAvailable:").unwrap_or(total);
    Amounts {
        total,
        available: free.saturating_add(bytes("SwapFree:").unwrap_or(0)),
    }
}

/// A control group, with the names of its files.
struct Group {
    folder: PathBuf,
    limit: &'static str,
    used: &'static str,
    /// The key in `memory.stat` of reclaimable file caches.
    droppable: &'static str,
}

impl Group {
    /// `None` for a group without a limit.
    fn amounts(&self) -> Option<Amounts> {
        let read = |file: &str| fs::read_to_string(self.folder.join(file)).ok();
        let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
        let total = number(self.limit)?;
        let stat = read("memory.stat").unwrap_or_default();
        let droppable = stat.lines().find_map(|line| {
            let (name, bytes) = line.split_once(' ')?;
            (name == self.droppable).then(|| bytes.parse::<u64>().ok())?
        });
        let used = number(self.used).unwrap_or(0);
        let used = used.saturating_sub(droppable.unwrap_or(0));
        Some(Amounts {
            total,
            available: total.saturating_sub(used),
        })
    }
}

/// The control groups of this process, of either version, each before its parents.
fn groups(root: &Path) -> Vec<Group> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut groups = Vec::new();
    for line in text.lines() {
        // `number:controllers:path`, where version 2 has no controllers.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (base, limit, used, droppable) = if controllers.is_empty() {
            (
                "sys/fs/cgroup",
                "memory.max",
                "memory.current",
                "inactive_file",
            )
        } else if controllers.split(',').any(|c| c == "memory") {
            (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
        } else {
            continue;
        };
        // In a container the path may be that of the host; only the root is visible then.
        for part in Path::new(path.trim_start_matches('/')).ancestors() {
            groups.push(Group {
                folder: root.join(base).join(part),
                limit,
                used,
                droppable,
            });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Fake files of a machine with 16 GiB, of which 8 are available and 1 is swap.
    fn files(name: &str, more: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("wuji-machine-{}-{name}", std::process::id()));
        let meminfo = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable: 8388608 kB\nSwapFree: 1048576 kB\n";
        for (path, text) in more.iter().chain([&("proc/meminfo", meminfo)]) {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn check(name: &str, more: &[(&str, &str)], total: u64, available: u64) {
        let root = files(name, more);
        let found = Amounts::under(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, Amounts { total, available }, "{name}");
    }

    #[test]
    fn without_groups_the_machine_is_the_limit() {
        check("none", &[], 16 * GIB, 9 * GIB);
        let unlimited = [
            ("proc/self/cgroup", "0::/user.slice\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
        ];
        check("unlimited", &unlimited, 16 * GIB, 9 * GIB);
    }

    #[test]
    fn the_smallest_group_is_the_limit() {
        let two = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "8589934592\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1073741824\n"),
            ("sys/fs/cgroup/a/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/a/memory.current", "3221225472\n"),
            (
                "sys/fs/cgroup/a/memory.stat",
                "anon 1\ninactive_file 1073741824\n",
            ),
        ];
        check("nested", &two, 4 * GIB, 2 * GIB);
    }

    #[test]
    fn groups_of_the_first_version_are_read() {
        let one = [
            ("proc/self/cgroup", "9:cpu,cpuacct:/\n4:memory:/docker/1\n"),
            // A container sees its own group as the root.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n"),
            (
                "sys/fs/cgroup/memory/memory.stat",
                "inactive_file 7\ntotal_inactive_file 1048576\n",
            ),
        ];
        check("first", &one, 2 * GIB, GIB + (1 << 20));
    }

    #[test]
    fn memory_is_unlimited_if_the_system_reports_nothing() {
        let found = Amounts::under(Path::new("/nowhere"));
        assert_eq!(found.total, u64::MAX);
        assert_eq!(found.available, u64::MAX);
        let here = Amounts::now();
        assert!(here.total > 1 << 20 && here.available > 0);
    }
}
