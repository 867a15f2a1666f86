//! `harness run`

mod agent;
mod detach;
mod dirty;
mod dry_run;
mod notify;
mod session;
mod signals;
mod told;
mod view;

use std::sync::Arc;

use harness::{
    agent::CodingAgent,
    core::machine::work::{Runs, Stopped},
};
use harness_core::{Ledger, Stats, Task, ledger::ConcurrencyMode};
use serde_json::json;

use self::{session::Dirty, view::View};
use super::Invocation;
use crate::{
    config::{Config, Overrides},
    exit::ExitCode,
    failure::{Failure, Result},
    trust::{self, Trust},
    would_run::WouldRun,
};

/// Work on the ledger until nothing is left
///
/// Takes one task after the other: the agent works, the task's check decides, and what passed is
/// committed as `ID: title`. What did not is rolled back, after everything that would vanish was
/// saved (`harness rescue list`), and tried again. A session that was killed is recovered by the next
/// one. While it works other terminals can add and change tasks all the same: they ask the run.
///
/// The tree must be clean: what belongs to no commit could not be told from the agent's work.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness run --agent shell                    # instructions are scripts: no model, no key
  harness run --agent-command 'my-agent --print'   # the prompt comes on standard input
  harness run --agent shell --dry-run
  harness run --agent shell --detach && harness status --watch")]
pub(crate) struct Args {
    /// The agent: `shell`, or one of `[agents.NAME]` of kind `command` in harness.toml
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Any program that takes a prompt on standard input, or where a word says {prompt_file}
    #[arg(long, value_name = "COMMAND", conflicts_with = "agent")]
    agent_command: Option<String>,
    /// End with this session, whatever is left
    #[arg(long)]
    once: bool,
    /// Set your uncommitted changes aside, and put them back at the end
    #[arg(long)]
    allow_dirty: bool,
    /// Only say what would be done, in order, if every check passed
    #[arg(long)]
    dry_run: bool,
    /// Go on without this terminal; the words go to .harness/run.log
    #[arg(long, conflicts_with_all = ["json", "dry_run"])]
    detach: bool,
    #[arg(long, hide = true)]
    detached: bool,
    /// Tasks that one session works on [default: as the ledger says]
    #[arg(long, value_name = "N")]
    max_tasks_per_session: Option<u32>,
    #[command(flatten)]
    worker: crate::worker::Choice,
    /// End with a JSON document on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    if !Trust::of_user(&invocation.env)?.is_trusted(&root)? {
        return Err(trust::refusal(&root, &WouldRun::in_root(&root)?));
    }
    let flags = Overrides::default().set("agent", "--agent", args.agent.clone());
    let config = invocation.config(&root, flags)?;
    let agent = agent::choose(&config, args.agent_command.as_deref())?;
    let ledger = invocation.look(&root)?;
    if ledger.head().session_config.concurrency_mode == ConcurrencyMode::Concurrent {
        return Err(Failure::config("this ledger is for several workers, which is not there yet")
            .hint("set session_config.concurrency_mode to \"exclusive\" in harness-tasks.json"));
    }
    if args.dry_run {
        return plan(invocation, &ledger, args.json);
    }
    if args.detach {
        let pid = detach::start_again(&root)?;
        invocation
            .out
            .line(format_args!("running (pid={pid}); its words are in .harness/run.log"))?;
        return Ok(ExitCode::Done);
    }
    if args.detached {
        detach::leave_terminal()?;
    }
    name_unfinishable(&ledger, &agent);
    let most = args.max_tasks_per_session.map(i64::from);
    let session = session::Session {
        worker: args.worker.id(&invocation.env, || Ok(root.clone()))?,
        workspace: invocation.workspace(&root)?,
        lease_seconds: invocation.lease_seconds()?,
        max_tasks: most.unwrap_or(ledger.head().session_config.max_tasks_per_session),
        runs: if args.once { Runs::Once } else { Runs::On },
        stall_seconds: config.stall_seconds,
        dirty: if args.allow_dirty { Dirty::SetAside } else { Dirty::Refuse },
        view: Arc::new(if invocation.is_watched() { View::live() } else { View::Lines }),
        places: crate::host::places(&invocation.env),
        rules: config.rules()?,
        agent_name: agent_name(&config, args.agent_command.as_deref()),
    };
    let run_id = session::new_run_id();
    let stopped = session.run(&root, agent, &run_id)?;
    let ended = Ended::of(&stopped, &invocation.look(&root)?, run_id);
    if let Some(command) = &config.notify {
        notify::notify(command, root.path(), &ended.event());
    }
    if args.json {
        invocation.out.document(&ended.document())?;
    }
    match failure(&stopped) {
        Some(failure) => Err(failure),
        None => Ok(ended.code),
    }
}

fn plan(invocation: &mut Invocation, ledger: &Ledger, json: bool) -> Result<ExitCode> {
    let planned = dry_run::plan(ledger)?;
    if json {
        let planned: Vec<_> = planned.iter().map(dry_run::Planned::json).collect();
        invocation.out.document(&json!({ "planned": planned }))?;
    } else {
        planned.iter().try_for_each(|p| invocation.out.line(p.line()))?;
    }
    Ok(ExitCode::Done)
}

impl Invocation {
    /// Whether a person watches standard error.
    fn is_watched(&self) -> bool {
        !self.plain && std::io::IsTerminal::is_terminal(&std::io::stderr())
    }
}

/// As receipts name it.
fn agent_name(config: &Config, command: Option<&str>) -> String {
    command.map(|c| format!("command: {c}")).or_else(|| config.agent.clone()).unwrap_or_default()
}

/// Said before anything is done: the session would stop at the first of these.
fn name_unfinishable(ledger: &Ledger, agent: &CodingAgent) {
    let name = |lacks: &dyn Fn(&Task) -> bool| {
        let lacking = ledger.tasks().filter(|t| t.unfinished() && lacks(t));
        lacking.map(|t| t.id.to_string()).collect::<Vec<_>>().join(", ")
    };
    let unchecked = name(&|t| t.check().is_none());
    if !unchecked.is_empty() {
        let why = "no validation.command, so they can not be finished";
        crate::store::warn(&format!("{why}: {unchecked}"));
    }
    let scripted = matches!(agent, CodingAgent::Shell(_));
    let empty = |t: &Task| t.instructions.as_ref().is_none_or(|text| text.trim().is_empty());
    let untold = name(&|t| scripted && empty(t));
    if !untold.is_empty() {
        crate::store::warn(&format!("no instructions, which shell runs: {untold}"));
    }
}

/// How a run ended, for programs.
struct Ended {
    outcome: &'static str,
    stop_reason: &'static str,
    code: ExitCode,
    run_id: String,
    sessions: u64,
    stats: Stats,
}

impl Ended {
    fn of(stopped: &Stopped, ledger: &Ledger, run_id: String) -> Self {
        let unfinished = ledger.tasks().any(|t| t.unfinished());
        let failed_for_good = ledger.tasks().any(|t| t.failed_for_good());
        let (outcome, stop_reason, code) = match stopped {
            Stopped::Complete if failed_for_good => ("succeeded", "complete", ExitCode::SomeFailed),
            Stopped::Complete => ("succeeded", "complete", ExitCode::Done),
            Stopped::Once if unfinished => ("stopped", "once", ExitCode::WorkLeft),
            Stopped::Once => ("stopped", "once", ExitCode::Done),
            Stopped::MaxSessions => ("stopped", "max_sessions", ExitCode::WorkLeft),
            Stopped::Limit => ("stopped", "limit", ExitCode::WorkLeft),
            Stopped::Budget => ("stopped", "budget", ExitCode::WorkLeft),
            Stopped::Interrupted => ("cancelled", "cancelled", ExitCode::Interrupted),
            Stopped::EnvSetup(_) => ("failed", "env_setup", ExitCode::Error),
            Stopped::Client { .. } => ("failed", "config", ExitCode::Error),
            Stopped::Config(_) | Stopped::Dirty(_) => ("failed", "config", ExitCode::Config),
        };
        let (sessions, stats) = (ledger.head().session_count, Stats::of(ledger));
        Self { outcome, stop_reason, code, run_id, sessions, stats }
    }

    fn document(&self) -> serde_json::Value {
        let stats = &self.stats;
        json!({
            "outcome": self.outcome, "stop_reason": self.stop_reason,
            "exit_code": self.code as u8, "run_id": self.run_id, "sessions": self.sessions,
            "counts": { "total": stats.total, "completed": stats.completed,
                "failed": stats.failed, "pending": stats.pending,
                "in_progress": stats.in_progress, "blocked": stats.blocked },
            "cost_usd": null,
        })
    }

    /// What `notify` is told.
    fn event(&self) -> serde_json::Value {
        let kind = match self.stop_reason {
            "complete" | "once" => "done",
            "limit" => "limit",
            "budget" => "budget",
            _ => "stuck",
        };
        let mut event = self.document();
        event["event"] = kind.into();
        event
    }
}

/// What a person has to know about an end that is not the work's own.
fn failure(stopped: &Stopped) -> Option<Failure> {
    match stopped {
        Stopped::Complete
        | Stopped::Once
        | Stopped::MaxSessions
        | Stopped::Interrupted
        | Stopped::Limit
        | Stopped::Budget => None,
        Stopped::EnvSetup(why) => Some(
            Failure::error(format!("the environment is not ready: {why}"))
                .hint("mend it and run again: nothing is lost, and no attempt was counted"),
        ),
        Stopped::Config(why) => Some(Failure::config(why.clone())),
        Stopped::Client { task, worker } => Some(
            Failure::error(format!("task {task} is claimed by {worker}"))
                .hint(format!("wait for it, or take it back: `harness task release {task}`")),
        ),
        Stopped::Dirty(files) => {
            let shown: Vec<&str> = files.iter().take(10).map(String::as_str).collect();
            let more = files.len().saturating_sub(shown.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let files = shown.join(", ");
            Some(
                Failure::config(format!("the work tree has changes of yours: {files}{more}")).hint("commit or stash them first: a rollback could not tell them from the agent's")
                .hint("--allow-dirty sets them aside and puts them back at the end"),
            )
        }
    }
}
