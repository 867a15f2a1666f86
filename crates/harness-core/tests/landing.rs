//! Results of several workers on their way to the target branch: the machine of each one over one
//! ledger and a small model of git, in random order. A failure prints its smallest case.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::BTreeSet;

use harness_core::{
    Category, Command, CommitId, Holder, Ledger, Receipt, Reply, TaskId, Timestamp, TreeId,
    check::Verdict,
    command::*,
    decide,
    ledger::ConcurrencyMode,
    line,
    machine::{
        Input, Machine as _, Next,
        judge::{self, Around, Before, JudgedTree, Rules},
        land::{Land, LandEffect, LandEnd, LandReport, LandTerms, LandingBranch, Rebased, Swapped},
    },
    receipt::{CheckRecord, VERSION},
    run::StopReason,
    task::{Intent, Status, Via},
};
use proptest::prelude::*;
use support::{ledger, worker};

const FILES: [&str; 4] = ["a", "b", "c", "d"];

/// A commit of the model: its parent, and the result that it holds; `None` for one of the user.
#[derive(Debug, Clone)]
struct Commit {
    parent: Option<usize>,
    task: Option<usize>,
    files: BTreeSet<&'static str>,
}

#[derive(Debug, Clone)]
struct Plan {
    /// The files that the task changes.
    files: BTreeSet<&'static str>,
    /// A task whose result makes the check of this one fail.
    hates: Option<usize>,
}

#[derive(Debug, Clone)]
enum Move {
    /// The next pending effect of a worker ends.
    Go(usize),
    Tick(usize),
    /// The server does not answer the pending effect of a worker, which happened there or not.
    Cut(usize, Happened),
    /// The user commits on the target.
    User,
    /// Nobody gives a sign of life for a while.
    Silence,
}

/// Whether an effect happened although its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happened {
    Yes,
    No,
}

struct World {
    plans: Vec<Plan>,
    commits: Vec<Commit>,
    tip: usize,
    tokens: Vec<Option<CommitId>>,
    ledger: Ledger,
    now: Timestamp,
    workers: Vec<Worker>,
    /// The trees on which each check passed: the task and the commit below.
    passed: BTreeSet<(usize, usize)>,
    receipts: Vec<Option<Receipt>>,
    landed: Vec<usize>,
    /// The worker that was killed.
    dead: Option<usize>,
}

struct Worker {
    machine: Option<Land>,
    pending: Option<LandEffect>,
    holder: Holder,
    base: usize,
    work: usize,
    head: usize,
}

fn hash(index: usize) -> CommitId {
    CommitId::parse(&format!("{:040x}", index + 1)).unwrap()
}

fn index(commit: &CommitId) -> usize {
    usize::from_str_radix(commit.as_str(), 16).unwrap() - 1
}

fn tree(index: usize) -> TreeId {
    TreeId::parse(&format!("{:040x}", index + 1)).unwrap()
}

fn task(number: usize) -> TaskId {
    TaskId::numbered(number as u64 + 1)
}

impl World {
    fn new(plans: Vec<Plan>) -> Self {
        let tasks: Vec<_> = (0..plans.len())
            .map(|n| {
                let id = task(n);
                format!(r#"{{"id":"{id}","title":"t","validation":{{"command":"make test"}}}}"#)
            })
            .collect();
        let mut world = Self {
            commits: vec![Commit { parent: None, task: None, files: BTreeSet::new() }],
            tip: 0,
            tokens: vec![None; plans.len()],
            ledger: ledger(&format!("[{}]", tasks.join(","))),
            now: Timestamp::from_seconds(1_000_000),
            workers: Vec::new(),
            passed: BTreeSet::new(),
            receipts: vec![None; plans.len()],
            landed: Vec::new(),
            dead: None,
            plans,
        };
        let mode = ConcurrencyMode::Concurrent;
        world.apply(&Command::SetMode(SetMode { mode })).unwrap();
        world
            .apply(&Command::SetTarget(SetTarget { branch: "main".into(), remote: None }))
            .unwrap();
        for n in 0..world.plans.len() {
            let holder = Holder { task: task(n), worker: worker(&format!("w{n}")), epoch: None };
            let worker = Worker { machine: None, pending: None, holder, base: 0, work: 0, head: 0 };
            world.workers.push(worker);
            world.begin(n);
        }
        world
    }

    fn apply(&mut self, command: &Command) -> Result<Reply, harness_core::Refusal> {
        let change = decide(&self.ledger, self.now, command)?;
        self.ledger.put_in(&change);
        Ok(change.reply)
    }

    /// Claims the task, works and lets its check pass on its own base.
    fn begin(&mut self, n: usize) {
        let claim = Claim {
            worker: self.workers[n].holder.worker.clone(),
            via: Via::Run,
            role: None,
            labels: Vec::new(),
            choice: ClaimChoice::Ready(task(n)),
            lease_seconds: 1800,
            place: Place { base: Some(hash(self.tip)), ..Place::default() },
            parallel: Some(ParallelTerms {
                max_tasks: 0,
                max_sessions: None,
                landed: self.ledger.task(&task(n)).and_then(|t| line::landed_for(&self.ledger, t)),
            }),
        };
        let Ok(Reply::Claimed(claimed)) = self.apply(&Command::Claim(claim)) else { return };
        let holder = Holder { epoch: Some(claimed.epoch), ..self.workers[n].holder.clone() };
        let base = self.tip;
        if self.is_red(n, base) {
            self.fail(&holder, Category::TestFail, "red on its own base", Attempts::One);
            return self.begin(n);
        }
        let work = self.commit(Some(base), n);
        self.passed.insert((n, base));
        self.land(n, claimed.task, holder, (base, work));
    }

    /// Lets a result that passed its check on its own base join the line.
    fn land(
        &mut self,
        n: usize,
        task: harness_core::Task,
        holder: Holder,
        (base, work): (usize, usize),
    ) {
        let receipt = self.receipt(&task, base, work, &holder);
        let terms = LandTerms {
            task,
            holder: holder.clone(),
            lease_seconds: 1800,
            rules: Rules::default(),
            base: hash(base),
            preparing: line::PREPARING,
        };
        let machine = Some(Land::new(terms, receipt));
        self.workers[n] = Worker { machine, pending: None, holder, base, work, head: work };
        self.step(n, Input::Begin);
    }

    fn receipt(&self, of: &harness_core::Task, base: usize, work: usize, by: &Holder) -> Receipt {
        Receipt {
            version: VERSION,
            task: of.id.clone(),
            epoch: by.epoch.unwrap(),
            worker: by.worker.clone(),
            attempt: 1,
            base: Some(hash(base)),
            commit: Some(hash(work)),
            tree: Some(tree(work)),
            check: Some(record()),
            baseline: None,
            protected: Vec::new(),
            tests: Vec::new(),
            uncommitted: Vec::new(),
            flags: Vec::new(),
            agent: None,
            iterations: None,
            tokens: None,
            cost_usd: None,
            time: self.now,
        }
    }

    fn fail(&mut self, holder: &Holder, category: Category, message: &str, attempts: Attempts) {
        let fail = Fail {
            holder: holder.clone(),
            category,
            message: message.into(),
            attempts,
            rolled_back_to: None,
        };
        self.apply(&Command::Fail(fail)).unwrap();
    }

    fn commit(&mut self, parent: Option<usize>, n: usize) -> usize {
        let files = self.plans[n].files.clone();
        self.commits.push(Commit { parent, task: Some(n), files });
        self.commits.len() - 1
    }

    fn below(&self, from: usize) -> Vec<usize> {
        std::iter::successors(Some(from), |at| self.commits[*at].parent).collect()
    }

    fn is_red(&self, n: usize, onto: usize) -> bool {
        let hates = self.plans[n].hates;
        hates.is_some() && self.below(onto).iter().any(|c| self.commits[*c].task == hates)
    }

    fn rebase(&mut self, n: usize, onto: usize) -> Rebased {
        let base = self.workers[n].base;
        if onto == base {
            let work = self.workers[n].work;
            self.workers[n].head = work;
            return self.rebased(n, work);
        }
        let known = self.below(base);
        let new = self.below(onto).into_iter().filter(|c| !known.contains(c));
        let files: BTreeSet<_> = new.flat_map(|c| self.commits[c].files.clone()).collect();
        let both: Vec<_> = self.plans[n].files.intersection(&files).collect();
        if !both.is_empty() {
            return Rebased::Conflict {
                files: both.into_iter().map(ToString::to_string).collect(),
            };
        }
        let commit = self.commit(Some(onto), n);
        self.workers[n].head = commit;
        self.rebased(n, commit)
    }

    fn rebased(&self, n: usize, commit: usize) -> Rebased {
        let files = self.plans[n].files.iter().map(ToString::to_string).collect();
        Rebased::Done { commit: hash(commit), tree: tree(commit), files }
    }

    fn step(&mut self, n: usize, input: Input<LandReport>) {
        let mut input = input;
        loop {
            let Some(machine) = &mut self.workers[n].machine else { return };
            input = match machine.step(self.now, input) {
                Next::Commit(command) => match self.apply(&command) {
                    Ok(reply) => Input::Committed(reply),
                    Err(refusal) => Input::Refused(refusal),
                },
                Next::Start(effect) => {
                    assert!(self.workers[n].pending.is_none(), "one effect at a time");
                    self.workers[n].pending = Some(effect);
                    return;
                }
                Next::Wait | Next::Cancel(_) => return,
                Next::Done(end) => return self.ended(n, end),
            };
        }
    }

    fn ended(&mut self, n: usize, end: LandEnd) {
        self.workers[n].machine = None;
        match end {
            LandEnd::Landed { commit } => {
                let commit = index(&commit.unwrap());
                let onto = self.commits[commit].parent.unwrap();
                assert!(self.passed.contains(&(n, onto)), "landed without a passed check");
                let receipt = self.receipts[n].as_ref().unwrap();
                assert_eq!(receipt.commit, Some(hash(commit)), "of the commit that landed");
            }
            LandEnd::Refused { category, message, attempts } => {
                let holder = self.workers[n].holder.clone();
                assert_eq!(self.workers[n].head, self.workers[n].work, "back on its own base");
                self.fail(&holder, category, &message, attempts);
                self.begin(n);
            }
            LandEnd::Left(stop) if stop.reason == StopReason::EnvSetup => self.recover(n),
            other => panic!("{other:?}"),
        }
    }

    /// Takes a result up that was left, as another worker does.
    fn recover(&mut self, n: usize) {
        let found = self.ledger.task(&task(n)).unwrap().clone();
        let over = TakeOver {
            task: task(n),
            epoch: found.epoch,
            gone: Gone::Dead,
            worker: self.workers[n].holder.worker.clone(),
            lease_seconds: 1800,
            worktree: None,
        };
        let Ok(Reply::Claimed(claimed)) = self.apply(&Command::TakeOver(over)) else {
            panic!("a task that was left can be taken over")
        };
        let holder = Holder { epoch: Some(claimed.epoch), ..self.workers[n].holder.clone() };
        let token = self.tokens[n].take();
        if let Some(Intent::Land { to, .. }) = found.intent() {
            if token.as_ref() != Some(to) && self.below(self.tip).contains(&index(to)) {
                return self.complete(holder, to);
            }
            self.apply(&Command::VoidIntent(VoidIntent { holder: holder.clone() })).unwrap();
        }
        let task = self.ledger.task(&task(n)).unwrap().clone();
        let Worker { base, work, .. } = self.workers[n];
        self.workers[n].head = work;
        self.land(n, task, holder, (base, work));
    }

    fn complete(&mut self, holder: Holder, to: &CommitId) {
        let complete = Complete {
            holder,
            authority: Authority::Holder,
            proof: Proof::Passed { command: "make test".into() },
            unchecked: Unchecked::Forbidden,
            commit: Some(to.clone()),
        };
        self.apply(&Command::Complete(complete)).unwrap();
    }

    fn perform(&mut self, n: usize, effect: LandEffect) -> LandReport {
        match effect {
            LandEffect::Look { files } => LandReport::Looked {
                branch: LandingBranch { name: "main".into(), tip: hash(self.tip) },
                line: self.ledger.head().landing.clone(),
                held_back: line::held_back(&self.ledger, &task(n), &files, self.now).cloned(),
                gone: Evict::first(&self.ledger, self.now, |by| {
                    self.dead.is_some_and(|n| self.workers[n].holder.worker == *by)
                }),
            },
            LandEffect::Await => LandReport::Awaited,
            LandEffect::Rebase { work, onto, .. } => {
                assert_eq!(index(&work), self.workers[n].work);
                LandReport::Rebased(self.rebase(n, index(&onto)))
            }
            LandEffect::Judge { onto, effect } => {
                LandReport::Judged(self.judge(n, index(&onto), effect))
            }
            LandEffect::SetToken { to } => {
                self.tokens[n] = Some(to);
                LandReport::TokenSet
            }
            LandEffect::Swap { from, to, .. } => LandReport::Swapped(self.swap(n, &from, &to)),
            LandEffect::VoidToken { to } => match self.tokens[n].take() {
                Some(token) if token == to => LandReport::TokenVoided,
                _ => LandReport::TokenMissing,
            },
            LandEffect::Branch { .. } => panic!("the user does not commit that often"),
        }
    }

    fn swap(&mut self, n: usize, from: &CommitId, to: &CommitId) -> Swapped {
        assert_eq!(self.tokens[n].as_ref(), Some(to));
        if hash(self.tip) != *from {
            return Swapped::TargetMoved;
        }
        self.tokens[n] = None;
        self.tip = index(to);
        assert!(!self.landed.contains(&n), "nothing lands twice");
        self.landed.push(n);
        Swapped::Done
    }

    fn judge(&mut self, n: usize, onto: usize, effect: judge::Effect) -> judge::Ended {
        let (head, settings) = (self.workers[n].head, Vec::new());
        match effect {
            judge::Effect::Keep { .. } => {
                judge::Ended::Kept { commit: hash(head), hidden: Vec::new(), settings }
            }
            judge::Effect::Check { .. } => {
                let red = self.is_red(n, onto);
                if !red {
                    self.passed.insert((n, onto));
                }
                let verdict =
                    if red { Verdict::Red { why: "exit code 1".into() } } else { Verdict::Passed };
                let before = Before { tree: tree(head), hidden: Vec::new() };
                judge::Ended::Checked {
                    verdict,
                    record: Box::new(record()),
                    output: String::new(),
                    around: Box::new(Around { settings, before: Some(before) }),
                }
            }
            judge::Effect::Settle { before } => judge::Ended::Settled {
                tree: Box::new(JudgedTree {
                    after: before.tree.clone(),
                    before: before.tree,
                    changed: Vec::new(),
                    moved: false,
                    hidden: Vec::new(),
                }),
                settings,
            },
            judge::Effect::Record(receipt) => {
                self.receipts[n] = Some(*receipt);
                judge::Ended::Recorded
            }
            other => panic!("{other:?}"),
        }
    }

    fn go(&mut self, n: usize) {
        if let Some(effect) = self.workers[n].pending.take() {
            let report = self.perform(n, effect);
            self.step(n, Input::Ended(report));
        }
    }

    /// Ends the pending effect of a worker without an answer, if it is one that needs the server.
    fn cut(&mut self, n: usize, happened: Happened) {
        let needs_server = |effect: &LandEffect| match effect {
            LandEffect::Rebase { .. }
            | LandEffect::SetToken { .. }
            | LandEffect::Swap { .. }
            | LandEffect::VoidToken { .. } => true,
            LandEffect::Look { .. }
            | LandEffect::Await
            | LandEffect::Judge { .. }
            | LandEffect::Branch { .. } => false,
        };
        let Some(effect) = self.workers[n].pending.take_if(|effect| needs_server(effect)) else {
            return;
        };
        if happened == Happened::Yes {
            self.perform(n, effect);
        }
        self.step(n, Input::Ended(LandReport::Unreachable { why: "no answer".into() }));
    }

    fn play(&mut self, step: &Move) {
        let count = self.workers.len();
        match step {
            Move::Go(n) => self.go(n % count),
            Move::Cut(n, happened) => self.cut(n % count, *happened),
            Move::Tick(n) => {
                // A tick comes only while an effect is under way.
                if self.workers[n % count].pending.is_some() {
                    self.step(n % count, Input::Tick);
                }
            }
            Move::User => {
                let files = BTreeSet::new();
                self.commits.push(Commit { parent: Some(self.tip), task: None, files });
                self.tip = self.commits.len() - 1;
            }
            Move::Silence => self.now = self.now.plus(line::SILENT_SECONDS + 1),
        }
    }

    /// Lets each worker go on in turn. One without a claim claims its task again, if it may.
    fn round(&mut self) {
        for n in 0..self.workers.len() {
            match &self.workers[n].machine {
                Some(_) => self.go(n),
                None if self.ledger.task(&task(n)).unwrap().unfinished() => self.begin(n),
                None => {}
            }
        }
    }

    /// Lets only one worker go on, while the others are silent.
    fn alone(&mut self, n: usize, until: impl Fn(&Self) -> bool) {
        self.play(&Move::Silence);
        self.play(&Move::Tick(n));
        for _ in 0..200 {
            if until(self) {
                return;
            }
            self.go(n);
        }
        panic!("worker {n} stands still: {:?}", self.ledger.head().landing);
    }

    fn attempts(&self, n: usize) -> u32 {
        self.ledger.task(&task(n)).unwrap().attempts
    }

    fn open(&self) -> bool {
        self.ledger.tasks().any(harness_core::Task::unfinished)
    }
}

fn record() -> CheckRecord {
    CheckRecord {
        command: "make test".into(),
        timeout_seconds: 1,
        clean: false,
        exit_code: 0,
        duration_ms: 1,
        output_bytes: 0,
        output_sha256: String::new(),
        output_tail: String::new(),
    }
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let files = proptest::sample::subsequence(FILES.to_vec(), 1..=2);
    let plan = (files, proptest::option::weighted(0.2, 0..6usize));
    prop::collection::vec(plan, 1..6).prop_map(|plans| {
        let count = plans.len();
        let plan = |(n, (files, hates)): (usize, (Vec<&'static str>, Option<usize>))| Plan {
            files: files.into_iter().collect(),
            hates: hates.map(|other| other % count).filter(|other| *other != n),
        };
        plans.into_iter().enumerate().map(plan).collect()
    })
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = prop_oneof![
        20 => (0..8usize).prop_map(Move::Go),
        2 => (0..8usize).prop_map(Move::Tick),
        1 => (0..8usize).prop_map(|n| Move::Cut(n, Happened::Yes)),
        1 => (0..8usize).prop_map(|n| Move::Cut(n, Happened::No)),
        1 => Just(Move::User),
        1 => Just(Move::Silence),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the order, every result lands once and validated, or fails by its own fault, and the
    /// line never stands still.
    #[test]
    fn every_result_lands_or_fails_by_its_own_fault(plans in plans(), moves in moves()) {
        let mut world = World::new(plans);
        let mut users = 0;
        for step in &moves {
            if matches!(step, Move::User) {
                users += 1;
                if users > 3 {
                    continue;
                }
            }
            world.play(step);
        }
        // From here on nobody disturbs, and each worker goes on in turn.
        let mut rounds = 0;
        while world.open() {
            world.round();
            rounds += 1;
            assert!(rounds < 2000, "the line stands still: {:?}", world.ledger.head().landing);
        }
        for (n, plan) in world.plans.iter().enumerate() {
            let task = world.ledger.task(&task(n)).unwrap();
            match task.status() {
                Status::Completed => assert!(world.landed.contains(&n)),
                Status::Failed => {
                    assert!(task.failed_for_good());
                    // Only a result that cannot work on top of another one fails for good.
                    assert!(plan.hates.is_some() || has_rival(&world, n), "{:?}", task.error_log);
                }
                other => panic!("{n} is {other}"),
            }
        }
        assert!(world.ledger.head().landing.is_empty());
        assert!(world.tokens.iter().all(Option::is_none));
    }
}

/// Whether another task with a reservation, or the user, may have been in the way each time.
fn has_rival(world: &World, n: usize) -> bool {
    let mine = &world.plans[n].files;
    world.plans.iter().enumerate().any(|(other, plan)| other != n && !plan.files.is_disjoint(mine))
}

#[test]
fn two_results_that_change_the_same_line_both_land() {
    let plan =
        |files: &[&'static str]| Plan { files: files.iter().copied().collect(), hates: None };
    let mut world = World::new(vec![plan(&["a"]), plan(&["a"])]);
    while world.open() {
        world.round();
    }
    assert_eq!(world.landed.len(), 2);
    let second = world.ledger.task(&task(world.landed[1])).unwrap();
    let errors: Vec<_> = second.error_log.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["[TASK_EXEC] Conflict with main in a"]);
    assert!(second.conflicts.is_empty(), "a completed task reserves nothing");
}

#[test]
fn a_conflict_in_a_reserved_file_does_not_count() {
    let plan = || Plan { files: BTreeSet::from(["a"]), hates: None };
    let mut world = World::new(vec![plan(), plan(), plan(), plan()]);
    for lost in 1..=2 {
        let rival = lost - 1;
        world.alone(rival, |world| world.landed.contains(&rival));
        world.alone(3, |world| world.attempts(3) as usize == lost);
    }
    let last = world.ledger.task(&task(3)).unwrap();
    assert_eq!(line::reserved(last, world.now), ["a"], "this is its last attempt");
    // Its lease ends, and another result lands in the file.
    world.now = world.now.plus(1801);
    world.alone(2, |world| world.landed.contains(&2));
    let errors = |world: &World| world.ledger.task(&task(3)).unwrap().error_log.len();
    world.alone(3, |world| errors(world) == 3);
    assert_eq!(world.attempts(3), 2, "the conflict is not its fault");
    world.alone(3, |world| world.landed.contains(&3));
}

#[test]
fn nobody_waits_for_the_entry_of_a_dead_worker() {
    let plan = |file: &'static str| Plan { files: BTreeSet::from([file]), hates: None };
    let mut world = World::new(vec![plan("a"), plan("b")]);
    world.dead = Some(0);
    let first = |world: &World| world.ledger.head().landing.first().map(|e| e.task.clone());
    assert_eq!(first(&world), Some(task(0)), "it died at the head of the line");
    for _ in 0..200 {
        world.go(1);
    }
    assert_eq!(world.landed, [1], "no time had to pass");
}

#[test]
fn nobody_waits_for_the_entry_of_a_worker_that_ended_its_lease() {
    let plan = |file: &'static str| Plan { files: BTreeSet::from([file]), hates: None };
    let mut world = World::new(vec![plan("a"), plan("b")]);
    // The store decides whether a worker is gone, because the clock of the one who asks may be wrong.
    let epoch = world.workers[0].holder.epoch.unwrap();
    let gone = Gone::LeaseRanOut;
    world.apply(&Command::Evict(Evict { task: task(0), epoch, gone })).unwrap();
    assert_eq!(world.ledger.head().landing.len(), 2);
    let holder = world.workers[0].holder.clone();
    world.apply(&Command::Renew(Renew::new(holder, 0))).unwrap();
    world.now = world.now.plus(2);
    for _ in 0..200 {
        world.go(1);
    }
    assert_eq!(world.landed, [1]);
}

/// Six results whose checks take a while are judged side by side.
#[test]
fn results_prepare_side_by_side() {
    let plan = |file: &'static str| Plan { files: BTreeSet::from([file]), hates: None };
    let mut world = World::new(FILES.into_iter().map(plan).collect());
    let mut judged_at_once = 0;
    while world.open() {
        // A check takes longer than everything else.
        for _ in 0..20 {
            (0..4)
                .filter(|n| !checks(&world.workers[*n]))
                .collect::<Vec<_>>()
                .iter()
                .for_each(|n| world.go(*n));
        }
        let checking: Vec<_> = (0..4).filter(|n| checks(&world.workers[*n])).collect();
        judged_at_once = judged_at_once.max(checking.len());
        checking.into_iter().for_each(|n| world.go(n));
    }
    assert_eq!(world.landed, [0, 1, 2, 3]);
    assert_eq!(judged_at_once, 3, "the first one was judged on its own base");
}

fn checks(worker: &Worker) -> bool {
    let check = |effect: &judge::Effect| matches!(effect, judge::Effect::Check { .. });
    matches!(&worker.pending, Some(LandEffect::Judge { effect, .. }) if check(effect))
}
