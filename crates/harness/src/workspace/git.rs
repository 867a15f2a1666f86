//! Runs `git` in a hardened way. An agent or a stranger may have written a repository's
//! configuration, so nothing that it names is executed.
//!
//! The git directory and the work tree are always passed explicitly. Otherwise a `core.worktree`
//! that an agent wrote would point a reset at another folder.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Seek, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{WorkspaceError, aside::Aside, mark::unmarked, memory::Memory};
use crate::process::program;

/// Settings that take precedence over every configuration file.
const HARDENED: [&str; 21] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=true",
    "core.askPass=",
    "core.safecrlf=false",
    "core.splitIndex=false",
    // Git does not sync loose objects by default, but a rescue must survive a power cut.
    "core.fsync=committed,reference",
    "core.fsyncMethod=batch",
    "commit.gpgSign=false",
    "credential.helper=",
    "diff.external=",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",
    "merge.directoryRenames=false",
    "merge.renames=false",
    "merge.renormalize=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    // An identity that is guessed from the host name belongs to nobody. It must be configured, or
    // ours.
    "user.useConfigOnly=true",
];

/// Variables of the caller that identify the user or locate the user's configuration. All other
/// `GIT_*` variables (of a hook or an alias that we run in) would redirect us.
const KEPT: [&str; 9] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
];

/// Hardened settings that would keep the user's own credentials from a server.
const OF_CREDENTIALS: [&str; 2] = ["core.askPass=", "credential.helper="];

/// Settings of calls over the network. Nothing is packed beside them.
const OVER_NETWORK: [&str; 3] =
    ["gc.auto=0", "maintenance.auto=false", "fetch.writeCommitGraph=false"];

/// The beginnings of variables by which the user chooses how git reaches a server.
const OF_NETWORK: [&str; 6] =
    ["GIT_SSH", "GIT_ASKPASS", "GIT_SSL_", "GIT_PROXY_", "GIT_HTTP_", "GIT_ALLOW_PROTOCOL"];

/// Whether a call may write to the repository or the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The call takes no lock, not even to refresh the index.
    Read,
    Write,
}

/// One repository and work tree.
#[derive(Debug, Clone)]
pub(super) struct Git {
    pub(super) top_level: PathBuf,
    pub(super) git_dir: PathBuf,
    /// Filter drivers that must not run.
    pub(super) silenced: Vec<OsString>,
    /// Further settings that take precedence over every configuration file.
    pub(super) settings: Vec<(OsString, OsString)>,
    /// The cache for this repository. Clones share it.
    pub(super) memory: Arc<Memory>,
    /// The place of objects if the git directory cannot be written.
    pub(super) aside: Option<Arc<Aside>>,
}

impl Git {
    /// Returns the git directory that linked work trees share.
    pub(super) fn common_dir(&self) -> PathBuf {
        match fs::read_to_string(self.git_dir.join("commondir")) {
            Ok(text) => {
                let common = self.git_dir.join(text.trim_end_matches('\n'));
                common.canonicalize().unwrap_or(common)
            }
            Err(_) => self.git_dir.clone(),
        }
    }

    /// Returns the folder for short-lived files of ours.
    pub(super) fn scratch_dir(&self) -> &Path {
        self.aside.as_ref().map_or(&self.git_dir, |aside| aside.path())
    }

    /// Returns the folder of all objects, those that were put aside included.
    pub(super) fn objects(&self) -> PathBuf {
        let own = || self.common_dir().join("objects");
        self.aside.as_ref().map_or_else(own, |aside| aside.objects())
    }

    pub(super) fn read(&self, command: &'static str) -> Call {
        self.call(Access::Read, command)
    }

    pub(super) fn write(&self, command: &'static str) -> Call {
        self.call(Access::Write, command)
    }

    fn call(&self, access: Access, command: &'static str) -> Call {
        let mut call = Call::anywhere(&self.top_level, access, command);
        call.command.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.top_level);
        if let Some(aside) = &self.aside {
            call.command.env("GIT_OBJECT_DIRECTORY", aside.objects());
        }
        self.silence(&mut call.command);
        call
    }

    /// Clears each silenced driver, and sets the further settings, through the environment, because
    /// `-c` cannot name a key with `=` in it.
    fn silence(&self, command: &mut Command) {
        let silent = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "0")];
        let silent = self.silenced.iter().flat_map(|driver| {
            silent.map(|(key, value)| {
                let mut name = OsString::from("filter.");
                name.push(driver);
                name.push(format!(".{key}"));
                (name, OsString::from(value))
            })
        });
        let mut count = 0;
        for (name, value) in silent.chain(self.settings.iter().cloned()) {
            command.env(format!("GIT_CONFIG_KEY_{count}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        if count > 0 {
            command.env("GIT_CONFIG_COUNT", count.to_string());
        }
    }
}

/// One command line that has not run yet.
pub(super) struct Call {
    command: Command,
    name: &'static str,
    directory: PathBuf,
    input: Option<Vec<u8>>,
    held: Option<std::fs::File>,
}

/// The result of a call.
pub(super) struct Ran {
    /// The exit code; `None` if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Call {
    /// Creates a call before the repository is known.
    pub(super) fn anywhere(directory: &Path, access: Access, name: &'static str) -> Self {
        let mut command = Self::hardened(directory, access, &HARDENED);
        command.arg(name);
        Self::of(command, name, directory)
    }

    /// Creates a call that talks to a server with the credentials and the programs of the user. The
    /// git directory must be one of ours, because its configuration counts.
    pub(super) fn over_network(directory: &Path, name: &'static str) -> Self {
        let settings = HARDENED.iter().filter(|setting| !OF_CREDENTIALS.contains(setting));
        let settings: Vec<_> = settings.chain(&OVER_NETWORK).copied().collect();
        let mut command = Self::hardened(directory, Access::Write, &settings);
        for (variable, value) in std::env::vars_os() {
            let shown = variable.to_string_lossy();
            if OF_NETWORK.iter().any(|begin| shown.starts_with(begin)) {
                command.env(&variable, value);
            }
        }
        command.arg(name);
        Self::of(command, name, directory)
    }

    fn hardened(directory: &Path, access: Access, settings: &[&str]) -> Command {
        let mut command = program::git();
        command.current_dir(directory);
        without_git_variables(&mut command);
        command.env("LC_ALL", "C");
        command.env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_PAGER", "cat");
        command.env("GIT_EDITOR", "true");
        // A missing object is an error here, never a reason to use the network.
        command.env("GIT_NO_LAZY_FETCH", "1");
        command.env("GIT_LITERAL_PATHSPECS", "1");
        if access == Access::Read {
            command.env("GIT_OPTIONAL_LOCKS", "0");
        }
        command.arg("--no-pager").arg("--no-replace-objects");
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        command
    }

    /// A call that sees the repository's configuration as it is. Only for commands that run nothing.
    pub(super) fn plain(directory: &Path, name: &'static str) -> Self {
        let mut command = program::git();
        command.current_dir(directory).env("LC_ALL", "C").arg(name);
        without_git_variables(&mut command);
        Self::of(command, name, directory)
    }

    /// Any program, run as git is.
    pub(super) fn of(command: Command, name: &'static str, directory: &Path) -> Self {
        Self { command, name, directory: directory.to_owned(), input: None, held: None }
    }

    pub(super) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(super) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(super) fn envs(mut self, variables: &[(&str, String)]) -> Self {
        self.command.envs(variables.iter().map(|(name, value)| (name, value)));
        self
    }

    /// Gives the program an open file as its standard input. A lock on that file then lasts as long
    /// as the program, even if this process is killed.
    pub(super) fn holding(mut self, file: File) -> Self {
        self.held = Some(file);
        self
    }

    /// Gives the program this input. A lock, if there is one, lasts as long as the program, even if this
    /// process is killed: the input goes through the locked file.
    pub(super) fn fed(self, bytes: Vec<u8>, lock: Option<&File>) -> io::Result<Self> {
        let Some(mut lock) = lock else { return Ok(self.input(bytes)) };
        lock.set_len(0)?;
        lock.rewind()?;
        lock.write_all(&bytes)?;
        lock.rewind()?;
        Ok(self.holding(lock.try_clone()?))
    }

    /// Uses another index than the user's.
    pub(super) fn index(self, file: &Path) -> Self {
        self.env("GIT_INDEX_FILE", file)
    }

    pub(super) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    pub(super) fn run(mut self) -> Result<Ran, WorkspaceError> {
        let input = self.input.take();
        self.command.stdin(match (&input, self.held.take()) {
            (Some(_), _) => Stdio::piped(),
            (None, Some(held)) => Stdio::from(held),
            (None, None) => Stdio::null(),
        });
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.command.spawn().map_err(|error| self.not_started(error))?;
        Begun { name: self.name, child: Some(child) }.end(input.unwrap_or_default())
    }

    /// Starts it. Its input follows with [`Begun::end`].
    pub(super) fn begin(mut self) -> Result<Begun, WorkspaceError> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.command.spawn().map_err(|error| self.not_started(error))?;
        Ok(Begun { name: self.name, child: Some(child) })
    }

    /// Runs it in a process group of its own, which is killed when the time is up; then the answer is
    /// `None`.
    pub(super) fn run_within(mut self, limit: Duration) -> Result<Option<Ran>, WorkspaceError> {
        let input = self.input.take();
        self.command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = self.command.spawn().map_err(|error| self.not_started(error))?;
        let group = Pid::from_child(&child);
        let (done, ended) = mpsc::channel::<()>();
        let watch = thread::spawn(move || {
            let late = ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if late {
                let _ = kill_process_group(group, Signal::KILL);
            }
            late
        });
        if let (Some(bytes), Some(mut pipe)) = (input, child.stdin.take()) {
            // A program that fails early closes its input; its own message says more.
            let _ = pipe.write_all(&bytes);
        }
        let output = child.wait_with_output();
        drop(done);
        let late = watch.join().unwrap_or(false);
        let output = output?;
        let (stdout, stderr) = (output.stdout, output.stderr);
        Ok((!late).then_some(Ran { code: output.status.code(), stdout, stderr }))
    }

    /// Runs it with its output going into `file`, for contents of any size.
    pub(super) fn run_into(mut self, file: File) -> Result<(), WorkspaceError> {
        self.command.stdin(Stdio::null()).stdout(Stdio::from(file)).stderr(Stdio::piped());
        let child = self.command.spawn().map_err(|error| self.not_started(error))?;
        let output = child.wait_with_output()?;
        if output.status.success() { Ok(()) } else { Err(failed(self.name, &output.stderr)) }
    }

    /// Returns its output, or the error that git printed.
    pub(super) fn output(self) -> Result<Vec<u8>, WorkspaceError> {
        let name = self.name;
        let ran = self.run()?;
        if ran.code == Some(0) { Ok(ran.stdout) } else { Err(failed(name, &ran.stderr)) }
    }

    /// Returns its output as one line.
    pub(super) fn line(self) -> Result<String, WorkspaceError> {
        let output = self.output()?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    /// Runs a command that answers by its exit code: 0 is yes, 1 is no.
    pub(super) fn answer(self) -> Result<bool, WorkspaceError> {
        let name = self.name;
        let ran = self.run()?;
        match ran.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            Some(_) | None => Err(failed(name, &ran.stderr)),
        }
    }

    /// Translates the error. "Not found" refers to git only if the directory exists.
    fn not_started(&self, error: io::Error) -> WorkspaceError {
        if error.kind() == io::ErrorKind::NotFound {
            if self.directory.is_dir() {
                return WorkspaceError::NoGit;
            }
            return WorkspaceError::NotARepository { path: self.directory.clone() };
        }
        error.into()
    }
}

/// A started program that waits for its input. If the value is dropped, the program gets none.
pub(super) struct Begun {
    name: &'static str,
    child: Option<Child>,
}

impl Begun {
    /// Gives the program its whole input and waits for its end.
    pub(super) fn end(mut self, input: Vec<u8>) -> Result<Ran, WorkspaceError> {
        let Some(mut child) = self.child.take() else { return Err(failed(self.name, b"")) };
        let (mut written, mut writer) = (Ok(()), None);
        match child.stdin.take() {
            // An empty pipe has room for this much.
            Some(mut pipe) if input.len() <= PIPE_BYTES => written = pipe.write_all(&input),
            // A longer input is written in parallel to reading, because git may answer before it
            // has read all of it.
            Some(mut pipe) => writer = Some(thread::spawn(move || pipe.write_all(&input))),
            None => {}
        }
        let output = child.wait_with_output()?;
        if let Some(writer) = writer {
            written = writer.join().unwrap_or_else(|_| Err(io::Error::other("writer died")));
        }
        // A git that failed early closed its input, and its own message says more.
        if output.status.success() {
            written?;
        }
        Ok(Ran { code: output.status.code(), stdout: output.stdout, stderr: output.stderr })
    }

    /// Does the same for a program without an output, or returns the error that it printed.
    pub(super) fn done(self, input: impl Into<Vec<u8>>) -> Result<(), WorkspaceError> {
        let name = self.name;
        let ran = self.end(input.into())?;
        if ran.code == Some(0) { Ok(()) } else { Err(failed(name, &ran.stderr)) }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// The bytes that fit into an empty pipe on every system.
const PIPE_BYTES: usize = 4096;

/// Takes away the variables that would redirect git, and the mark of an agent around us.
pub(super) fn without_git_variables(command: &mut Command) {
    for (variable, value) in std::env::vars_os() {
        let git = variable.to_string_lossy().starts_with("GIT_");
        let withheld = variable.to_str().is_some_and(crate::process::is_withheld);
        if withheld || git && !KEPT.iter().any(|kept| variable == *kept) {
            command.env_remove(variable);
        } else if variable == "GIT_COMMITTER_NAME" {
            let name = value.to_string_lossy();
            command.env(variable, unmarked(&name));
        }
    }
}

/// The most that is kept of what git printed on standard error.
const DETAIL_BYTES: usize = 2048;

pub(super) fn failed(command: &str, stderr: &[u8]) -> WorkspaceError {
    let start = stderr.len().saturating_sub(DETAIL_BYTES);
    let detail = String::from_utf8_lossy(&stderr[start..]).trim().to_owned();
    let detail = if detail.is_empty() { "no message".to_owned() } else { detail };
    WorkspaceError::Git { command: command.to_owned(), detail }
}
