//! Finds and ends processes that a killed harness left running.
//!
//! Before a guard is started, a record of its job is written. It is removed when nothing of the job
//! is left. A record whose owner is dead names a job that may still run. Every process with the
//! job's unique `HARNESS_JOB` in its environment is ended, and no other is ever touched.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::Signal,
};
use serde::{Deserialize, Serialize};

use super::{
    JOB_VARIABLE,
    life::{Life, here, life},
    table,
};
use crate::home::folder::{Folder, Found};

/// The interval of looks while killed processes end.
const POLL: Duration = Duration::from_millis(10);
/// The time that the kernel gets to end killed processes.
const KILLED: Duration = Duration::from_secs(5);
/// The time that a guard gets beyond the grace of its agent.
const GUARD_SLACK: Duration = Duration::from_secs(2);

/// The number of tries to write a record whose folder vanishes meanwhile.
const WRITES: u32 = 5;
/// A limit far above the size of our records.
const RECORD_BYTES_MAX: u64 = 64 * 1024;

/// A process, distinguished from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process id, which the system reuses.
    pub pid: u32,
    /// The time from boot to its start in clock ticks; `None` if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ticks: Option<u64>,
}

impl Process {
    pub(super) fn of(pid: u32) -> Process {
        Process { pid, start_ticks: table::entry(pid).map(|entry| entry.start_ticks) }
    }

    fn is_alive(self) -> bool {
        match life(self.pid) {
            Life::Dead => false,
            Life::Alive { start_ticks } => {
                // If the start time is unknown, the process counts as alive, because nothing is
                // ended on a guess.
                start_ticks.is_none()
                    || self.start_ticks.is_none()
                    || start_ticks == self.start_ticks
            }
        }
    }
}

/// One job, as it is stored in a file of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The `HARNESS_JOB` of its processes, which is also the name of the file.
    pub job: String,
    /// The run id for people, because leftovers are reported by run.
    pub run_id: String,
    /// The harness process that started it.
    pub owner: Process,
    /// The guard; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Process>,
    /// The agent; `None` until it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Process>,
    /// The time between TERM and KILL. A sweep waits this long, and a little more, for a live
    /// guard.
    pub grace_milliseconds: u64,
    /// The host on which the process ids are valid.
    pub host: String,
    /// The boot, which no process survives; `None` if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The pid namespace; `None` if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<String>,
}

impl Record {
    pub(super) fn new(job: &str, run_id: &str, grace: Duration) -> Record {
        let here = here();
        Record {
            job: job.to_owned(),
            run_id: run_id.to_owned(),
            owner: Process { pid: std::process::id(), start_ticks: here.start_ticks },
            guard: None,
            agent: None,
            grace_milliseconds: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX),
            host: here.host.clone(),
            boot_id: here.boot_id.clone(),
            pid_namespace: here.pid_namespace.clone(),
        }
    }

    /// Writes the record whole or not at all. It need not survive a crash of the machine, because
    /// no process does either.
    pub(super) fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        let (name, bytes) = (format!("{}.json", self.job), serde_json::to_vec(self)?);
        let mut left = WRITES;
        loop {
            left -= 1;
            match Folder::ours(folder).and_then(|folder| folder.put(&name, &bytes)) {
                // An agent that cleans the work tree removed the folder meanwhile. It is created
                // again.
                Err(why) if why.kind() == io::ErrorKind::NotFound && left > 0 => {}
                other => return other.map(|()| folder.join(name)),
            }
        }
    }

    /// Returns whether the record belongs to another machine or container, of which nothing is
    /// known here.
    fn is_elsewhere(&self) -> bool {
        self.host != here().host
            || (self.boot_id == here().boot_id && self.pid_namespace != here().pid_namespace)
    }

    fn is_of_earlier_boot(&self) -> bool {
        self.boot_id != here().boot_id
    }
}

/// The result of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Processes that were killed and are gone.
    pub ended: Vec<Leftover>,
    /// Processes that were killed but still exist.
    pub left: Vec<Leftover>,
    /// Files that are not our records. They were left alone.
    pub unreadable: Vec<PathBuf>,
}

/// A process that a dead harness had started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The run that it was started for.
    pub run_id: String,
    /// The process id at the time of the sweep.
    pub pid: u32,
}

/// Ends the processes that dead owners left. It blocks, for seconds if a process does not end.
pub fn sweep(folder: &Path) -> io::Result<Swept> {
    let mut swept = Swept::default();
    let Some(opened) = Folder::find(folder)? else { return Ok(swept) };
    for name in opened.names()?.into_iter().filter(|name| name.ends_with(".json")) {
        let read = opened.read(&name, RECORD_BYTES_MAX);
        let record = match read {
            // The owner was faster.
            Ok(Found::Nothing) => continue,
            Ok(Found::File(bytes, _)) => serde_json::from_slice::<Record>(&bytes).ok(),
            Ok(Found::TooLarge | Found::Other(_)) | Err(_) => None,
        };
        match record {
            Some(record) => sweep_one(&opened, &name, &record, &mut swept)?,
            None => swept.unreadable.push(folder.join(name)),
        }
    }
    Ok(swept)
}

/// Sweeps at once and then at intervals, on a thread that may block, and logs a warning for each
/// ended process. It runs inside a tokio runtime until it is dropped.
pub async fn keep_sweeping(folder: PathBuf, every: Duration) {
    let mut ticker = tokio::time::interval(every);
    ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticker.tick().await;
        let folder = folder.clone();
        match tokio::task::spawn_blocking(move || sweep(&folder)).await {
            Ok(Ok(swept)) => {
                for Leftover { pid, .. } in swept.ended {
                    tracing::warn!("ended a process that a killed run left: pid={pid}");
                }
            }
            Ok(Err(why)) => {
                tracing::warn!(%why, "cannot search for processes that a killed run left")
            }
            // This happens only when the runtime ends.
            Err(_) => return,
        }
    }
}

fn sweep_one(folder: &Folder, name: &str, record: &Record, swept: &mut Swept) -> io::Result<()> {
    if record.is_elsewhere() {
        return Ok(());
    }
    if !record.is_of_earlier_boot() {
        if record.owner.is_alive() {
            return Ok(());
        }
        // The guard does it better, because it also finds processes that gave up their environment.
        if let Some(guard) = record.guard.filter(|guard| guard.is_alive()) {
            let grace = Duration::from_millis(record.grace_milliseconds);
            wait_for_end(guard.pid, grace.saturating_add(GUARD_SLACK));
        }
        let ended = end_job(&record.job);
        let leftover = |pid: &u32| Leftover { run_id: record.run_id.clone(), pid: *pid };
        swept.ended.extend(ended.ended.iter().map(leftover));
        swept.left.extend(ended.left.iter().map(leftover));
        if !ended.left.is_empty() {
            return Ok(());
        }
    }
    folder.remove(name)
}

#[cfg(target_os = "linux")]
fn wait_for_end(pid: u32, at_most: Duration) {
    let Some(pid) = table::pid(pid) else { return };
    let none = rustix::process::PidfdFlags::empty();
    let Ok(pidfd) = rustix::process::pidfd_open(pid, none) else { return };
    let timeout = Timespec::try_from(at_most).ok();
    // If a signal interrupts the wait, it is a little shorter. The next step kills.
    let _ = rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], timeout.as_ref());
}

#[cfg(not(target_os = "linux"))]
fn wait_for_end(_: u32, _: Duration) {}

#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) ended: Vec<u32>,
    pub(super) left: Vec<u32>,
}

pub(super) fn end_job(job: &str) -> Ended {
    end(&format!("{JOB_VARIABLE}={job}"))
}

/// Kills all processes with this `NAME=value` in their environment and all their descendants, until
/// two looks find none. A process that was being forked during the first look shows in the second.
pub(super) fn end(variable: &str) -> Ended {
    let deadline = Instant::now() + KILLED;
    let (mut found, mut looks_without) = (Vec::new(), 0);
    loop {
        let running = table::carrying_with_descendants(variable);
        looks_without = if running.is_empty() { looks_without + 1 } else { 0 };
        if looks_without == 2 || Instant::now() >= deadline {
            let left: Vec<u32> = running.iter().map(|process| process.pid).collect();
            found.retain(|pid| !left.contains(pid));
            return Ended { ended: found, left };
        }
        for process in running {
            let _ = table::signal(process, Signal::KILL);
            if !found.contains(&process.pid) {
                found.push(process.pid);
            }
        }
        std::thread::sleep(POLL);
    }
}
