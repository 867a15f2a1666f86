//! Work that is put on top of another commit.

use std::collections::BTreeMap;

use harness::workspace::{
    WorkspaceError,
    shared::{LandStyle, Rebase, Rebased},
};

use super::{SharedFixture, begin, done, head, is_clean, main_tree, work, worker};
use crate::conformance::workspace::Fixture;

const TRAILER: &str = "Harness-Task: task-1.1";
const BRANCH: &str = "harness/task-1.1";

/// Asserts that a message is the old one with the trailer, once.
#[track_caller]
fn is_marked(message: &str, subject: &str) {
    assert_eq!(message.lines().next(), Some(subject));
    assert_eq!(message.lines().filter(|line| *line == TRAILER).count(), 1, "{message}");
}

fn files(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let ignore = [(".gitignore", "*.log\n")];
    ignore.iter().chain(pairs).map(|(path, text)| ((*path).into(), (*text).into())).collect()
}

fn two_commits(agent: &dyn Fixture) -> harness_core::CommitId {
    agent.commit_file("one.txt", "one", "first");
    agent.commit_file("a.txt", "changed", "second")
}

pub fn commits_are_put_on_top_with_a_trailer(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let agent = f.at(tree.top_level());
    let last = two_commits(&*agent);
    let onto = f.foreign_file("b.txt", "landed", "landed");
    let before = main_tree(f);
    let rebased = shared.rebase(&worker("w"), &work(&base, &last, &onto)).unwrap();
    let Rebased::Done { commit, tree: made } = rebased else { panic!("{rebased:?}") };
    let log = f.log(&onto, &commit);
    assert_eq!(log.len(), 2);
    is_marked(&log[0].message, "second");
    is_marked(&log[1].message, "first");
    assert_eq!((&log[0].parents, &log[1].parents), (&vec![log[1].commit.clone()], &vec![onto]));
    let expected = files(&[("a.txt", "changed"), ("b.txt", "landed"), ("one.txt", "one")]);
    assert_eq!(f.committed(&commit), expected);
    assert_eq!(tree.tree_of(&commit).unwrap(), made);
    assert_eq!(f.tip(BRANCH), Some(commit.clone()));
    assert_eq!(agent.current_branch().as_deref(), Some(BRANCH));
    assert_eq!(agent.files(), expected);
    tree.disturbed();
    assert!(is_clean(&*tree));
    assert_eq!(main_tree(f), before);
}

pub fn a_squash_makes_one_commit(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let last = two_commits(&*f.at(tree.top_level()));
    let onto = f.foreign_file("b.txt", "landed", "landed");
    let rebase = Rebase { style: LandStyle::Squash, ..work(&base, &last, &onto) };
    let commit = done(shared.rebase(&worker("w"), &rebase).unwrap());
    let log = f.log(&onto, &commit);
    assert_eq!(log.len(), 1);
    is_marked(&log[0].message, "task-1: title");
    assert_eq!(log[0].parents, [onto]);
    let expected = files(&[("a.txt", "changed"), ("b.txt", "landed"), ("one.txt", "one")]);
    assert_eq!(f.committed(&commit), expected);
    assert_eq!(f.tip(BRANCH), Some(commit));
}

pub fn the_same_rebase_gives_the_same_commit(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let last = two_commits(&*f.at(tree.top_level()));
    let onto = f.foreign_file("b.txt", "landed", "landed");
    for style in [LandStyle::Rebase, LandStyle::Squash] {
        let rebase = Rebase { style, ..work(&base, &last, &onto) };
        let [first, second] = [0; 2].map(|_| done(shared.rebase(&worker("w"), &rebase).unwrap()));
        assert_eq!(first, second, "{style:?}");
    }
}

pub fn a_result_can_be_rebased_again(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let last = two_commits(&*f.at(tree.top_level()));
    let onto = f.foreign_file("b.txt", "landed", "landed");
    let first = done(shared.rebase(&worker("w"), &work(&base, &last, &onto)).unwrap());
    let further = f.foreign_file("c.txt", "too", "landed, too");
    let second = done(shared.rebase(&worker("w"), &work(&onto, &first, &further)).unwrap());
    let log = f.log(&further, &second);
    assert_eq!(log.len(), 2);
    is_marked(&log[0].message, "second");
    is_marked(&log[1].message, "first");
    let same = done(shared.rebase(&worker("w"), &work(&base, &last, &further)).unwrap());
    assert_eq!(f.committed(&same), f.committed(&second));
    let still = done(shared.rebase(&worker("w"), &work(&further, &same, &further)).unwrap());
    assert_eq!(still, same, "it is there already");
}

pub fn a_rebase_onto_the_base_adds_the_trailer(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let last = two_commits(&*f.at(tree.top_level()));
    let commit = done(shared.rebase(&worker("w"), &work(&base, &last, &base)).unwrap());
    let log = f.log(&base, &commit);
    assert_eq!(log.len(), 2);
    log.iter().zip(["second", "first"]).for_each(|(l, subject)| is_marked(&l.message, subject));
    assert_eq!(f.committed(&commit), f.committed(&last));
}

pub fn a_conflict_changes_nothing(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let agent = f.at(tree.top_level());
    agent.write_all(&[("b.txt", "mine"), ("a.txt", "mine"), ("new.txt", "mine")]);
    ["a.txt", "b.txt", "new.txt"].iter().for_each(|path| agent.stage(path));
    let last = agent.commit("work");
    f.write_all(&[("b.txt", "theirs"), ("a.txt", "theirs")]);
    ["a.txt", "b.txt"].iter().for_each(|path| f.stage(path));
    let onto = f.commit("landed");
    let (before, left) = (main_tree(f), agent.files());
    for style in [LandStyle::Rebase, LandStyle::Squash] {
        let rebase = Rebase { style, ..work(&base, &last, &onto) };
        let rebased = shared.rebase(&worker("w"), &rebase).unwrap();
        let Rebased::Conflict { files } = rebased else { panic!("{rebased:?}") };
        assert_eq!(files, ["a.txt", "b.txt"]);
        assert_eq!(agent.files(), left);
        assert_eq!(agent.current_branch().as_deref(), Some(BRANCH));
        assert_eq!(f.tip(BRANCH).as_ref(), Some(&last));
        tree.disturbed();
        assert!(is_clean(&*tree));
        assert_eq!(main_tree(f), before);
    }
}

pub fn no_work_gives_the_other_commit(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let onto = f.foreign_file("b.txt", "landed", "landed");
    let commit = done(shared.rebase(&worker("w"), &work(&base, &base, &onto)).unwrap());
    assert_eq!(commit, onto);
    assert_eq!(f.tip(BRANCH), Some(onto.clone()));
    assert_eq!(f.at(tree.top_level()).files(), f.committed(&onto));
}

pub fn work_that_is_there_already_gives_the_other_commit(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let last = f.at(tree.top_level()).commit_file("new.txt", "new", "mine");
    let onto = f.foreign_file("new.txt", "new", "theirs");
    for style in [LandStyle::Rebase, LandStyle::Squash] {
        let rebase = Rebase { style, ..work(&base, &last, &onto) };
        assert_eq!(done(shared.rebase(&worker("w"), &rebase).unwrap()), onto, "{style:?}");
    }
    // The other result did not land after all.
    let again = Rebase { placed: Some(onto), ..work(&base, &last, &base) };
    let commit = done(shared.rebase(&worker("w"), &again).unwrap());
    is_marked(&f.log(&base, &commit)[0].message, "mine");
}

pub fn merges_are_flattened(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let agent = f.at(tree.top_level());
    agent.commit_file("one.txt", "one", "first");
    let onto = f.foreign_file("b.txt", "landed", "landed");
    f.merge_in(tree.top_level(), &onto);
    let last = agent.commit_file("two.txt", "two", "second");
    let commit = done(shared.rebase(&worker("w"), &work(&base, &last, &onto)).unwrap());
    let log = f.log(&onto, &commit);
    assert_eq!(log.len(), 2, "{log:?}");
    assert!(log.iter().all(|logged| logged.parents.len() == 1));
    let expected =
        files(&[("a.txt", "a"), ("b.txt", "landed"), ("one.txt", "one"), ("two.txt", "two")]);
    assert_eq!(f.committed(&commit), expected);
}

pub fn work_that_does_not_descend_is_refused(f: &dyn SharedFixture) {
    let (shared, base) = (f.shared(), head(f));
    let tree = begin(f, &*shared, "w");
    let last = f.at(tree.top_level()).commit_file("one.txt", "one", "first");
    let onto = f.foreign_file("b.txt", "landed", "landed");
    let error = shared.rebase(&worker("w"), &work(&onto, &last, &onto)).unwrap_err();
    assert!(matches!(error, WorkspaceError::NotDescendant { .. }), "{error}");
    assert_eq!(f.tip(BRANCH), Some(last));
    assert_ne!(base, onto);
}
