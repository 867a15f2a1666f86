//! The behaviour of every record of runs.

use std::{sync::Arc, thread};

use harness::store::{RunStoreError, Runs};
use harness_core::{
    CommitId, Epoch, Refusal, Reply, TaskId, Timestamp,
    agent::Usage,
    command::{Anew, OfRun, RunStep, Take},
    run::{Ending, Iteration, Owner, Run, RunId, RunLease, RunLimits, RunStatus, StopReason},
};

const THREADS: u64 = 4;
const SPENDS_OF_A_THREAD: u64 = 25;

/// A place where records of one kind are kept. Each call opens the same one again, as another
/// process would.
pub type Place = Box<dyn Fn() -> Arc<dyn Runs>>;

/// Runs all cases. `fresh` creates a new, empty place for each.
pub fn suite(fresh: impl Fn() -> Place) {
    what_was_opened_is_found(&fresh());
    an_attempt_is_opened_once(&fresh());
    a_run_is_opened_once_and_below_one_that_there_is(&fresh());
    every_step_changes_what_it_says(&fresh());
    a_refusal_changes_nothing(&fresh());
    an_iteration_is_neither_skipped_nor_counted_twice(&fresh());
    each_agent_has_its_part_of_an_iteration(&fresh());
    what_is_spent_is_summed_up(&fresh());
    what_is_too_large_is_kept_as_large_as_possible(&fresh());
    nothing_spent_at_once_is_lost(&fresh());
    a_process_that_slept_through_the_end_changes_nothing(&fresh());
    super::outbox::suite(fresh);
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_seconds(1_751_364_000 + second)
}

pub fn id(number: u64) -> RunId {
    RunId::parse(&format!("0197f0a2-0000-7000-8000-{number:012x}")).unwrap()
}

pub fn owner(pid: u32) -> Owner {
    Owner { host: "here".to_owned(), pid, started: "100/boot/pid:[1]".to_owned() }
}

/// Returns a run with an objective.
pub fn run(number: u64) -> Run {
    Run {
        objective: Some("write a report".to_owned()),
        agent: "claude".to_owned(),
        workspace: "/work".to_owned(),
        limits: RunLimits { max_iterations: 10, ..RunLimits::default() },
        ..Run::queued(id(number), at(i64::try_from(number).unwrap()))
    }
}

/// Returns an attempt below the run `parent`.
pub fn attempt(number: u64, parent: u64, epoch: u64) -> Run {
    let task = Some(TaskId::numbered(1));
    let parent = Some(id(parent));
    Run { objective: None, task, epoch: Some(Epoch(epoch)), parent, ..run(number) }
}

pub fn spent(input_tokens: u64, cost_usd: Option<f64>) -> Usage {
    Usage { input_tokens, output_tokens: 1, cost_usd }
}

pub fn begin(number: u32) -> RunStep {
    RunStep::Begin { number, head: None, mark: None, transcript: None }
}

pub fn end(ending: Ending) -> RunStep {
    RunStep::End { ending, detail: None, final_text: None, head: None, mark: None }
}

fn apply(runs: &dyn Runs, second: i64, number: u64, step: RunStep) -> Result<Reply, Refusal> {
    runs.apply(at(second), &OfRun { run: id(number), by: None, step }).unwrap()
}

fn apply_by(runs: &dyn Runs, second: i64, by: &Owner, step: RunStep) -> Result<Reply, Refusal> {
    runs.apply(at(second), &OfRun { run: id(1), by: Some(by.clone()), step }).unwrap()
}

fn full() -> Run {
    Run {
        status: RunStatus::Running,
        task: Some(TaskId::numbered(7)),
        epoch: Some(Epoch(3)),
        agent_command: Some("agent --flag 'a b'".to_owned()),
        verify: Some("make test\n# ünïcode \u{0} and '\"; --".to_owned()),
        iteration_count: 2,
        limits: RunLimits {
            max_iterations: u32::MAX,
            max_cost_usd: Some(0.1 + 0.2),
            max_tokens: Some(5),
            max_duration_seconds: Some(90),
        },
        stop_reason: Some(StopReason::MaxIterations),
        provider_session_id: Some("session".to_owned()),
        parent: Some(id(1)),
        usage: spent(7, Some(1.25)),
        deadline: Some(at(90)),
        wake_at: Some(at(80)),
        lease: Some(RunLease { owner: owner(4), expires_at: at(60) }),
        ..run(2)
    }
}

fn what_was_opened_is_found(place: &Place) {
    let runs = place();
    assert_eq!(runs.runs().unwrap(), []);
    assert_eq!(runs.run(&id(1)).unwrap(), None);
    assert_eq!(runs.iterations(&id(1)).unwrap(), []);
    for opened in [run(1), full()] {
        assert_eq!(runs.open_run(&opened).unwrap(), opened);
    }
    drop(runs);
    let runs = place();
    assert_eq!(runs.run(&id(1)).unwrap(), Some(run(1)));
    assert_eq!(runs.run(&id(2)).unwrap(), Some(full()));
    assert_eq!(runs.runs().unwrap(), [full(), run(1)], "newest first");
    // Of two runs in the same second, the one with the later name comes first.
    let twin = Run { created_at: at(2), ..run(3) };
    runs.open_run(&twin).unwrap();
    assert_eq!(runs.runs().unwrap(), [twin, full(), run(1)]);
}

fn an_attempt_is_opened_once(place: &Place) {
    let runs = place();
    runs.open_run(&run(1)).unwrap();
    runs.open_run(&attempt(2, 1, 5)).unwrap();
    apply(&*runs, 3, 2, RunStep::Spend(spent(4, None))).unwrap();
    let known = runs.run(&id(2)).unwrap().unwrap();
    assert_eq!(runs.open_run(&attempt(3, 1, 5)).unwrap(), known, "under another name");
    assert_eq!(runs.open_run(&attempt(2, 1, 5)).unwrap(), known, "under its own");
    assert_eq!(runs.run(&id(3)).unwrap(), None);
    let next = attempt(4, 1, 6);
    assert_eq!(runs.open_run(&next).unwrap(), next);
    let other = Run { task: Some(TaskId::numbered(2)), ..attempt(5, 1, 5) };
    assert_eq!(runs.open_run(&other).unwrap(), other);
}

fn a_run_is_opened_once_and_below_one_that_there_is(place: &Place) {
    let runs = place();
    runs.open_run(&run(1)).unwrap();
    let again = runs.open_run(&Run { agent: "other".to_owned(), ..run(1) });
    assert!(matches!(again, Err(RunStoreError::Exists { run }) if run == id(1)));
    for parent in [2, 9] {
        let orphan = runs.open_run(&attempt(2, parent, 1));
        assert!(matches!(orphan, Err(RunStoreError::NoParent { .. })), "{orphan:?}");
    }
    assert_eq!(runs.runs().unwrap(), [run(1)]);
    let unknown = apply(&*runs, 1, 9, RunStep::Session("s".to_owned()));
    assert_eq!(unknown, Err(Refusal::RunNotFound { run: id(9) }));
}

fn every_step_changes_what_it_says(place: &Place) {
    place().open_run(&run(1)).unwrap();
    let me = owner(1);
    let head = CommitId::parse("9fceb02d0ae598e95dc970b74767f19372d61af8").unwrap();
    // Each step reads what another process left.
    let step = |second, step| {
        assert!(apply_by(&*place(), second, &me, step).is_ok());
        place().run(&id(1)).unwrap().unwrap()
    };
    let anew = Anew { max_duration_seconds: Some(100), ..Anew::default() };
    let take = Take { owner: Some(me.clone()), lease_seconds: 30, owner_is_gone: false, anew };
    let row = step(10, RunStep::Take(take));
    assert_eq!((row.status, row.deadline), (RunStatus::Running, Some(at(110))));
    assert_eq!(row.lease, Some(RunLease { owner: me.clone(), expires_at: at(40) }));
    let began = RunStep::Begin {
        number: 0,
        head: Some(head.clone()),
        mark: Some("mark".to_owned()),
        transcript: Some("t.log".to_owned()),
    };
    step(11, began);
    step(12, RunStep::Spend(spent(5, Some(0.5))));
    assert_eq!(step(13, RunStep::Session("s".to_owned())).provider_session_id.unwrap(), "s");
    assert_eq!(step(14, RunStep::WaitUntil(Some(at(50)))).wake_at, Some(at(50)));
    assert_eq!(step(15, RunStep::WaitUntil(None)).wake_at, None);
    assert_eq!(step(16, RunStep::AskHuman(true)).status, RunStatus::WaitingForHuman);
    assert_eq!(step(17, RunStep::AskHuman(false)).status, RunStatus::Running);
    let row = step(18, RunStep::Beat { lease_seconds: 30 });
    assert_eq!(row.lease.unwrap().expires_at, at(48));
    let ended = RunStep::End {
        ending: Ending::Network,
        detail: Some("no route".to_owned()),
        final_text: Some("so far".to_owned()),
        head: Some(head.clone()),
        mark: Some("mark".to_owned()),
    };
    step(19, ended);
    let iteration = Iteration {
        ended_at: Some(at(19)),
        ending: Some(Ending::Network),
        detail: Some("no route".to_owned()),
        usage: spent(5, Some(0.5)),
        agents: vec![("claude".to_owned(), spent(5, Some(0.5)))],
        final_text: Some("so far".to_owned()),
        transcript: Some("t.log".to_owned()),
        head_before: Some(head.clone()),
        head_after: Some(head),
        mark_before: Some("mark".to_owned()),
        mark_after: Some("mark".to_owned()),
        ..Iteration::begun(0, at(11))
    };
    assert_eq!(place().iterations(&id(1)).unwrap(), [iteration]);
    assert_eq!(step(20, begin(1)).iteration_count, 1);
    assert_eq!(step(20, begin(1)).iteration_count, 1);
    assert_eq!(place().iterations(&id(1)).unwrap()[1].starts, 2, "it began again");
    place().at_least(&id(1), spent(1, Some(0.25))).unwrap();
    assert_eq!(place().run(&id(1)).unwrap().unwrap().usage, spent(5, Some(0.5)));
    place().at_least(&id(1), spent(7, None)).unwrap();
    assert_eq!(place().run(&id(1)).unwrap().unwrap().usage, spent(7, Some(0.5)));
    let row = step(21, RunStep::Stop(StopReason::Budget));
    assert_eq!((row.status, row.stop_reason), (RunStatus::Stopped, Some(StopReason::Budget)));
    assert_eq!((row.lease, row.updated_at, row.created_at), (None, at(21), at(1)));
}

fn a_refusal_changes_nothing(place: &Place) {
    let runs = place();
    runs.open_run(&run(1)).unwrap();
    let take = |pid| {
        let owner = Some(owner(pid));
        RunStep::Take(Take { owner, lease_seconds: 30, ..Take::default() })
    };
    apply(&*runs, 1, 1, take(1)).unwrap();
    apply_by(&*runs, 2, &owner(1), begin(0)).unwrap();
    let before = (runs.runs().unwrap(), runs.iterations(&id(1)).unwrap());
    let taken = Refusal::RunTaken { run: id(1), host: "here".to_owned(), pid: 1 };
    assert_eq!(apply(&*runs, 5, 1, take(2)), Err(taken.clone()));
    for step in [begin(0), RunStep::Spend(spent(1, None)), RunStep::Stop(StopReason::Complete)] {
        assert_eq!(apply_by(&*runs, 5, &owner(2), step.clone()), Err(taken.clone()));
        assert_eq!(apply(&*runs, 5, 1, step), Err(taken.clone()));
    }
    assert_eq!((runs.runs().unwrap(), runs.iterations(&id(1)).unwrap()), before);
    // The lease runs out.
    apply(&*runs, 31, 1, take(2)).unwrap();
    apply_by(&*runs, 32, &owner(2), end(Ending::Finished)).unwrap();
    apply_by(&*runs, 33, &owner(2), RunStep::Stop(StopReason::Complete)).unwrap();
    assert_eq!(apply(&*runs, 34, 1, take(2)), Err(Refusal::RunFinished { run: id(1) }));
}

fn an_iteration_is_neither_skipped_nor_counted_twice(place: &Place) {
    let runs = place();
    runs.open_run(&run(1)).unwrap();
    let refused = |number| {
        let before = runs.run(&id(1)).unwrap();
        assert!(matches!(apply(&*runs, 9, 1, begin(number)), Err(Refusal::BadValue(_))));
        assert_eq!(runs.run(&id(1)).unwrap(), before);
    };
    refused(1);
    apply(&*runs, 10, 1, begin(0)).unwrap();
    refused(1);
    // After a crash, the same iteration begins again, with the starting point of its first start.
    apply(&*runs, 11, 1, RunStep::Spend(spent(3, None))).unwrap();
    apply(&*runs, 12, 1, begin(0)).unwrap();
    let agents = vec![("claude".to_owned(), spent(3, None))];
    let usage = spent(3, None);
    let again = Iteration { starts: 2, usage, agents, ..Iteration::begun(0, at(12)) };
    assert_eq!(runs.iterations(&id(1)).unwrap(), [again]);
    apply(&*runs, 13, 1, end(Ending::Finished)).unwrap();
    assert!(apply(&*runs, 14, 1, end(Ending::Finished)).is_err());
    refused(0);
    refused(2);
    apply(&*runs, 15, 1, begin(1)).unwrap();
    assert_eq!(place().run(&id(1)).unwrap().unwrap().iteration_count, 1);
    let numbers: Vec<u32> = runs.iterations(&id(1)).unwrap().iter().map(|i| i.number).collect();
    assert_eq!(numbers, [0, 1]);
}

fn each_agent_has_its_part_of_an_iteration(place: &Place) {
    let runs = place();
    runs.open_run(&run(1)).unwrap();
    apply(&*runs, 10, 1, begin(0)).unwrap();
    apply(&*runs, 11, 1, RunStep::Spend(spent(3, Some(0.5)))).unwrap();
    let anew = Anew { agent: Some("codex".to_owned()), ..Anew::default() };
    apply(&*runs, 12, 1, RunStep::Take(Take { anew, ..Take::default() })).unwrap();
    apply(&*runs, 13, 1, begin(0)).unwrap();
    apply(&*runs, 14, 1, RunStep::Spend(spent(1, None))).unwrap();
    apply(&*runs, 15, 1, RunStep::Spend(spent(4, None))).unwrap();
    let iteration = place().iterations(&id(1)).unwrap().remove(0);
    let mut codex = spent(1, None);
    codex += spent(4, None);
    let mut both = spent(3, Some(0.5));
    both += codex;
    assert_eq!(iteration.usage, both);
    let parts = [("claude".to_owned(), spent(3, Some(0.5))), ("codex".to_owned(), codex)];
    assert_eq!(iteration.agents, parts);
}

fn what_is_spent_is_summed_up(place: &Place) {
    let runs = place();
    runs.open_run(&run(1)).unwrap();
    runs.open_run(&attempt(2, 1, 1)).unwrap();
    runs.open_run(&attempt(3, 1, 2)).unwrap();
    apply(&*runs, 10, 2, begin(0)).unwrap();
    let spend = |number, usage| apply(&*runs, 11, number, RunStep::Spend(usage)).unwrap();
    let sum = |number| runs.run(&id(number)).unwrap().unwrap().usage;
    assert_eq!(spend(2, spent(10, None)), Reply::Spent(spent(10, None)));
    let two = Usage { input_tokens: 11, output_tokens: 2, cost_usd: Some(0.5) };
    assert_eq!(spend(3, spent(1, Some(0.5))), Reply::Spent(two));
    // An invalid cost is not counted.
    for cost in [f64::NAN, f64::INFINITY, -1.0] {
        spend(2, spent(0, Some(cost)));
    }
    assert_eq!(sum(3), spent(1, Some(0.5)));
    assert_eq!(sum(2), Usage { input_tokens: 10, output_tokens: 4, cost_usd: None });
    assert_eq!(runs.iterations(&id(2)).unwrap()[0].usage, sum(2));
    assert_eq!(sum(1), Usage { input_tokens: 11, output_tokens: 5, cost_usd: Some(0.5) });
    assert_eq!(runs.run(&id(1)).unwrap().unwrap().updated_at, at(11));
}

fn what_is_too_large_is_kept_as_large_as_possible(place: &Place) {
    const MOST: u64 = i64::MAX.unsigned_abs();
    let runs = place();
    let mut large = run(1);
    large.limits.max_tokens = Some(u64::MAX);
    large.limits.max_duration_seconds = Some(u64::MAX);
    large.epoch = Some(Epoch(u64::MAX));
    large.task = Some(TaskId::numbered(1));
    let kept = runs.open_run(&large).unwrap();
    assert_eq!((kept.limits.max_tokens, kept.epoch), (Some(MOST), Some(Epoch(MOST))));
    assert_eq!(runs.open_run(&Run { id: id(2), ..large }).unwrap(), kept);
    apply(&*runs, 1, 1, RunStep::Spend(spent(u64::MAX, None))).unwrap();
    apply(&*runs, 2, 1, RunStep::Spend(spent(u64::MAX, None))).unwrap();
    assert_eq!(place().run(&id(1)).unwrap().unwrap().usage.input_tokens, MOST);
    apply(&*runs, 3, 1, RunStep::Take(Take::default())).unwrap();
    let deadline = place().run(&id(1)).unwrap().unwrap().deadline;
    assert_eq!(deadline, Some(Timestamp::from_seconds(i64::MAX)));
}

fn nothing_spent_at_once_is_lost(place: &Place) {
    let runs = place();
    runs.open_run(&run(1)).unwrap();
    for n in 0..THREADS {
        runs.open_run(&attempt(2 + n, 1, n)).unwrap();
    }
    let workers: Vec<_> = (0..THREADS)
        .map(|n| {
            let runs = place();
            thread::spawn(move || {
                for _ in 0..SPENDS_OF_A_THREAD {
                    apply(&*runs, 5, 2 + n, RunStep::Spend(spent(1, Some(0.25)))).unwrap();
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let all = THREADS * SPENDS_OF_A_THREAD;
    let sum = Usage { input_tokens: all, output_tokens: all, cost_usd: Some(all as f64 * 0.25) };
    assert_eq!(runs.run(&id(1)).unwrap().unwrap().usage, sum);
}

fn a_process_that_slept_through_the_end_changes_nothing(place: &Place) {
    let runs = place();
    runs.open_run(&run(1)).unwrap();
    let take = |pid| {
        let owner = Some(owner(pid));
        RunStep::Take(Take { owner, lease_seconds: 30, ..Take::default() })
    };
    apply(&*runs, 1, 1, take(1)).unwrap();
    apply(&*runs, 100, 1, take(2)).unwrap();
    apply_by(&*runs, 101, &owner(2), RunStep::Stop(StopReason::Complete)).unwrap();
    let before = runs.run(&id(1)).unwrap();
    for step in [begin(0), RunStep::AskHuman(false), RunStep::Stop(StopReason::Crashed)] {
        assert!(apply_by(&*runs, 102, &owner(1), step).is_err());
    }
    assert_eq!(runs.run(&id(1)).unwrap(), before);
}
