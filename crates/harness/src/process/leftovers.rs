//! What a killed harness left running, found and ended by the next one.
//!
//! Before a guard is started a record of its job is written; when nothing of the job is left it is
//! removed. A record whose owner is dead names a job that may still run: every process that carries
//! the job's unique `HARNESS_JOB` in its environment is ended, and no other is ever touched.

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

/// How often we look while killed ones end.
const POLL: Duration = Duration::from_millis(10);
/// How long the kernel gets to end what was killed.
const KILLED: Duration = Duration::from_secs(5);
/// How long a guard gets beyond the grace that it gives its agent.
const GUARD_SLACK: Duration = Duration::from_secs(2);

/// How often a record is written whose folder vanishes meanwhile.
const WRITES: u32 = 5;
/// Ours are far smaller.
const RECORD_BYTES_MAX: u64 = 64 * 1024;

/// A process, told from a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The system gives it out again.
    pub pid: u32,
    /// From boot to its start, in clock ticks; `None` where the system does not tell.
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
                // Where the system does not tell, it counts as alive: we end nothing on a guess.
                start_ticks.is_none()
                    || self.start_ticks.is_none()
                    || start_ticks == self.start_ticks
            }
        }
    }
}

/// One job, as it stands in a file of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// `HARNESS_JOB` of its processes, and the name of the file.
    pub job: String,
    /// For people: what was left is told by run.
    pub run_id: String,
    /// The harness that started it.
    pub owner: Process,
    /// `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Process>,
    /// `None` until it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Process>,
    /// Between TERM and KILL: a sweep waits this long, and a little more, for a guard that lives.
    pub grace_milliseconds: u64,
    /// Within which the numbers mean anything.
    pub host: String,
    /// Nothing survives a boot. `None` where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// `None` where the system does not tell.
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

    /// Whole or not at all. It need not survive a crash of the machine: no process does either.
    pub(super) fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        let (name, bytes) = (format!("{}.json", self.job), serde_json::to_vec(self)?);
        let mut left = WRITES;
        loop {
            left -= 1;
            match Folder::ours(folder).and_then(|folder| folder.put(&name, &bytes)) {
                // An agent that cleans the work tree removed the folder meanwhile: it is made anew.
                Err(why) if why.kind() == io::ErrorKind::NotFound && left > 0 => {}
                other => return other.map(|()| folder.join(name)),
            }
        }
    }

    /// Another machine's or container's, of which we can say nothing.
    fn is_elsewhere(&self) -> bool {
        self.host != here().host
            || (self.boot_id == here().boot_id && self.pid_namespace != here().pid_namespace)
    }

    fn is_of_earlier_boot(&self) -> bool {
        self.boot_id != here().boot_id
    }
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// They were killed, and are gone.
    pub ended: Vec<Leftover>,
    /// Killed, and still there.
    pub left: Vec<Leftover>,
    /// Files that are no records of ours; they were left alone.
    pub unreadable: Vec<PathBuf>,
}

/// A process that a dead harness had started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Of the run that it was started for.
    pub run_id: String,
    /// At the time of the sweep.
    pub pid: u32,
}

/// Ends what dead owners left. It blocks, for seconds where something does not end.
pub fn sweep(folder: &Path) -> io::Result<Swept> {
    let mut swept = Swept::default();
    let Some(opened) = Folder::find(folder)? else { return Ok(swept) };
    for name in opened.names()?.into_iter().filter(|name| name.ends_with(".json")) {
        let read = opened.read(&name, RECORD_BYTES_MAX);
        let record = match read {
            // Its owner was quicker.
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

/// Sweeps at once and then every so often, on a thread that may block, and warns of what it ended.
/// Inside a tokio runtime, until it is dropped.
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
            // Only when the runtime ends.
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
        // The guard does it better: it finds those too that gave up their environment.
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
    // Cut short by a signal it is a little less patient; what follows kills.
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

/// Kills all that carry this `NAME=value` in their environment, and all that came of them, until two
/// looks find none: one that was being forked during the first shows in the second.
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
