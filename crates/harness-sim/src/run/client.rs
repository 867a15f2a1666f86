//! A worker outside of any run: it claims a task, works and commits by itself, and has its work judged
//! by the library's own completion over simulated ports, in a process that may be killed or stopped.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use harness::{
    Commit as _, Hub, Ports,
    flows::{
        Site,
        completion::{Clerk, Completion},
    },
    process::Redactor,
    store::disk::File,
    workspace::{Base, Workspace, WorkspaceError},
};
use harness_core::{
    Command, CommitId, Flag, Holder, Refusal, Reply, Task, TaskId, TreeId, WorkerId,
    command::{Authority, Claim, ClaimChoice, Place, Release, Unchecked},
    format,
    machine::judge::{ClientWork, NotDone, Request, Rules, Standing},
    task::{Status, Via},
};

use super::{
    acts::{self, Act},
    commit::SimCommit,
    flaw::FlawedGit,
    process::{recorder, runtime},
    shell::RunShell,
    stage::{Fate, Stage},
};
use crate::checkers::Violation;

const LEASE_SECONDS: u64 = 1800;
/// A time that is longer than any claim of a client.
const FOREVER: i64 = 100_000;
/// A setting of git that a client may change.
const SETTING: &str = "core.ignorestat";

/// The reason why a completion was not made.
#[derive(Debug)]
#[expect(dead_code, reason = "the story shows what is in it")]
enum Turned {
    NotDone(NotDone),
    Refused(Refusal),
    Broken(harness::Error),
}

impl From<NotDone> for Turned {
    fn from(why: NotDone) -> Self {
        Self::NotDone(why)
    }
}

impl From<Refusal> for Turned {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

impl From<harness::Error> for Turned {
    fn from(why: harness::Error) -> Self {
        Self::Broken(why)
    }
}

pub(super) struct Client<'a> {
    pub(super) stage: &'a Stage,
    pub(super) root: &'a Path,
}

impl Client<'_> {
    /// Works on one task, from its claim to its end. Nothing of it is left in the tree unless the
    /// task was completed.
    pub(super) fn work(&self) -> Result<(), Violation> {
        let Some(worker) = WorkerId::parse("client").ok() else { return Ok(()) };
        let before = self.stage.state().git.model().clone();
        let Some(task) = self.claim(&worker)? else { return Ok(()) };
        self.act(&task.id)?;
        let changes_settings = self.stage.state().random.percent(20);
        if changes_settings {
            let state = self.stage.state();
            state.git.model().settings.config.insert(SETTING.to_owned(), "true".to_owned());
        }
        let holder = Holder { task: task.id.clone(), worker, epoch: task.epoch };
        let taken_back = self.stage.state().random.percent(15);
        if taken_back {
            self.release(&task.id, None, "somebody takes it back")?;
        }
        let completed = self.complete(&holder)?;
        if changes_settings {
            self.report_of_settings(&task)?;
            self.stage.state().git.model().settings = before.settings.clone();
        }
        if completed && taken_back {
            return Violation::of("a_claim_ends_once", format!("{} was taken back", task.id));
        }
        let done = {
            let state = self.stage.state();
            state.ledger.task(&task.id).is_some_and(|task| task.status() == Status::Completed)
        };
        if done {
            return Ok(());
        }
        *self.stage.state().git.model() = before;
        let dead = self.stage.state().dead;
        if dead {
            // The client sends nothing more, so its lease runs out.
            self.stage.state().clock.step(FOREVER);
        } else if !taken_back {
            self.release(&task.id, Some(holder), "it gives up")?;
        }
        Ok(())
    }

    fn claim(&self, worker: &WorkerId) -> Result<Option<Task>, Violation> {
        self.stage.state().begin(Fate { quiet: true, ..Fate::default() }, Hub::new("claim"));
        let base = self.stage.state().head();
        let reply = self.commit(Command::Claim(Claim {
            worker: worker.clone(),
            via: Via::Client,
            role: None,
            labels: Vec::new(),
            choice: ClaimChoice::Next,
            lease_seconds: harness_core::lease::CLIENT_LEASE_SECONDS,
            place: Place { base, ..Place::default() },
            parallel: None,
        }))?;
        match reply {
            Ok(Reply::Claimed(claimed)) => {
                let git = self.stage.git();
                git.record_settings(&claimed.task.id, claimed.epoch).map_err(broken)?;
                Ok(Some(claimed.task))
            }
            Ok(_) | Err(_) => Ok(None),
        }
    }

    fn release(&self, task: &TaskId, holder: Option<Holder>, why: &str) -> Result<(), Violation> {
        self.stage.state().begin(Fate { quiet: true, ..Fate::default() }, Hub::new("release"));
        let (task, reason) = (task.clone(), why.to_owned());
        self.commit(Command::Release(Release { task, holder, reason })).map(drop)
    }

    fn commit(&self, command: Command) -> Result<Result<Reply, Refusal>, Violation> {
        let port = SimCommit::new(self.stage.clone(), self.root);
        let runtime = runtime(self.stage).map_err(broken)?;
        runtime.block_on(port.commit(command)).map_err(broken)
    }

    /// Works, or does not, and commits what there is.
    fn act(&self, task: &TaskId) -> Result<(), Violation> {
        let mut state = self.stage.state();
        let act = if state.random.percent(65) { Act::Does } else { Act::Scratch };
        for act in [act, Act::CommitsNaming] {
            acts::perform(&mut state, act, task, "a client").map_err(broken)?;
        }
        state.messed(task);
        Ok(())
    }

    /// Checks that a changed setting is set back only when its flag is durable. A completion sets
    /// it back in any case, unless others share the repository.
    fn report_of_settings(&self, task: &Task) -> Result<(), Violation> {
        let state = self.stage.state();
        let bytes = state.disk.bytes(File::Ledger);
        let ledger = format::read_ledger(&bytes).map_err(broken)?;
        let row = ledger.task(&task.id).filter(|row| row.epoch == task.epoch);
        let completed = row.is_some_and(|row| row.status() == Status::Completed);
        let flagged = row.is_some_and(|row| row.flags.contains(&Flag::Config));
        let shared = ledger.selection().claimed().any(|other| *other != task.id);
        let stays = state.git.model().settings.config.contains_key(SETTING);
        let wrong = match (completed, stays) {
            (true, true) => !shared || !flagged,
            (true, false) | (false, false) => !flagged,
            (false, true) => false,
        };
        if wrong {
            let what =
                format!("{SETTING}, changed in {}: stays {stays}, flagged {flagged}", task.id);
            return Violation::of("every_forgery_is_reported", what);
        }
        Ok(())
    }

    fn complete(&self, holder: &Holder) -> Result<bool, Violation> {
        let hub = Hub::new("complete");
        {
            let mut state = self.stage.state();
            let fate = Fate::any(&mut state.random, false);
            state.story.tell(|| format!("a client completes {}: {fate:?}", holder.task));
            state.begin(fate, hub.clone());
            state.judges_client = true;
        }
        let result = self.judged(holder, hub);
        let mut state = self.stage.state();
        state.judges_client = false;
        state.end();
        state.story.tell(|| format!("the client is answered: {result:?}"));
        if let Some(violation) = state.violation.take() {
            return Err(violation);
        }
        match result {
            Ok(_) => state.tally.judged_for_clients += 1,
            Err(Turned::Broken(why)) if !state.dead => return Err(broken(why)),
            Err(Turned::NotDone(_) | Turned::Refused(_) | Turned::Broken(_)) => return Ok(false),
        }
        Ok(true)
    }

    fn judged(&self, holder: &Holder, hub: Hub) -> Result<TaskId, Turned> {
        let (clock, git, flaw) = {
            let git = self.stage.git();
            let state = self.stage.state();
            (Arc::clone(&state.clock), git, state.flaw)
        };
        let git = FlawedGit { stage: self.stage.clone(), git, flaw };
        let clerk = SimClerk { stage: self.stage.clone(), git: Arc::new(git) };
        let completion = Completion {
            clerk: &clerk,
            ports: Ports {
                commit: Arc::new(SimCommit::new(self.stage.clone(), self.root)),
                clock: Arc::<crate::clock::SimClock>::clone(&clock),
                tick: Duration::from_secs(1),
            },
            root: self.root.to_owned(),
            shell: Arc::new(RunShell(self.stage.clone())),
            redactor: Redactor::default(),
            record: recorder(self.stage),
            hub,
        };
        let request = Request {
            holder: holder.clone(),
            authority: Authority::Holder,
            unchecked: Unchecked::Forbidden,
            lease_seconds: LEASE_SECONDS,
            rules: Rules::default(),
            work: ClientWork::Left,
        };
        runtime(self.stage).map_err(harness::Error::from)?.block_on(async {
            let _following = clock.follow();
            completion.run(request, std::future::pending()).await
        })
    }
}

struct SimClerk {
    stage: Stage,
    git: Arc<FlawedGit>,
}

impl Clerk for SimClerk {
    type Error = Turned;

    fn standing(&self, task: &TaskId) -> impl Future<Output = Result<Standing, Turned>> + Send {
        let bytes = self.stage.state().disk.bytes(File::Ledger);
        let ledger = format::read_ledger(&bytes).map_err(harness::Error::other);
        let standing = ledger.map(|ledger| Standing::of(&ledger, task));
        std::future::ready(standing.map_err(Turned::from))
    }

    fn may_check(&self, _: &Task) -> Result<(), Turned> {
        Ok(())
    }

    fn site(&self, _: Option<&Path>) -> impl Future<Output = Result<Arc<dyn Site>, Turned>> + Send {
        let directory = self.git.top_level().to_owned();
        let site = SimSite { directory, git: Arc::clone(&self.git) };
        std::future::ready(Ok(Arc::new(site) as Arc<dyn Site>))
    }
}

struct SimSite {
    directory: PathBuf,
    git: Arc<FlawedGit>,
}

impl Site for SimSite {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn head(&self) -> Option<CommitId> {
        self.git.head().ok()
    }

    fn workspace(&self) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        Ok(Arc::<FlawedGit>::clone(&self.git))
    }

    fn base(&self, task: &Task) -> Result<Option<Base>, WorkspaceError> {
        Ok(Base::of_claim(task, &self.directory))
    }

    fn tree_of(&self, commit: &CommitId) -> Result<Option<TreeId>, WorkspaceError> {
        self.git.tree_of(commit).map(Some)
    }
}

fn broken(why: impl std::fmt::Display) -> Violation {
    Violation { checker: "no_error_but_a_kill", what: why.to_string() }
}
