//! A run: from the choices to the library's engine at work, and to its end.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use harness::{
    Hub, Observers, Project,
    client::{HostSeat, HostStore, Succession},
    clock::SystemClock,
    core::{
        Command, Run, Stop,
        command::{Note, SetMode},
        ledger::ConcurrencyMode,
        machine::{attempt::Rules, scope::TaskScope, session::WhenFull},
        role::Role,
        run::StopReason,
    },
    flows::ReportedChanges,
    home::git_directory,
    host::{Daemon, Service, socket},
    process::Redactor,
    project::{ActiveRun, RunStart},
    prompts::Prompts,
    store::{
        Locking, Writer, WriterError,
        lock::{StateLock, Wait},
        postgres::Waiting,
    },
    telemetry::Telemetry,
    workspace::{GitWorkspace, Workspace as _},
};

use super::{
    Args,
    agent::Agents,
    crew::{BaseId, CrewAtWork, Footing, refuse_beside_others},
    dirty::SetAside,
    event_lines::EventLines,
    heartbeat::Heartbeat,
    keep, money,
    notify::EventCommand,
    options::team,
    outlets::{Outlets, Outside},
    screen::{Detail, Screen, Shown},
    signals,
    view::View,
};
use crate::{
    commands::daemon,
    config::{Config, Notify},
    environment::Environment,
    failure::{Failure, Result},
    fleet::FleetTerms,
    host::Standing,
    paint::warn,
    root::StateRoot,
};

/// The time within which a process that works beside others gets the lock. Others hold it for a
/// moment; only a session that works alone holds it for longer.
const START_WAIT: Duration = Duration::from_secs(3);
/// The same for each transaction after that.
const LOCK_WAIT: Duration = Duration::from_secs(120);

pub(super) struct Session<'a> {
    pub(super) worker: BaseId,
    pub(super) footing: Footing,
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
    /// The role of this process. A host makes transactions for the operator only.
    pub(super) role: Role,
    /// The directory of the ledger's seal key and, without git, of the journal.
    pub(super) state_home: Option<PathBuf>,
    pub(super) prompts: Prompts,
    /// Warnings for the log, before anything else.
    pub(super) warnings: Vec<String>,
    pub(super) secrets: Redactor,
    pub(super) config: &'a Config,
    pub(super) env: &'a Environment,
    pub(super) args: &'a Args,
}

/// The result of a run, and its row as it is stored then.
pub(super) struct Ran {
    /// The reason for its stop, or the failure of its flow.
    pub(super) stop: Result<Stop>,
    pub(super) run: Run,
    pub(super) outlets: Outlets,
}

/// A run that this process has begun.
struct Begun<'a> {
    run: &'a ActiveRun,
    hub: Hub,
    outlets: Outlets,
}

/// The treatment of the user's changes in the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dirty {
    Refuse,
    SetAside,
}

impl Session<'_> {
    /// Runs.
    pub(super) fn run(self, root: &StateRoot, agents: Agents, start: RunStart) -> Result<Ran> {
        let project = root
            .project()?
            .with_state_home(self.state_home.clone())
            .with_secrets(self.secrets.clone());
        let acquired = match self.footing {
            Footing::Alone => {
                crate::host::make_way(root, &self.places)?;
                project.hold()?
            }
            Footing::Together(_) => project.hold_within(Wait::For(START_WAIT))?,
        };
        acquired.warnings.iter().for_each(|w| warn(&w.to_string()));
        let tenancy = match self.footing.clone() {
            Footing::Alone => {
                refuse_beside_others(root.path())?;
                None
            }
            Footing::Together(plan) => {
                let fleet = FleetTerms {
                    env: self.env,
                    root,
                    config: self.config,
                    workspace: &self.workspace,
                    secrets: &self.secrets,
                    lease_seconds: self.lease_seconds,
                };
                Some(CrewAtWork::register(plan, &self.worker, &fleet)?)
            }
        };
        let run = project.begin(&acquired.guard, start)?;
        run.warnings().iter().for_each(|w| warn(&w.to_string()));
        let tenancy = match tenancy {
            // The only writer holds the lock for its whole life.
            None => Tenancy::Sole(acquired.guard),
            Some(crew) => {
                crew.clean_up(&project.snapshot()?, &self.config.keep);
                drop(acquired.guard);
                Tenancy::Shared(Box::new(crew))
            }
        };
        let hub = run.hub();
        let outside = Outside {
            root,
            config: self.config,
            env: self.env,
            secrets: &self.secrets,
            view: &self.view,
        };
        let outlets = Outlets::start(&outside, &run, &hub)?;
        let begun = Begun { run: &run, hub, outlets: outlets.clone() };
        let stop = self.work(root, &project, agents, begun, tenancy);
        let reason = stop.as_ref().map_or(StopReason::Crashed, |stop| stop.reason);
        Ok(Ran { run: run.end(reason)?, stop, outlets })
    }

    /// Performs everything between taking the row and its end.
    fn work(
        self,
        root: &StateRoot,
        project: &Project,
        agents: Agents,
        begun: Begun<'_>,
        tenancy: Tenancy,
    ) -> Result<Stop> {
        let Begun { run, hub, outlets } = begun;
        let over_ledger = run.row().objective.is_none();
        let Footed { locking, bound, mut crew, standing } =
            self.take_footing(root, run, tenancy)?;
        self.view.change(|progress| progress.ends_at(run.row().deadline));
        if self.view.is_live()
            && let Ok(ledger) = project.snapshot()
        {
            self.view.refresh(&ledger);
        }
        let mut observers = self.observers(root.path(), &hub, run.row(), &agents)?;
        outlets.observe(&mut observers);
        let daemon = crew.as_ref().map(|_| self.daemon(root));
        if let (Some(crew), Some(daemon)) = (&crew, &daemon) {
            observers.add(Arc::new(crew.shared.changes.clone()));
            observers.add(daemon.clone());
        }
        let seat = (standing == Standing::Beside).then(HostSeat::default);
        let engine = match &seat {
            None => project.engine_of(run, locking, hub, observers)?,
            Some(seat) => {
                let files = project.store(locking)?.hosting();
                let (places, seat) = (self.places.clone(), seat.clone());
                let store = HostStore::new(project.root(), places, files, seat);
                project.engine_beside(run, store, hub, observers)?
            }
        };
        if let Some(crew) = &mut crew
            && standing != Standing::Beside
            && !project.backing().is_files()
        {
            // The host of a root follows all machines.
            crew.shared.reported = ReportedChanges::All;
        }
        let heartbeat = match &crew {
            Some(crew) => {
                let (records, shared) = (crew.records(), crew.shared.clone());
                Heartbeat::start(root.backing(), records, engine.keeper(), shared)?
            }
            None => None,
        };
        if crew.is_none() && over_ledger {
            work_alone(engine.keeper())?;
        }
        self.log_warnings(engine.keeper())?;
        let mut options = self.options(&agents, bound.path());
        options.shared = crew.as_ref().map(|crew| crew.shared.clone());
        if !project.backing().is_files() {
            let theirs = project.clone();
            let kept = move |task: &_, commit: &_| Ok(theirs.receipt_of_commit(task, commit)?);
            options.kept_receipts = Some(Arc::new(kept));
        }
        let terms = self.session(crew.as_ref().map(CrewAtWork::terms));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let set_aside = match self.dirty {
            Dirty::SetAside if over_ledger && crew.is_none() => {
                SetAside::take(&self.workspace, &project.snapshot()?)?
            }
            Dirty::SetAside | Dirty::Refuse => None,
        };
        let service = Service { lease_seconds: self.lease_seconds, adding: self.config.adding() };
        // A run outlasts an absence of the database, and repeats its steps. Its end does not.
        project.backing().wait(Waiting::UntilKnown);
        let ended = runtime.block_on(async {
            let view = Arc::clone(&self.view);
            let _signals = signals::interrupt(engine.hub(), view, project.backing().clone())?;
            let workspace = Arc::clone(&options.workspace);
            let serve = |bound| {
                engine.serve_beside(bound, service, workspace.clone(), run, daemon.as_ref())
            };
            let server = serve(bound)?;
            let work = async {
                match over_ledger {
                    true => engine.work(run, team(agents), options, terms).await,
                    false => engine.pursue(run, team(agents), options).await,
                }
            };
            let mut succession = Succession::new(seat, project.root(), self.places.clone());
            let stop = succession
                .beside(work, |bound| {
                    if let Some(crew) = &mut crew {
                        crew.describe(&run.row().id, &self.args.label, bound.path())?;
                    }
                    serve(bound)
                })
                .await;
            server.end().await;
            succession.end().await;
            stop.map_err(|e| Failure::error(e.to_string()))
        });
        project.backing().wait(Waiting::Briefly);
        // The engine ends when no request can reach it any more.
        drop(runtime);
        drop(heartbeat);
        if let Err(why) = engine.end() {
            warn(&why.to_string());
        }
        self.clean_up(root, project, crew.as_ref());
        // The user's changes are restored, however the session ended.
        set_aside.map(SetAside::put_back).transpose()?;
        ended.map_err(|failure| without_git(root.path(), failure))
    }

    /// Binds the socket, and describes the workers of this process to those of others.
    fn take_footing(&self, root: &StateRoot, run: &ActiveRun, tenancy: Tenancy) -> Result<Footed> {
        let mut crew = match tenancy {
            Tenancy::Sole(lock) => {
                let bound = crate::host::bind(root, &self.places)?;
                let locking = Locking::Held(lock);
                return Ok(Footed { locking, bound, crew: None, standing: Standing::Host });
            }
            Tenancy::Shared(crew) => *crew,
        };
        let (bound, standing) = crate::host::bind_beside_others(root, &self.places)?;
        let standing = match self.role {
            Role::Operator => standing,
            // It works on the files, as every command of such a process does.
            Role::Agent | Role::Worker => Standing::Host,
        };
        crew.describe(&run.row().id, &self.args.label, bound.path())?;
        let members = crew.terms().members.into_iter();
        let members: Vec<String> = members.map(|member| member.worker.to_string()).collect();
        self.view.change(|progress| progress.crew(members));
        let locking = Locking::Each(Wait::For(LOCK_WAIT));
        Ok(Footed { locking, bound, crew: Some(crew), standing })
    }

    /// Returns the part of the host that gives tasks to workers, as a daemon does.
    fn daemon(&self, root: &StateRoot) -> Arc<Daemon> {
        let surroundings = daemon::serve::surroundings(self.env, root);
        let (clock, wait) = (Arc::new(SystemClock), Wait::For(LOCK_WAIT));
        let worktree = self.workspace.top_level().to_owned();
        Arc::new(Daemon::new(worktree, surroundings, clock, wait))
    }

    /// Removes what the run no longer needs.
    fn clean_up(&self, root: &StateRoot, project: &Project, crew: Option<&CrewAtWork>) {
        if let (Some(crew), Ok(_held)) = (crew, project.hold_within(Wait::For(START_WAIT)))
            && let Ok(ledger) = project.snapshot()
        {
            crew.clean_up(&ledger, &self.config.keep);
        }
        keep::prune(root.path(), &self.workspace, &self.config.keep);
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
        if let Some(Notify::Command(command)) = &self.config.notify {
            observers.add(Arc::new(EventCommand::new(command, root)));
        }
        if self.args.events {
            observers.add(Arc::new(EventLines::start()));
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

/// The right of a process to write the ledger.
enum Tenancy {
    Sole(StateLock),
    Shared(Box<CrewAtWork>),
}

/// What a process works with while it holds its place.
struct Footed {
    locking: Locking,
    bound: socket::Bound,
    crew: Option<CrewAtWork>,
    standing: Standing,
}

/// Ends the mode of several workers. It is refused while one of them holds a task.
fn work_alone(writer: &Writer) -> Result<()> {
    let mode = ConcurrencyMode::Exclusive;
    match writer.apply(Command::SetMode(SetMode { mode })) {
        Ok(_) => Ok(()),
        Err(WriterError::Refused(why)) => Err(Failure::error(why.to_string())
            .hint("`harness run` without --workers finishes what workers have left")),
        Err(why) => Err(Failure::error(why.to_string())),
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
