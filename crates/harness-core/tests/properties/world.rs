//! Random ledgers and random commands. Both are plain data that shrinks well: a command is built
//! from its numbers and the ledger that it is applied to.

use harness_core::{
    Category, Command, Epoch, Holder, Ledger, TaskId, Timestamp,
    command::*,
    plan::{Plan, PlanTask},
    select::{Applicant, LabelSet},
    task::{Intent, Status},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::{client, complete, fail, id, rollback, session, worker};

/// Two ids have the same number, and one is not a number at all.
pub(crate) const IDS: [&str; 9] =
    ["task-1", "task-001", "task-2", "task-10", "a", "b", "c", "d", "e"];
pub(crate) const WORKERS: [&str; 3] = ["u", "v", "w"];
pub(crate) const ROLES: [Option<&str>; 4] = [None, Some("x"), Some("y"), Some("z")];
/// The labels of workers, and what tasks require of them.
pub(crate) const LABELS: [&[&str]; 4] = [&[], &["l"], &["m"], &["l", "m"]];
pub(crate) const START: i64 = 1_750_000_000;

fn text(now: i64) -> String {
    Timestamp::from_seconds(now).to_string()
}

/// Generates values that another program may have written anywhere.
fn foreign() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é\u{2028}\n\"\\\\]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..3)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

/// The numbers from which one task is built.
type Numbers = (u8, u8, Vec<usize>, u32, (u8, u8, u8), (u8, i64, bool), Value);

fn numbers() -> impl Strategy<Value = Numbers> {
    (
        0..8_u8,
        0..4_u8,
        prop::collection::vec(0..IDS.len(), 0..3),
        0..4_u32,
        (0..3_u8, 0..4_u8, 0..4_u8),
        (0..6_u8, -300..300_i64, any::<bool>()),
        foreign(),
    )
}

fn task(n: usize, of: &Numbers, shape: Shape, count: usize) -> Value {
    let (status, priority, deps, attempts, (role, phase, order), (errors, shift, flag), x) = of;
    let deps = deps.iter().filter(|d| match shape {
        Shape::Acyclic => **d < n,
        Shape::Cyclic => **d < count,
        Shape::Dangling => true,
    });
    let max_attempts = 1 + (attempts + u32::from(*phase)) % 3;
    let mut o = Map::new();
    o.insert("x".into(), x.clone());
    o.insert("id".into(), IDS[n].into());
    o.insert("priority".into(), ["P0", "P1", "P2", "odd"][usize::from(*priority)].into());
    o.insert("depends_on".into(), deps.map(|d| IDS[*d]).collect());
    o.insert("attempts".into(), (*attempts).min(max_attempts).into());
    o.insert("max_attempts".into(), max_attempts.into());
    let check = if *flag { json!("true") } else { Value::Null };
    o.insert("validation".into(), json!({ "x": x, "command": check }));
    o.insert("on_failure".into(), json!({ "x": x }));
    let entries = ["[TASK_EXEC] e", "[SESSION_TIMEOUT] Lease expired (claimed_by=u)"];
    let mut log: Vec<&str> = entries.into_iter().cycle().take(usize::from(*errors % 3)).collect();
    if *errors == 5 {
        log.push("[DEPENDENCY] Blocked by failed a");
    }
    o.insert("error_log".into(), log.into());
    let checkpoint = |k| json!({ "x": x, "step": k, "total": 9, "description": format!("c{k}"), "timestamp": null });
    o.insert("checkpoints".into(), (1..=*errors).map(checkpoint).collect());
    let mut some = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            o.insert(key.into(), value);
        }
    };
    let requires = LABELS[usize::from((*priority + *order) % 4)];
    some("requires", (!requires.is_empty()).then(|| requires.into()));
    some("role", [None, Some("x".into()), Some("y".into())][usize::from(*role)].clone());
    some(
        "phase",
        [None, Some("1".into()), Some("2".into()), Some("?".into())][usize::from(*phase)].clone(),
    );
    some("order", (*order > 0).then(|| (*order).into()));
    some("timeout_seconds", (*order == 2).then(|| 40.into()));
    // Most tasks are pending, so that there is something to do.
    match status {
        0..4 => some("status", Some("pending".into())),
        4 => {
            some("status", Some("failed".into()));
            some("failed_at", Some(text(START + shift).into()));
        }
        5 => {
            some("status", Some("completed".into()));
            some("completed_at", Some(text(START).into()));
            some("claimed_by", Some("u".into()));
        }
        _ => {
            some("status", Some("in_progress".into()));
            some("claimed_by", Some(WORKERS[n % 3].into()));
            some("claimed_at", Some(text(START).into()));
            some("lease_expires_at", Some(text(START + shift).into()));
            some("epoch", Some((n + 1).into()));
            some("via", flag.then(|| "client".into()));
            let undo = json!({ "rollback": { "x": x, "category": "TIMEOUT", "message": "m" } });
            some("intent", (*errors == 4).then_some(undo));
        }
    }
    Value::Object(o)
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Acyclic,
    Cyclic,
    Dangling,
}

/// Generates a ledger in its file format.
pub(crate) fn ledgers() -> impl Strategy<Value = Value> {
    let shape = prop_oneof![5 => Just(Shape::Acyclic), 3 => Just(Shape::Cyclic), 1 => Just(Shape::Dangling)];
    let tasks = prop::collection::vec(numbers(), 0..IDS.len());
    (tasks, shape, 0..5_u8, 0..12_u64, foreign()).prop_map(|(tasks, shape, phases, epoch, x)| {
        let count = tasks.len();
        let of = |(n, t)| task(n, t, shape, count);
        let tasks: Vec<Value> = tasks.iter().enumerate().map(of).collect();
        let gate = json!({ "command": "true", "x": x });
        let phases = match phases {
            0 => json!([]),
            1 => json!([{ "name": "1", "x": x }, { "name": "2" }]),
            2 => json!([{ "name": "1", "gate": gate, "x": x }, { "name": "2" }]),
            3 => json!([{ "name": "1", "gate": gate, "passed_at": text(START) }, { "name": "2" }]),
            _ => json!([{ "x": x, "name": "2", "approve": true }, { "name": "1" }]),
        };
        json!({ "x": x, "version": 2, "session_config": { "x": x, "max_sessions": 3 },
                "epoch": epoch, "phases": phases, "tasks": tasks })
    })
}

/// The numbers from which a command is built.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    kind: u8,
    task: usize,
    other: usize,
    worker: usize,
    /// `true` to act for the real holder, if there is one.
    truthful: bool,
    flag: bool,
    small: u8,
    /// The clock moves forward, and sometimes back.
    pub(crate) seconds: i64,
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = (
        (0..30_u8, 0..IDS.len(), 0..IDS.len(), 0..WORKERS.len()),
        (prop::bool::weighted(0.8), any::<bool>(), 0..8_u8, -120..400_i64),
    );
    let op = op.prop_map(|((kind, task, other, worker), (truthful, flag, small, seconds))| Op {
        kind,
        task,
        other,
        worker,
        truthful,
        flag,
        small,
        seconds,
    });
    prop::collection::vec(op, 1..40)
}

impl Op {
    fn task(&self, ledger: &Ledger) -> TaskId {
        // Prefer a claimed task, so that attempts end.
        let claimed: Vec<&TaskId> = ledger.selection().claimed().collect();
        match (self.truthful, claimed.is_empty()) {
            (true, false) => claimed[self.task % claimed.len()].clone(),
            (true, true) | (false, _) => id(IDS[self.task]),
        }
    }

    fn holder(&self, ledger: &Ledger) -> Holder {
        let task = self.task(ledger);
        let row = ledger.task(&task).filter(|_| self.truthful);
        let by = row.and_then(|t| t.claimed_by().cloned());
        let epoch = match self.small {
            0 => Some(Epoch(u64::from(self.small))),
            1..5 => row.and_then(|t| t.epoch),
            _ => None,
        };
        Holder { task, worker: by.unwrap_or_else(|| worker(WORKERS[self.worker])), epoch }
    }

    pub(crate) fn command(&self, ledger: &Ledger) -> Command {
        let by = WORKERS[self.worker];
        let role = ROLES[usize::from(self.small % 4)].filter(|_| self.flag).map(str::to_owned);
        let labels = LABELS[usize::from((self.small + self.kind) % 4)];
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        match self.kind {
            0..5 => Command::Claim(Claim { role, labels, ..client(by) }),
            5..8 => Command::Claim(Claim { role, labels, lease_seconds: 100, ..session(by) }),
            8 => {
                let of = Applicant { role: role.as_deref(), labels: LabelSet::Only(&labels) };
                let next = ledger.selection().next_of_run(of).cloned();
                let choice = next.map_or(ClaimChoice::Next, ClaimChoice::NextIs);
                let choice = match (choice, self.truthful) {
                    (ClaimChoice::NextIs(_), false) => ClaimChoice::Ready(self.task(ledger)),
                    (choice, _) => choice,
                };
                Command::Claim(Claim { role, labels, choice, ..session(by) })
            }
            9..12 => Command::Checkpoint(AddCheckpoint {
                holder: self.holder(ledger),
                step: 1 + u32::from(self.small),
                total: 8,
                description: "é".repeat(usize::from(self.small)),
                tree: None,
                lease_seconds: 60,
            }),
            12 => Command::Renew(Renew::new(self.holder(ledger), u64::MAX)),
            13 => Command::Intend(Intend {
                holder: self.holder(ledger),
                intent: if self.flag { rollback("m") } else { landing() },
                check: ledger
                    .task(&self.holder(ledger).task)
                    .and_then(|t| t.check().map(str::to_owned)),
                files: Vec::new(),
            }),
            14 => Command::VoidIntent(VoidIntent { holder: self.holder(ledger) }),
            15..19 => self.complete(ledger),
            19..22 => {
                let message = if self.small == 0 { "é".repeat(2000) } else { "broke".into() };
                let category = Category::ALL[usize::from(self.small % 5)];
                let all = if self.small == 6 { Attempts::All } else { Attempts::One };
                let holder = self.holder(ledger);
                let plain = fail("a", "w", category, &message);
                Command::Fail(Fail { holder, attempts: all, ..plain })
            }
            22 => Command::Retry(Retry { task: id(IDS[self.task]), reason: "r".into() }),
            23 => {
                let task = self.task(ledger);
                Command::Release(Release { task, holder: None, reason: "r".into() })
            }
            24 => {
                let id = self.flag.then(|| id(IDS[self.task]));
                let fields = self.edit();
                Command::Add(Add { id, title: "t".into(), fields })
            }
            25 => Command::Edit(self.edit()),
            26 => Command::Remove(Remove { task: id(IDS[self.task]) }),
            27 => self.import(),
            28 => Command::BeginSession(BeginSession { pid: 1, max_sessions: None }),
            _ => Command::EndSession(EndSession { pid: 1 }),
        }
    }

    fn complete(&self, ledger: &Ledger) -> Command {
        let holder = self.holder(ledger);
        let check = ledger.task(&holder.task).and_then(|t| t.check().map(str::to_owned));
        let proof = match check.filter(|_| self.small > 0) {
            Some(command) => Proof::Passed { command },
            None => Proof::Word,
        };
        let authority =
            if self.flag && self.small > 4 { Authority::Force } else { Authority::Holder };
        Command::Complete(Complete { holder, proof, authority, ..complete("a", "w") })
    }

    fn edit(&self) -> Edit {
        let mut edit = Edit::nothing(id(IDS[self.task]));
        if self.flag {
            edit.depends_on = Some(vec![id(IDS[self.other])]);
        }
        edit.max_attempts = u32::from(self.small).checked_sub(4).filter(|n| *n > 0);
        edit.role = ROLES[usize::from(self.small % 4)].map(str::to_owned);
        edit.phase = (self.small == 2).then(|| "1".into());
        edit
    }

    fn import(&self) -> Command {
        let mut plan = Plan { goal: "g".into(), ..Plan::default() };
        let task = PlanTask { description: "p".into(), ..PlanTask::default() };
        let dependencies = if self.flag { vec![id(IDS[self.other])] } else { Vec::new() };
        plan.tasks.insert(id(IDS[self.task]), PlanTask { dependencies, ..task.clone() });
        plan.tasks.insert(id("e"), task);
        let mode = match self.small {
            0 => ImportMode::Replace,
            1 => ImportMode::IfFinished,
            _ => ImportMode::Merge,
        };
        Command::Import(Import { plan, mode, by: None })
    }
}

fn landing() -> Intent {
    let commit = |text: &str| harness_core::CommitId::parse(text).unwrap();
    Intent::Land { target: "main".into(), from: commit("aaaa"), to: commit("bbbb") }
}

pub(crate) fn in_progress(status: Status) -> bool {
    status == Status::InProgress
}
