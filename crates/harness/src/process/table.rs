//! The processes of this machine, as `/proc` lists them. On other systems the list is empty, and
//! process groups are used instead.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal},
};

/// A running process. The start time distinguishes it from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) start_ticks: u64,
}

/// Returns all running processes. One that has ended and only waits for its parent does not count.
fn all() -> Vec<Entry> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(entry)
        .collect()
}

pub(super) fn entry(pid: u32) -> Option<Entry> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &String::from_utf8_lossy(&text))
}

/// Parses the fields. They are counted from the last parenthesis, because the program's name may
/// contain some.
fn parse(pid: u32, text: &str) -> Option<Entry> {
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let threads: u64 = fields.get(17)?.parse().ok()?;
    // A dead first thread beside live ones looks dead, except for the number of threads.
    if matches!(*fields.first()?, "Z" | "X") && threads <= 1 {
        return None;
    }
    Some(Entry {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// Returns the children of `ancestor`, their children, and so on, without `ancestor`.
pub(super) fn descendants(ancestor: u32) -> Vec<Entry> {
    let mut children: HashMap<u32, Vec<Entry>> = HashMap::new();
    for entry in all() {
        children.entry(entry.parent).or_default().push(entry);
    }
    let (mut found, mut seen) = (Vec::new(), HashSet::from([ancestor]));
    let mut next = vec![ancestor];
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if seen.insert(child.pid) {
                next.push(child.pid);
                found.push(child);
            }
        }
    }
    found
}

/// Returns the processes that were started with exactly this `NAME=value`, except this process. The
/// system shows only the environments of our own user's processes, and only those may be ended.
pub(super) fn carrying(variable: &str) -> Vec<Entry> {
    let myself = std::process::id();
    all().into_iter().filter(|entry| entry.pid != myself && carries(entry.pid, variable)).collect()
}

/// Returns the same as [`carrying`], and their descendants, some of which may have given up their
/// environment.
pub(super) fn carrying_with_descendants(variable: &str) -> Vec<Entry> {
    let myself = std::process::id();
    let mut found = carrying(variable);
    for ancestor in found.clone() {
        let others = descendants(ancestor.pid).into_iter().filter(|entry| entry.pid != myself);
        let others: Vec<_> = others.filter(|entry| !found.contains(entry)).collect();
        found.extend(others);
    }
    found
}

fn carries(pid: u32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()))
}

/// Sends a signal to exactly this process. It is not an error if it has ended. The descriptor
/// reserves the process id during the comparison, so that a signal never reaches another process
/// that got the same id.
#[cfg(target_os = "linux")]
pub(super) fn signal(process: Entry, signal: Signal) -> io::Result<()> {
    let Some(pid) = pid(process.pid) else {
        return Ok(());
    };
    let sent = match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        Ok(pidfd) => match entry(process.pid) {
            Some(now) if now.start_ticks == process.start_ticks => {
                rustix::process::pidfd_send_signal(pidfd, signal)
            }
            _ => Ok(()),
        },
        // Old kernels and some sandboxes have no such descriptors.
        Err(Errno::NOSYS | Errno::PERM) => rustix::process::kill_process(pid, signal),
        Err(e) => Err(e),
    };
    fine_if_gone(sent)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn signal(process: Entry, signal: Signal) -> io::Result<()> {
    pid(process.pid).map_or(Ok(()), |pid| fine_if_gone(rustix::process::kill_process(pid, signal)))
}

fn fine_if_gone(sent: Result<(), Errno>) -> io::Result<()> {
    match sent {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

pub(super) fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn a_line_of_the_table_is_read_behind_the_name() {
        let text = "42 (a) S (b) R 7 42 42 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 3 0 987 0 0";
        assert_eq!(parse(42, text), Some(Entry { pid: 42, parent: 7, start_ticks: 987 }));
        let dead = "42 (x) Z 7 42 42 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 987 0 0";
        assert_eq!(parse(42, dead), None);
    }

    #[test]
    fn a_child_is_found_by_its_parent_and_by_its_environment() {
        if cfg!(not(target_os = "linux")) {
            return;
        }
        let value = uuid::Uuid::now_v7().to_string();
        let mut child = Command::new("cat")
            .env(super::super::JOB_VARIABLE, &value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Its echo shows that it runs: the kernel shows no environment in the middle of an exec.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let pids = |found: Vec<Entry>| found.iter().map(|e| e.pid).collect::<Vec<_>>();
        assert!(pids(descendants(std::process::id())).contains(&child.id()));
        let variable = format!("{}={value}", super::super::JOB_VARIABLE);
        let found = carrying(&variable);
        assert_eq!(pids(found.clone()), [child.id()]);
        assert_eq!(carrying(&variable[..variable.len() - 1]), []);
        // A process with the same id that started at another time is a different one.
        let stranger = Entry { start_ticks: found[0].start_ticks + 1, ..found[0] };
        signal(stranger, Signal::KILL).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        signal(found[0], Signal::KILL).unwrap();
        child.wait().unwrap();
        signal(found[0], Signal::KILL).unwrap();
    }
}
