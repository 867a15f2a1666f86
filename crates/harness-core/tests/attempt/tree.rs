//! Judged work is what is kept, and what is undone.

use harness_core::{
    Reply, TreeId,
    check::Verdict,
    machine::{
        Input,
        attempt::{Ended, Entry, Rules},
        judge,
    },
    protect::{OnTouch, Protected},
};

use super::{RED, check, check_by, checked, commit, finished, kept, of_judge, ok, red, task};

fn tree(digit: &str) -> TreeId {
    TreeId::parse(&digit.repeat(40)).unwrap()
}

/// A check that passed on this tree.
fn passed(before: &str) -> Input<Ended> {
    let Input::Ended(Ended::Judged(judge::Ended::Checked { verdict, record, output, .. })) =
        checked(Verdict::Passed)
    else {
        unreachable!()
    };
    let before = judge::Before { tree: tree(before), hidden: Vec::new() };
    let around = Box::new(judge::Around { settings: Vec::new(), before: Some(before) });
    of_judge(judge::Ended::Checked { verdict, record, output, around })
}

/// The effect of the check on that tree.
fn left(before: &str, changed: &[&str], more: impl FnOnce(&mut judge::JudgedTree)) -> Input<Ended> {
    let mut tree = judge::JudgedTree {
        before: tree(before),
        after: tree(if changed.is_empty() { before } else { "f" }),
        changed: changed.iter().map(ToString::to_string).collect(),
        moved: false,
        hidden: Vec::new(),
    };
    more(&mut tree);
    of_judge(judge::Ended::Settled { tree: Box::new(tree), settings: Vec::new() })
}

fn settle(before: &str) -> String {
    format!("settle {}", tree(before))
}

fn protecting_tests(on_touch: OnTouch) -> Rules {
    let protected = Protected::new(&["tests".to_owned()], on_touch).unwrap();
    Rules { protected, ..Rules::default() }
}

#[test]
fn the_tree_that_a_passing_check_began_with_is_committed() {
    let keep = format!("keep {}", tree("1"));
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (passed("1"), &settle("1")),
            (left("1", &[], |_| ()), &keep),
            (kept(), "record"),
        ],
    );
}

#[test]
fn a_check_that_changed_the_tree_is_run_once_more() {
    let keep = format!("keep {}", tree("2"));
    let (first, second) = (settle("1"), settle("2"));
    let begin = [
        (Input::Begin, "work"),
        (finished(), "check"),
        (passed("1"), first.as_str()),
        (left("1", &["a"], |_| ()), "check"),
        (passed("2"), second.as_str()),
    ];
    let stable = [(left("2", &[], |_| ()), keep.as_str()), (kept(), "record")];
    check(task(), Entry::Fresh, &[&begin[..], &stable].concat());
    let put_back = format!("putback {{ tree: {} }}", tree("2"));
    let unstable = [
        (left("2", &["a"], |_| ()), put_back.as_str()),
        (
            of_judge(judge::Ended::PutBack(vec!["a".into()])),
            "warn: the check changes files each time it runs: a",
        ),
        (Input::Committed(Reply::Noted), keep.as_str()),
        (kept(), "record"),
    ];
    check(task(), Entry::Fresh, &[&begin[..], &unstable].concat());
}

#[test]
fn protected_files_that_a_check_changes_are_not_committed_unseen() {
    let untouched = of_judge(judge::Ended::Touched { files: Vec::new(), settings: Vec::new() });
    let (first, second) = (settle("1"), settle("2"));
    let begin = [
        (Input::Begin, "work"),
        (finished(), "touched"),
        (untouched, "check"),
        (passed("1"), first.as_str()),
    ];
    let once = left("1", &["tests/t"], |_| ());
    let refused = [(once.clone(), "intend TASK_EXEC: touched protected files: tests/t")];
    let rules = protecting_tests(OnTouch::Refuse);
    check_by(rules, task(), Entry::Fresh, &[&begin[..], &refused].concat());
    let failed = "intend TEST_FAIL: The check failed (it changes protected files: tests/t): \
                  assertion failed";
    let flagged = [
        (once, "warn: touched protected files: tests/t"),
        (Input::Committed(Reply::Noted), "check"),
        (passed("2"), second.as_str()),
        (left("2", &["tests/t"], |_| ()), failed),
    ];
    let rules = protecting_tests(OnTouch::Flag);
    check_by(rules, task(), Entry::Fresh, &[&begin[..], &flagged].concat());
}

#[test]
fn commits_of_others_during_the_check_mean_another_check() {
    let moved = || left("1", &["a"], |tree| tree.moved = true);
    let restless =
        "done left config: each time the check ran, another commit was made on the branch";
    let keep = format!("keep {}", tree("1"));
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (passed("1"), &settle("1")),
            (moved(), "check"),
            (passed("1"), &settle("1")),
            (left("1", &[], |_| ()), &keep),
            (of_judge(judge::Ended::Moved), "check"),
            (passed("1"), &settle("1")),
            (moved(), restless),
        ],
    );
}

#[test]
fn changed_settings_are_flagged_and_may_count_as_protected_files() {
    let setting = |sight| judge::Setting {
        name: "git: core.ignorestat".into(),
        message: "git settings were changed".into(),
        sight,
    };
    let touched = |sight| {
        of_judge(judge::Ended::Touched { files: Vec::new(), settings: vec![setting(sight)] })
    };
    let begin = [(Input::Begin, "work"), (finished(), "touched")];
    let harmless = [
        (touched(false), "warn: git settings were changed"),
        (Input::Committed(Reply::Noted), "check"),
    ];
    let rules = protecting_tests(OnTouch::Refuse);
    check_by(rules.clone(), task(), Entry::Fresh, &[&begin[..], &harmless].concat());
    let refused = [
        (touched(true), "warn: git settings were changed"),
        (
            Input::Committed(Reply::Noted),
            "intend TASK_EXEC: touched protected files: git: core.ignorestat",
        ),
    ];
    check_by(rules, task(), Entry::Fresh, &[&begin[..], &refused].concat());
    let keep = format!("keep {}", tree("1"));
    let after = match left("1", &[], |_| ()) {
        Input::Ended(Ended::Judged(judge::Ended::Settled { tree, .. })) => {
            of_judge(judge::Ended::Settled { tree, settings: vec![setting(false)] })
        }
        other => other,
    };
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (passed("1"), &settle("1")),
            (after, "warn: git settings were changed"),
            (Input::Committed(Reply::Noted), &keep),
        ],
    );
}

#[test]
fn changed_settings_are_set_back_only_when_their_flags_are_durable() {
    let setting = |sight| judge::Setting {
        name: "git: core.ignorestat".into(),
        message: "git settings were changed".into(),
        sight,
    };
    let changed = |sight| of_judge(judge::Ended::Changed(vec![setting(sight)]));
    let set_back = || of_judge(judge::Ended::SetBack);
    let untouched = || of_judge(judge::Ended::Touched { files: vec![], settings: vec![] });
    let keep = format!("keep {}", tree("1"));
    let flagged = "warn: git settings were changed";
    check_by(
        protecting_tests(OnTouch::Refuse),
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "touched"),
            (changed(false), flagged),
            (ok(), "setback"),
            (set_back(), "touched"),
            (untouched(), "check"),
            (changed(false), flagged),
            (ok(), "setback"),
            (set_back(), "check"),
            (passed("1"), &settle("1")),
            (changed(false), flagged),
            (ok(), "setback"),
            (set_back(), &settle("1")),
            (left("1", &[], |_| ()), &keep),
        ],
    );
    // They are set back before the work is refused because of them.
    check_by(
        protecting_tests(OnTouch::Refuse),
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "touched"),
            (changed(true), flagged),
            (ok(), "setback"),
            (set_back(), "touched"),
            (untouched(), "intend TASK_EXEC: touched protected files: git: core.ignorestat"),
        ],
    );
}

#[test]
fn settings_that_change_all_the_time_end_the_judging() {
    let changed = || {
        let (name, message) = ("git: a.b".to_owned(), "a.b was changed".to_owned());
        of_judge(judge::Ended::Changed(vec![judge::Setting { name, message, sight: false }]))
    };
    let mut steps = vec![(Input::Begin, "work"), (finished(), "check")];
    for _ in 0..5 {
        steps.push((changed(), "warn: a.b was changed"));
        steps.push((ok(), "setback"));
        steps.push((of_judge(judge::Ended::SetBack), "check"));
    }
    steps.push((changed(), "warn: a.b was changed"));
    steps.push((ok(), "setback"));
    let why = "intend TASK_EXEC: git's settings change again and again while the work is judged";
    steps.push((of_judge(judge::Ended::SetBack), why));
    check(task(), Entry::Fresh, &steps);
}

#[test]
fn a_commit_that_does_not_hold_the_work_is_flagged() {
    let mut unchanged = task();
    unchanged.started_at_commit = Some(commit());
    let keep = format!("keep {}", tree("1"));
    let hidden = left("1", &[], |tree| tree.hidden = vec!["nested/".into()]);
    check(
        unchanged,
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (passed("1"), &settle("1")),
            (hidden, &keep),
            (kept(), "warn: completed without a change: the commit is the one it began with"),
            (Input::Committed(Reply::Noted), "warn: work that the commit does not hold: nested/"),
            (Input::Committed(Reply::Noted), "record"),
        ],
    );
}

#[test]
fn a_rollback_that_cannot_undo_leaves_the_task_to_a_person() {
    let why = "later commits changed a".to_owned();
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (red(), &format!("intend TEST_FAIL: {RED}")),
            (ok(), "undo"),
            (
                Input::Ended(Ended::NotUndone { why }),
                "done left config: task-001: later commits changed a",
            ),
        ],
    );
    let remark = Some("commits of others stay on the branch".to_owned());
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (red(), &format!("intend TEST_FAIL: {RED}")),
            (ok(), "undo"),
            (
                Input::Ended(Ended::Undone { base: None, put_back: Vec::new(), remark }),
                "warn: commits of others stay on the branch",
            ),
            (Input::Committed(Reply::Noted), &format!("fail TEST_FAIL: {RED}")),
        ],
    );
}
