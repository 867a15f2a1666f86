//! `harness install`, with the parts that `uninstall` shares: our entries in the settings of an
//! agent.
//!
//! This module owns the list of these files. The new text of all files is known before the first
//! one is written. Everything in them that is not ours stays unchanged, byte by byte.

mod call;
mod change;
mod hooks;
mod json_text;
mod page;
mod part;
mod program;
mod report;
mod server;
mod server_toml;

use std::path::{Path, PathBuf};

use harness_core::role::Operation;

use self::{
    change::Change,
    hooks::Wanted,
    page::Reader,
    part::Part,
    program::Program,
    report::{Words, report},
};
use crate::{
    environment::Environment,
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::{Invocation, working_directory},
    paint::warn,
    root::StateRoot,
};

/// Add harness to your own Claude Code or Codex
///
/// Writes into the settings of Claude Code or Codex: hooks (a session learns at its start which
/// task is next, and after /harness run it does not stop while there is work), the command /harness
/// ($harness in Codex), and the MCP server of harness. For this project, or with --user for all of them. Existing
/// settings stay unchanged, a second install changes nothing, and `harness uninstall` removes the
/// entries again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness install claude
  harness install codex --user
  harness install claude --dry-run      # what would change, as a diff")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The program that the settings call instead of `harness`
    #[arg(long, value_name = "PROGRAM")]
    program: Option<String>,
}

/// What `install` and `uninstall` are told alike.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Target {
    /// The agent
    #[arg(value_enum)]
    agent: Agent,
    /// For all projects of this user, instead of this project
    #[arg(long)]
    user: bool,
    /// Show what would change as a diff, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Agent {
    Claude,
    Codex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Project,
    User,
}

/// A file, and our part in it.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    part: Part,
}

/// Both are hooks of one event in one command. Agents start the commands of an event together, but
/// the second hook has to see the result of the first.
const STOP: (&str, &str) = ("Stop", "--bound stop self-reflect");
const PROMPT: (&str, &str) = ("UserPromptSubmit", "prompt");
const SESSION_START: (&str, &str) = ("SessionStart", "session-start");
const SUBAGENT_STOP: (&str, &str) = ("SubagentStop", "--bound subagent-stop");

const CLAUDE_HOOKS: &Wanted = &Wanted {
    events: &[
        STOP,
        PROMPT,
        SESSION_START,
        SUBAGENT_STOP,
        ("TeammateIdle", "teammate-idle"),
        ("PreCompact", "pre-compact"),
    ],
    // Claude Code ends a turn after hooks have kept it more than 8 times in a row without a tool in
    // between. An objective may need 10, and then comes the reflection. The hooks have limits of
    // their own.
    variables: &[("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "50")],
};

/// The hooks of Codex. It has no teammates, and does not read the output of a hook before a
/// compaction; it starts the session again after one.
const CODEX_HOOKS: &Wanted =
    &Wanted { events: &[STOP, PROMPT, SESSION_START, SUBAGENT_STOP], variables: &[] };

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    permit(invocation, &args.target, Operation::Install)?;
    let scope = args.target.scope();
    let Program { name, warning } = program::choose(&invocation.env, scope, args.program)?;
    if let Some(warning) = warning {
        warn(&warning);
    }
    let installation = Installation::of(&invocation.env, &args.target)?;
    let changes = installation.changes(|part, text| part.with(text, &name))?;
    report(invocation, &args.target, &installation, &changes, Words::INSTALL)
}

/// Removes the entries that `run` has added.
pub(super) fn take_out(invocation: &mut Invocation, target: &Target) -> Result<ExitCode> {
    permit(invocation, target, Operation::Uninstall)?;
    let installation = Installation::of(&invocation.env, target)?;
    let changes = installation.changes(Part::without)?;
    report(invocation, target, &installation, &changes, Words::UNINSTALL)
}

/// Removes the entries of every agent in this project, and returns the names of the files.
pub(super) fn purge(env: &Environment) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    for agent in [Agent::Claude, Agent::Codex] {
        let target = Target { agent, user: false, dry_run: false, json: false };
        let installation = Installation::of(env, &target)?;
        let changes = installation.changes(Part::without)?;
        change::apply_all(&changes, &installation.base)?;
        let done = changes.iter().filter(|change| change.action().is_some());
        changed.extend(done.map(|change| installation.name(change).display().to_string()));
    }
    Ok(changed)
}

/// Refuses agents of this root. They change no settings, neither of the project nor of the user.
fn permit(invocation: &Invocation, target: &Target, operation: Operation) -> Result<()> {
    match invocation.root_or_new() {
        Ok(root) if !target.dry_run => invocation.permit(&root, operation),
        Ok(_) | Err(_) => Ok(()),
    }
}

impl Target {
    fn scope(&self) -> Scope {
        if self.user { Scope::User } else { Scope::Project }
    }
}

/// The files of one agent, in a project or for a user.
struct Installation {
    /// The project, or the home.
    base: PathBuf,
    places: Vec<Place>,
    /// The folders into which a link among them may lead.
    allowed: Vec<PathBuf>,
}

impl Installation {
    fn of(env: &Environment, target: &Target) -> Result<Self> {
        let base = match target.scope() {
            Scope::Project => project()?,
            Scope::User => home(env)?,
        };
        let places = match (target.agent, target.scope()) {
            (Agent::Claude, Scope::Project) => vec![
                (base.join(".claude/settings.json"), Part::Hooks(CLAUDE_HOOKS)),
                (base.join(".claude/commands/harness.md"), Part::Page(Reader::Claude)),
                (base.join(".mcp.json"), Part::Server),
            ],
            (Agent::Claude, Scope::User) => {
                // If the folder is moved, the file beside it moves into it.
                let moved = env.path("CLAUDE_CONFIG_DIR").map(Path::to_owned);
                let own = moved.clone().unwrap_or_else(|| base.join(".claude"));
                vec![
                    (own.join("settings.json"), Part::Hooks(CLAUDE_HOOKS)),
                    (own.join("commands/harness.md"), Part::Page(Reader::Claude)),
                    (moved.unwrap_or_else(|| base.clone()).join(".claude.json"), Part::Server),
                ]
            }
            (Agent::Codex, scope) => {
                let moved = env.path("CODEX_HOME").filter(|_| scope == Scope::User);
                let own = moved.map_or_else(|| base.join(".codex"), Path::to_owned);
                let skill = base.join(".agents/skills/harness/SKILL.md");
                vec![
                    (own.join("hooks.json"), Part::Hooks(CODEX_HOOKS)),
                    (own.join("config.toml"), Part::ServerToml),
                    (skill, Part::Page(Reader::Codex)),
                ]
            }
        };
        let places = places.into_iter().map(|(path, part)| Place { path, part }).collect();
        let mut allowed = vec![base.clone()];
        allowed.extend(home(env));
        allowed.extend(env.path("CLAUDE_CONFIG_DIR").map(Path::to_owned));
        allowed.extend(env.path("CODEX_HOME").map(Path::to_owned));
        Ok(Self { base, places, allowed })
    }

    /// Returns the change of each file. All problems of the files are found here.
    fn changes(
        &self,
        edit: impl Fn(Part, Option<&str>) -> Result<Option<String>, String>,
    ) -> Result<Vec<Change>> {
        let change = |Place { path, part }: &Place| {
            Change::of(path, &self.allowed, |before| {
                let after = edit(*part, before).map_err(|why| {
                    Failure::config(format!("{}: {why}", path.display()))
                        .hint("nothing was changed; fix the file first, or move it away")
                })?;
                // Removing a link would leave our entries in its target.
                let stays = after.is_none() && before.is_some() && path.is_symlink();
                let emptied = part.emptied().filter(|_| stays).map(str::to_owned);
                Ok(after.or(emptied))
            })
        };
        self.places.iter().map(change).collect()
    }

    fn warn_of_pages(&self, changes: &[Change], way_out: &str) {
        for (place, change) in self.places.iter().zip(changes) {
            let is_theirs = change.before.as_deref().is_some_and(|text| !page::is_ours(text));
            if matches!(place.part, Part::Page(_)) && is_theirs {
                let path = place.path.display();
                warn(&format!("{path} was edited and stays; {way_out}"));
            }
        }
    }

    fn name<'a>(&self, change: &'a Change) -> &'a Path {
        change.path.strip_prefix(&self.base).unwrap_or(&change.path)
    }
}

/// Returns the place in which an agent for this ledger is started. A ledger elsewhere, to which a
/// variable points, does not count.
fn project() -> Result<PathBuf> {
    let (nowhere, here) = (Environment::default(), working_directory()?);
    let found = StateRoot::discover(&nowhere, &here);
    let root = found.or_else(|_| StateRoot::for_init(&nowhere, &here))?;
    Ok(root.path().to_owned())
}

fn home(env: &Environment) -> Result<PathBuf> {
    let home = env.path("HOME").filter(|home| home.is_absolute()).map(Path::to_owned);
    home.ok_or_else(|| {
        Failure::config("HOME is not set to an absolute path")
            .hint("set HOME to your home directory")
    })
}

#[cfg(test)]
mod tests;
