//! The files of a state root, with one row for each name and place.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use harness_core::{format, handoff};
use sha2::{Digest as _, Sha256};

/// The paths of the files of a state root. It opens and creates nothing.
///
/// Every file has a constant, its path from the root for messages, and a method, its full path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home<'a> {
    root: &'a Path,
}

macro_rules! files {
    ($($(#[$doc:meta])* $constant:ident, $method:ident: $path:expr;)*) => {
        impl Home<'_> {
            $($(#[$doc])* pub const $constant: &'static str = $path;)*

            $($(#[$doc])* #[must_use]
            pub fn $method(&self) -> PathBuf {
                self.root.join(Self::$constant)
            })*
        }
    };
}

files! {
    /// The ledger.
    LEDGER, ledger: format::FILE_NAME;
    /// The version of the ledger before the last change.
    BACKUP, backup: "harness-tasks.json.bak";
    /// The next version of the ledger, while it is written.
    TMP, tmp: "harness-tasks.json.tmp";
    /// The progress log.
    LOG, log: "harness-progress.txt";
    /// The marker of a root with work to do.
    MARKER, marker: ".harness-active";
    /// The marker by which a hook asks an agent to look back.
    REFLECT, reflect: ".harness-reflect";
    /// The counter of a hook that kept an agent from stopping.
    STOP_COUNTER, stop_counter: ".harness-stop-counter";
    /// The script that prepares a session. It belongs to the user.
    INIT_SCRIPT, init_script: "harness-init.sh";
    /// The configuration of the project. It belongs to the user.
    CONFIG, config: "harness.toml";
    /// The folder for the notes of agents.
    STATE, state: "state";
    /// The notes of an agent for its next context.
    HANDOFF, handoff: handoff::PATH;
    /// The folder of harness.
    FOLDER, folder: ".harness";
    /// Keeps the folder out of git.
    GITIGNORE, gitignore: ".harness/.gitignore";
    /// The file whose OS lock is the second lock of the root.
    LOCK, lock: ".harness/lock";
    /// The schema of harness.toml, for editors.
    SCHEMA, schema: ".harness/harness.schema.json";
    /// The trajectory: every fact as a JSON object.
    TRAJECTORY, trajectory: ".harness/trajectory.jsonl";
    /// The record of runs.
    DATABASE, database: ".harness/harness.db";
    /// The folder of receipts.
    RECEIPTS, receipts: ".harness/receipts";
    /// The folder of the reports of runs.
    RUNS, runs: ".harness/runs";
    /// The folder of the pull requests that runs opened.
    PULL_REQUESTS, pull_requests: ".harness/pull-requests";
    /// The folder of the output of agents.
    TRANSCRIPTS, transcripts: ".harness/transcripts";
    /// The folder of the output of failed checks.
    FAILURES, failures: ".harness/failures";
    /// The gate of a phase that stayed closed when it was last tried.
    GATE, gate: ".harness/gate.json";
    /// The copy of a ledger in a database.
    MIRROR, mirror: ".harness/mirror.json";
    /// The folder of versions that were replaced.
    ARCHIVE, archive: ".harness/archive";
    /// The folder of the records of running processes.
    PROCESSES, processes: ".harness/processes";
    /// The folder of the project's own templates of prompts.
    PROMPTS, prompts: ".harness/prompts";
    /// The folder of the workers at work.
    WORKERS, workers: ".harness/workers";
    /// The folder of the work trees of workers.
    WORKTREES, worktrees: ".harness/worktrees";
    /// The folder of the hooks.
    HOOKS, hooks: ".harness/hooks";
    /// The output of a run in the background.
    RUN_LOG, run_log: ".harness/run.log";
    /// The output of a daemon in the background.
    DAEMON_LOG, daemon_log: ".harness/daemon.log";
    /// The file whose OS lock makes a host the only one of the root.
    DAEMON_LOCK, daemon_lock: ".harness/daemon.lock";
    /// The socket, if another user occupies its usual place.
    DAEMON_SOCKET, daemon_socket: ".harness/daemon.sock";
    /// The file that names the socket of the host.
    SOCKET_NAME, socket_name: ".harness/socket";
}

impl<'a> Home<'a> {
    /// The files of harness in a state root besides [`FOLDER`](Self::FOLDER): never committed,
    /// never cleaned, never reset.
    pub const OWN_FILES: [&'static str; 8] = [
        Self::LEDGER,
        Self::BACKUP,
        Self::TMP,
        Self::LOG,
        Self::MARKER,
        Self::REFLECT,
        Self::STOP_COUNTER,
        Self::HANDOFF,
    ];

    /// Returns the paths of `root`.
    #[must_use]
    pub fn of(root: &'a Path) -> Self {
        Self { root }
    }

    /// Returns the first lock of the root, a directory that scripts can create too. The root must
    /// be canonical.
    #[must_use]
    pub fn lock_directory(&self) -> PathBuf {
        format!("/tmp/harness-{}.lock", root_hash(self.root)).into()
    }

    /// Returns the file whose OS lock puts processes that wait for
    /// [`lock_directory`](Self::lock_directory) in a line.
    #[must_use]
    pub fn lock_guard(&self) -> PathBuf {
        format!("/tmp/harness-{}.lock.guard", root_hash(self.root)).into()
    }

    /// Returns the name of the socket in the folder of all sockets of this user. The root must be
    /// canonical.
    #[must_use]
    pub fn socket_file(&self) -> String {
        format!("harness-{}.sock", root_hash(self.root))
    }
}

/// Returns the last component of one of the constants of [`Home`].
#[must_use]
pub const fn file_name(path: &'static str) -> &'static str {
    let bytes = path.as_bytes();
    let mut at = bytes.len();
    while at > 0 && bytes[at - 1] != b'/' {
        at -= 1;
    }
    path.split_at(at).1
}

/// Returns the folder of all sockets of this user, if `XDG_RUNTIME_DIR` names none.
#[must_use]
pub fn socket_folder() -> PathBuf {
    PathBuf::from(format!("/tmp/harness-{}", rustix::process::getuid().as_raw()))
}

/// Returns the 16 hexadecimal digits that stand for a state root in `/tmp`. `root` must be
/// canonical.
#[must_use]
pub fn root_hash(root: &Path) -> String {
    let digest = Sha256::digest(root.as_os_str().as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_published_protocol() {
        // Expected value: printf '%s' /home/me/project | sha256sum | cut -c1-16
        assert_eq!(root_hash(Path::new("/home/me/project")), "225df3094012a213");
    }

    #[test]
    fn a_file_is_where_its_name_says() {
        let home = Home::of(Path::new("/home/me/project"));
        assert_eq!(home.ledger(), Path::new("/home/me/project/harness-tasks.json"));
        assert_eq!(home.lock(), home.folder().join(file_name(Home::LOCK)));
        assert_eq!(home.handoff(), home.state().join(file_name(Home::HANDOFF)));
        assert_eq!(file_name(Home::MARKER), ".harness-active");
        assert_eq!(home.lock_directory(), Path::new("/tmp/harness-225df3094012a213.lock"));
        assert_eq!(home.lock_guard(), Path::new("/tmp/harness-225df3094012a213.lock.guard"));
    }
}
