//! The state of a process according to the system: whether it lives, and since when.

use std::{
    fs,
    path::Path,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use rustix::{io::Errno, process::Pid};

/// Whether a process lives, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Dead,
    /// The process lives. `start_ticks` is `None` if the system does not report it.
    Alive {
        start_ticks: Option<u64>,
    },
}

pub(crate) fn life(pid: u32) -> Life {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Life::Dead;
    };
    // EPERM means a live process of another user.
    if rustix::process::test_kill_process(number) == Err(Errno::SRCH) {
        return Life::Dead;
    }
    let Some(stat) = stat(pid) else {
        return Life::Alive { start_ticks: None };
    };
    // A process that only waits for its parent cannot write any more. A dead first thread beside
    // live ones looks the same, except for the number of threads.
    if matches!(stat.state, 'Z' | 'X') && stat.threads <= 1 {
        return Life::Dead;
    }
    Life::Alive { start_ticks: Some(stat.start_ticks) }
}

struct ProcStat {
    state: char,
    threads: u64,
    start_ticks: u64,
}

/// Reads `/proc/<pid>/stat`. On systems without it (macOS), only liveness is known.
fn stat(pid: u32) -> Option<ProcStat> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&text))
}

/// Parses the fields. The name of the program, in parentheses, may contain spaces and parentheses,
/// so fields are counted from the last one.
fn parse_stat(text: &str) -> Option<ProcStat> {
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    Some(ProcStat {
        state: fields.first()?.chars().next()?,
        threads: fields.get(17)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// Returns the start time of a process by the current clock.
pub(crate) fn started_at(start_ticks: u64) -> Option<SystemTime> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    let start_seconds = start_ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    let age = Duration::try_from_secs_f64((uptime - start_seconds).max(0.0)).ok()?;
    SystemTime::now().checked_sub(age)
}

/// The place within which process ids are comparable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Here {
    pub(crate) host: String,
    pub(crate) boot_id: Option<String>,
    pub(crate) pid_namespace: Option<String>,
    /// The start of this process.
    pub(crate) start_ticks: Option<u64>,
}

pub(crate) fn here() -> &'static Here {
    static HERE: OnceLock<Here> = OnceLock::new();
    HERE.get_or_init(|| Here {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .map(|id| id.trim().to_owned()),
        pid_namespace: fs::read_link(Path::new("/proc/self/ns/pid"))
            .ok()
            .map(|link| link.to_string_lossy().into_owned()),
        start_ticks: stat(std::process::id()).map(|stat| stat.start_ticks),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_name() {
        let text = "42 (a) S (b) R 1 42 42 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 3 0 987 0 0";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.threads, stat.start_ticks), ('R', 3, 987));
    }

    #[test]
    fn this_process_lives_and_started_before_now() {
        let Life::Alive { start_ticks } = life(std::process::id()) else {
            panic!("we are dead");
        };
        assert_eq!(start_ticks, here().start_ticks);
        if cfg!(target_os = "linux") {
            let age = started_at(start_ticks.unwrap()).unwrap().elapsed().unwrap();
            assert!(age < Duration::from_secs(3600), "{age:?}");
        }
    }

    #[test]
    fn a_child_that_ended_is_dead_before_and_after_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let ended = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended).unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(life(child.id()), Life::Dead);
        }
        child.wait().unwrap();
        assert_eq!(life(child.id()), Life::Dead);
        assert_eq!(life(0), Life::Dead);
        assert_eq!(life(u32::MAX), Life::Dead);
    }
}
