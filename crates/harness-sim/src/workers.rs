//! Simulated workers. Each is a process with its own store. It sends the commands of a worker, a
//! client or an author of tasks, sometimes wrong ones, sometimes twice.

use harness::store::Store;
use harness_core::{
    Category, Command, CommitId, Epoch, Holder, Ledger, Reply, TaskId, WorkerId,
    command::{
        Add, AddCheckpoint, Attempts, Authority, BeginSession, Claim, ClaimChoice, Complete, Edit,
        EndSession, Fail, Import, ImportMode, Intend, Place, Proof, Release, Remove, Renew, Retry,
        Unchecked, VoidIntent,
    },
    plan::{Plan, PlanTask, PlanValidation},
    select::Applicant,
    task::{Intent, Status, Via},
};

use crate::random::Random;

const LEASE_SECONDS: u64 = 60;
/// The limit of tasks. More would only make the files longer.
const TASKS_MAX: usize = 12;

pub struct Worker {
    pub id: WorkerId,
    /// The store; `None` if the process has died and was not started again.
    pub store: Option<Box<dyn Store>>,
    /// The claim that it believes to hold.
    pub held: Option<Held>,
    /// Earlier claims, which it may insist on.
    pub lost: Vec<Held>,
    /// Commands whose answers it did not receive.
    pub unheard: Option<Vec<Command>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub task: TaskId,
    pub epoch: Epoch,
}

impl Worker {
    pub fn new(number: usize) -> Self {
        let id = WorkerId::recorded(&format!("w{number}"));
        Self { id, store: None, held: None, lost: Vec::new(), unheard: None }
    }

    /// Ends the process. It retries its last commands later, unless it has forgotten them.
    pub fn dies(&mut self, commands: Option<Vec<Command>>, random: &mut Random) {
        self.store = None;
        self.unheard = commands.filter(|_| random.percent(60));
        if random.percent(40) {
            self.lost.extend(self.held.take());
        }
    }

    pub fn hears(&mut self, command: &Command, reply: &Reply) {
        match (command, reply) {
            (Command::Claim(_), Reply::Claimed(claimed)) => {
                let task = claimed.task.id.clone();
                self.held = Some(Held { task, epoch: claimed.epoch });
            }
            (Command::Complete(_) | Command::Fail(_) | Command::Release(_), _) => {
                self.lost.extend(self.held.take());
            }
            _ => {}
        }
    }

    /// Returns its next commands, for one transaction.
    pub fn next(&mut self, ledger: &Ledger, ids: &mut Ids, random: &mut Random) -> Vec<Command> {
        if let Some(again) = self.unheard.take() {
            return again;
        }
        if self.held.is_none() && random.percent(70) {
            // A session that starts finds the task that it left. The task may be over.
            let mine = ledger.selection().held_by(&self.id).next().and_then(|t| ledger.task(t));
            self.held =
                mine.map(|t| Held { task: t.id.clone(), epoch: t.epoch.unwrap_or_default() });
        }
        let count = if random.percent(75) { 1 } else { 2 + random.below(3) };
        (0..count).map(|_| self.command(ledger, ids, random)).collect()
    }

    fn command(&self, ledger: &Ledger, ids: &mut Ids, random: &mut Random) -> Command {
        if let Some(held) = &self.held {
            let held = held.clone();
            return match random.weighted(&[22, 10, 30, 8, 12, 6, 6, 16, 2]) {
                0 => self.checkpoint(&held, ids, random),
                1 => Command::Renew(Renew::new(self.holder(&held, random), LEASE_SECONDS)),
                2 => self.complete(&held, ledger, ids, random),
                3 => self.intend(&held, ledger, ids, random),
                4 => self.fail(&held, ids, random),
                5 => Command::Release(Release {
                    task: held.task.clone(),
                    holder: Some(self.holder(&held, random)),
                    reason: ids.text("release"),
                }),
                6 => self.claim(ledger, ids, random),
                7 => author(ledger, ids, random),
                _ => Command::VoidIntent(VoidIntent { holder: self.holder(&held, random) }),
            };
        }
        match random.weighted(&[50, 35, 10, 3]) {
            0 => self.claim(ledger, ids, random),
            1 => author(ledger, ids, random),
            2 => match random.pick(&self.lost).cloned() {
                Some(lost) => self.insist(&lost, ledger, ids, random),
                None => self.claim(ledger, ids, random),
            },
            _ => match any(ledger, random) {
                Some(task) => {
                    let other = Held { task, epoch: Epoch(1) };
                    let mut complete = self.completion(&other, ledger, ids, random);
                    complete.authority = Authority::Force;
                    complete.holder.epoch = None;
                    Command::Complete(complete)
                }
                None => author(ledger, ids, random),
            },
        }
    }

    /// Returns a command that treats an earlier claim as still valid.
    fn insist(&self, lost: &Held, ledger: &Ledger, ids: &mut Ids, random: &mut Random) -> Command {
        match random.below(4) {
            0 => self.complete(lost, ledger, ids, random),
            1 => self.fail(lost, ids, random),
            2 => self.intend(lost, ledger, ids, random),
            _ => self.checkpoint(lost, ids, random),
        }
    }

    fn holder(&self, held: &Held, random: &mut Random) -> Holder {
        let epoch = match random.weighted(&[85, 8, 7]) {
            0 => Some(held.epoch),
            1 => Some(Epoch(held.epoch.0.saturating_sub(1))),
            _ => None,
        };
        Holder { task: held.task.clone(), worker: self.id.clone(), epoch }
    }

    fn claim(&self, ledger: &Ledger, ids: &mut Ids, random: &mut Random) -> Command {
        let via = if random.percent(60) { Via::Client } else { Via::Run };
        let place = match via {
            Via::Run => Place { base: ids.commit(), ..Place::default() },
            Via::Client => Place::default(),
        };
        let next = match via {
            Via::Run => ledger.selection().next_of_run(Applicant::PLAIN).cloned(),
            Via::Client => ledger.selection().next(Applicant::PLAIN).cloned(),
        };
        Command::Claim(Claim {
            worker: self.id.clone(),
            via,
            role: random.percent(10).then(|| "review".into()),
            labels: Vec::new(),
            choice: match next.filter(|_| random.percent(20)) {
                Some(next) => ClaimChoice::NextIs(next),
                None => ClaimChoice::Next,
            },
            lease_seconds: match via {
                Via::Client => harness_core::lease::CLIENT_LEASE_SECONDS,
                Via::Run => LEASE_SECONDS,
            },
            place,
            parallel: None,
        })
    }

    fn checkpoint(&self, held: &Held, ids: &mut Ids, random: &mut Random) -> Command {
        let total = 1 + random.below(4) as u32;
        // Sometimes the step exceeds the total.
        let steps = total as usize + usize::from(random.percent(10));
        Command::Checkpoint(AddCheckpoint {
            holder: self.holder(held, random),
            step: 1 + random.below(steps) as u32,
            total,
            description: ids.text("half\nway"),
            tree: None,
            lease_seconds: LEASE_SECONDS,
        })
    }

    fn complete(
        &self,
        held: &Held,
        ledger: &Ledger,
        ids: &mut Ids,
        random: &mut Random,
    ) -> Command {
        Command::Complete(self.completion(held, ledger, ids, random))
    }

    fn completion(
        &self,
        held: &Held,
        ledger: &Ledger,
        ids: &mut Ids,
        random: &mut Random,
    ) -> Complete {
        let check = ledger.task(&held.task).and_then(|t| t.check()).map(str::to_owned);
        let proof = match (check, random.weighted(&[75, 10, 15])) {
            (Some(command), 0) => Proof::Passed { command },
            (_, 1) => Proof::Passed { command: "true # another".into() },
            _ => Proof::Word,
        };
        let unchecked = if random.percent(85) { Unchecked::Allowed } else { Unchecked::Forbidden };
        Complete {
            holder: self.holder(held, random),
            authority: Authority::Holder,
            proof,
            unchecked,
            commit: ids.commit(),
        }
    }

    fn intend(&self, held: &Held, ledger: &Ledger, ids: &mut Ids, random: &mut Random) -> Command {
        let intent = match (ids.commit(), ids.commit()) {
            (Some(from), Some(to)) if random.percent(25) => {
                Intent::Land { target: "main".into(), from, to }
            }
            _ => Intent::Rollback { category: Category::TestFail, message: ids.text("red") },
        };
        let check = ledger.task(&held.task).and_then(|t| t.check()).map(str::to_owned);
        Command::Intend(Intend {
            holder: self.holder(held, random),
            intent,
            check,
            files: Vec::new(),
        })
    }

    fn fail(&self, held: &Held, ids: &mut Ids, random: &mut Random) -> Command {
        Command::Fail(Fail {
            holder: self.holder(held, random),
            category: Category::TaskExec,
            message: ids.text("it broke"),
            attempts: if random.percent(92) { Attempts::One } else { Attempts::All },
            rolled_back_to: if random.percent(50) { ids.commit() } else { None },
        })
    }
}

/// Numbers that never repeat, so that any two texts of a world differ.
#[derive(Debug, Default)]
pub struct Ids(u64);

impl Ids {
    pub fn number(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    /// Returns a text that ends in a full stop, so that no text is a prefix of another.
    pub fn text(&mut self, about: &str) -> String {
        format!("{about} #{}.", self.number())
    }

    fn commit(&mut self) -> Option<CommitId> {
        CommitId::parse(&format!("{:07x}", self.number())).ok()
    }
}

fn any(ledger: &Ledger, random: &mut Random) -> Option<TaskId> {
    let at = random.below(ledger.len());
    ledger.tasks().nth(at).map(|t| t.id.clone())
}

fn with_status(ledger: &Ledger, status: Status, random: &mut Random) -> Option<TaskId> {
    let all: Vec<TaskId> =
        ledger.tasks().filter(|t| t.status() == status).map(|t| t.id.clone()).collect();
    random.pick(&all).cloned()
}

/// Returns a command of an author of the plan.
fn author(ledger: &Ledger, ids: &mut Ids, random: &mut Random) -> Command {
    let add_weight = if ledger.len() < TASKS_MAX { 30 } else { 0 };
    let remove_weight = if ledger.len() < TASKS_MAX { 6 } else { 30 };
    match random.weighted(&[add_weight, 14, remove_weight, 5, 1, 16, 4, 6, 5]) {
        0 => add(ledger, ids, random),
        1 => match any(ledger, random) {
            Some(task) => edit(task, ledger, ids, random),
            None => add(ledger, ids, random),
        },
        2 => Command::Remove(Remove { task: any(ledger, random).unwrap_or_else(nobody) }),
        3 => import(ids, random),
        4 => Command::Reset,
        5 => {
            let task = with_status(ledger, Status::Failed, random);
            let task = task.or_else(|| any(ledger, random)).unwrap_or_else(nobody);
            Command::Retry(Retry { task, reason: ids.text("again") })
        }
        6 => {
            let task = with_status(ledger, Status::InProgress, random).unwrap_or_else(nobody);
            Command::Release(Release { task, holder: None, reason: ids.text("by hand") })
        }
        7 => Command::BeginSession(BeginSession { pid: ids.number() as u32, max_sessions: None }),
        _ => Command::EndSession(EndSession { pid: ids.number() as u32 }),
    }
}

fn nobody() -> TaskId {
    TaskId::numbered(999)
}

fn add(ledger: &Ledger, ids: &mut Ids, random: &mut Random) -> Command {
    let id = random.percent(10).then(|| any(ledger, random)).flatten();
    let mut fields = Edit::nothing(nobody());
    fields.depends_on = random.percent(40).then(|| any(ledger, random).into_iter().collect());
    fields.validation_command = random.percent(60).then(|| ids.text("cargo test"));
    fields.attempt_timeout_seconds = random.percent(30).then_some(20);
    fields.max_attempts = random.percent(40).then(|| 1 + random.below(3) as u32);
    fields.role = random.percent(10).then(|| "review".into());
    Command::Add(Add { id, title: ids.text("task \u{2028}with \"quotes\""), fields })
}

fn edit(task: TaskId, ledger: &Ledger, ids: &mut Ids, random: &mut Random) -> Command {
    let mut edit = Edit::nothing(task);
    match random.below(6) {
        0 => edit.title = Some(ids.text("edited")),
        1 => edit.priority = random.pick(&["P0", "P1", "P2", "P9"]).map(ToString::to_string),
        2 => edit.depends_on = Some(any(ledger, random).into_iter().collect()),
        3 => edit.max_attempts = Some(random.below(4) as u32),
        4 => edit.validation_command = Some(ids.text("make check")),
        _ => edit.validation_command = Some(String::new()),
    }
    Command::Edit(edit)
}

fn import(ids: &mut Ids, random: &mut Random) -> Command {
    let mut plan = Plan { goal: ids.text("goal"), ..Plan::default() };
    let mut last: Option<TaskId> = None;
    for _ in 0..1 + random.below(3) {
        let id = TaskId::numbered(1 + random.below(20) as u64);
        let dependencies = last.take().filter(|d| *d != id && random.percent(50));
        let task = PlanTask {
            description: ids.text("planned"),
            dependencies: dependencies.into_iter().collect(),
            validation: random.percent(50).then(|| PlanValidation {
                command: ids.text("make check"),
                timeout_seconds: None,
                ..PlanValidation::default()
            }),
            ..PlanTask::default()
        };
        plan.tasks.insert(id.clone(), task);
        last = Some(id);
    }
    let mode = match random.weighted(&[6, 1, 2]) {
        0 => ImportMode::Merge,
        1 => ImportMode::Replace,
        _ => ImportMode::IfFinished,
    };
    Command::Import(Import { plan, mode, by: None })
}
