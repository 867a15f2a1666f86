//! A run: from what was chosen to an engine at work, and to the row that keeps how it ended.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use harness::{
    Hub, Observers, Project,
    agent::CodingAgent,
    clock::{Clock, SystemClock},
    core::{
        Command, Run, Stop,
        command::{Note, OfRun, RunStep},
        machine::{
            attempt::Rules,
            iterate,
            session::{SessionTerms, WhenFull},
        },
        promise,
        run::{Owner, StopReason},
    },
    flows::{Judging, LoopSettings, Team},
    home::Home,
    host::{Service, socket},
    named,
    process::{Redactor, leftovers},
    project::{Equipment, Pursuit},
    prompts::Prompts,
    shell::SystemShell,
    store::{
        Locking, RunStore, Runs, SteadyRuns, Writer,
        disk::{Disk, RealDisk},
        lock::StateLock,
        this_process,
    },
    telemetry::Telemetry,
    workspace::GitWorkspace,
};
use harness_core::{WorkerId, variables::WORKER};

use super::{
    Args,
    agent::Agents,
    dirty::SetAside,
    keep, money,
    notify::Notifier,
    row,
    screen::{Detail, Screen, Shown},
    signals, terms,
    view::View,
};
use crate::{
    config::{Config, PromiseMatch},
    environment::Environment,
    failure::{Failure, Result},
    root::StateRoot,
    store::warn,
};

pub(super) struct Session<'a> {
    pub(super) worker: WorkerId,
    pub(super) workspace: GitWorkspace,
    pub(super) lease_seconds: u64,
    pub(super) max_tasks: i64,
    pub(super) max_sessions: Option<i64>,
    pub(super) when_full: WhenFull,
    pub(super) rules: Rules,
    pub(super) dirty: Dirty,
    pub(super) view: Arc<View>,
    pub(super) places: socket::Places,
    /// Where the journal is kept without git, and the key of the ledger's seal.
    pub(super) state_home: Option<PathBuf>,
    pub(super) prompts: Prompts,
    /// For the log, before anything else.
    pub(super) warnings: Vec<String>,
    pub(super) secrets: Redactor,
    pub(super) config: &'a Config,
    pub(super) env: &'a Environment,
    pub(super) args: &'a Args,
}

/// What a run came to, and its row as it is stored then.
pub(super) struct Ran {
    /// Why it stopped, or how its flow failed.
    pub(super) stop: Result<Stop>,
    pub(super) run: Run,
}

/// What to do about changes of the user in the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dirty {
    Refuse,
    SetAside,
}

/// The row of a run that this process has taken.
struct Taken {
    row: Run,
    pursuit: Pursuit,
    runs: Arc<dyn Runs>,
    owner: Owner,
}

impl Session<'_> {
    /// Holds the lock for its whole life, as the only writer.
    pub(super) fn run(self, root: &StateRoot, agents: Agents, row: Run) -> Result<Ran> {
        crate::host::make_way(root, &self.places)?;
        let project = Project::open(root.path())?
            .with_state_home(self.state_home.clone())
            .with_secrets(self.secrets.clone());
        let acquired = project.hold()?;
        acquired.warnings.iter().for_each(|w| warn(&w.to_string()));
        end_leftovers(root.path())?;
        let taken = self.take(root, &project, row)?;
        let stop = self.work(root, &project, agents, &taken, acquired.guard);
        let reason = stop.as_ref().map_or(StopReason::Crashed, |stop| stop.reason);
        let Taken { row, runs, owner, .. } = taken;
        Ok(Ran { run: close(&*runs, &row, owner, reason)?, stop })
    }

    /// Opens the row, or takes up again the one that is stored.
    fn take(&self, root: &StateRoot, project: &Project, row: Run) -> Result<Taken> {
        let runs = RunStore::open(root.path())?;
        row::close_stale(&runs, &project.snapshot()?, &row)?;
        // The agent can write into the database: what this process knows of a run stays true.
        let terms = terms::Kept::of_user(self.env, root)?;
        let kept = terms.clone();
        let runs = SteadyRuns::new(Arc::new(runs));
        let runs = runs.telling(Box::new(move |id, usage| kept.spent(id, usage)));
        let runs: Arc<dyn Runs> = Arc::new(runs);
        let owner = this_process();
        // One that is stored may have gone on since it was looked at, without the lock.
        let row = if self.args.resume { row::again(&*runs, &row)? } else { runs.open_run(&row)? };
        let pursuit = if row.status.is_over() { Pursuit::Afresh } else { Pursuit::Onward };
        if self.args.resume {
            terms.differences(&row).iter().for_each(|text| warn(text));
            if let Some(used) = terms.used(&row.id) {
                runs.at_least(&row.id, used)?;
            }
        }
        let row = row::take(&*runs, &row, &owner, self.args)?;
        terms.keep(&row);
        Ok(Taken { row, pursuit, runs, owner })
    }

    /// Everything between the row's taking and its end.
    fn work(
        self,
        root: &StateRoot,
        project: &Project,
        agents: Agents,
        taken: &Taken,
        lock: StateLock,
    ) -> Result<Stop> {
        let over_ledger = taken.row.objective.is_none();
        if over_ledger {
            // Hooks act only while there is a session.
            RealDisk::open(root.path())?.make_marker()?;
        }
        let bound = crate::host::bind(root, &self.places)?;
        if self.view.is_live()
            && let Ok(ledger) = project.snapshot()
        {
            self.view.refresh(&ledger);
        }
        let hub = Hub::new(taken.row.id.as_str());
        hub.start_session();
        let observers = self.observers(root.path(), &hub, &taken.row, &agents)?;
        let engine = project.engine(Locking::Held(lock), hub, observers)?;
        self.log_warnings(engine.keeper())?;
        let equipment = self.equipment(project, &agents, taken, bound.path());
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
            let workspace = Arc::clone(&equipment.workspace);
            let server = engine.serve_beside(bound, service, workspace)?;
            let stop = match over_ledger {
                true => engine.work(team(agents), equipment, self.session()).await,
                false => engine.pursue(team(agents), equipment, taken.pursuit).await,
            };
            server.end().await;
            stop.map_err(|e| Failure::error(e.to_string()))
        });
        // The engine ends when nobody can ask it any more.
        drop(runtime);
        if let Err(why) = engine.end() {
            warn(&why.to_string());
        }
        keep::prune(root.path(), &self.workspace, &self.config.keep);
        // The user gets them back however the session ended.
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

    /// Only where it is switched on: `[telemetry] run`.
    fn telemetry(&self) -> Result<Option<Telemetry>> {
        let off = std::env::var_os("HARNESS_ACP").is_some_and(|value| value == "off");
        if off || !self.config.telemetry.run {
            return Ok(None);
        }
        let view = Arc::clone(&self.view);
        let say = Box::new(move |text: &str| view.say(text));
        Ok(Some(Telemetry::start(self.config.telemetry.port, self.secrets.clone(), say)?))
    }

    fn session(&self) -> SessionTerms {
        SessionTerms {
            worker: self.worker.clone(),
            pid: std::process::id(),
            lease_seconds: self.lease_seconds,
            max_tasks: self.max_tasks,
            max_sessions: self.max_sessions,
            when_full: self.when_full,
            until: None,
            heartbeat: None,
        }
    }

    fn loops(&self, agents: &Agents, taken: &Taken) -> LoopSettings {
        let rules = iterate::Rules {
            promise_match: match self.config.promise_match {
                PromiseMatch::Line => promise::Match::Line,
                PromiseMatch::Token => promise::Match::Token,
                PromiseMatch::Tag => promise::Match::Tag,
            },
            stall_limit: self.config.stall_limit,
            waits: !self.args.no_wait,
            restarts: !matches!(agents.worker, CodingAgent::Shell(_)),
            prices: agents.prices.clone(),
            names: agents.names.clone(),
            lease_seconds: row::LEASE_SECONDS,
            until: None,
            transcripts: String::new(),
        };
        LoopSettings {
            runs: Arc::clone(&taken.runs),
            run: taken.row.id.clone(),
            by: Some(taken.owner.clone()),
            new_id: Arc::new(row::new_id),
            rules,
            summarizer_price: agents.summarizer_price,
            prompts: Arc::new(self.prompts.clone()),
        }
    }

    fn committer(&self) -> Option<String> {
        let user = || self.workspace.committer().unwrap_or_else(|| "harness".to_owned());
        self.config.git.mark.then(user)
    }

    /// How long the agent of this name may be silent.
    fn stall(&self, name: &str) -> Option<Duration> {
        let own = self.config.agents.get(name).and_then(|agent| agent.stall_seconds);
        let seconds = own.unwrap_or(self.config.stall_seconds);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// As whom the run works is in it too: an agent of an objective may use commands of workers.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut all: Vec<_> = std::env::vars_os().filter(|(name, _)| name != WORKER).collect();
        all.push((WORKER.into(), self.worker.as_str().into()));
        all
    }

    fn equipment(
        &self,
        project: &Project,
        agents: &Agents,
        taken: &Taken,
        socket: &Path,
    ) -> Equipment {
        let kept = project.root().to_owned();
        Equipment {
            workspace: Arc::new(self.workspace.clone()),
            shell: Arc::new(SystemShell {
                secrets: Some(self.secrets.clone()),
                ..SystemShell::default()
            }),
            environment: self.environment(),
            lease_seconds: self.lease_seconds,
            stalls: agents.names.iter().map(|name| self.stall(name)).collect(),
            committer: self.committer(),
            socket: Some(socket.to_owned()),
            record: Some(project.home().runs().join(format!("{}.jsonl", taken.row.id))),
            judging: Judging {
                rules: self.rules.clone(),
                agent: Some(taken.row.agent.clone()),
                record: Arc::new(move |receipt| Ok(harness::store::record(&kept, receipt)?)),
            },
            loops: self.loops(agents, taken),
        }
    }
}

fn team(agents: Agents) -> Team<CodingAgent> {
    let others = agents.others.into_iter().map(|(name, agent)| named(&name, agent)).collect();
    Team {
        worker: named("worker", agents.worker),
        others,
        summarizer: agents.summarizer.map(|agent| named("summarizer", agent)),
    }
}

/// The row says how the run ended, if its loop has not said so already.
fn close(runs: &dyn Runs, row: &Run, owner: Owner, reason: StopReason) -> Result<Run> {
    let stored =
        |row: &Run| -> Result<Run> { Ok(runs.run(&row.id)?.unwrap_or_else(|| row.clone())) };
    if stored(row)?.status.is_over() {
        return stored(row);
    }
    let command = OfRun { run: row.id.clone(), by: Some(owner), step: RunStep::Stop(reason) };
    if let Err(refusal) = runs.apply(SystemClock.now(), &command)? {
        warn(&refusal.to_string());
    }
    stored(row)
}

/// Why it really failed, where the repository is gone.
fn without_git(root: &Path, failure: Failure) -> Failure {
    if harness::store::git_directory(root).is_some() {
        return failure;
    }
    Failure::config(format!("the git directory is gone: {}", failure.error))
        .hint("the ledger is intact; restore the repository, then run `harness run`")
}

/// Processes of a harness that was killed could still write into the work tree.
fn end_leftovers(root: &Path) -> Result<()> {
    let swept = leftovers::sweep(&Home::of(root).processes())?;
    for ended in &swept.ended {
        warn(&format!("ended a process that a killed run left: pid={}", ended.pid));
    }
    Ok(())
}
