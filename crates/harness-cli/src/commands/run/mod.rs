//! `harness run`

mod account;
mod agent;
mod answers;
mod args;
mod commits;
mod crew;
mod detach;
mod dirty;
mod dry_run;
mod end;
mod event_lines;
mod footer;
mod heartbeat;
mod join;
mod keep;
mod money;
mod notify;
mod options;
mod outlets;
mod progress;
mod pull_request;
mod resume;
pub(super) mod row;
mod scope;
mod screen;
mod session;
mod signals;
mod stop;
mod summary;
mod view;
mod write_back;

use std::{sync::Arc, time::Instant};

use harness::{
    agent::CodingAgent,
    clock::{Clock as _, SystemClock},
    core::machine::{scope::TaskScope, session::WhenFull, worker::WhenIdle},
    process::Redactor,
    project::RunStart,
    prompts::Prompts,
    store::{Store as _, StoreError, lock::sweep_guards},
    workspace::{GitWorkspace, Workspace as _, WorkspaceError},
};
use harness_core::{Ledger, Run, format::FormatError, role::Operation};

pub(crate) use self::args::Args;
use self::{
    crew::{BaseId, Footing},
    end::RunEnd,
    progress::Progress,
    session::{Dirty, Session},
    view::{Copying, View},
};
use super::{init, top};
use crate::{
    config::{Config, Overrides},
    exit::ExitCode,
    failure::{Failure, Kind, Result},
    invocation::Invocation,
    paint::{Paint, warn},
    render::ColorWhen,
    root::StateRoot,
    trust, web,
};

/// The command that starts workers.
#[derive(Debug)]
pub(crate) enum Manner {
    /// `harness run`.
    Run,
    /// `harness work`.
    Work(Joining),
}

/// The terms of one more worker.
#[derive(Debug)]
pub(crate) struct Joining {
    /// Its action when no work is left.
    pub(crate) when_idle: WhenIdle,
    /// The run that it joins, by its name; `None` for the one that is in progress.
    pub(crate) run: Option<String>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    run_as(invocation, args, &Manner::Run)
}

pub(crate) fn run_as(
    invocation: &mut Invocation,
    mut args: Args,
    manner: &Manner,
) -> Result<ExitCode> {
    let root = root(invocation, &args)?;
    if !args.dry_run {
        invocation.permit(&root, Operation::Run)?;
        restore(invocation, &root)?;
    }
    trust::require(invocation, &root)?;
    let stored = match manner {
        Manner::Run => resume::stored(invocation, &root, &mut args)?.map(Earlier::Stored),
        Manner::Work(joining) => join::joined(&root, joining, &mut args)?.map(Earlier::Driven),
    };
    let config = configured(invocation, &root, &mut args)?;
    let ledger = workable(invocation, &root, &args)?;
    let footing = Footing::of(&args, &config, &ledger, manner, root.backing())?;
    scope::refuse_tasks_as_objective(&ledger, args.objective.as_deref())?;
    let scope = scope::of_tasks(&ledger, &args.task)?;
    if args.dry_run {
        return dry_run::show(invocation, &ledger, &scope, &args.label, args.json);
    }
    let agents = agent::choose(&config, args.agent_command.as_deref(), &args.agent_env)?;
    if args.detach {
        return detach(invocation, &root);
    }
    if args.top {
        detach::start_again(&root)?;
        return top::show(invocation, &root);
    }
    if args.detached {
        detach::leave_terminal()?;
    }
    let workspace = invocation.workspace(&root)?.bringing(config.validation.bring());
    workspace.sweep();
    sweep_guards();
    let secrets = crate::secrets::known(&config);
    let (row, start) = start(stored, &args, &config, &workspace, &secrets);
    if row.objective.is_none() {
        refuse_unborn(&workspace)?;
    }
    let footing = footing.for_run(&row.id);
    let chosen = Chosen {
        args: &args,
        config: &config,
        ledger: &ledger,
        scope: &scope,
        row: &row,
        footing: &footing,
    };
    announce(invocation, &chosen, &agents);
    // It ends with this function.
    let _web = args.web.then(|| web::beside(&invocation.env, &root)).flatten();
    let (view, branch, started) =
        (view(invocation, &args, &row), workspace.branch(), Instant::now());
    let session = session(invocation, &root, &chosen, workspace, secrets, &view)?;
    let ran = session.run(&root, agents, start)?;
    view.end();
    if row.objective.is_none() {
        write_back::after_run(invocation, &root, &config, &footing);
    }
    let target = proposed_for(manner, &args, &config, branch.as_deref());
    RunEnd { root: &root, chosen: &chosen, view: &view, branch, target, started }
        .report(invocation, ran)
}

/// Returns the branch that a pull request with the results is for. Only the run itself opens one.
fn proposed_for(
    manner: &Manner,
    args: &Args,
    config: &Config,
    branch: Option<&str>,
) -> Option<String> {
    match manner {
        Manner::Run => {
            let named = args.target.as_deref().or(config.parallel.target.as_deref());
            named.or(branch).map(str::to_owned)
        }
        Manner::Work(_) => None,
    }
}

/// A run that exists already.
enum Earlier {
    /// It is resumed.
    Stored(Run),
    /// Another process drives it.
    Driven(Run),
}

/// Returns the row of the run, and whether it is a new one or one that continues.
fn start(
    stored: Option<Earlier>,
    args: &Args,
    config: &Config,
    workspace: &GitWorkspace,
    secrets: &Redactor,
) -> (Run, RunStart) {
    match stored {
        Some(Earlier::Stored(run)) => {
            (run.clone(), RunStart::Resume { run: Box::new(run), anew: row::anew(args) })
        }
        Some(Earlier::Driven(run)) => {
            let agent = agent_name(config, args.agent_command.as_deref());
            let run = Run { agent: secrets.text(&agent).into_owned(), ..run };
            (run.clone(), RunStart::Join { run: Box::new(run) })
        }
        None => {
            let run = row::new(args, config, workspace_name(workspace), secrets);
            (run.clone(), RunStart::New(Box::new(run)))
        }
    }
}

/// The root to work in. An objective needs no tasks, so it gets an empty ledger where there is none.
fn root(invocation: &Invocation, args: &Args) -> Result<StateRoot> {
    let objective = args.objective.as_deref().unwrap_or_default().trim();
    match invocation.root() {
        Err(none) if none.kind == Kind::Error && !objective.is_empty() && !args.dry_run => {
            init::create_empty(invocation, none)
        }
        found => found,
    }
}

/// Refuses a repository without a commit, because an attempt needs one to go back to.
fn refuse_unborn(workspace: &GitWorkspace) -> Result<()> {
    match workspace.head() {
        Err(unborn @ WorkspaceError::NoCommits) => Err(Failure::config(unborn.to_string())
            .hint("make a first commit: `git commit --allow-empty -m start`")),
        // The code that needs git reports other problems.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn detach(invocation: &mut Invocation, root: &StateRoot) -> Result<ExitCode> {
    let pid = detach::start_again(root)?;
    let line = format!("running (pid={pid}); output goes to .harness/run.log");
    invocation.out.line(line)?;
    Ok(ExitCode::Done)
}

/// Prints what a person should know before the work begins.
fn announce(invocation: &Invocation, chosen: &Chosen<'_>, agents: &agent::Agents) {
    let Chosen { args, config, ledger, scope, row, footing: _ } = *chosen;
    if row.objective.is_none() {
        scope::name_unfinishable(ledger, scope, &agents.worker);
    }
    if row.objective.is_none() && ledger.head().paused_at.is_some() {
        warn("claiming is paused: the run waits until `harness resume`");
    }
    money::say_what_it_may_cost(row, args, agents);
    say_what_will_count(row, &agents.worker);
    if args.agent_command.is_some() {
        agent::say_what_is_kept_back(&invocation.env, config, &args.agent_env);
    }
}

/// The choices that a session is made from.
struct Chosen<'a> {
    args: &'a Args,
    config: &'a Config,
    ledger: &'a Ledger,
    scope: &'a TaskScope,
    row: &'a Run,
    footing: &'a Footing,
}

fn session<'a>(
    invocation: &'a Invocation,
    root: &StateRoot,
    chosen: &Chosen<'a>,
    workspace: GitWorkspace,
    secrets: Redactor,
    view: &Arc<View>,
) -> Result<Session<'a>> {
    let Chosen { args, config, ledger, scope, row, footing } = *chosen;
    let (prompts, mut warnings) = Prompts::load(root.path());
    if row.objective.is_none() && *footing == Footing::Alone && workspace.is_detached() {
        let what = "HEAD is on no branch: each completed commit is kept by a ref below";
        warnings.push(format!("{what} {}", harness::workspace::LANDED));
    }
    let workspace = match row.objective {
        Some(_) => workspace,
        None => {
            let policy = commits::policy(invocation, root, &config.git, &workspace)?;
            workspace.committing(policy)
        }
    };
    let rules = config.rules(root.path())?;
    warnings.extend(invocation.compare_protected(root, &rules.protected));
    let most = args.max_tasks_per_session.map(i64::from);
    let shown = Arc::clone(view);
    crate::warnings::tell(secrets.clone(), move |text| shown.warning(text));
    Ok(Session {
        worker: BaseId {
            id: args.worker.id(&invocation.env, || Ok(root.clone()))?,
            origin: args.worker.origin(&invocation.env)?,
        },
        footing: footing.clone(),
        scope: scope.clone(),
        workspace,
        lease_seconds: invocation.lease_seconds()?,
        max_tasks: most.unwrap_or(ledger.head().session_config.max_tasks_per_session),
        max_sessions: args.max_sessions.map(i64::from),
        when_full: if args.once { WhenFull::Stop } else { WhenFull::Continue },
        dirty: if args.allow_dirty { Dirty::SetAside } else { Dirty::Refuse },
        view: Arc::clone(view),
        places: crate::host::places(&invocation.env),
        role: invocation.peer(root).role,
        state_home: invocation.state_home(),
        rules,
        prompts,
        warnings,
        secrets,
        config,
        env: &invocation.env,
        args,
    })
}

/// Returns the ledger, if a run can work on it.
fn workable(invocation: &Invocation, root: &StateRoot, args: &Args) -> Result<Ledger> {
    let ledger = match args.dry_run {
        true => invocation.look(root)?,
        false => invocation.look_or_restore(root)?,
    };
    if let Some(refusal) = harness::store::secret_in(&ledger, &invocation.secrets(root)) {
        return Err(Failure::config(format!("harness-tasks.json: {refusal}")));
    }
    Ok(ledger)
}

/// Returns the view through which a person, a file or a program watches the run.
fn view(invocation: &Invocation, args: &Args, row: &Run) -> Arc<View> {
    let copying = if args.json || args.events { Copying::No } else { Copying::of_this_process() };
    Arc::new(match invocation.is_watched() {
        true => {
            let paint = Paint::choose(ColorWhen::Auto, &invocation.env, &std::io::stderr());
            View::live(Progress::of(row, Instant::now()), paint, copying)
        }
        false => View::of_lines(copying),
    })
}

/// Restores an unreadable ledger from its backup before anything reads it, as every command does
/// that changes something.
fn restore(invocation: &Invocation, root: &StateRoot) -> Result<()> {
    match root.snapshot() {
        Err(StoreError::Format(FormatError::Corrupt(_))) => {
            let applied = invocation.store(root)?.apply(SystemClock.now(), &[])?;
            applied.warnings.iter().for_each(|warning| warn(warning));
            Ok(())
        }
        // The code that needs the ledger reports other problems.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the configuration with the agent that the flags name, or else one that is installed.
fn configured(invocation: &Invocation, root: &StateRoot, args: &mut Args) -> Result<Config> {
    let flags = |args: &Args| Overrides::default().set("agent", "--agent", args.agent.clone());
    let config = invocation.config(root, flags(args))?;
    if config.agent.is_some() || args.agent_command.is_some() {
        return Ok(config);
    }
    let Some(found) = agent::installed(&invocation.env) else { return Ok(config) };
    eprintln!("agent: {found}, found on PATH; `agent = \"…\"` in harness.toml keeps a choice");
    args.agent = Some(found.to_owned());
    invocation.config(root, flags(args))
}

fn workspace_name(workspace: &harness::workspace::GitWorkspace) -> String {
    harness::workspace::Workspace::top_level(workspace).display().to_string()
}

impl Invocation {
    /// Returns whether a person watches standard error, on a terminal whose lines can be redrawn.
    fn is_watched(&self) -> bool {
        let able = self.env.get("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        !self.plain && able && std::io::IsTerminal::is_terminal(&std::io::stderr())
    }
}

/// Returns the name for receipts.
fn agent_name(config: &Config, command: Option<&str>) -> String {
    command.map(|c| format!("command: {c}")).or_else(|| config.agent.clone()).unwrap_or_default()
}

/// Warns that an objective without a check ends when the agent claims that it is done.
fn say_what_will_count(row: &Run, agent: &CodingAgent) {
    if row.objective.is_none() || row.verify.is_some() {
        return;
    }
    let what = match agent {
        CodingAgent::Shell(_) => "the exit code of the script",
        _ => "the agent's word",
    };
    eprintln!("no --verify: {what} alone will count as done");
}
