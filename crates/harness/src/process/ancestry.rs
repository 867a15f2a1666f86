//! Determines the role of a process in a state root by its ancestors and its environment, never by
//! what it reports.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use harness_core::{
    Epoch, TaskId, WorkerId,
    role::{Attempt, Author, Role},
    variables,
};

use sha2::{Digest as _, Sha256};

use super::{
    JOB_VARIABLE, ROOT_VARIABLE,
    guard::Label,
    table::{self, Entry},
};
use crate::home::root_hash;

/// Variables that an agent's own interactive session sets for the processes that it starts.
const OF_A_SESSION: [&str; 4] =
    ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "CODEX_SANDBOX"];
/// The limit of walks. A walk starts again if a link vanished meanwhile.
const WALKS_MAX: usize = 50;
/// A depth that no process tree reaches.
const DEPTH_MAX: usize = 4096;

/// A process in relation to a state root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its process id in our namespace; 0 if it has none there.
    pub pid: u32,
    /// Its permissions.
    pub role: Role,
    /// The attempt that it was started for.
    pub attempt: Option<Attempt>,
    /// The worker id, if its environment contains one.
    pub worker: Option<WorkerId>,
    /// Its machine, if that is another one.
    pub machine: Option<String>,
}

impl Peer {
    /// Looks up the process with this id, which may have ended. A process that cannot be attributed
    /// is a worker: it has ended, or belongs to another namespace. On a system that lists no
    /// processes, nothing can be attributed, and the claims of peers are the only source.
    #[must_use]
    pub fn of(pid: u32, root: &Path) -> Peer {
        Peer::listed(&Proc, pid, root)
    }

    fn listed(processes: &impl Processes, pid: u32, root: &Path) -> Peer {
        if !processes.are_shown() {
            return Peer::operator(pid);
        }
        let hash = root_hash(root);
        match above(processes, pid, &hash) {
            Above::Guard(label) => Peer::below(pid, &label),
            Above::Nobody => match processes.environment(pid) {
                Some(environment) => {
                    let peer = Peer::by_environment(pid, root, &hash, |name| {
                        environment.iter().find(|(other, _)| other == name).map(|(_, v)| v.clone())
                    });
                    match peer.role {
                        Role::Operator if !processes.is_in_our_namespace(pid) => Peer::worker(pid),
                        Role::Operator | Role::Worker | Role::Agent => peer,
                    }
                }
                None => Peer::worker(pid),
            },
            Above::Unknown => Peer::worker(pid),
        }
    }

    /// Looks up this process, with variables from `variable`.
    #[must_use]
    pub fn myself(root: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Peer {
        let (pid, hash) = (std::process::id(), root_hash(root));
        match above(&Proc, listed_as().unwrap_or(pid), &hash) {
            Above::Guard(label) => Peer::below(pid, &label),
            // If processes cannot be listed, the environment is the only source.
            Above::Nobody | Above::Unknown => Peer::by_environment(pid, root, &hash, variable),
        }
    }

    fn by_environment(
        pid: u32,
        root: &Path,
        hash: &str,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Peer {
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        let is_ours = variable(JOB_VARIABLE).is_some_and(|job| {
            let pinned = variable(ROOT_VARIABLE);
            is_job_of(&job, pinned.as_deref(), root, hash)
        });
        if is_ours {
            let task = text(variables::TASK).and_then(|task| TaskId::parse(&task).ok());
            let epoch = text(variables::EPOCH).and_then(|epoch| epoch.parse().ok());
            let attempt = task.zip(epoch);
            return Peer::agent(pid, attempt.map(|(task, n)| Attempt { task, epoch: Epoch(n) }));
        }
        let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
        let peer = match OF_A_SESSION.iter().find(|name| is_set(name)) {
            Some(_) => Peer::worker(pid),
            None => Peer::operator(pid),
        };
        let named = text(variables::WORKER).filter(|id| !id.is_empty());
        let session = || text("CODEX_THREAD_ID").or_else(|| text("CLAUDE_CODE_SESSION_ID"));
        let worker = named.or_else(|| session().map(|session| worker_of(&session)));
        Peer { worker: worker.and_then(|id| WorkerId::parse(&id).ok()), ..peer }
    }

    fn operator(pid: u32) -> Peer {
        Peer { pid, role: Role::Operator, attempt: None, worker: None, machine: None }
    }

    /// Returns this process as an operator, for what it does by itself.
    #[must_use]
    pub fn operator_here() -> Peer {
        Peer::operator(std::process::id())
    }

    /// Returns an operator on another machine, where its role was checked.
    #[must_use]
    pub fn operator_on(machine: &str, pid: u32) -> Peer {
        Peer { machine: Some(machine.to_owned()), ..Peer::operator(pid) }
    }

    fn worker(pid: u32) -> Peer {
        Peer { pid, role: Role::Worker, attempt: None, worker: None, machine: None }
    }

    fn agent(pid: u32, attempt: Option<Attempt>) -> Peer {
        Peer { pid, role: Role::Agent, attempt, worker: None, machine: None }
    }

    fn below(pid: u32, guard: &Label) -> Peer {
        Peer::agent(pid, guard.attempt.as_deref().and_then(Attempt::parse))
    }

    /// Limits its role to `role`, for a process that acts for an agent's session.
    #[must_use]
    pub fn at_most(self, role: Role) -> Peer {
        match (self.role, role) {
            (Role::Operator, lesser) => Peer { role: lesser, ..self },
            (Role::Worker, Role::Agent) => Peer { role, ..self },
            (Role::Worker | Role::Agent, _) => self,
        }
    }

    /// Returns the author for commands and the log.
    #[must_use]
    pub fn author(&self) -> Author {
        Author { role: self.role, pid: self.pid, attempt: self.attempt.clone() }
    }

    /// Returns the author with its machine, for people.
    #[must_use]
    pub fn named(&self) -> String {
        match &self.machine {
            Some(machine) => format!("{} on {machine}", self.author()),
            None => self.author().to_string(),
        }
    }
}

/// Returns the worker name for an agent's session.
fn worker_of(session: &str) -> String {
    let digest = Sha256::digest(session.as_bytes());
    digest.iter().take(6).fold("worker-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// Returns whether the mark of a job belongs to this root. Its first part identifies the root. The
/// mark of an older version or of another program has no such part, and counts together with the
/// pinned root.
fn is_job_of(job: &OsStr, pinned: Option<&OsStr>, root: &Path, hash: &str) -> bool {
    if job.is_empty() {
        return false;
    }
    let is_hash = |part: &str| part.len() == 16 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let named = job.to_str().and_then(|job| job.split_once('.')).map(|(first, _)| first);
    match named.filter(|first| is_hash(first)) {
        Some(first) => first == hash,
        None => pinned.is_some_and(|pinned| {
            let pinned = Path::new(pinned);
            pinned == root || pinned.canonicalize().is_ok_and(|pinned| pinned == root)
        }),
    }
}

enum Above {
    /// A guard of this root is above.
    Guard(Label),
    Nobody,
    /// The process is gone, or its ancestors are not known.
    Unknown,
}

/// The processes that the system shows. If it shows none, every result is `None`.
trait Processes {
    fn entry(&self, pid: u32) -> Option<Entry>;
    fn command_line(&self, pid: u32) -> Option<Vec<u8>>;
    /// Returns the environment that it was started with.
    fn environment(&self, pid: u32) -> Option<Vec<(OsString, OsString)>>;
    fn is_in_our_namespace(&self, pid: u32) -> bool;
    /// Returns whether this system shows processes at all.
    fn are_shown(&self) -> bool;
}

/// The processes of this machine.
struct Proc;

impl Processes for Proc {
    fn entry(&self, pid: u32) -> Option<Entry> {
        table::entry(pid)
    }

    fn command_line(&self, pid: u32) -> Option<Vec<u8>> {
        fs::read(format!("/proc/{pid}/cmdline")).ok()
    }

    fn environment(&self, pid: u32) -> Option<Vec<(OsString, OsString)>> {
        let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            Some((text(&pair[..at]), text(&pair[at + 1..])))
        });
        Some(pairs.collect())
    }

    fn are_shown(&self) -> bool {
        cfg!(target_os = "linux")
    }

    fn is_in_our_namespace(&self, pid: u32) -> bool {
        let theirs = fs::read_link(format!("/proc/{pid}/ns/pid"));
        let ours = || fs::read_link("/proc/self/ns/pid");
        theirs.is_ok_and(|theirs| ours().is_ok_and(|ours| ours == theirs))
    }
}

fn above(processes: &impl Processes, pid: u32, hash: &str) -> Above {
    for _ in 0..WALKS_MAX {
        let Some(peer) = processes.entry(pid) else { return Above::Unknown };
        if let Some(found) = walk(processes, peer, hash) {
            return found;
        }
    }
    Above::Unknown
}

/// Walks from a process upward. Returns `None` if a link vanished meanwhile.
fn walk(processes: &impl Processes, peer: Entry, hash: &str) -> Option<Above> {
    let mut child = peer;
    for _ in 0..DEPTH_MAX {
        // The kernel and the processes that it starts have no parent.
        if child.parent == 0 {
            return Some(Above::Nobody);
        }
        let Some(parent) = processes.entry(child.parent) else {
            // A parent that ends hands its children on. A parent that stays and is not shown to us
            // belongs to another user, but guards are ours.
            return (processes.entry(child.pid)? == child).then_some(Above::Nobody);
        };
        let command_line = processes.command_line(parent.pid).unwrap_or_default();
        // It is the parent only if it started first and still exists.
        if parent.start_ticks > child.start_ticks
            || processes.entry(child.pid)? != child
            || processes.entry(parent.pid)?.start_ticks != parent.start_ticks
        {
            return None;
        }
        match Label::read(&command_line) {
            Some(label) if label.root.as_deref() == Some(hash) => return Some(Above::Guard(label)),
            Some(_) | None => child = parent,
        }
    }
    Some(Above::Unknown)
}

/// Returns the id of this process in the list of processes, which in a container may be that of
/// another namespace.
fn listed_as() -> Option<u32> {
    fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const ROOT: &str = "/home/me/project";
    const HASH: &str = "225df3094012a213";

    fn role(pairs: &[(&str, &str)]) -> (Role, Option<String>) {
        let peer = Peer::by_environment(1, Path::new(ROOT), HASH, |name| {
            pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into())
        });
        (peer.role, peer.attempt.map(|attempt| attempt.to_string()))
    }

    #[test]
    fn an_environment_tells_agents_and_workers_from_the_operator() {
        let ours = format!("{HASH}.x");
        for (pairs, expected) in [
            (&[][..], Role::Operator),
            (&[("HARNESS_WORKER_ID", "w")], Role::Operator),
            (&[("HARNESS_JOB", &ours)], Role::Agent),
            (
                &[("HARNESS_JOB", "0000000000000000.x"), ("HARNESS_STATE_ROOT", ROOT)],
                Role::Operator,
            ),
            (&[("HARNESS_JOB", "x"), ("HARNESS_STATE_ROOT", ROOT)], Role::Agent),
            (&[("HARNESS_JOB", "x"), ("HARNESS_STATE_ROOT", "/elsewhere")], Role::Operator),
            (&[("HARNESS_JOB", "x")], Role::Operator),
            (&[("HARNESS_STATE_ROOT", ROOT)], Role::Operator),
            (&[("CLAUDECODE", "1")], Role::Worker),
            (&[("CLAUDECODE", "")], Role::Operator),
            (&[("CLAUDE_CODE_SESSION_ID", "s")], Role::Worker),
            (&[("CODEX_THREAD_ID", "t")], Role::Worker),
            (&[("CODEX_SANDBOX", "seatbelt")], Role::Worker),
            (&[("CLAUDECODE", "1"), ("HARNESS_JOB", &ours)], Role::Agent),
        ] {
            assert_eq!(role(pairs).0, expected, "{pairs:?}");
        }
        let attempt = [("HARNESS_JOB", &*ours), ("HARNESS_TASK_ID", "a"), ("HARNESS_EPOCH", "3")];
        assert_eq!(role(&attempt), (Role::Agent, Some("a.3".to_owned())));
    }

    #[test]
    fn nobody_gains_by_saying_what_they_are() {
        let (operator, worker, agent) = (Peer::operator(1), Peer::worker(1), Peer::agent(1, None));
        assert_eq!(operator.clone().at_most(Role::Worker).role, Role::Worker);
        assert_eq!(operator.at_most(Role::Operator).role, Role::Operator);
        assert_eq!(worker.clone().at_most(Role::Operator).role, Role::Worker);
        assert_eq!(worker.at_most(Role::Agent).role, Role::Agent);
        assert_eq!(agent.at_most(Role::Worker).role, Role::Agent);
    }

    /// A system that shows these processes: id, parent and environment.
    struct Shown(&'static [(u32, u32, Variables)]);

    type Variables = &'static [(&'static str, &'static str)];

    impl Processes for Shown {
        fn entry(&self, pid: u32) -> Option<Entry> {
            let (pid, parent, _) = self.0.iter().find(|(of, _, _)| *of == pid)?;
            Some(Entry { pid: *pid, parent: *parent, start_ticks: u64::from(*pid) })
        }

        fn command_line(&self, _: u32) -> Option<Vec<u8>> {
            None
        }

        fn environment(&self, pid: u32) -> Option<Vec<(OsString, OsString)>> {
            let (_, _, pairs) = self.0.iter().find(|(of, _, _)| *of == pid)?;
            Some(pairs.iter().map(|(name, value)| (name.into(), value.into())).collect())
        }

        fn is_in_our_namespace(&self, _: u32) -> bool {
            true
        }

        fn are_shown(&self) -> bool {
            !self.0.is_empty()
        }
    }

    #[test]
    fn where_processes_cannot_be_listed_peers_are_what_they_say() {
        let role = |shown: &Shown, pid| Peer::listed(shown, pid, Path::new(ROOT)).role;
        let shown = Shown(&[(1, 0, &[]), (7, 1, &[]), (8, 7, &[("CLAUDECODE", "1")])]);
        assert_eq!(role(&shown, 7), Role::Operator);
        assert_eq!(role(&shown, 8), Role::Worker);
        assert_eq!(role(&shown, 9), Role::Worker, "it is gone");
        let unlisted = Peer::listed(&Shown(&[]), 7, Path::new(ROOT));
        assert_eq!(unlisted.clone().at_most(Role::Operator).role, Role::Operator);
        assert_eq!(unlisted.at_most(Role::Agent).role, Role::Agent);
        // For a command that works on the files, its own environment decides.
        let ours = format!("{HASH}.x");
        for (mark, expected) in [(None, Role::Operator), (Some(ours), Role::Agent)] {
            let peer = Peer::by_environment(7, Path::new(ROOT), HASH, |name| {
                mark.as_ref().filter(|_| name == JOB_VARIABLE).map(Into::into)
            });
            assert_eq!(peer.role, expected);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn one_that_is_gone_is_a_worker() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(Peer::of(pid, Path::new(ROOT)).role, Role::Worker);
        assert_eq!(Peer::of(0, Path::new(ROOT)).role, Role::Worker);
    }
}
