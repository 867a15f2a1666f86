//! The behaviour of every store.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Barrier, Once,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

use harness::{
    clock::Clock,
    store::{Applied, Observers, Store, StoreError, Transaction, Writer, WriterError},
};
use harness_core::{
    Command, Holder, Ledger, Refusal, Reply, TaskId, Timestamp, WorkerId,
    command::{Add, Claim, ClaimChoice, Edit, Place, Remove, Renew},
    task::{Status, Via},
};

const THREADS: usize = 8;
const COMMANDS_OF_A_THREAD: usize = 40;

/// A place where stores of one kind are kept. Each call opens another store over the same ledger,
/// which exists and is empty at first.
pub trait Kind {
    type Store: Store + 'static;

    fn open(&self) -> Self::Store;
}

impl<S: Store + 'static, F: Fn() -> S> Kind for F {
    type Store = S;

    fn open(&self) -> S {
        self()
    }
}

/// Runs all cases. `fresh` creates a new place for each.
pub fn suite<K: Kind>(fresh: impl Fn() -> K) {
    batches_apply_in_order(&fresh());
    refused_commands_hinder_no_other(&fresh());
    the_ledger_is_what_a_fresh_look_finds(&fresh());
    two_stores_see_each_other(&fresh());
    a_batch_is_one_write(&fresh());
    a_writer_answers_each_and_loses_none(&fresh());
    an_error_poisons_nothing(&fresh());
    a_writer_shares_a_write(&fresh());
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_seconds(1_751_364_000 + second)
}

pub fn add(title: &str) -> Command {
    let fields = Edit::nothing(TaskId::numbered(0));
    Command::Add(Add { id: None, title: title.to_owned(), fields })
}

fn add_as(id: &TaskId, title: &str) -> Command {
    let fields = Edit::nothing(id.clone());
    Command::Add(Add { id: Some(id.clone()), title: title.to_owned(), fields })
}

pub fn claim(worker: &str) -> Command {
    Command::Claim(Claim {
        worker: WorkerId::recorded(worker),
        via: Via::Client,
        role: None,
        labels: Vec::new(),
        choice: ClaimChoice::Next,
        lease_seconds: 60,
        place: Place::default(),
        parallel: None,
    })
}

fn titles(ledger: &Ledger) -> Vec<String> {
    ledger.tasks().map(|t| t.title.clone()).collect()
}

fn batches_apply_in_order(kind: &impl Kind) {
    let mut store = kind.open();
    let id = TaskId::numbered(1);
    let commands =
        [add("one"), add("two"), claim("w"), Command::Remove(Remove { task: id.clone() })];
    let applied = store.apply(at(0), &commands).unwrap();
    assert_eq!(applied.replies.len(), 4);
    assert_eq!(applied.replies[0], Ok(Reply::Task(id.clone())));
    assert_eq!(applied.replies[1], Ok(Reply::Task(TaskId::numbered(2))));
    let Ok(Reply::Claimed(claimed)) = &applied.replies[2] else { panic!("{:?}", applied.replies) };
    assert_eq!(claimed.task.id, id, "the claim sees the task added before it");
    let refusal = applied.replies[3].clone().unwrap_err();
    assert!(matches!(refusal, Refusal::InProgress { .. }), "{refusal:?}");
    assert_eq!(store.ledger().unwrap().task(&id).unwrap().status(), Status::InProgress);
}

fn refused_commands_hinder_no_other(kind: &impl Kind) {
    let mut store = kind.open();
    let missing = || Command::Remove(Remove { task: TaskId::numbered(77) });
    let commands = [missing(), add("one"), missing(), add("two"), missing()];
    let applied = store.apply(at(0), &commands).unwrap();
    let accepted: Vec<bool> = applied.replies.iter().map(Result::is_ok).collect();
    assert_eq!(accepted, [false, true, false, true, false]);
    assert_eq!(titles(store.ledger().unwrap()), ["one", "two"]);
    let nothing = store.apply(at(1), &[missing()]).unwrap();
    assert!(nothing.facts.is_empty());
    assert_eq!(titles(kind.open().ledger().unwrap()), ["one", "two"]);
}

fn the_ledger_is_what_a_fresh_look_finds(kind: &impl Kind) {
    let mut store = kind.open();
    for n in 0..5 {
        let _ = store.apply(at(n), &[add(&format!("t{n}")), claim("w")]).unwrap();
        let kept: Vec<_> = store.ledger().unwrap().tasks().cloned().collect();
        let found: Vec<_> = kind.open().ledger().unwrap().tasks().cloned().collect();
        assert_eq!(kept, found);
    }
}

fn two_stores_see_each_other(kind: &impl Kind) {
    let (mut a, mut b) = (kind.open(), kind.open());
    for n in 0..6 {
        let store: &mut dyn Store = if n % 2 == 0 { &mut a } else { &mut b };
        let applied = store.apply(at(n), &[add("x")]).unwrap();
        let id = TaskId::numbered(n.unsigned_abs() + 1);
        assert_eq!(applied.replies, [Ok(Reply::Task(id))]);
    }
    let first = a.apply(at(9), &[claim("a")]).unwrap();
    let second = b.apply(at(9), &[claim("b")]).unwrap();
    let task = |applied: &Applied| match &applied.replies[0] {
        Ok(Reply::Claimed(claimed)) => (claimed.task.id.clone(), claimed.epoch),
        other => panic!("{other:?}"),
    };
    assert!(task(&first).1 < task(&second).1, "epochs grow across stores");
    assert_ne!(task(&first).0, task(&second).0, "two workers never get one task");
}

/// Counts the writes that reach the store, to verify group commit.
struct Counted<S> {
    store: S,
    writes: Arc<AtomicU64>,
    fail_first: bool,
}

impl<S: Store> Store for Counted<S> {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        if std::mem::take(&mut self.fail_first) {
            return Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into());
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.store.apply(now, commands)
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        self.store.ledger()
    }
}

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        at(0)
    }
}

fn writer<K: Kind>(kind: &K, fail_first: bool) -> (Arc<Writer>, Arc<AtomicU64>) {
    let writes = Arc::new(AtomicU64::new(0));
    let store = Counted { store: kind.open(), writes: Arc::clone(&writes), fail_first };
    let writer = Writer::start(store, Arc::new(Stopped), Observers::default()).unwrap();
    (Arc::new(writer), writes)
}

/// A batch is one transaction: no part of it is visible without the rest.
fn a_batch_is_one_write(kind: &impl Kind) {
    let mut store = kind.open();
    let commands: Vec<Command> = (0..50).map(|n| add(&format!("t{n}"))).collect();
    let applied = store.apply(at(0), &commands).unwrap();
    assert!(applied.replies.iter().all(Result::is_ok));
    assert_eq!(kind.open().ledger().unwrap().len(), 50);
}

fn a_writer_answers_each_and_loses_none(kind: &impl Kind) {
    let (writer, writes) = writer(kind, false);
    let answered: Vec<TaskId> = thread::scope(|scope| {
        let work = |_| {
            let writer = Arc::clone(&writer);
            scope.spawn(move || -> Vec<TaskId> {
                let one = |_| match writer.apply(add("x")).unwrap() {
                    Reply::Task(id) => id,
                    other => panic!("{other:?}"),
                };
                (0..COMMANDS_OF_A_THREAD).map(one).collect()
            })
        };
        let threads: Vec<_> = (0..THREADS).map(work).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let unique: BTreeSet<&TaskId> = answered.iter().collect();
    assert_eq!(unique.len(), THREADS * COMMANDS_OF_A_THREAD, "no id is given twice");
    let mut fresh = kind.open();
    let ledger = fresh.ledger().unwrap();
    assert_eq!(ledger.len(), unique.len());
    assert!(unique.into_iter().all(|id| ledger.contains(id)), "no acknowledged task is lost");
    let writes = writes.load(Ordering::Relaxed);
    assert!(writes <= (THREADS * COMMANDS_OF_A_THREAD) as u64);
}

fn an_error_poisons_nothing(kind: &impl Kind) {
    let (writer, _) = writer(kind, true);
    let error = writer.apply(add("lost")).unwrap_err();
    assert!(matches!(error, WriterError::Store(_)), "{error:?}");
    writer.apply(add("kept")).unwrap();
    let holder =
        Holder { task: TaskId::numbered(1), worker: WorkerId::recorded("nobody"), epoch: None };
    let refused = writer.apply(Command::Renew(Renew::new(holder, 1))).unwrap_err();
    assert!(matches!(refused, WriterError::Refused(_)), "{refused:?}");
    writer.apply(add("kept too")).unwrap();
    assert_eq!(titles(kind.open().ledger().unwrap()), ["kept", "kept too"]);
}

/// Requests that arrive during a write share the next one. The first write is held up until all the
/// others have been sent.
fn a_writer_shares_a_write(kind: &impl Kind) {
    let gate = Arc::new(Barrier::new(2));
    let writes = Arc::new(AtomicU64::new(0));
    let store = Counted { store: kind.open(), writes: Arc::clone(&writes), fail_first: false };
    let (held_up, once) = (Arc::clone(&gate), Once::new());
    let hold_up = move |_: &Transaction<'_>| {
        once.call_once(|| _ = held_up.wait());
    };
    let observers = Observers::default().with(hold_up);
    let writer = Writer::start(store, Arc::new(Stopped), observers).unwrap();
    let under_way = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (writer, under_way) = (&writer, &under_way);
        let one = |n: usize| {
            let id = TaskId::parse(&format!("t{n}")).unwrap();
            scope.spawn(move || {
                under_way.fetch_add(1, Ordering::SeqCst);
                writer.apply(add_as(&id, "x"))
            })
        };
        let threads: Vec<_> = (0..THREADS).map(one).collect();
        while under_way.load(Ordering::SeqCst) < THREADS {
            thread::yield_now();
        }
        gate.wait();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    });
    drop(writer);
    assert_eq!(kind.open().ledger().unwrap().len(), THREADS);
    let writes = writes.load(Ordering::Relaxed);
    assert!(writes < THREADS as u64, "{writes} writes for {THREADS} commands");
}
