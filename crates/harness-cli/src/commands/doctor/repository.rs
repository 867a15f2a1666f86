//! The repository that a session would work in.

use std::path::Path;

use super::{finding::Finding, programs};
use crate::environment::Environment;

/// Nothing that the repository configures is run.
const STATUS: &str = "-c core.hooksPath=/dev/null -c core.fsmonitor=false \
    status --porcelain=v2 --branch --untracked-files=no --ignore-submodules=dirty";

pub(super) fn check(env: &Environment, directory: &Path) -> Finding {
    const CHECK: &str = "repository";
    let Some(git) = programs::find(env, "git") else {
        return Finding::warn(CHECK, "not looked at, there is no git", "install git");
    };
    let text = match programs::output(&git, STATUS, directory) {
        Ok(text) => text,
        Err(why) if why.contains("not a git repository") => {
            return Finding::warn(
                CHECK,
                "not a git repository",
                "`harness run` needs one: `git init`, and a first commit",
            );
        }
        Err(why) => return Finding::fail(CHECK, why, "see what `git status` says"),
    };
    let header = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    if header("# branch.oid ") == Some("(initial)") {
        let mend = "make one: `git commit --allow-empty -m start`";
        return Finding::warn(CHECK, "no commit yet", mend);
    }
    let head = match header("# branch.head ") {
        None | Some("(detached)") => "detached HEAD".to_owned(),
        Some(branch) => format!("branch {branch}"),
    };
    // Our own files never make a tree dirty.
    let ours = |line: &&str| {
        let path = line.rsplit(' ').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("harness-tasks.json")
            || matches!(name, "harness-progress.txt" | ".harness-active")
            || path.contains(".harness/")
    };
    let lines = || text.lines().filter(|line| !line.starts_with('#'));
    let unmerged = lines().filter(|line| line.starts_with("u ")).count();
    if unmerged > 0 {
        let what = format!("{head}, {unmerged} files with conflicts");
        return Finding::fail(CHECK, what, "finish or abort the merge");
    }
    match lines().filter(|line| !ours(line)).count() {
        0 => Finding::ok(CHECK, format!("{head}, clean")),
        changed => {
            let files = if changed == 1 { "file" } else { "files" };
            Finding::warn(
                CHECK,
                format!("{head}, {changed} {files} with uncommitted changes"),
                "commit or stash them: `harness run` starts on a clean tree only",
            )
        }
    }
}
