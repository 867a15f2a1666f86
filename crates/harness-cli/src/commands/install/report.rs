//! The report of `install` and `uninstall`: as words, as a diff and as JSON.

use serde_json::json;

use super::{
    Agent, Installation, Scope, Target,
    change::{self, Change},
};
use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    paint::{one_line, visible},
};

/// The words with which the two commands describe their work.
pub(super) struct Words {
    did: &'static str,
    already: &'static str,
    /// The advice for a user who wants to undo the edits of a page.
    way_out: &'static str,
    is_install: bool,
}

impl Words {
    pub(super) const INSTALL: Self = Self {
        did: "installed",
        already: "already installed",
        way_out: "move it away for a new one",
        is_install: true,
    };
    pub(super) const UNINSTALL: Self = Self {
        did: "uninstalled",
        already: "nothing is installed",
        way_out: "remove it if you do not want it",
        is_install: false,
    };
}

pub(super) fn report(
    invocation: &mut Invocation,
    target: &Target,
    installation: &Installation,
    changes: &[Change],
    words: Words,
) -> Result<ExitCode> {
    installation.warn_of_pages(changes, words.way_out);
    let diff: String = changes
        .iter()
        .filter(|change| change.action().is_some())
        .map(|change| change.diff(installation.name(change)))
        .collect();
    if !target.dry_run {
        change::apply_all(changes, &installation.base)?;
    }
    let out = &mut invocation.out;
    let done: Vec<_> = changes.iter().filter_map(|c| Some((c.action()?, &c.path))).collect();
    if target.json {
        let files: Vec<_> =
            done.iter().map(|(action, path)| json!({ "path": path, "action": action })).collect();
        let name = clap::ValueEnum::to_possible_value(&target.agent);
        let name = name.map(|name| name.get_name().to_owned());
        out.document(&json!({
            "agent": name,
            "scope": if target.user { "user" } else { "project" },
            "directory": installation.base,
            "changes": files,
            "dry_run": target.dry_run,
            "diff": diff,
        }))?;
        return Ok(ExitCode::Done);
    }
    if target.dry_run {
        let line_end = if out.is_terminal() { "\n" } else { "\r\n" };
        out.raw(visible_diff(&diff, line_end).as_bytes())?;
        return Ok(ExitCode::Done);
    }
    if done.is_empty() {
        out.line(words.already)?;
        return Ok(ExitCode::Done);
    }
    out.line(format_args!("{} in {}", words.did, one_line(&installation.base.to_string_lossy())))?;
    for (action, path) in done {
        let name = path.strip_prefix(&installation.base).unwrap_or(path);
        out.line(format_args!("  {action} {}", one_line(&name.to_string_lossy())))?;
    }
    if words.is_install {
        for note in target.notes() {
            out.line(format_args!("{note}"))?;
        }
    }
    Ok(ExitCode::Done)
}

/// Makes the text of others safe for a terminal, except tabs and line ends, which do no harm.
/// Without a terminal, line ends of Windows stay unchanged, for `git apply`.
fn visible_diff(diff: &str, line_end: &str) -> String {
    let line = |line: &str| line.split('\t').map(visible).collect::<Vec<_>>().join("\t");
    diff.split(line_end).map(line).collect::<Vec<_>>().join(line_end)
}

impl Target {
    /// Returns the steps that are needed before it works.
    fn notes(&self) -> &'static [&'static str] {
        match (self.agent, self.scope()) {
            (Agent::Claude, Scope::Project) => &[
                "Claude Code asks once, at its next start, whether the server of .mcp.json may be used.",
                "next: start `claude` here and type /harness",
            ],
            (Agent::Claude, Scope::User) => {
                &["next: start `claude` in a project and type /harness"]
            }
            (Agent::Codex, Scope::Project) => &[
                "Codex reads this once the project is trusted, and runs the hooks once you have \
                 reviewed them: /hooks in `codex`.",
                "next: start `codex` here, type /hooks, then $harness",
            ],
            (Agent::Codex, Scope::User) => &[
                "Codex runs the hooks once you have reviewed them: /hooks in `codex`.",
                "next: start `codex` in a project, type /hooks, then $harness",
            ],
        }
    }
}
