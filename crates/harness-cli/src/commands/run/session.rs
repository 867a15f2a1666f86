//! A run: from the choices to the library's engine at work, and to its end.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use harness::{
    Hub, Observers, Project,
    core::{
        Command, Run, Stop,
        command::Note,
        machine::{attempt::Rules, scope::TaskScope, session::WhenFull},
        run::StopReason,
    },
    home::git_directory,
    host::{Service, socket},
    process::Redactor,
    project::{ActiveRun, RunStart},
    prompts::Prompts,
    store::{Writer, lock::StateLock},
    telemetry::Telemetry,
    workspace::GitWorkspace,
};
use harness_core::WorkerId;

use super::{
    Args,
    agent::Agents,
    dirty::SetAside,
    keep, money,
    notify::Notifier,
    options::team,
    screen::{Detail, Screen, Shown},
    signals,
    view::View,
};
use crate::{
    config::Config,
    failure::{Failure, Result},
    paint::warn,
    root::StateRoot,
};

pub(super) struct Session<'a> {
    pub(super) worker: WorkerId,
    pub(super) scope: TaskScope,
    pub(super) workspace: GitWorkspace,
    pub(super) lease_seconds: u64,
    pub(super) max_tasks: i64,
    pub(super) max_sessions: Option<i64>,
    pub(super) when_full: WhenFull,
    pub(super) rules: Rules,
    pub(super) dirty: Dirty,
    pub(super) view: Arc<View>,
    pub(super) places: socket::Places,
    /// The directory of the ledger's seal key and, without git, of the journal.
    pub(super) state_home: Option<PathBuf>,
    pub(super) prompts: Prompts,
    /// Warnings for the log, before anything else.
    pub(super) warnings: Vec<String>,
    pub(super) secrets: Redactor,
    pub(super) config: &'a Config,
    pub(super) args: &'a Args,
}

/// The result of a run, and its row as it is stored then.
pub(super) struct Ran {
    /// The reason for its stop, or the failure of its flow.
    pub(super) stop: Result<Stop>,
    pub(super) run: Run,
}

/// The treatment of the user's changes in the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dirty {
    Refuse,
    SetAside,
}

impl Session<'_> {
    /// Runs. It holds the lock for its whole life, as the only writer.
    pub(super) fn run(self, root: &StateRoot, agents: Agents, start: RunStart) -> Result<Ran> {
        crate::host::make_way(root, &self.places)?;
        let project = Project::open(root.path())?
            .with_state_home(self.state_home.clone())
            .with_secrets(self.secrets.clone());
        let acquired = project.hold()?;
        acquired.warnings.iter().for_each(|w| warn(&w.to_string()));
        let run = project.begin(&acquired.guard, start)?;
        run.warnings().iter().for_each(|w| warn(&w.to_string()));
        let stop = self.work(root, &project, agents, &run, acquired.guard);
        let reason = stop.as_ref().map_or(StopReason::Crashed, |stop| stop.reason);
        Ok(Ran { run: run.end(reason)?, stop })
    }

    /// Performs everything between taking the row and its end.
    fn work(
        self,
        root: &StateRoot,
        project: &Project,
        agents: Agents,
        run: &ActiveRun,
        lock: StateLock,
    ) -> Result<Stop> {
        let over_ledger = run.row().objective.is_none();
        let bound = crate::host::bind(root, &self.places)?;
        if self.view.is_live()
            && let Ok(ledger) = project.snapshot()
        {
            self.view.refresh(&ledger);
        }
        let hub = run.hub();
        let observers = self.observers(root.path(), &hub, run.row(), &agents)?;
        let engine = project.engine_of(run, lock, hub, observers)?;
        self.log_warnings(engine.keeper())?;
        let options = self.options(&agents, bound.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let set_aside = match self.dirty {
            Dirty::SetAside if over_ledger => {
                SetAside::take(&self.workspace, &project.snapshot()?)?
            }
            Dirty::SetAside | Dirty::Refuse => None,
        };
        let service = Service { lease_seconds: self.lease_seconds, adding: self.config.adding() };
        let ended = runtime.block_on(async {
            let _signals = signals::interrupt(engine.hub(), Arc::clone(&self.view))?;
            let workspace = Arc::clone(&options.workspace);
            let server = engine.serve_beside(bound, service, workspace)?;
            let stop = match over_ledger {
                true => engine.work(run, team(agents), options, self.session()).await,
                false => engine.pursue(run, team(agents), options).await,
            };
            server.end().await;
            stop.map_err(|e| Failure::error(e.to_string()))
        });
        // The engine ends when no request can reach it any more.
        drop(runtime);
        if let Err(why) = engine.end() {
            warn(&why.to_string());
        }
        keep::prune(root.path(), &self.workspace, &self.config.keep);
        // The user's changes are restored, however the session ended.
        set_aside.map(SetAside::put_back).transpose()?;
        ended.map_err(|failure| without_git(root.path(), failure))
    }

    fn log_warnings(&self, writer: &Writer) -> Result<()> {
        for message in &self.warnings {
            let message = self.secrets.text(message).into_owned();
            let note = Command::Note(Note::Warning { task: None, message });
            writer.apply(note).map_err(|why| Failure::error(why.to_string()))?;
        }
        Ok(())
    }

    fn observers(&self, root: &Path, hub: &Hub, row: &Run, agents: &Agents) -> Result<Observers> {
        let shown = Shown {
            view: Arc::clone(&self.view),
            row: row.clone(),
            detail: if self.args.verbose { Detail::Everything } else { Detail::LastActivity },
            secrets: self.secrets.clone(),
            moneyless: money::to_be_seen(row, agents),
        };
        let mut observers = Observers::default().with(Screen::new(shown, hub));
        if let Some(command) = &self.config.notify {
            observers.add(Arc::new(Notifier::new(command, root)));
        }
        if let Some(telemetry) = self.telemetry()? {
            observers.add(Arc::new(telemetry));
        }
        Ok(observers)
    }

    /// Starts telemetry, only if `[telemetry] run` is set.
    fn telemetry(&self) -> Result<Option<Telemetry>> {
        let off = std::env::var_os("HARNESS_ACP").is_some_and(|value| value == "off");
        if off || !self.config.telemetry.run {
            return Ok(None);
        }
        let view = Arc::clone(&self.view);
        let say = Box::new(move |text: &str| view.say(text));
        Ok(Some(Telemetry::start(self.config.telemetry.port, self.secrets.clone(), say)?))
    }
}

/// Returns the real cause if the repository is gone.
fn without_git(root: &Path, failure: Failure) -> Failure {
    if git_directory(root).is_some() {
        return failure;
    }
    Failure::config(format!("the git directory is gone: {}", failure.error))
        .hint("the ledger is intact; restore the repository, then run `harness run`")
}
