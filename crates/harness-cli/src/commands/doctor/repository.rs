//! The repository that a session would work in.

use std::path::Path;

use harness::workspace::{Filters, GitWorkspace, Overview, WorkspaceError};

use super::{finding::Finding, programs};
use crate::{environment::Environment, failure::Failure};

const CHECK: &str = "repository";

/// Checks the repository with the same hardened git as everything else: nothing that the repository
/// configures is run, and no `GIT_DIR` of the caller redirects it.
pub(super) fn check(env: &Environment, directory: &Path, filters: Filters) -> Finding {
    if programs::find(env, "git").is_none() {
        return Finding::warn(CHECK, "not checked, there is no git", "install git");
    }
    let found = GitWorkspace::discover(directory, directory, filters);
    match found.and_then(|repository| repository.overview()) {
        Ok(overview) => judge(&overview),
        Err(WorkspaceError::NotARepository { .. }) => Finding::warn(
            CHECK,
            "not a git repository",
            "`harness run` needs one: `git init`, and a first commit",
        ),
        Err(why) => {
            let mut failure = Failure::from(why);
            if failure.hints.is_empty() {
                failure = failure.hint("see `git status`");
            }
            Finding::failure(CHECK, &failure)
        }
    }
}

fn judge(overview: &Overview) -> Finding {
    if overview.head.is_none() {
        let fix = "create one: `git commit --allow-empty -m start`";
        return Finding::warn(CHECK, "no commit yet", fix);
    }
    let head = match &overview.branch {
        None => "detached HEAD".to_owned(),
        Some(branch) => format!("branch {branch}"),
    };
    let files = |count: usize| if count == 1 { "file" } else { "files" };
    match (overview.unmerged, overview.changed) {
        (0, 0) => Finding::ok(CHECK, format!("{head}, clean")),
        (0, changed) => Finding::warn(
            CHECK,
            format!("{head}, {changed} {} with uncommitted changes", files(changed)),
            "commit or stash them: `harness run` needs a clean tree",
        ),
        (unmerged, _) => Finding::fail(
            CHECK,
            format!("{head}, {unmerged} {} with conflicts", files(unmerged)),
            "finish or abort the merge",
        ),
    }
}
