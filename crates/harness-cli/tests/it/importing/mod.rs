//! `harness import` and `harness export`, on repositories in the shape of the real tools.

mod kinds;
mod services;
mod sync;
mod trusted;

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use crate::environment::TestEnvironment;

const OPENSPEC: &str = "## 1. Model\n\n- [ ] 1.1 Add the file (`test -f one`)\n- [x] 1.2 Done before\n\n\
    ## 2. Rest\n\n- [ ] 2.1 Write the rest\n  Validate: `test -f two`\n";

/// Creates a repository with an OpenSpec change.
fn openspec() -> TestEnvironment {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    env.write("openspec/changes/add-x/tasks.md", OPENSPEC);
    env.write("openspec/changes/add-x/proposal.md", "Why\n");
    env.write("openspec/changes/archive/2025-01-01-old/tasks.md", "- [ ] 1.1 Old\n");
    env.git(["add", "."]);
    env.git(["commit", "--quiet", "--message", "a change"]);
    env
}

/// Puts a program of this name first on PATH. It appends its arguments to a file, which is returned.
fn stand_in(env: TestEnvironment, name: &str, body: &str) -> (TestEnvironment, PathBuf) {
    let folder = env.home().join("bin");
    fs::create_dir_all(&folder).unwrap();
    let calls = env.home().join(format!("{name}.calls"));
    let program = folder.join(name);
    let log = format!("printf '%s\\n' \"$*\" >> '{}'", calls.display());
    fs::write(&program, format!("#!/bin/sh\n{log}\n{body}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let env = env.variable("PATH", format!("{}:{path}", folder.display()));
    (env, calls)
}

/// Completes the next task through its check.
fn complete(env: &TestEnvironment, id: &str) {
    env.run(["task", "claim"]).success().stdout_contains(id);
    env.run(["task", "complete", "--id", id]).success();
}
