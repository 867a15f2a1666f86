//! Puts the library's parts together and lets the flow run.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use harness::{
    Cx, Harness, Hub, Ports,
    agent::CodingAgent,
    clock::{Clock, SystemClock},
    core::{
        Command, Run, Stop,
        command::{Note, OfRun, RunStep},
        machine::{attempt::Rules, iterate, work},
        promise,
        run::{Owner, StopReason},
    },
    flows::{
        Judging, Looping, Team, Tools,
        ralph::{Errand, ralph},
        work::work,
    },
    home::Home,
    host::{Desk, Duty, Host, serve, socket, tell_facts},
    named,
    process::{Redactor, leftovers},
    prompts::Prompts,
    recorder,
    shell::SystemShell,
    store::{
        FileStore, Locking, Redacted, RunStore, Runs, SteadyRuns, Stores, Writer,
        disk::{Disk, RealDisk},
        lock::{StateLock, Wait},
        this_process,
    },
    telemetry::Telemetry,
    workspace::GitWorkspace,
};
use harness_core::WorkerId;

use super::{
    Args, agent::Agents, dirty::SetAside, keep, money, notify, progress, row, signals, terms,
    told::Told, view::View,
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
    pub(super) runs: work::Runs,
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

impl Session<'_> {
    /// Holds the lock for its whole life, as the only writer.
    pub(super) fn run(self, root: &StateRoot, agents: Agents, row: Run) -> Result<Ran> {
        crate::host::make_way(root, &self.places)?;
        let acquired =
            StateLock::acquire(root.path(), Wait::No).map_err(harness::store::StoreError::Lock)?;
        acquired.warnings.iter().for_each(|w| warn(&w.to_string()));
        end_leftovers(root.path())?;
        let runs = RunStore::open(root.path())?;
        row::close_stale(&runs, &harness::store::look(root.path())?, &row)?;
        // The agent can write into the database: what this process knows of a run stays true.
        let terms = terms::Kept::of_user(self.env, root)?;
        let kept = terms.clone();
        let runs = SteadyRuns::new(Arc::new(runs));
        let runs = runs.telling(Box::new(move |id, usage| kept.spent(id, usage)));
        let runs: Arc<dyn Runs> = Arc::new(runs);
        let owner = this_process();
        // One that is stored may have gone on since it was looked at, without the lock.
        let row = if self.args.resume { row::again(&*runs, &row)? } else { runs.open_run(&row)? };
        let afresh = row.status.is_over();
        if self.args.resume {
            terms.differences(&row).iter().for_each(|text| warn(text));
            if let Some(used) = terms.used(&row.id) {
                runs.at_least(&row.id, used)?;
            }
        }
        let row = row::take(&*runs, &row, &owner, self.args)?;
        terms.keep(&row);
        let stop = self.work(root, agents, &row, afresh, acquired.guard, &runs, &owner);
        let reason = stop.as_ref().map_or(StopReason::Crashed, |stop| stop.reason);
        Ok(Ran { run: close(&*runs, &row, owner, reason)?, stop })
    }

    /// Everything between the row's taking and its end.
    #[allow(clippy::too_many_arguments, reason = "they are what was just made, and used once")]
    fn work(
        self,
        root: &StateRoot,
        agents: Agents,
        row: &Run,
        afresh: bool,
        lock: StateLock,
        runs: &Arc<dyn Runs>,
        owner: &Owner,
    ) -> Result<Stop> {
        let over_ledger = row.objective.is_none();
        if over_ledger {
            // Hooks act only while there is a session.
            RealDisk::open(root.path())?.make_marker()?;
        }
        let bound = crate::host::bind(root, &self.places)?;
        self.view.refresh(root.path());
        let told = Told::from_here_on(root.path(), Arc::clone(&self.view))?;
        let hub = Hub::new(row.id.as_str());
        hub.start_session();
        let state_home = self.state_home.as_deref();
        let store = FileStore::open_with(root.path(), Locking::Held(lock), state_home)?;
        let telemetry = self.telemetry()?;
        let (heard, sent) = (hub.clone(), telemetry.clone());
        let publish = Box::new(move |facts: &[_], warnings: &[String]| {
            told.show(warnings);
            tell_facts(&heard, facts);
            if let Some(telemetry) = &sent {
                facts.iter().for_each(|fact| telemetry.emit(fact));
            }
        });
        let store = Redacted::new(store, self.secrets.clone());
        let writer = Arc::new(Writer::start(store, Arc::new(SystemClock), publish)?);
        self.log_warnings(&writer)?;
        let moneyless = money::to_be_seen(row, &agents);
        let looping = self.looping(&agents, row, runs, owner);
        let tools = Tools {
            socket: Some(bound.path().to_owned()),
            ..self.tools(root.path(), Arc::clone(&writer), row, looping)
        };
        let host = Host {
            root: root.path().to_owned(),
            writer: Arc::clone(&writer),
            hub: hub.clone(),
            workspace: Some(Arc::clone(&tools.workspace)),
            desk: tools.desk.clone(),
            lease_seconds: self.lease_seconds,
            duty: Duty::Run,
            secrets: self.secrets.clone(),
            adding: self.config.adding(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let set_aside = match self.dirty {
            Dirty::SetAside if over_ledger => {
                SetAside::take(&self.workspace, &harness::store::look(root.path())?)?
            }
            Dirty::SetAside | Dirty::Refuse => None,
        };
        let view = Arc::clone(&self.view);
        let (notified_by, kept) = (self.config.notify.clone(), self.config.keep.clone());
        let (processes, tick) = (processes(root.path()), tools.ports.tick);
        let (workspace, secrets) = (self.workspace.clone(), self.secrets.clone());
        let session = over_ledger.then(|| self.session(row, owner));
        let flow = Harness::define("run").agents(team(agents)).state(|(): &()| ()).run(
            async move |cx: &mut Cx<'_, (), Team<CodingAgent>>| match session.clone() {
                Some(session) => work(cx, &tools, session).await,
                None => ralph(cx, &tools, Errand::Objective { afresh }).await,
            },
        );
        let record = root.home().runs().join(format!("{}.jsonl", row.id));
        let ended = runtime.block_on(async {
            let _followed = progress::follow(&hub, &view, row, moneyless);
            let _notified = notify::watch(&hub, notified_by.as_deref(), root.path());
            let _signals = signals::interrupt(&hub)?;
            let server = serve(bound, host)?;
            tokio::spawn(leftovers::keep_sweeping(processes, tick));
            let run = flow.create_in(hub.clone(), ()).attach(recorder(&record, secrets));
            let done = run.run().await;
            view.end();
            server.end().await;
            done.map(|done| done.result).map_err(|e| Failure::error(e.to_string()))
        });
        // Ends when nobody can ask any more; what waits is written first.
        drop(runtime);
        drop(flow);
        // What the last agent made of the files is judged by the process that knows better.
        if let Err(why) = writer.settle() {
            warn(&why.to_string());
        }
        drop(writer);
        if let Some(telemetry) = telemetry.and_then(Arc::into_inner) {
            telemetry.close();
        }
        keep::prune(root.path(), &workspace, &kept);
        // Whatever became of the session.
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

    /// Only where it is switched on: `[telemetry] run`.
    fn telemetry(&self) -> Result<Option<Arc<Telemetry>>> {
        let off = std::env::var_os("HARNESS_ACP").is_some_and(|value| value == "off");
        if off || !self.config.telemetry.run {
            return Ok(None);
        }
        let view = Arc::clone(&self.view);
        let say = Box::new(move |text: &str| view.lines(&format!("{text}\n")));
        Ok(Some(Arc::new(Telemetry::start(self.config.telemetry.port, self.secrets.clone(), say)?)))
    }

    fn session(&self, row: &Run, owner: &Owner) -> work::Session {
        let step = RunStep::Beat { lease_seconds: row::LEASE_SECONDS };
        work::Session {
            worker: self.worker.clone(),
            pid: std::process::id(),
            lease_seconds: self.lease_seconds,
            max_tasks: self.max_tasks,
            max_sessions: self.max_sessions,
            runs: self.runs,
            until: row.deadline,
            heartbeat: Some(OfRun { run: row.id.clone(), by: Some(owner.clone()), step }),
        }
    }

    fn looping(&self, agents: &Agents, row: &Run, runs: &Arc<dyn Runs>, owner: &Owner) -> Looping {
        let rules = iterate::Rules {
            promise_match: match self.config.promise_match {
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
        Looping {
            runs: Arc::clone(runs),
            run: row.id.clone(),
            by: Some(owner.clone()),
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

    fn tools(&self, root: &Path, writer: Arc<Writer>, row: &Run, looping: Looping) -> Tools {
        let names = &looping.rules.names;
        let kept = root.to_owned();
        let truth = Arc::clone(&writer);
        let clock = Arc::new(SystemClock);
        let runs = Arc::clone(&looping.runs);
        let stalls = names.iter().map(|name| self.stall(name)).collect();
        Tools {
            ports: Ports {
                commit: Arc::new(Stores { ledger: writer, runs, clock: clock.clone() }),
                clock,
                // A lease survives two heartbeats that do not get through, be it a task's or a run's.
                tick: Duration::from_secs((self.lease_seconds.min(row::LEASE_SECONDS) / 3).max(1)),
            },
            workspace: Arc::new(self.workspace.clone()),
            shell: Arc::new(SystemShell {
                secrets: Some(self.secrets.clone()),
                ..SystemShell::default()
            }),
            // Not the file: what an agent made of that is for the writer to judge.
            ledger: Arc::new(move || {
                truth.look(Clone::clone).map_err(|why| harness::Error::from(why.to_string()))
            }),
            root: root.to_owned(),
            environment: std::env::vars_os().collect(),
            redactor: self.secrets.clone(),
            run_id: row.id.to_string(),
            lease_seconds: self.lease_seconds,
            desk: Desk::default(),
            committer: self.committer(),
            socket: None,
            judging: Judging {
                rules: self.rules.clone(),
                agent: Some(row.agent.clone()),
                record: Arc::new(move |receipt| Ok(harness::store::record(&kept, receipt)?)),
            },
            looping,
            stalls,
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
        .hint("the ledger is as harness knows it; put the repository back, then `harness run`")
}

fn processes(root: &Path) -> PathBuf {
    Home::of(root).processes()
}

/// Processes of a harness that was killed could still write into the work tree.
fn end_leftovers(root: &Path) -> Result<()> {
    let swept = leftovers::sweep(&processes(root))?;
    for ended in &swept.ended {
        warn(&format!("ended what a killed run left: pid={}", ended.pid));
    }
    Ok(())
}
