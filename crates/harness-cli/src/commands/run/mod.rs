//! `harness run`

mod account;
mod agent;
mod answers;
mod args;
mod commits;
mod detach;
mod dirty;
mod dry_run;
mod footer;
mod keep;
mod money;
mod notify;
mod options;
mod progress;
mod resume;
mod row;
mod scope;
mod screen;
mod session;
mod signals;
mod stop;
mod summary;
mod view;

use std::{sync::Arc, time::Instant};

use harness::{
    Project,
    agent::CodingAgent,
    clock::{Clock as _, SystemClock},
    core::machine::{
        scope::TaskScope,
        session::{Alerts, WhenFull},
    },
    process::Redactor,
    project::RunStart,
    prompts::Prompts,
    store::{RunStore, Runs as _, Store as _, StoreError},
    workspace::GitWorkspace,
};
use harness_core::{
    Iteration, Ledger, Run, RunId, Stop, format::FormatError, ledger::ConcurrencyMode,
    role::Operation, run::StopReason,
};

pub(crate) use self::args::Args;
use self::{
    progress::Progress,
    session::{Dirty, Ran, Session},
    stop::RunReport,
    summary::Summary,
    view::{Copying, View},
};
use super::{init, runs::run_of_name};
use crate::{
    config::{Config, Overrides},
    exit::ExitCode,
    failure::{Failure, Kind, Result},
    invocation::Invocation,
    paint::{Paint, warn},
    render::ColorWhen,
    root::StateRoot,
    trust,
};

pub(crate) fn run(invocation: &mut Invocation, mut args: Args) -> Result<ExitCode> {
    let root = root(invocation, &args)?;
    if !args.dry_run {
        invocation.permit(&root, Operation::Run)?;
        restore(invocation, &root)?;
    }
    trust::require(invocation, &root)?;
    let stored = stored(invocation, &root, &mut args)?;
    let config = configured(invocation, &root, &mut args)?;
    let agents = agent::choose(&config, args.agent_command.as_deref(), &args.agent_env)?;
    let ledger = workable(invocation, &root, &args)?;
    scope::refuse_tasks_as_objective(&ledger, args.objective.as_deref())?;
    let scope = scope::of_tasks(&ledger, &args.task)?;
    if args.dry_run {
        return dry_run::show(invocation, &ledger, &scope, args.json);
    }
    if args.detach {
        return detach(invocation, &root);
    }
    if args.detached {
        detach::leave_terminal()?;
    }
    let workspace = invocation.workspace(&root)?.bringing(config.validation.bring());
    workspace.sweep();
    let secrets = crate::secrets::known(&config);
    let (row, start) = start(stored, &args, &config, &workspace, &secrets);
    let chosen = Chosen { args: &args, config: &config, ledger: &ledger, scope: &scope, row: &row };
    announce(invocation, &chosen, &agents);
    let (view, branch, started) =
        (view(invocation, &args, &row), workspace.branch(), Instant::now());
    let session = session(invocation, &root, &chosen, workspace, secrets, &view)?;
    let before = Alerts::of(&ledger);
    let Ran { stop, run } = session.run(&root, agents, start)?;
    let crashed = Stop::because(StopReason::Crashed);
    let (mut stop, broken) = stop.map_or_else(|why| (crashed, Some(why)), |stop| (stop, None));
    view.end();
    let begun_with = ledger;
    let ledger = invocation.look_or_restore(&root)?;
    if Alerts::of(&ledger).grew_since(&before) {
        stop.alert();
    }
    let broken_by = broken.as_ref();
    let report =
        RunReport { stop: &stop, broken: broken_by, ledger: &ledger, scope: &scope, run: &run };
    let code = tell(invocation, &root, &config, &args, &report)?;
    let summary = Summary {
        report: &report,
        account: &view.account(),
        before: &begun_with,
        iterations: &iterations(&root, &run),
        branch: branch.as_deref(),
        seconds: started.elapsed().as_secs(),
    };
    view.summary(&summary.lines());
    match broken.or_else(|| stop::failure(&stop)) {
        Some(failure) => Err(failure),
        None => Ok(code),
    }
}

/// Returns the row of the run, and whether it is a new one or one that continues.
fn start(
    stored: Option<Run>,
    args: &Args,
    config: &Config,
    workspace: &GitWorkspace,
    secrets: &Redactor,
) -> (Run, RunStart) {
    match stored {
        Some(run) => (run.clone(), RunStart::Resume { run: Box::new(run), anew: row::anew(args) }),
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

fn detach(invocation: &mut Invocation, root: &StateRoot) -> Result<ExitCode> {
    let pid = detach::start_again(root)?;
    let line = format!("running (pid={pid}); output goes to .harness/run.log");
    invocation.out.line(line)?;
    Ok(ExitCode::Done)
}

/// Prints what a person should know before the work begins.
fn announce(invocation: &Invocation, chosen: &Chosen<'_>, agents: &agent::Agents) {
    let Chosen { args, config, ledger, scope, row } = *chosen;
    if row.objective.is_none() {
        scope::name_unfinishable(ledger, scope, &agents.worker);
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
}

fn session<'a>(
    invocation: &'a Invocation,
    root: &StateRoot,
    chosen: &Chosen<'a>,
    workspace: GitWorkspace,
    secrets: Redactor,
    view: &Arc<View>,
) -> Result<Session<'a>> {
    let Chosen { args, config, ledger, scope, row } = *chosen;
    let (prompts, mut warnings) = Prompts::load(root.path());
    if row.objective.is_none() && workspace.is_detached() {
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
        worker: args.worker.id(&invocation.env, || Ok(root.clone()))?,
        scope: scope.clone(),
        workspace,
        lease_seconds: invocation.lease_seconds()?,
        max_tasks: most.unwrap_or(ledger.head().session_config.max_tasks_per_session),
        max_sessions: args.max_sessions.map(i64::from),
        when_full: if args.once { WhenFull::Stop } else { WhenFull::Continue },
        dirty: if args.allow_dirty { Dirty::SetAside } else { Dirty::Refuse },
        view: Arc::clone(view),
        places: crate::host::places(&invocation.env),
        state_home: invocation.state_home(),
        rules,
        prompts,
        warnings,
        secrets,
        config,
        args,
    })
}

/// Returns the run that `--resume` continues. Its choices apply again, unless the arguments change
/// them.
fn stored(invocation: &Invocation, root: &StateRoot, args: &mut Args) -> Result<Option<Run>> {
    if args.objective.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Failure::usage("the objective is empty")
            .hint("omit it to work on the tasks of the ledger"));
    }
    refuse_secrets(args, &invocation.secrets(root))?;
    if let Some(command) = &args.agent_command {
        agent::refuse_shell_syntax(command)?;
    }
    if !args.resume {
        return Ok(None);
    }
    let id = args.run_id.as_deref().map(|name| named_run(root, name)).transpose()?;
    let stored = Project::open(root.path())?.resumable(id.as_ref())?;
    money::refuse_spent(&stored, args)?;
    if !args.detached {
        eprintln!("{}", resume::words(&stored));
    }
    if chosen_by(args).is_none() {
        args.agent_command.clone_from(&stored.agent_command);
        args.agent = stored.agent_command.is_none().then(|| stored.agent.clone());
    }
    Ok(Some(stored))
}

fn named_run(root: &StateRoot, name: &str) -> Result<RunId> {
    let store = RunStore::look(root.path())?;
    let runs = store.as_ref().map(RunStore::runs).transpose()?.unwrap_or_default();
    Ok(run_of_name(&runs, name)?.id.clone())
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
    if ledger.head().session_config.concurrency_mode == ConcurrencyMode::Concurrent {
        return Err(Failure::config(
            "this ledger is set up for several workers, which is not supported yet",
        )
        .hint("set session_config.concurrency_mode to \"exclusive\" in harness-tasks.json"));
    }
    Ok(ledger)
}

/// Returns the contexts of an objective. An unreadable database is reported elsewhere.
fn iterations(root: &StateRoot, run: &Run) -> Vec<Iteration> {
    let store = RunStore::look(root.path()).ok().flatten();
    store.and_then(|store| store.iterations(&run.id).ok()).unwrap_or_default()
}

/// Returns the view through which a person, a file or a program watches the run.
fn view(invocation: &Invocation, args: &Args, row: &Run) -> Arc<View> {
    let copying = if args.json { Copying::No } else { Copying::of_this_process() };
    Arc::new(match invocation.is_watched() {
        true => {
            let paint = Paint::choose(ColorWhen::Auto, &invocation.env, &std::io::stderr());
            View::live(Progress::of(row, Instant::now()), paint, copying)
        }
        false => View::of_lines(copying),
    })
}

/// Reports the end of the run: to the command of `notify`, and as a document.
fn tell(
    invocation: &mut Invocation,
    root: &StateRoot,
    config: &Config,
    args: &Args,
    report: &RunReport<'_>,
) -> Result<ExitCode> {
    if let Some(command) = &config.notify {
        notify::notify(command, root.path(), &report.event());
    }
    if args.json {
        invocation.out.document(&report.document())?;
    }
    Ok(report.code())
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

/// Refuses secrets in arguments, because they are stored with the run and must run as typed.
fn refuse_secrets(args: &Args, secrets: &Redactor) -> Result<()> {
    let holds = |flag: &str, line: &Option<String>| {
        let variable = secrets.find(line.as_deref()?)?;
        let error = format!("{flag} contains the value of {variable}, which must not be stored");
        Some((Failure::usage(error), variable))
    };
    if let Some((failure, variable)) = holds("--verify", &args.verify) {
        return Err(failure.hint(format!("write \"${variable}\" instead; quote it for your shell")));
    }
    if let Some((failure, variable)) = holds("--agent-command", &args.agent_command) {
        return Err(failure.hint(format!(
            "let the program read {variable} itself: `env = [\"{variable}\"]` in [agents.NAME]"
        )));
    }
    Ok(())
}

fn chosen_by(args: &Args) -> Option<&String> {
    args.agent.as_ref().or(args.agent_command.as_ref())
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
