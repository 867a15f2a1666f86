//! Several workers: whether a run has them, their ids, and what they share.

use std::{io, path::Path, sync::Arc, time::Duration};

use harness::{
    clock::{Clock as _, SystemClock},
    core::{
        Ledger, WorkerId,
        ledger::ConcurrencyMode,
        machine::{
            session::{Crew, CrewMember},
            worker::WhenIdle,
        },
        run::RunId,
    },
    flows::SharedWork,
    home::Home,
    project::Backing,
    store::{Changes, Presence, RegisteredWorker, Registration, Registry, WorkerRecord},
    workspace::{CleanupMode, CleanupTerms, GitRepository, shared::LandStyle},
};

use super::{Args, Manner, pull_request};
use crate::{
    config::{Config, Keep, Land},
    failure::{Failure, Result},
    fleet::FleetTerms,
    paint::warn,
    worker::IdOrigin,
};

/// The limit of suffixes that are tried for an id that is in use.
const SUFFIXES: u32 = 10_000;

/// How a run works on the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Footing {
    /// One worker in the main tree, which holds the lock.
    Alone,
    /// Workers in trees of their own, beside other processes.
    Together(CrewPlan),
}

/// The workers that a process starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CrewPlan {
    size: usize,
    naming: Naming,
    pub(super) target: Option<String>,
    land: Land,
    preparing: usize,
    when_idle: WhenIdle,
}

/// The ids of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// `<id>.1` to `<id>.N`.
    Numbered,
    /// `<id>`.
    Plain,
}

impl Footing {
    pub(super) fn of(
        args: &Args,
        config: &Config,
        ledger: &Ledger,
        manner: &Manner,
        backing: &Backing,
    ) -> Result<Self> {
        // What lands on a remote is made in a tree of its own, and nobody has a database for themselves.
        let apart = args.worktree || config.fleet.remote.is_some() || !backing.is_files();
        let concurrent = is_concurrent(ledger);
        let (size, naming, when_idle) = match (manner, args.workers) {
            (Manner::Work(joining), _) => (1, Naming::Plain, joining.when_idle),
            (Manner::Run, _) if args.objective.is_some() => return Ok(Self::Alone),
            (Manner::Run, Some(count)) if count > 1 || apart => {
                (usize::from(count), Naming::Numbered, WhenIdle::Leave)
            }
            (Manner::Run, Some(_)) => return Self::alone(args),
            (Manner::Run, None) if apart || concurrent => (1, Naming::Numbered, WhenIdle::Leave),
            (Manner::Run, None) => return Self::alone(args),
        };
        let land = args.land.unwrap_or(config.parallel.land);
        if land == Land::Pr && config.fleet.remote.is_some() {
            let what = "a pull request for each run, and results on a remote, exclude each other";
            return Err(Failure::config(what).hint(
                "leave out `land = \"pr\"` in [parallel] (or --land pr), or `remote` in [fleet]",
            ));
        }
        let of_fleet = config.fleet.target.clone().filter(|_| config.fleet.remote.is_some());
        Ok(Self::Together(CrewPlan {
            size,
            naming,
            target: args.target.clone().or(of_fleet).or_else(|| config.parallel.target.clone()),
            land,
            preparing: config.parallel.line,
            when_idle,
        }))
    }

    /// Lets results land on the branch of the run, if they become a pull request.
    pub(super) fn for_run(self, run: &RunId) -> Self {
        match self {
            Self::Together(plan) if plan.land == Land::Pr => {
                let target = Some(pull_request::branch(run));
                Self::Together(CrewPlan { target, ..plan })
            }
            other => other,
        }
    }

    /// Returns whether results become a pull request.
    pub(super) fn proposes(&self) -> bool {
        matches!(self, Self::Together(plan) if plan.land == Land::Pr)
    }

    /// Returns the flags that start as many workers again, after a space.
    pub(super) fn flags(&self) -> String {
        match self {
            Self::Together(CrewPlan { size, naming: Naming::Numbered, .. }) if *size > 1 => {
                format!(" --workers {size}")
            }
            Self::Together(_) | Self::Alone => String::new(),
        }
    }

    /// Refuses options that have a meaning for several workers only.
    fn alone(args: &Args) -> Result<Self> {
        let given = [("--target", args.target.is_some()), ("--land", args.land.is_some())];
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(Self::Alone),
            Some((flag, _)) => {
                let what = format!("{flag} is for workers in trees of their own");
                Err(Failure::usage(what).hint("add --workers N or --worktree"))
            }
        }
    }
}

/// Returns whether several workers may work on the ledger.
pub(super) fn is_concurrent(ledger: &Ledger) -> bool {
    ledger.head().session_config.concurrency_mode == ConcurrencyMode::Concurrent
}

/// Refuses a worker that needs the root for itself while workers of other processes are alive.
pub(super) fn refuse_beside_others(root: &Path) -> Result<()> {
    let alive = |found: &RegisteredWorker| found.presence == Presence::Alive;
    let Some(found) = Registry::of(root).workers()?.into_iter().find(alive) else { return Ok(()) };
    let (id, pid) = (&found.record.id, found.record.pid);
    Err(Failure::error(format!("worker {id} is still at work here (pid={pid})"))
        .hint("wait until it has ended, or leave --workers out to work beside it"))
}

/// The id of a worker before it gets a number.
pub(super) struct BaseId {
    pub(super) id: WorkerId,
    pub(super) origin: IdOrigin,
}

/// The workers of this process, registered.
pub(super) struct CrewAtWork {
    plan: CrewPlan,
    registry: Registry,
    registrations: Vec<Registration>,
    repository: Arc<GitRepository>,
    pub(super) shared: SharedWork,
}

impl CrewAtWork {
    /// Registers the workers. Nobody else can have their ids until this is dropped.
    pub(super) fn register(plan: CrewPlan, base: &BaseId, fleet: &FleetTerms<'_>) -> Result<Self> {
        let (config, root) = (fleet.config, fleet.root.path());
        let trees = config.parallel.trees();
        let repository = Arc::new(GitRepository::new(fleet.workspace.clone(), root, trees)?);
        let registry = Registry::of(root);
        refuse_another_path(&registry, root)?;
        let registrations = register(&registry, base, &plan)?;
        let mut shared = match fleet.repository(Arc::clone(&repository))? {
            Some(remote) => SharedWork::new(Arc::new(remote), Changes::default()),
            None => SharedWork::new(repository.clone(), Changes::default()),
        };
        let minutes = u64::from(config.fleet.backup_minutes);
        let is_backed_up = config.fleet.remote.is_some() && minutes > 0;
        shared.backup_interval = is_backed_up.then(|| Duration::from_secs(minutes * 60));
        shared.preparing = plan.preparing;
        shared.style = match plan.land {
            Land::Rebase => LandStyle::Rebase,
            // A pull request has one commit for each task.
            Land::Squash | Land::Pr => LandStyle::Squash,
        };
        let (dead, alive) = (registry.clone(), registry.clone());
        shared.is_dead = Arc::new(move |worker| dead.presence(worker) == Presence::Dead);
        shared.is_alive = Arc::new(move |worker| alive.presence(worker) == Presence::Alive);
        Ok(Self { plan, registry, registrations, repository, shared })
    }

    /// Adds to the files of the workers what is known only now.
    pub(super) fn describe(
        &mut self,
        run: &RunId,
        labels: &[String],
        socket: &Path,
    ) -> io::Result<()> {
        for registration in &mut self.registrations {
            let worktree = self.repository.tree_path(&registration.record().id);
            registration.update(|record| {
                record.run = Some(run.clone());
                record.worktree = Some(worktree);
                record.labels = labels.to_vec();
                record.socket = Some(socket.to_owned());
            })?;
        }
        Ok(())
    }

    /// Returns the records of the workers.
    pub(super) fn records(&self) -> Vec<WorkerRecord> {
        self.registrations.iter().map(|of| of.record().clone()).collect()
    }

    pub(super) fn terms(&self) -> Crew {
        let member = |registration: &Registration| {
            let worker = registration.record().id.clone();
            let worktree = self.repository.tree_path(&worker).display().to_string();
            CrewMember { worker, worktree: Some(worktree) }
        };
        Crew {
            members: self.registrations.iter().map(member).collect(),
            target: self.plan.target.clone(),
            when_idle: self.plan.when_idle,
        }
    }

    /// Removes what workers left that are surely dead: their work trees, the branches of attempts
    /// that have ended, and their files. What belongs to an open claim stays. The caller holds the
    /// lock, so that no claim is made meanwhile.
    pub(super) fn clean_up(&self, ledger: &Ledger, keep: &Keep) {
        let (mode, now) = (CleanupMode::Remove, SystemClock.now());
        let terms = CleanupTerms::of_ledger(ledger, mode, keep.rescue_days, now);
        if let Err(why) = self.repository.cleanup(&terms) {
            warn(&format!("what dead workers left could not be removed: {why}"));
        }
        let dead = self.registry.workers().unwrap_or_default().into_iter();
        let dead = dead.filter(|found| found.presence == Presence::Dead);
        for worker in dead.map(|found| found.record.id) {
            if ledger.selection().held_by(&worker).next().is_none() {
                _ = self.registry.forget(&worker);
            }
        }
    }
}

/// Refuses to work beside a worker that has this root at another path, as in a container with another
/// mount. Git stores the paths of work trees, so that each would break the trees of the other.
fn refuse_another_path(registry: &Registry, root: &Path) -> Result<()> {
    let usual = Home::of(root).worktrees();
    let Ok(below) = usual.strip_prefix(root) else { return Ok(()) };
    for RegisteredWorker { record, presence } in registry.workers()? {
        let Some(tree) = record.worktree else { continue };
        let is_usual = tree.ends_with(below.join(record.id.as_str()));
        if presence == Presence::Alive && is_usual && !tree.starts_with(root) {
            let (id, tree) = (record.id, tree.display());
            let what = format!("worker {id} has this project at another path: its tree is {tree}");
            let hint = format!("mount it at one path everywhere; here it is {}", root.display());
            return Err(Failure::config(what).hint(hint));
        }
    }
    Ok(())
}

fn register(registry: &Registry, base: &BaseId, plan: &CrewPlan) -> Result<Vec<Registration>> {
    let mut registered = Vec::new();
    for number in 1..SUFFIXES {
        if registered.len() == plan.size {
            break;
        }
        let name = match (plan.naming, number) {
            (Naming::Plain, 1) => base.id.as_str().to_owned(),
            _ => format!("{}.{number}", base.id),
        };
        let id = WorkerId::parse(&name).map_err(|bad| Failure::usage(bad.to_string()))?;
        let record = WorkerRecord::of_this_process(id.clone(), SystemClock.now());
        match (registry.register(record)?, base.origin) {
            (Some(registration), _) => registered.push(registration),
            (None, IdOrigin::MadeUp) => {}
            (None, IdOrigin::ByHand) => {
                return Err(Failure::error(format!("Worker {id} is already running"))
                    .hint("give this one another name, with --worker or HARNESS_WORKER_ID"));
            }
        }
    }
    Ok(registered)
}
