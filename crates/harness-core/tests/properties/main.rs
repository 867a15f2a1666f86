//! Properties that always hold: random ledgers, random commands by several workers, and a clock
//! that also steps back. A failure prints its smallest case and the seed that repeats it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../support/mod.rs"]
mod support;
mod world;

use std::collections::{BTreeSet, HashMap, HashSet};

use harness_core::{
    Command, Epoch, Fact, Ledger, Task, TaskId, Timestamp,
    command::{Change, Reply, Row},
    decide,
    format::{self, journal},
    select::{self, Applicant, LabelSet},
    task::{ENTRY_BYTES, KEPT_ENTRIES, Status},
};
use proptest::prelude::*;
use serde_json::Value;
use support::{client, id, worker};
use world::{IDS, LABELS, Op, ROLES, START, WORKERS, in_progress, ledgers, ops};

/// The history of epochs and completions, which no single ledger shows.
#[derive(Default)]
struct History {
    highest: Epoch,
    ended: HashSet<(TaskId, Epoch)>,
}

impl History {
    fn of(ledger: &Ledger) -> Self {
        Self { highest: ledger.epoch(), ..Self::default() }
    }

    /// Records `change`; `ledger` is the state before it.
    fn follow(&mut self, ledger: &Ledger, change: &Change) {
        let mut rows: HashMap<TaskId, Task> = HashMap::new();
        for row in &change.rows {
            match row {
                Row::Put(after) => {
                    let before = rows.get(&after.id).or_else(|| ledger.task(&after.id));
                    if let Some(before) = before.filter(|_| !dropped(change, &after.id)) {
                        self.row(before, after);
                    }
                    bounded(after);
                    rows.insert(after.id.clone(), (**after).clone());
                }
                Row::Drop(_) => {}
            }
        }
        if let Reply::Claimed(claim) = &change.reply {
            assert_eq!(claim.task.epoch, Some(claim.epoch));
            if !claim.is_retry {
                assert!(claim.epoch > self.highest, "epochs of new claims grow");
                self.highest = claim.epoch;
            }
        }
        for fact in &change.facts {
            let Fact::Completed { task, .. } = fact else { continue };
            assert_ne!(ledger.task(task).unwrap().status(), Status::Completed, "completed once");
        }
        let head = change.head.as_ref().map_or(Epoch(0), |h| h.epoch);
        self.highest = self.highest.max(head);
    }

    fn row(&mut self, before: &Task, after: &Task) {
        if before.status() == Status::Completed {
            let same =
                |t: &Task| (t.status(), t.completed_at(), t.claimed_by().cloned(), t.attempts);
            assert_eq!(same(before), same(after), "a completion stays");
        }
        if in_progress(before.status())
            && (!in_progress(after.status()) || before.epoch != after.epoch)
        {
            let attempt = (before.id.clone(), before.epoch.unwrap());
            assert!(self.ended.insert(attempt), "an epoch ends once: {before:?}");
        }
        assert!(after.attempts <= after.max_attempts.max(before.attempts), "{after:?}");
    }
}

fn dropped(change: &Change, id: &TaskId) -> bool {
    change.rows.iter().any(|r| matches!(r, Row::Drop(d) if d == id))
}

fn bounded(task: &Task) {
    assert!(task.checkpoints.len() <= KEPT_ENTRIES && task.error_log.len() <= KEPT_ENTRIES);
    assert!(task.error_log.iter().all(|e| e.to_string().len() <= ENTRY_BYTES));
    // The file has no field that belongs to another state.
    let row = format::task_object(task);
    let has = |field: &str| row.get(field).is_some_and(|value| !value.is_null());
    if in_progress(task.status()) {
        assert!(has("claimed_by") && has("lease_expires_at"), "{task:?}");
        assert!(task.epoch.is_some() && !has("failed_at"), "{task:?}");
    } else {
        assert!(!has("lease_expires_at") && !has("via"), "{task:?}");
        assert!(!has("intent") && !has("worktree"), "{task:?}");
        assert_eq!(has("claimed_by"), task.status() == Status::Completed, "{task:?}");
    }
}

/// Checks that the incrementally updated selection equals a fresh one, and that both choose the
/// same task as one walk over everything.
fn selection_is_right(ledger: &Ledger, now: Timestamp) {
    let tasks: Vec<Task> = ledger.tasks().cloned().collect();
    let fresh = Ledger::new(ledger.head().clone(), tasks.clone()).unwrap();
    let (kept, built) = (ledger.selection(), fresh.selection());
    let labels = LABELS.map(|labels| labels.iter().map(|&l| l.to_owned()).collect::<Vec<_>>());
    let sets = labels.iter().map(|labels| LabelSet::Only(labels)).chain([LabelSet::Every]);
    let sets: Vec<LabelSet<'_>> = sets.collect();
    for of in
        ROLES.iter().flat_map(|&role| sets.iter().map(move |&l| Applicant { role, labels: l }))
    {
        assert_eq!(kept.next(of), select::naive(ledger.head(), &tasks, of), "{of:?}");
        assert_eq!(kept.next(of), built.next(of), "{of:?}");
        let of_run = select::naive_of_run(ledger.head(), &tasks, of);
        assert_eq!(kept.next_of_run(of), of_run, "{of:?}");
        assert_eq!(kept.next_of_run(of), built.next_of_run(of), "{of:?}");
    }
    let all = tasks.iter().map(|task| task.id.clone()).collect();
    for of in sets.iter().map(|&labels| Applicant { role: None, labels }) {
        assert_eq!(kept.next_among(&all, of), kept.next_of_run(of));
        let queue = kept.queue(of);
        for task in &tasks {
            let ready = queue.contains(&&task.id);
            assert!(!ready || of.suits(task), "{}", task.id);
            assert_eq!(kept.ready(&task.id, of).is_some(), ready, "{}", task.id);
            let alone = BTreeSet::from([task.id.clone()]);
            assert_eq!(kept.next_among(&alone, of).is_some(), ready, "{}", task.id);
        }
    }
    assert_eq!(kept.blocked(), built.blocked());
    assert_eq!(kept.dangling(), built.dangling());
    assert_eq!(kept.cyclic().is_empty(), built.cyclic().is_empty());
    assert_eq!(ledger.highest_number(), fresh.highest_number());
    assert!(kept.expired(now).eq(built.expired(now)));
    assert!(kept.claimed().eq(built.claimed()));
    for by in WORKERS.map(worker) {
        assert!(kept.held_by(&by).eq(built.held_by(&by)));
    }
    for task in IDS.map(id) {
        assert!(kept.dependents(&task).eq(built.dependents(&task)));
    }
    let stranger = Command::Claim(client("stranger"));
    assert_eq!(decide(ledger, now, &stranger), decide(&fresh, now, &stranger));
}

fn document_is_right(text: &str, ledger: &Ledger) {
    let (read, mut document) = format::read(text.as_bytes()).unwrap();
    assert!(read.tasks().eq(ledger.tasks()));
    assert_eq!(read.head(), ledger.head());
    assert_eq!(document.render(&read), text);
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string_pretty(&value).unwrap() + "\n", text);
}

/// Checks that every foreign `x` is still there. `original` are the tasks that were never dropped.
fn foreign_fields_survive(initial: &Value, text: &str, original: &HashSet<TaskId>, kept: bool) {
    let last: Value = serde_json::from_str(text).unwrap();
    let same = |pointer: &str, a: &Value, b: &Value| {
        assert_eq!(a.pointer(pointer), b.pointer(pointer), "{pointer}");
    };
    same("/x", initial, &last);
    same("/session_config/x", initial, &last);
    if kept {
        for pointer in ["/phases/0/x", "/phases/1/x", "/phases/0/gate/x"] {
            same(pointer, initial, &last);
        }
    }
    let find = |root: &Value, id: &TaskId| {
        let tasks = root["tasks"].as_array().unwrap();
        tasks.iter().find(|t| t["id"] == id.as_str()).unwrap().clone()
    };
    for task in original {
        let (before, after) = (find(initial, task), find(&last, task));
        for pointer in ["/x", "/validation/x", "/on_failure/x"] {
            same(pointer, &before, &after);
        }
        if after.get("intent").is_some_and(|i| before.get("intent") == Some(i)) {
            same("/intent/rollback/x", &before, &after);
        }
        // The first checkpoints are recognized by their texts. They may be dropped, but not
        // changed.
        for checkpoint in after["checkpoints"].as_array().unwrap() {
            if checkpoint["description"].as_str().unwrap().starts_with('c') {
                assert!(before["checkpoints"].as_array().unwrap().contains(checkpoint));
            }
        }
    }
}

/// The journal beside the ledger. A replay must reproduce the file exactly.
struct Journal {
    document: format::Document,
    text: String,
}

impl Journal {
    fn of(ledger: &Ledger, document: &format::Document) -> Self {
        let mut document = document.clone();
        document.settle(ledger, 1, None);
        let text = journal::snapshot(&mut document, &[], &journal::Receipts::new());
        Self { document, text }
    }

    fn follow(&mut self, ledger: &Ledger, document: &format::Document, change: &Change) {
        let revision = self.document.revision() + 1;
        let mut touched = journal::Touched::default();
        touched.note(change);
        self.document = document.clone();
        self.document.settle(ledger, revision, None);
        let ending = journal::Ending::of(self.text.as_bytes()).unwrap();
        let size = self.text.len() as u64;
        let none = journal::Receipts::new();
        self.text += &journal::change(&mut self.document, &touched, &none, &ending, size);
        let again = journal::replay(self.text.as_bytes()).unwrap();
        assert_eq!(again.document.text(), self.document.text());
        assert!(again.ledger.tasks().eq(ledger.tasks()));
    }
}

/// Applies all commands in order and returns the last text.
fn play(initial: &Value, ops: &[Op], check: bool) -> String {
    let text = serde_json::to_string(initial).unwrap();
    let (mut ledger, mut document) = format::read(text.as_bytes()).unwrap();
    let mut history = History::of(&ledger);
    let mut original: HashSet<TaskId> = ledger.tasks().map(|t| t.id.clone()).collect();
    let mut phases_kept = true;
    let mut now = START;
    let mut text = document.render(&ledger);
    let mut journal = Journal::of(&ledger, &document);
    for op in ops {
        now += op.seconds;
        let time = Timestamp::from_seconds(now);
        let command = op.command(&ledger);
        let decision = decide(&ledger, time, &command);
        if check {
            assert_eq!(decision, decide(&ledger, time, &command), "the same twice");
        }
        let Ok(change) = decision else { continue };
        if check {
            history.follow(&ledger, &change);
        }
        original.retain(|id| !dropped(&change, id));
        phases_kept &= change.head.as_ref().is_none_or(|h| h.phases == ledger.head().phases);
        ledger.put_in(&change);
        document.put_in(&change);
        let lines = change.facts.iter().filter_map(|f| f.log_line(time, 1));
        ledger.set_log_tail(lines.map(|l| l.to_string()).collect(), 7);
        text = document.render(&ledger);
        if check {
            journal.follow(&ledger, &document, &change);
            selection_is_right(&ledger, time);
            document_is_right(&text, &ledger);
        }
    }
    if check {
        foreign_fields_survive(initial, &text, &original, phases_kept);
    }
    text
}

proptest! {

    #[test]
    fn everything_holds_after_every_command(initial in ledgers(), ops in ops()) {
        let last = play(&initial, &ops, true);
        prop_assert_eq!(play(&initial, &ops, false), last, "a replay gives the same bytes");
    }
}

/// The generators must reach the cases of the properties. Otherwise the properties prove nothing.
#[test]
fn the_generators_reach_every_kind_of_end() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for _ in 0..300 {
        let (initial, ops) = (ledgers(), ops()).new_tree(&mut runner).unwrap().current();
        let text = serde_json::to_string(&initial).unwrap();
        let mut ledger = format::read(text.as_bytes()).unwrap().0;
        let mut now = START;
        for op in &ops {
            now += op.seconds;
            let command = op.command(&ledger);
            let Ok(change) = decide(&ledger, Timestamp::from_seconds(now), &command) else {
                *seen.entry("refused").or_default() += 1;
                continue;
            };
            for fact in &change.facts {
                let entry = fact.trajectory(Timestamp::default());
                let message = entry["message"].as_str().unwrap_or("");
                for (name, part) in [
                    ("cycle", "Circular"),
                    ("blocked", "Blocked by"),
                    ("expired", "Lease expired"),
                    ("forced", "by force"),
                ] {
                    *seen.entry(name).or_default() += usize::from(message.contains(part));
                }
                *seen.entry(kind(fact)).or_default() += 1;
            }
            ledger.put_in(&change);
        }
    }
    for name in
        ["refused", "cycle", "blocked", "expired", "forced", "claimed", "completed", "failed"]
    {
        let times = seen.get(name).copied().unwrap_or(0);
        assert!(times >= 10, "{name}: {times} times; {seen:?}");
    }
}

fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Claimed { .. } => "claimed",
        Fact::Completed { .. } => "completed",
        Fact::Failed { .. } => "failed",
        _ => "other",
    }
}
