//! The process group of one command, which is started, watched and ended as a whole.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::{Child, Command, ExitStatus},
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions},
};

/// A process group. If it is dropped before its end, it is killed, so that nothing of it outlives
/// the call that started it.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Child,
    id: Pid,
    exited: OwnedFd,
    stage: Stage,
}

/// The part that is left to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    All,
    /// The leader has ended.
    Others,
    Nothing,
}

impl Group {
    /// Starts `command`, which must be set up to create its own group.
    pub(crate) fn start(command: &mut Command) -> io::Result<Group> {
        let mut leader = command.spawn()?;
        let id = Pid::from_child(&leader);
        match notice_of_exit(id) {
            Ok(exited) => Ok(Group { leader, id, exited, stage: Stage::All }),
            Err(e) => {
                let _ = rustix::process::kill_process_group(id, Signal::KILL);
                leader.wait()?;
                Err(e)
            }
        }
    }

    /// Returns a descriptor that is readable, or hung up, once the leader has ended.
    pub(crate) fn exited(&self) -> BorrowedFd<'_> {
        self.exited.as_fd()
    }

    /// Asks the whole group to end. A stopped process must continue before it can receive the
    /// signal.
    pub(crate) fn terminate(&self) -> io::Result<()> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Sends a signal to the whole group. It is not an error if nothing is left.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::kill_process_group(self.id, signal) {
            // macOS returns EPERM if only dead processes are left.
            Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes the leader's status. It does not block after [`Group::exited`] is ready. From then on,
    /// only the remaining members keep the id of the group reserved.
    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.leader.wait()?;
        self.stage = Stage::Others;
        Ok(status)
    }

    /// Returns whether a process of the group still runs after the leader was reaped.
    pub(crate) fn has_leftovers(&self) -> bool {
        match rustix::process::test_kill_process_group(self.id) {
            Err(_) => false,
            // Orphans that ended may never be reaped in a container. They do not count.
            Ok(()) => any_running(self.id).unwrap_or(true),
        }
    }

    /// Records that nothing is left. The id may belong to another group from now on.
    pub(crate) fn has_ended(&mut self) {
        self.stage = Stage::Nothing;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        match self.stage {
            Stage::All => {
                let _ = self.kill();
                let _ = self.leader.wait();
            }
            Stage::Others if self.has_leftovers() => {
                let _ = self.kill();
            }
            Stage::Others | Stage::Nothing => {}
        }
    }
}

/// Returns a descriptor that wakes a poll when the process has ended, and does not reap it.
pub(crate) fn notice_of_exit(pid: Pid) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    if let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        return Ok(pidfd);
    }
    // This is for macOS, and for kernels or sandboxes without pidfd.
    waiter(pid)
}

fn waiter(pid: Pid) -> io::Result<OwnedFd> {
    let (reader, writer) = io::pipe()?;
    thread::Builder::new().name("exit-waiter".to_owned()).spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options) {}
        drop(writer);
    })?;
    Ok(reader.into())
}

/// Returns whether a process of the group is more than a zombie; `None` if there is no `/proc`.
fn any_running(group: Pid) -> Option<bool> {
    let group = group.as_raw_nonzero().to_string();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        // A process that ends while we look does not run.
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else {
            continue;
        };
        let stat = String::from_utf8_lossy(&stat);
        let Some((_, fields)) = stat.rsplit_once(") ") else {
            continue;
        };
        let mut fields = fields.split(' ');
        let (state, of) = (fields.next(), fields.nth(1));
        if of == Some(group.as_str()) && !matches!(state, Some("Z" | "X")) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::CommandExt as _, process::Stdio};

    use super::*;

    #[test]
    fn without_a_pidfd_a_thread_waits() {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).process_group(0);
        let mut group = Group::start(&mut command).unwrap();
        group.exited = waiter(group.id).unwrap();
        drop(group.leader.stdin.take());
        let mut polled = [rustix::event::PollFd::new(&group.exited, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, None).unwrap();
        assert!(group.reap().unwrap().success());
        assert!(!group.has_leftovers());
    }

    #[test]
    fn a_group_that_is_dropped_is_gone() {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).process_group(0);
        let group = Group::start(&mut command).unwrap();
        let id = group.id;
        drop(group);
        assert!(rustix::process::test_kill_process_group(id).is_err());
    }
}
