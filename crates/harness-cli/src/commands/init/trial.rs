//! Tries the project's check, in the work tree and in a clean checkout.

use std::{
    io::{self, Write as _},
    path::Path,
};

use harness::{
    check::{Check, Checked},
    process::Redactor,
    shell::{Cancel, SystemShell},
    workspace::{Bring, Workspace as _, glance},
};
use harness_core::{
    CommitId,
    check::Verdict,
    project::{ProjectCheck, Trial, TrialRun},
    task::CHECK_TIMEOUT_SECONDS,
    variables::Variables,
};

use super::in_git;
use crate::{
    failure::Result, invocation::Invocation, paint::visible, root::StateRoot, trust::Trust,
};

/// The number of lines of a failed check that are shown.
const SHOWN_LINES: usize = 10;

/// Runs the check as tasks would run it, with the same time limit. Ctrl-C ends only the trial.
pub(super) fn trial(
    invocation: &Invocation,
    root: &StateRoot,
    tree: &Path,
    found: &ProjectCheck,
) -> Result<Trial> {
    let trusted = Trust::of_user(&invocation.env).and_then(|trust| trust.is_trusted(root));
    if !trusted.unwrap_or(false) {
        let why = "it was not tried, because the repository is not trusted";
        return Ok(Trial::Skipped { why: why.to_owned() });
    }
    let secrets = invocation.secrets(root);
    let shell = SystemShell { secrets: Some(secrets.clone()), ..SystemShell::default() };
    let cancel = invocation.interrupt.request()?;
    let check = Check {
        command: found.command.clone(),
        timeout_seconds: CHECK_TIMEOUT_SECONDS,
        environment: Variables::of_root(root.path().display()).list(),
    };
    say(&format!(
        "Trying `{}` in the work tree (at most {CHECK_TIMEOUT_SECONDS} s; Ctrl-C ends only the trial) …",
        found.command
    ));
    let checked = check.run_in(&shell, tree, &cancel)?;
    let work_tree = ended(&check, &checked, &secrets);
    if work_tree.verdict != Verdict::Passed {
        return Ok(Trial::WorkTree { work_tree, why: String::new() });
    }
    let without = |why: String| Trial::WorkTree { work_tree: work_tree.clone(), why };
    if !in_git(root.path()) {
        return Ok(without("there is no repository for a clean checkout".to_owned()));
    }
    let Some(commit) = glance::head(tree) else {
        return Ok(without("there is no commit yet for a clean checkout".to_owned()));
    };
    match clean(invocation, root, found, &check, &shell, &commit, &cancel) {
        Ok((checked, commit)) => {
            let clean = ended(&check, &checked, &secrets);
            Ok(Trial::Both { work_tree, clean, commit })
        }
        Err(why) => Ok(without(format!("a clean checkout could not be made: {}", why.error))),
    }
}

/// Returns the result of the check in a clean checkout, and the commit of that checkout.
fn clean(
    invocation: &Invocation,
    root: &StateRoot,
    found: &ProjectCheck,
    check: &Check,
    shell: &SystemShell,
    commit: &CommitId,
    cancel: &Cancel,
) -> Result<(Checked, String)> {
    let link = found.link.iter().map(Into::into).collect();
    let workspace = invocation.workspace(root)?.bringing(Bring { link, copy: Vec::new() });
    say(&format!("Trying `{}` in a clean checkout of {} …", found.command, short(commit)));
    let checked = check.run_clean(shell, &workspace, root.path(), commit, cancel)?;
    let status = workspace.status()?;
    let lacks_nothing = status.changed.is_empty() && status.untracked.is_empty();
    let words = match checked.verdict == Verdict::Passed || lacks_nothing {
        true => short(commit).to_owned(),
        false => format!("{}, which lacks what is not committed here", short(commit)),
    };
    Ok((checked, words))
}

fn short(commit: &CommitId) -> &str {
    commit.as_str().get(..7).unwrap_or(commit.as_str())
}

fn ended(check: &Check, checked: &Checked, secrets: &Redactor) -> TrialRun {
    let seconds = checked.record(check).duration_ms.div_ceil(1000);
    match &checked.verdict {
        Verdict::Passed => say("  passed"),
        verdict => {
            let text = secrets.bytes(&checked.ran.tail);
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<_> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
                say(&format!("  | {line}"));
            }
            say(&format!("  {}", verdict.complaint().unwrap_or_default()));
        }
    }
    TrialRun { verdict: checked.verdict.clone(), seconds, limit_seconds: check.timeout_seconds }
}

fn say(line: &str) {
    _ = writeln!(io::stderr(), "{}", visible(line));
}
