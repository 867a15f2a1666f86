//! What recovery looks at.

use harness_core::{TaskId, Timestamp};

use super::{
    Base, Evidence, WorkspaceError,
    git::{Git, failed},
    names_task,
    object::commit_id,
    own::OwnFiles,
    path::records,
    snapshot::Snapshot,
    untracked,
};

pub(super) fn evidence(
    git: &Git,
    own: &OwnFiles,
    task: &TaskId,
    base: &Base,
    claimed_at: Timestamp,
) -> Result<Evidence, WorkspaceError> {
    let snapshot = Snapshot::take(git, own)?;
    let look = &snapshot.look;
    let head = look.commit()?;
    let (mut task_commits, mut foreign_commits) = (Vec::new(), Vec::new());
    if head != base.commit {
        for (commit, message) in commits_since(git, base)? {
            let list =
                if names_task(&message, task) { &mut task_commits } else { &mut foreign_commits };
            list.push(commit_id(&commit)?);
        }
    }
    let recorded = untracked::recorded(git, base.untracked.as_ref())?;
    let unchanged = untracked::unchanged(git, &recorded, &look.untracked)?;
    let new = look.untracked.iter().any(|path| !unchanged.contains(path));
    let uncommitted = new || !look.changed.is_empty();
    let moved = head != base.commit || look.branch != base.branch;
    Ok(Evidence {
        uncommitted,
        untouched: !uncommitted && !moved && untracked::all_there(&recorded, &unchanged),
        task_commits,
        foreign_commits,
        tree: snapshot.tree,
        head,
        stashes: stashes_since(git, claimed_at)?,
    })
}

/// Id and message of each, newest first.
fn commits_since(git: &Git, base: &Base) -> Result<Vec<(String, String)>, WorkspaceError> {
    let kind = git.read("cat-file").args(["-t", base.commit.as_str()]).run()?;
    if kind.code != Some(0) || kind.stdout != b"commit\n" {
        return Err(WorkspaceError::NoSuchCommit { commit: base.commit.clone() });
    }
    let call = git.read("log").args(["-z", "--format=%H%n%B", "HEAD"]);
    let output = call.arg(format!("^{}", base.commit)).output()?;
    let commits = records(&output).map(|record| {
        let text = String::from_utf8_lossy(record);
        let (commit, message) = text.split_once('\n')?;
        Some((commit.to_owned(), message.to_owned()))
    });
    commits.collect::<Option<_>>().ok_or_else(|| failed("log", b"unexpected output"))
}

fn stashes_since(git: &Git, since: Timestamp) -> Result<Vec<String>, WorkspaceError> {
    let output = git.read("stash").args(["list", "-z", "--format=%ct %gs"]).output()?;
    let stashes = records(&output).filter_map(|record| {
        let text = String::from_utf8_lossy(record);
        let (seconds, subject) = text.split_once(' ')?;
        let when = Timestamp::from_seconds(seconds.parse().ok()?);
        (when >= since).then(|| subject.to_owned())
    });
    Ok(stashes.collect())
}
