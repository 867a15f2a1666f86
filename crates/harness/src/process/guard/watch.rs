//! The work of a guard: it waits, and ends the tree when it is time.

use std::{
    io::{self, PipeReader, Read as _},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::OFlags,
    io::Errno,
    net::RecvFlags,
    process::{Pid, Signal, WaitOptions, WaitStatus},
};

use super::{
    agent,
    wire::{Inbox, Launch, Report},
};
use crate::process::{
    JOB_VARIABLE,
    group::notice_of_exit,
    table::{self, Entry},
};

/// The interval of looks at the tree while it is being killed. A process that forks meanwhile is
/// found at the next look.
const SWEEP_POLL: Duration = Duration::from_millis(10);
/// The time that the kernel gets to end killed processes. A process that hangs in a dead file
/// server, or belongs to another user by now, is reported instead.
const KILLED: Duration = Duration::from_secs(5);

/// The means by which a guard learns of the ends of processes.
#[derive(Debug)]
pub(in crate::process) enum Means {
    /// A process of its own, which adopts all orphans of the tree. It has no child left exactly
    /// when nothing of the tree is left.
    Process { children: PipeReader, asked: PipeReader },
    /// A thread of harness, which may not reap children that are not its own.
    Thread,
}

/// Guards one agent from the order to launch it until nothing of it is left.
pub(in crate::process) fn guard(control: UnixStream, means: Means) -> io::Result<()> {
    let mut inbox = Inbox::new(control);
    let Some((launch, streams)) = inbox.launch()? else {
        return Ok(());
    };
    let pid = match agent::start(&launch, streams) {
        Ok(pid) => pid,
        Err(refused) => {
            inbox.report(&refused);
            return Ok(());
        }
    };
    inbox.report(&Report::Started { pid });
    let id = table::pid(pid).ok_or(io::ErrorKind::InvalidData)?;
    let notice = match &means {
        Means::Process { .. } => None,
        Means::Thread => Some(notice_of_exit(id)?),
    };
    let tree = Tree { agent: id, is_reaped: false, own: format!("{JOB_VARIABLE}={}", launch.job) };
    Watch { inbox, means, notice, tree, launch, phase: Phase::Running }.run()
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Running,
    Terminating { kill_at: Instant },
    Killing { give_up_at: Instant },
    Over,
}

#[derive(Debug)]
struct Watch {
    inbox: Inbox,
    means: Means,
    /// The notice of the agent's end, if it does not come as a signal.
    notice: Option<OwnedFd>,
    tree: Tree,
    launch: Launch,
    phase: Phase,
}

impl Watch {
    fn run(mut self) -> io::Result<()> {
        loop {
            match self.turn() {
                Ok(None) => {}
                Ok(Some(left)) => {
                    self.inbox.report(&Report::Cleared { left });
                    return Ok(());
                }
                // A guard that cannot watch any more kills the tree.
                Err(e) => {
                    self.tree.signal(&self.means, Signal::KILL);
                    return Err(e);
                }
            }
        }
    }

    /// Handles one event. After the last one, returns the processes that are left.
    fn turn(&mut self) -> io::Result<Option<Vec<u32>>> {
        self.wait()?;
        let asked = self.asked();
        let is_empty = self.reap()?;
        self.phase = self.advance(asked, is_empty);
        Ok(match self.phase {
            Phase::Over if is_empty => Some(Vec::new()),
            Phase::Over => {
                Some(self.tree.members(&self.means).iter().map(|process| process.pid).collect())
            }
            Phase::Running | Phase::Terminating { .. } | Phase::Killing { .. } => None,
        })
    }

    /// Waits until something happens or a timer ends.
    fn wait(&self) -> io::Result<()> {
        let mut polled = Vec::new();
        polled.extend(self.inbox.socket().map(|socket| PollFd::new(socket, PollFlags::IN)));
        match &self.means {
            Means::Process { children, asked } => {
                polled.push(PollFd::new(children, PollFlags::IN));
                polled.push(PollFd::new(asked, PollFlags::IN));
            }
            Means::Thread => {
                polled.extend(self.notice.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
            }
        }
        let left = self.timer().and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Returns the longest time until the next look.
    fn timer(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running => None,
            Phase::Terminating { kill_at } => {
                let left = kill_at.saturating_duration_since(Instant::now());
                // A thread of harness gets no notice when the last process of the tree ends.
                let is_told = matches!(self.means, Means::Process { .. }) && HAS_SUBREAPER;
                Some(if is_told || !self.tree.is_reaped { left } else { left.min(SWEEP_POLL) })
            }
            Phase::Killing { .. } => Some(SWEEP_POLL),
            Phase::Over => Some(Duration::ZERO),
        }
    }

    /// Returns the grace for ending the tree, if an end was requested.
    fn asked(&mut self) -> Option<Duration> {
        let mut grace: Option<Duration> = None;
        let default = Duration::from_millis(self.launch.grace_milliseconds);
        if let Means::Process { children, asked } = &mut self.means {
            let _ = drained(children);
            if drained(asked) {
                grace = Some(default);
            }
        }
        if self.inbox.socket().is_some() {
            match self.orders() {
                Ok(None) => {}
                Ok(Some(this)) => grace = Some(grace.map_or(this, |other| other.min(this))),
                // An order that we cannot parse does not come from a known harness.
                Err(_) => grace = Some(Duration::ZERO),
            }
        }
        if self.inbox.socket().is_none() && matches!(self.phase, Phase::Running) {
            return Some(grace.unwrap_or(default));
        }
        grace
    }

    fn orders(&mut self) -> io::Result<Option<Duration>> {
        self.inbox.receive(RecvFlags::DONTWAIT)?;
        let mut shortest = None;
        while let Some(stop) = self.inbox.stop()? {
            let this = Duration::from_millis(stop.grace_milliseconds);
            shortest = Some(shortest.map_or(this, |other: Duration| other.min(this)));
        }
        Ok(shortest)
    }

    /// Takes the statuses of ended processes. Returns whether nothing of the tree is left.
    fn reap(&mut self) -> io::Result<bool> {
        let agent = self.tree.agent;
        loop {
            let reaped = match self.means {
                Means::Process { .. } => rustix::process::wait(WaitOptions::NOHANG),
                Means::Thread if self.tree.is_reaped => Err(Errno::CHILD),
                Means::Thread => rustix::process::waitpid(Some(agent), WaitOptions::NOHANG),
            };
            match reaped {
                Ok(Some((pid, status))) if pid == agent => {
                    self.tree.is_reaped = true;
                    self.notice = None;
                    self.inbox.report(&exited(status));
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Ok(false),
                Err(Errno::CHILD) => return Ok(self.tree.is_empty(&self.means)),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn advance(&self, asked: Option<Duration>, is_empty: bool) -> Phase {
        if is_empty {
            return Phase::Over;
        }
        let now = Instant::now();
        let default = Duration::from_millis(self.launch.grace_milliseconds);
        match (self.phase, asked) {
            (Phase::Running, Some(grace)) => self.terminate(now, grace),
            // The agent has ended by itself and left processes behind.
            (Phase::Running, None) if self.tree.is_reaped => self.terminate(now, default),
            (Phase::Terminating { kill_at }, asked) => {
                let kill_at = asked.map_or(kill_at, |grace| kill_at.min(now + grace));
                if now >= kill_at {
                    self.kill(now + KILLED)
                } else {
                    Phase::Terminating { kill_at }
                }
            }
            (Phase::Killing { give_up_at }, _) if now < give_up_at => self.kill(give_up_at),
            (Phase::Killing { .. } | Phase::Over, _) => Phase::Over,
            (Phase::Running, None) => Phase::Running,
        }
    }

    fn terminate(&self, now: Instant, grace: Duration) -> Phase {
        if grace.is_zero() {
            return self.kill(now + KILLED);
        }
        self.tree.signal(&self.means, Signal::TERM);
        // A stopped process must continue before it can receive the signal.
        self.tree.signal(&self.means, Signal::CONT);
        Phase::Terminating { kill_at: now + grace }
    }

    fn kill(&self, give_up_at: Instant) -> Phase {
        self.tree.signal(&self.means, Signal::KILL);
        Phase::Killing { give_up_at }
    }
}

const HAS_SUBREAPER: bool = cfg!(target_os = "linux");

/// The agent and all its descendants.
#[derive(Debug)]
struct Tree {
    agent: Pid,
    /// `true` if the agent was reaped. Its id may then belong to another process.
    is_reaped: bool,
    /// The `NAME=value` that its members were started with.
    own: String,
}

impl Tree {
    fn members(&self, means: &Means) -> Vec<Entry> {
        match means {
            Means::Process { .. } => table::descendants(std::process::id()),
            Means::Thread => {
                let mut members = table::carrying(&self.own);
                if !self.is_reaped {
                    let agent = self.agent.as_raw_nonzero().get().unsigned_abs();
                    let mut others = table::descendants(agent);
                    others.extend(table::entry(agent));
                    others.retain(|process| !members.contains(process));
                    members.extend(others);
                }
                members
            }
        }
    }

    /// Returns whether nothing is left, after the agent was reaped and no other child remains.
    fn is_empty(&self, means: &Means) -> bool {
        match means {
            Means::Process { .. } if HAS_SUBREAPER => true,
            Means::Process { .. } => !self.has_group(),
            Means::Thread => !self.has_group() && self.members(means).is_empty(),
        }
    }

    /// Returns whether the group still exists. Where we do not adopt orphans, the group is all that
    /// we know of them. Its id is not reused as long as it has a member.
    fn has_group(&self) -> bool {
        !HAS_SUBREAPER && rustix::process::test_kill_process_group(self.agent).is_ok()
    }

    /// Sends a signal to all members. A member that cannot be reached is among those left in the
    /// end.
    fn signal(&self, means: &Means, signal: Signal) {
        if !self.is_reaped || self.has_group() {
            let _ = rustix::process::kill_process_group(self.agent, signal);
        }
        for process in self.members(means) {
            let _ = table::signal(process, signal);
        }
    }
}

fn exited(status: WaitStatus) -> Report {
    Report::Exited { code: status.exit_status(), signal: status.terminating_signal() }
}

/// Empties a pipe that only signals that something happened. Returns whether it did.
fn drained(pipe: &mut PipeReader) -> bool {
    let (mut some, mut bytes) = (false, [0; 64]);
    while let Ok(1..) = pipe.read(&mut bytes) {
        some = true;
    }
    some
}

pub(super) fn never_block(pipe: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(pipe)?;
    Ok(rustix::fs::fcntl_setfl(pipe.as_fd(), flags | OFlags::NONBLOCK)?)
}
