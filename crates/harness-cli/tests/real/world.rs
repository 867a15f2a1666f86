//! A project, a real agent and a scripted model.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use harness_sim::model::{Model, Script};
use serde_json::Value;

use crate::environment::TestEnvironment;

/// A time limit that no step reaches.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Returns the folder in which the agents are installed.
fn agents() -> PathBuf {
    let folder = std::env::var_os("HARNESS_REAL_AGENTS");
    let folder = folder.expect("HARNESS_REAL_AGENTS is not set: cargo xtask test --real-agents");
    PathBuf::from(folder)
}

/// Returns `PATH` with the agents of these names before all others.
pub(crate) fn path_with(names: &[&str]) -> std::ffi::OsString {
    let bins = names.iter().map(|agent| {
        let bin = agents().join(agent).join("node_modules/.bin");
        assert!(bin.join(agent).exists(), "{} is not there", bin.join(agent).display());
        bin
    });
    let path = std::env::var_os("PATH").unwrap();
    std::env::join_paths(bins.chain(std::env::split_paths(&path))).unwrap()
}

pub(crate) struct World {
    pub(crate) env: TestEnvironment,
    pub(crate) model: Model,
}

impl World {
    /// Creates a world. `script` may name files of the project, and `set_up` gives the agent the
    /// address of its model.
    pub(crate) fn new(
        script: impl FnOnce(&Path) -> Script,
        set_up: impl FnOnce(TestEnvironment, &str) -> TestEnvironment,
    ) -> World {
        let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
        let model = Model::start(script(env.root())).unwrap();
        let env = set_up(env, &model.url());
        begin(&env);
        World { env, model }
    }

    /// Returns the row of the newest run without a parent.
    pub(crate) fn run_row(&self) -> Value {
        let runs = self.env.run(["runs", "list", "--json"]).success().json();
        runs["runs"][0].clone()
    }

    /// Checks that the recorded usage is the one that the model served.
    pub(crate) fn tokens_agree(&self) -> Value {
        let cost = self.env.run(["runs", "cost", "--json"]).success().json();
        let served = self.model.served();
        let recorded = [&cost["total"]["input_tokens"], &cost["total"]["output_tokens"]];
        assert_eq!(recorded, [served.input_tokens, served.output_tokens], "{cost}");
        cost["total"].clone()
    }

    /// Starts `harness` and does not wait.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.env.harness(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }
}

/// Creates the ledger and trusts the configuration that was there before.
pub(crate) fn begin(env: &TestEnvironment) {
    env.run(["init"]).success();
    env.run(["trust", "--yes"]).success();
}

/// Writes and commits `harness.toml`, because a run over the ledger needs a clean tree.
pub(crate) fn configure(env: &TestEnvironment, text: &str) {
    env.write("harness.toml", text);
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "configuration"]);
}

/// Returns the processes whose environment has this variable, or whose command line has these
/// words.
pub(crate) fn processes_with(words: &str) -> Vec<String> {
    let of = |pid: &Path, file: &str| {
        String::from_utf8_lossy(&fs::read(pid.join(file)).unwrap_or_default()).into_owned()
    };
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let named = all.filter(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit())
    });
    named
        .filter(|pid| of(pid, "environ").contains(words))
        .map(|pid| format!("{}: {}", pid.display(), of(&pid, "cmdline").replace('\0', " ")))
        .collect()
}

/// Waits until a condition is true.
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is_true() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::yield_now();
    }
}

/// Finds every file below `folder` that contains these bytes.
pub(crate) fn files_with(folder: &Path, needle: &[u8], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            files_with(&path, needle, found);
        } else if fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
        {
            found.push(path);
        }
    }
}
