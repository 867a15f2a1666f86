//! Judges the work of a client, which commits by itself and may share its work tree with others.

#![allow(clippy::unwrap_used, reason = "tests")]

use harness_core::{
    Command, CommitId, Epoch, Flag, Holder, Receipt, Reply, Task, TaskId, Timestamp, TreeId,
    WorkerId,
    check::Verdict,
    command::{Authority, Raise, Unchecked},
    machine::{
        Input, Machine as _, Next,
        judge::{
            Around, Before, ClientWork, Effect, Ended, Judge, JudgeEnd, JudgedTree, Request, Rules,
            Standing,
        },
    },
    protect::{OnTouch, Protected},
    receipt::CheckRecord,
    task::{ActiveClaim, TaskState, Via},
};

const NOW: Timestamp = Timestamp::from_seconds(1_750_000_000);

fn holder() -> Holder {
    Holder {
        task: TaskId::numbered(1),
        worker: WorkerId::parse("alice").unwrap(),
        epoch: Some(Epoch(1)),
    }
}

fn judge(rules: Rules) -> Judge {
    let mut task = Task::new(TaskId::numbered(1), "one");
    task.validation.command = Some("make test".into());
    let (by, via) = (Some(holder().worker), Some(Via::Client));
    task.state = TaskState::Claimed(Box::new(ActiveClaim { by, via, ..ActiveClaim::default() }));
    task.epoch = Some(Epoch(1));
    let standing = Standing { task: Some(task), next_epoch: Epoch(2), session: 0, shared: false };
    let request = Request {
        holder: holder(),
        authority: Authority::Holder,
        unchecked: Unchecked::Forbidden,
        lease_seconds: 60,
        rules,
        work: ClientWork::Left,
    };
    Judge::of_client(standing, request)
}

fn tree(digit: &str) -> TreeId {
    TreeId::parse(&digit.repeat(40)).unwrap()
}

fn head(digit: &str) -> Input<Ended> {
    Input::Ended(Ended::Head(Some(CommitId::parse(&digit.repeat(40)).unwrap())))
}

fn passed(before: &str) -> Input<Ended> {
    let record = CheckRecord {
        command: "make test".into(),
        timeout_seconds: 1,
        clean: false,
        exit_code: 0,
        duration_ms: 1,
        output_bytes: 0,
        output_sha256: String::new(),
        output_tail: String::new(),
    };
    let before = Before { tree: tree(before), hidden: Vec::new() };
    Input::Ended(Ended::Checked {
        verdict: Verdict::Passed,
        record: Box::new(record),
        output: String::new(),
        around: Box::new(Around { settings: Vec::new(), before: Some(before) }),
    })
}

fn left(before: &str, changed: &[&str]) -> JudgedTree {
    JudgedTree {
        before: tree(before),
        after: tree("f"),
        changed: changed.iter().map(ToString::to_string).collect(),
        moved: false,
        hidden: Vec::new(),
    }
}

fn settled(tree: JudgedTree) -> Input<Ended> {
    Input::Ended(Ended::Settled { tree: Box::new(tree), settings: Vec::new() })
}

/// Steps the machine through inputs, and returns the receipt that the last one asks for.
fn receipt(judge: &mut Judge, steps: Vec<(Input<Ended>, &str)>) -> Receipt {
    let (last, steps) = steps.split_last().unwrap();
    for (input, expected) in steps {
        let next = judge.step(NOW, input.clone());
        assert_eq!(described(&next), *expected, "after {input:?}");
    }
    match judge.step(NOW, last.0.clone()) {
        Next::Start(Effect::Record(receipt)) => *receipt,
        other => panic!("{}", described(&other)),
    }
}

fn described(next: &Next<Effect, JudgeEnd>) -> String {
    match next {
        Next::Start(Effect::Settle { before }) => format!("settle {}", &before.tree.as_str()[..1]),
        Next::Start(Effect::Check { commit: None }) => "check".into(),
        Next::Start(effect) => format!("{effect:?}").to_lowercase(),
        Next::Commit(command) => match &**command {
            Command::Raise(Raise { flag, message, .. }) => format!("{flag}: {message}"),
            other => format!("{other:?}"),
        },
        Next::Done(JudgeEnd::Found(finding)) => finding.log_message(),
        Next::Done(outcome) => format!("{outcome:?}"),
        Next::Wait => "wait".into(),
        Next::Cancel(cause) => format!("cancel {cause:?}"),
    }
}

#[test]
fn the_receipt_names_the_tree_that_the_check_began_with() {
    let mut judge = judge(Rules::default());
    let steps = vec![
        (Input::Begin, "head"),
        (head("a"), "check"),
        (passed("1"), "settle 1"),
        (settled(left("1", &[])), ""),
    ];
    let receipt = receipt(&mut judge, steps);
    assert_eq!(receipt.tree, Some(tree("1")));
    assert_eq!(receipt.commit.unwrap().as_str(), "a".repeat(40));
    assert_eq!(receipt.flags, []);
    let Next::Commit(complete) = judge.step(NOW, Input::Ended(Ended::Recorded)) else { panic!() };
    assert!(matches!(*complete, Command::Complete(_)));
}

#[test]
fn files_that_change_during_the_check_mean_another_one_and_then_a_flag() {
    let begin = || {
        vec![
            (Input::Begin, "head"),
            (head("a"), "check"),
            (passed("1"), "settle 1"),
            (settled(left("1", &["x"])), "check"),
            (passed("2"), "settle 2"),
        ]
    };
    let mut stable = begin();
    stable.push((settled(left("2", &[])), ""));
    let settled_at_last = receipt(&mut judge(Rules::default()), stable);
    assert_eq!((settled_at_last.tree, settled_at_last.flags), (Some(tree("2")), vec![]));
    let mut unstable = begin();
    let flagged = "unstable: files change each time the check runs: x";
    unstable.push((settled(left("2", &["x"])), flagged));
    unstable.push((Input::Committed(Reply::Noted), ""));
    let receipt = receipt(&mut judge(Rules::default()), unstable);
    assert_eq!((receipt.tree, receipt.flags), (Some(tree("2")), vec![Flag::Unstable]));
}

#[test]
fn a_commit_during_the_check_is_the_one_that_the_next_check_is_about() {
    let moved = JudgedTree { moved: true, ..left("1", &[]) };
    let steps = vec![
        (Input::Begin, "head"),
        (head("a"), "check"),
        (passed("1"), "settle 1"),
        (settled(moved), "head"),
        (head("b"), "check"),
        (passed("2"), "settle 2"),
        (settled(left("2", &[])), ""),
    ];
    let receipt = receipt(&mut judge(Rules::default()), steps);
    assert_eq!(receipt.commit.unwrap().as_str(), "b".repeat(40));
    assert_eq!(receipt.tree, Some(tree("2")));
}

#[test]
fn protected_files_that_the_check_changes_twice_fail_it() {
    let protected = Protected::new(&["tests".to_owned()], OnTouch::Flag).unwrap();
    let mut judge = judge(Rules { protected, ..Rules::default() });
    let untouched = Input::Ended(Ended::Touched { files: Vec::new(), settings: Vec::new() });
    let failed = "The check failed (it changes protected files: tests/t)";
    for (input, expected) in [
        (Input::Begin, "head"),
        (head("a"), "touched"),
        (untouched, "check"),
        (passed("1"), "settle 1"),
        (settled(left("1", &["tests/t"])), "protected: touched protected files: tests/t"),
        (Input::Committed(Reply::Noted), "check"),
        (passed("2"), "settle 2"),
        (settled(left("2", &["tests/t"])), failed),
    ] {
        assert_eq!(described(&judge.step(NOW, input)), expected);
    }
}
