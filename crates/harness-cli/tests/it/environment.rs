//! A world of its own for one test: home, XDG directories, a project, git's identity and clock.
//!
//! ```ignore
//! let env = TestEnvironment::with_git();           // or `new()`: a directory without git
//! env.write("harness.toml", "agent = 'codex'\n");  // below env.root(), directories are made
//! env.run(["config", "agent"]).success().stdout_contains("codex");
//! env.run(["trust"]).code(1).stderr_contains("harness init");
//! let env = env.variable("HARNESS_WORKER_ID", "w"); // for all later runs
//! assert_snapshot!(env.run(["config"]).success().output(), @"…");
//! ```
//!
//! The machine does not influence a test: only PATH of the caller's environment is kept, git reads
//! only the test's configuration and has a fixed author and date, and there is no terminal (stdin
//! is empty). No daemon is started unless a test asks for it (`with_daemon`). `output()`, `stdout`
//! and `stderr` are *normalised*, for snapshots: the project is `[ROOT]`, the home `[HOME]`, a time
//! `[TIME]`, a generated worker id `[WORKER]`, a pid `[PID]`. Snapshots are inline only
//! (`insta::assert_snapshot!(text, @"…")`); `cargo insta accept` fills them in, or the failing test
//! shows the text to paste.

#![allow(dead_code, reason = "not every method has a test that needs it yet")]

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::LazyLock,
};

use regex::Regex;

pub(crate) struct TestEnvironment {
    /// The directory is removed when the test ends.
    _directory: tempfile::TempDir,
    home: PathBuf,
    root: PathBuf,
    variables: BTreeMap<OsString, OsString>,
}

impl TestEnvironment {
    /// Creates an empty home and an empty project directory that is no git repository.
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("harness-test-").tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (home, root) = (top.join("home"), top.join("project"));
        for made in ["home/tmp", "home/run", "project"] {
            fs::create_dir_all(top.join(made)).unwrap();
        }
        fs::write(home.join("gitconfig"), "[init]\n\tdefaultBranch = main\n").unwrap();
        let below_home = |name: &str| home.join(name).into_os_string();
        let variables = [
            ("PATH", std::env::var_os("PATH").unwrap()),
            ("HOME", home.clone().into_os_string()),
            ("TMPDIR", below_home("tmp")),
            ("XDG_CONFIG_HOME", below_home(".config")),
            ("XDG_STATE_HOME", below_home(".local/state")),
            ("XDG_DATA_HOME", below_home(".local/share")),
            ("XDG_CACHE_HOME", below_home(".cache")),
            ("XDG_RUNTIME_DIR", below_home("run")),
            ("LANG", "C.UTF-8".into()),
            ("TZ", "UTC".into()),
            ("GIT_CONFIG_GLOBAL", below_home("gitconfig")),
            ("GIT_CONFIG_SYSTEM", "/dev/null".into()),
            // The search for a repository ends here, wherever the temporary directory is.
            ("GIT_CEILING_DIRECTORIES", top.clone().into_os_string()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("GIT_AUTHOR_NAME", "Test Author".into()),
            ("GIT_AUTHOR_EMAIL", "author@example.com".into()),
            ("GIT_AUTHOR_DATE", "2025-07-01T10:00:00Z".into()),
            ("GIT_COMMITTER_NAME", "Test Committer".into()),
            ("GIT_COMMITTER_EMAIL", "committer@example.com".into()),
            ("GIT_COMMITTER_DATE", "2025-07-01T10:00:00Z".into()),
            // Commands neither start a daemon nor use one; see `with_daemon`.
            ("HARNESS_DAEMON", "off".into()),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value)).into();
        Self { _directory: directory, home, root, variables }
    }

    /// Creates the same with a git repository of one empty commit.
    pub(crate) fn with_git() -> Self {
        let env = Self::new();
        env.git(["init", "--quiet"]);
        env.git(["commit", "--quiet", "--allow-empty", "--message", "start"]);
        env
    }

    /// Creates a repository with an empty ledger, in which the worker `w` does everything.
    pub(crate) fn of_worker() -> Self {
        let env = Self::with_git().variable("HARNESS_WORKER_ID", "w");
        env.run(["init"]).success();
        env
    }

    /// Returns one task of the ledger, counting from 0.
    pub(crate) fn task(&self, n: usize) -> serde_json::Value {
        let ledger = self.read("harness-tasks.json");
        let ledger: serde_json::Value = serde_json::from_str(&ledger).unwrap();
        ledger["tasks"][n].clone()
    }

    /// Lets commands use a host, and start a daemon if there is none. It ends with the test.
    pub(crate) fn with_daemon(self) -> Self {
        // A daemon may be slow on a busy machine.
        let env = self.without_variable("HARNESS_DAEMON").variable("HARNESS_TIMEOUT", "60");
        env.variable("HARNESS_ACP", "off")
    }

    /// Kills the host of the project, as a crash would. Returns whether there was one.
    pub(crate) fn kill_host(&self) -> bool {
        let path = self.root.join(".harness/daemon.lock");
        let Ok(lock) = fs::File::options().read(true).write(true).open(&path) else { return false };
        if lock.try_lock().is_ok() {
            return false;
        }
        let pid: i32 = fs::read_to_string(&path).unwrap_or_default().trim().parse().unwrap_or(0);
        if pid > 1 {
            let pid = nix::unistd::Pid::from_raw(pid);
            _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            // The kernel releases the lock when it is dead.
            _ = lock.lock();
        }
        true
    }

    /// Sets a variable for all later runs.
    pub(crate) fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.insert(name.into(), value.as_ref().to_owned());
        self
    }

    /// Removes a variable, which may be one of the usual ones.
    pub(crate) fn without_variable(mut self, name: &str) -> Self {
        self.variables.remove(OsStr::new(name));
        self
    }

    /// Returns the project, in which commands run.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Writes a file. A relative path is below the project. Directories are created.
    pub(crate) fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> &Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        self
    }

    /// Reads a file. A relative path is below the project.
    #[track_caller]
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.root.join(path);
        fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    }

    pub(crate) fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.root.join(path).symlink_metadata().is_ok()
    }

    /// Runs git in the project, which must succeed. Returns its output without the last newline.
    #[track_caller]
    pub(crate) fn git<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let output = self.program("git").args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Runs `harness ARGS` in the project to its end, with nothing on stdin.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ran {
        self.run_in("", args)
    }

    /// Runs it in another directory. A relative one is below the project.
    pub(crate) fn run_in<A: AsRef<OsStr>>(
        &self,
        directory: impl AsRef<Path>,
        args: impl IntoIterator<Item = A>,
    ) -> Ran {
        let mut command = self.harness(args);
        self.ran(command.current_dir(self.root.join(directory)).output().unwrap())
    }

    /// Runs it with `input` on stdin.
    pub(crate) fn run_with_input<A: AsRef<OsStr>>(
        &self,
        input: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Ran {
        let mut command = self.harness(args);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program may end without reading all of it. Then this fails, which is no problem.
        _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        self.ran(child.wait_with_output().unwrap())
    }

    /// Returns the command `harness ARGS`, not yet started, for tests that communicate with it or
    /// kill it.
    pub(crate) fn harness<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_harness"));
        command.args(args);
        command
    }

    /// Returns a command for any program in this world.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).env_clear().envs(&self.variables).stdin(Stdio::null());
        command
    }

    /// Returns the text without the parts that differ from run to run.
    pub(crate) fn normalise(&self, text: &str) -> String {
        static TIME: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)").unwrap()
        });
        static WORKER: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\bworker-[0-9a-f]{12}\b").unwrap());
        static PID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bpid=\d+").unwrap());
        let text = text.replace(self.root.to_str().unwrap(), "[ROOT]");
        let text = text.replace(self.home.to_str().unwrap(), "[HOME]");
        let text = TIME.replace_all(&text, "[TIME]");
        let text = WORKER.replace_all(&text, "[WORKER]");
        PID.replace_all(&text, "pid=[PID]").into_owned()
    }

    /// Returns the result of a command that was created with `harness` or `program`.
    pub(crate) fn ran(&self, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        let (raw_stdout, raw_stderr) = (text(output.stdout), text(output.stderr));
        Ran {
            code: output.status.code(),
            stdout: self.normalise(&raw_stdout),
            stderr: self.normalise(&raw_stderr),
            raw_stdout,
        }
    }
}

impl Drop for TestEnvironment {
    /// Removes the files that the lock leaves beside itself, which are useless without the project.
    fn drop(&mut self) {
        self.kill_host();
        let hash = harness::home::root_hash(&self.root);
        _ = fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"));
    }
}

/// The end of a command. The checks can be chained. Each failure shows all output of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; `None` if a signal killed it.
    code: Option<i32>,
    stdout: String,
    stderr: String,
    raw_stdout: String,
}

impl Ran {
    /// Checks for exit 0, and for nothing on stderr except warnings.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert!(!self.stderr.contains("Error:"), "{self}");
        self.code(0)
    }

    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, Some(expected), "{self}");
        self
    }

    pub(crate) fn ended_with(&self, codes: &[i32]) -> bool {
        self.code.is_some_and(|code| codes.contains(&code))
    }

    /// Checks that standard output is exactly this, except for a last newline.
    #[track_caller]
    pub(crate) fn stdout(self, expected: &str) -> Self {
        assert_eq!(self.stdout.trim_end(), expected.trim_end(), "{self}");
        self
    }

    /// Checks that standard error is exactly this, except for a last newline.
    #[track_caller]
    pub(crate) fn stderr(self, expected: &str) -> Self {
        assert_eq!(self.stderr.trim_end(), expected.trim_end(), "{self}");
        self
    }

    #[track_caller]
    pub(crate) fn stdout_contains(self, expected: &str) -> Self {
        assert!(self.stdout.contains(expected), "no {expected:?} on stdout\n{self}");
        self
    }

    #[track_caller]
    pub(crate) fn stderr_contains(self, expected: &str) -> Self {
        assert!(self.stderr.contains(expected), "no {expected:?} on stderr\n{self}");
        self
    }

    /// Returns standard output as one JSON document, with paths and times unchanged.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.raw_stdout).unwrap_or_else(|why| panic!("{why}\n{self}"))
    }

    /// Returns standard output unchanged, without its last newline, for ids and paths that are used
    /// later.
    pub(crate) fn raw(&self) -> &str {
        self.raw_stdout.trim_end_matches('\n')
    }

    /// Returns standard output, normalised.
    pub(crate) fn output(&self) -> &str {
        &self.stdout
    }

    /// Returns standard error, normalised.
    pub(crate) fn errors(&self) -> &str {
        &self.stderr
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, stdout, stderr, .. } = self;
        write!(f, "exit {code:?}\n--- stdout\n{stdout}--- stderr\n{stderr}---")
    }
}
