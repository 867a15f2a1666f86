//! A target on a remote: every case of the suite that holds for it, over a bare repository on disk, and
//! what only a server can do: refuse, be overtaken, and lose an answer.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod remoting;

use std::time::Duration;

use harness::workspace::{
    Base, CleanupMode, CleanupTerms, RemoteSettings, Sharing, Sight, WorkspaceError,
    shared::{
        Backup, Dead, LANDED_BRANCH, Landed, SharedRepository, TakenIn, Token, land_token, work_ref,
    },
};
use harness_core::{Epoch, Timestamp};
use harness_sim::{
    conformance::{
        shared::{self as suite, RemoteClone, SharedFixture, head, result, task, worker},
        workspace::Fixture,
    },
    for_each_remote_case,
};
use remoting::{hook, ledger, open, opened, second_clone, secrets, settings};

macro_rules! instantiate {
    ($($case:ident,)*) => {
        mod over_a_server {
            $(#[test] fn $case() {
                super::suite::$case(&super::RemoteClone::new(super::open));
            })*
        }
    };
}
for_each_remote_case!(instantiate);

fn fresh() -> RemoteClone {
    RemoteClone::new(open)
}

#[test]
fn a_push_whose_answer_was_lost_has_landed() {
    let f = fresh();
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    shared.set_token(&task(), &swap.to).unwrap();
    // The server ends after it has moved the refs, and before it answers.
    let once = f.bare.join("once");
    std::fs::write(&once, "").unwrap();
    hook(&f.bare, "post-receive", "if [ -e once ]; then rm once; kill -9 $PPID; fi");
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert!(!once.exists(), "the answer was lost");
    assert_eq!(f.tip("main"), Some(swap.to));
    assert_eq!(f.token(&task()), None);
}

#[test]
fn a_voided_token_whose_answer_was_lost_is_voided() {
    let f = fresh();
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    shared.set_token(&task(), &swap.to).unwrap();
    std::fs::write(f.bare.join("once"), "").unwrap();
    hook(&f.bare, "post-receive", "if [ -e once ]; then rm once; kill -9 $PPID; fi");
    assert_eq!(shared.void_token(&task(), &swap.to).unwrap(), Token::Voided);
    assert_eq!(shared.land(&swap).unwrap(), Landed::Fenced);
}

#[test]
fn a_push_that_ends_before_the_refs_move_is_made_again() {
    let f = fresh();
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    shared.set_token(&task(), &swap.to).unwrap();
    std::fs::write(f.bare.join("once"), "").unwrap();
    hook(&f.bare, "pre-receive", "if [ -e once ]; then rm once; kill -9 $PPID; fi");
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(f.tip("main"), Some(swap.to));
}

#[test]
fn a_push_that_comes_first_wins_and_the_token_stays() {
    let f = fresh();
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    shared.set_token(&task(), &swap.to).unwrap();
    // Another push moves the branch after this one has seen it.
    let other = f.clone.git(["commit-tree", "-p", "HEAD", "-m", "theirs", "HEAD^{tree}"]);
    f.clone.git(["push", "--quiet", &f.url(), &format!("{other}:refs/heads/other")]);
    let overtake = "while read old new ref; do if [ $ref = refs/heads/main ] && [ -e once ]; then \
                    rm once; unset GIT_QUARANTINE_PATH; git update-ref $ref refs/heads/other; fi; done";
    std::fs::write(f.bare.join("once"), "").unwrap();
    hook(&f.bare, "pre-receive", overtake);
    assert_eq!(shared.land(&swap).unwrap(), Landed::TargetMoved);
    assert_eq!(f.tip("main").unwrap().to_string(), other);
    assert_eq!(f.token(&task()), Some(swap.to));
}

#[test]
fn a_server_that_refuses_the_branch_gets_the_results_on_another_one() {
    let f = fresh();
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    let refuse = "while read old new ref; do if [ $ref = refs/heads/main ]; then \
                  echo main is protected >&2; exit 1; fi; done";
    hook(&f.bare, "pre-receive", refuse);
    shared.set_token(&task(), &swap.to).unwrap();
    let landed = shared.land(&swap).unwrap();
    let Landed::TreeInUse { why } = landed else { panic!("{landed:?}") };
    assert!(why.contains("origin refuses a push to main"), "{why}");
    assert!(why.contains("main is protected"), "{why}");
    assert_eq!(f.token(&task()).as_ref(), Some(&swap.to), "it can land elsewhere");
    assert_eq!(shared.divert("main").unwrap(), swap.from);
    let beside = harness::workspace::shared::Swap { target: LANDED_BRANCH.into(), ..swap.clone() };
    assert_eq!(shared.land(&beside).unwrap(), Landed::Done);
    assert_eq!(f.tip(LANDED_BRANCH).as_ref(), Some(&swap.to));
    let taken = shared.take_in("main").unwrap();
    assert!(matches!(taken, TakenIn::Kept { ahead: 1, .. }), "{taken:?}");
    std::fs::remove_file(f.bare.join("hooks/pre-receive")).unwrap();
    assert_eq!(shared.take_in("main").unwrap(), TakenIn::Done);
    assert_eq!((f.tip("main"), f.tip(LANDED_BRANCH)), (Some(swap.to), None));
}

#[test]
fn a_server_that_refuses_our_refs_gets_branches_and_no_snapshots() {
    let f = fresh();
    let refuse = "while read old new ref; do case $ref in refs/harness/*) exit 1;; esac; done";
    hook(&f.bare, "pre-receive", refuse);
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    shared.set_token(&task(), &swap.to).unwrap();
    assert!(f.remote_refs("refs/harness/").is_empty());
    // Another process finds the token too.
    assert_eq!(f.shared().void_token(&task(), &swap.to).unwrap(), Token::Voided);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(f.tip("main").as_ref(), Some(&swap.to));
    let base = &swap.from;
    shared.back_up(&worker("w"), &Backup { task: &task(), epoch: Epoch(1), base }).unwrap();
    let warnings = shared.take_warnings();
    assert!(warnings[0].contains("origin refuses refs/harness/*"), "{warnings:?}");
    assert!(shared.take_warnings().is_empty());
    shared.end_branch(&worker("w"), &task(), Epoch(1), "main").unwrap();
    assert_eq!(f.remote_refs("refs/heads/harness/"), Vec::<String>::new());
}

#[test]
fn an_announced_result_reaches_another_clone() {
    let f = fresh();
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    assert_eq!(f.remote_ref(&work_ref(&task(), Epoch(1))).as_ref(), Some(&swap.to));
    let other = second_clone(&f, "other");
    let there = opened(&f, &other, settings(&f));
    let tree = there.reset(&worker("x"), &swap.to).unwrap().workspace;
    assert!(tree.top_level().join("new.txt").exists());
}

#[test]
fn a_server_that_is_gone_costs_no_more_than_the_patience() {
    let f = fresh();
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    shared.set_token(&task(), &swap.to).unwrap();
    shared.refresh("main").unwrap();
    let away = f.bare.with_extension("away");
    std::fs::rename(&f.bare, &away).unwrap();
    for failed in [
        shared.refresh("main").unwrap_err(),
        shared.land(&swap).map(drop).unwrap_err(),
        shared.void_token(&task(), &swap.to).map(drop).unwrap_err(),
        shared.set_token(&task(), &swap.to).unwrap_err(),
    ] {
        assert!(matches!(failed, WorkspaceError::Unreachable { .. }), "{failed}");
    }
    assert_eq!(shared.tip("main").unwrap(), Some(swap.from.clone()), "what is known");
    std::fs::rename(&away, &f.bare).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
}

/// Plays an attempt in the tree of `w` that has a commit and other changes.
fn busy(f: &RemoteClone, shared: &dyn SharedRepository) -> Base {
    let tree = suite::begin(f, shared, "w");
    let base = Base { epoch: Some(Epoch(1)), ..tree.base(&task(), Sight::Anew).unwrap() };
    let agent = f.at(tree.top_level());
    agent.commit_file("done.txt", "done", "some work");
    agent.write_all(&[("a.txt", "changed"), ("new.txt", "new"), ("x.log", "ignored")]);
    agent.remove("b.txt");
    base
}

fn back_up(shared: &dyn SharedRepository, base: &Base) {
    let backup = Backup { task: &task(), epoch: Epoch(1), base: &base.commit };
    shared.back_up(&worker("w"), &backup).unwrap();
}

#[test]
fn a_snapshot_is_continued_in_another_clone() {
    let f = fresh();
    let shared = f.shared();
    let base = busy(&f, &*shared);
    back_up(&*shared, &base);
    let first = f.remote_ref(&work_ref(&task(), Epoch(1))).unwrap();
    back_up(&*shared, &base);
    assert_eq!(f.remote_ref(&work_ref(&task(), Epoch(1))), Some(first), "nothing has changed");
    let (head, files) = (f.clone.in_tree(&base.worktree).git(["rev-parse", "HEAD"]), {
        let mut files = f.at(&base.worktree).files();
        files.remove("x.log");
        files
    });
    drop(shared);
    let other = second_clone(&f, "other");
    let there = opened(&f, &other, settings(&f));
    let gone = f.clone.beside("nowhere");
    let at = |tree, base| Dead { tree, task: DEAD.get_or_init(task), attempt: 1, base };
    // A claim in another tree is another one, whatever its names are.
    let foreign = Base { worktree: gone.clone(), ..base.clone() };
    assert!(there.transplant(&worker("x"), &at(&gone, &foreign), Epoch(2)).unwrap().is_none());
    std::fs::rename(&f.clone.root, f.clone.beside("away")).unwrap();
    for _ in 0..2 {
        let dead = at(&base.worktree, &base);
        let taken = there.transplant(&worker("x"), &dead, Epoch(2)).unwrap().unwrap().workspace;
        assert_eq!(taken.head().unwrap().to_string(), head);
        assert_eq!(other.in_tree(taken.top_level()).files(), files);
    }
    let rescues = other.workspace().rescues(Some(&task())).unwrap();
    assert!(rescues.iter().any(|rescue| rescue.reference == "refs/harness/rescue/task-1/1"));
    assert!(f.remote_ref("refs/harness/rescue/task-1/1").is_some(), "rescues are shared");
}

static DEAD: std::sync::OnceLock<harness_core::TaskId> = std::sync::OnceLock::new();

#[test]
fn a_result_on_its_way_is_continued_in_another_clone_as_it_was() {
    let f = fresh();
    let shared = f.shared();
    let from = head(&f);
    let tree = suite::begin(&f, &*shared, "w");
    let base = Base { epoch: Some(Epoch(1)), ..tree.base(&task(), Sight::Anew).unwrap() };
    let agent = f.at(tree.top_level());
    let work = agent.commit_file("mine.txt", "mine", "my part");
    let onto = f.foreign_file("theirs.txt", "theirs", "their part");
    let rebase = suite::work(&from, &work, &onto);
    suite::done(shared.rebase(&worker("w"), &rebase).unwrap());
    drop(shared);
    let other = second_clone(&f, "other");
    std::fs::rename(&f.clone.root, f.clone.beside("away")).unwrap();
    let there = opened(&f, &other, settings(&f));
    let (task, tree) = (task(), base.worktree.clone());
    let dead = Dead { tree: &tree, task: &task, attempt: 1, base: &base };
    let taken = there.transplant(&worker("x"), &dead, Epoch(2)).unwrap().unwrap().workspace;
    assert_eq!(taken.head().unwrap(), work, "without what others have not landed");
}

#[test]
fn a_file_with_a_secret_is_left_out_of_a_snapshot() {
    let f = fresh();
    let shared = opened(&f, &f.clone, RemoteSettings { secrets: secrets(), ..settings(&f) });
    let base = busy(&f, &shared);
    let agent = f.at(&base.worktree);
    agent.commit_file("config.txt", "key = hunter2-hunter2\n", "a mistake");
    agent.write("more.txt", "hunter2-hunter2");
    back_up(&shared, &base);
    let snapshot = f.remote_ref(&work_ref(&task(), Epoch(1))).unwrap();
    let files = f.clone.in_tree(&f.bare).committed(&snapshot);
    assert_eq!(files.get("done.txt").map(String::as_str), Some("done"));
    assert_eq!(files.get("new.txt").map(String::as_str), Some("new"));
    assert!(!files.contains_key("config.txt") && !files.contains_key("more.txt"), "{files:?}");
    let all = f.in_bare(["log", "--all", "-p"]);
    assert!(!all.contains("hunter2"), "{all}");
    let warnings = shared.take_warnings();
    assert!(warnings[0].contains("config.txt, more.txt"), "{warnings:?}");
}

#[test]
fn snapshots_and_rescues_can_stay_at_home() {
    let f = fresh();
    let at_home =
        RemoteSettings { backups: Sharing::Local, rescues: Sharing::Local, ..settings(&f) };
    let shared = opened(&f, &f.clone, at_home);
    let base = busy(&f, &shared);
    back_up(&shared, &base);
    shared.reset(&worker("w"), &base.commit).unwrap();
    shared.close(&worker("w")).unwrap();
    assert!(!f.workspace().rescues(None).unwrap().is_empty());
    assert_eq!(f.remote_refs("refs/harness/"), Vec::<String>::new());
}

#[test]
fn the_end_of_an_attempt_leaves_its_rescue_on_the_server_and_nothing_else() {
    let f = fresh();
    let shared = f.shared();
    let base = busy(&f, &*shared);
    back_up(&*shared, &base);
    let tree = shared.reset(&worker("w"), &base.commit).unwrap().workspace;
    assert!(is_rescued(&f, "new.txt"), "{:?}", tree.rescues(None));
    shared.close(&worker("w")).unwrap();
    let shared = f.shared();
    let settings = CleanupTerms {
        mode: CleanupMode::Remove,
        target: Some("main".into()),
        open_tasks: [].into(),
        open_trees: [].into(),
        rescues_before: Timestamp::from_seconds(0),
    };
    let there = opened(&f, &f.clone, remoting::settings(&f));
    assert!(f.remote_ref(&work_ref(&task(), Epoch(1))).is_some());
    let removed = there.cleanup_remote(&ledger("other-1"), &settings).unwrap();
    assert!(removed.is_empty(), "the task of another ledger stays: {removed:?}");
    let removed = there.cleanup_remote(&ledger("task-1"), &settings).unwrap();
    assert_eq!(removed.len(), 1, "{removed:?}");
    assert_eq!(f.remote_ref(&work_ref(&task(), Epoch(1))), None);
    let saved = removed[0].saved.as_ref().expect("it was the only copy of the snapshot");
    assert!(f.clone.git(["cat-file", "-t", saved]) == "commit");
    assert!(!f.remote_refs("refs/harness/rescue/").is_empty());
    drop(shared);
    let old = CleanupTerms { rescues_before: Timestamp::from_seconds(i64::MAX / 4), ..settings };
    there.cleanup_remote(&ledger("task-1"), &old).unwrap();
    assert_eq!(f.remote_refs("refs/harness/rescue/task-1/"), Vec::<String>::new());
}

fn is_rescued(f: &RemoteClone, file: &str) -> bool {
    let rescues = f.workspace().rescues(None).unwrap();
    rescues.iter().any(|rescue| f.committed(&rescue.commit).contains_key(file))
}

#[test]
fn the_configuration_of_the_repository_names_nothing_that_runs_or_is_reached() {
    let f = fresh();
    let trap = f.clone.beside("trap");
    let script = f.clone.beside("script");
    remoting::script(&script, &format!("touch '{}'; exit 1", trap.display()));
    let (script, elsewhere) = (script.display().to_string(), f.clone.beside("elsewhere.git"));
    f.clone.git(["init", "--quiet", "--bare", &elsewhere.to_string_lossy()]);
    let elsewhere = elsewhere.display().to_string();
    for (key, value) in [
        ("core.sshCommand", script.as_str()),
        ("core.gitProxy", &script),
        ("core.askPass", &script),
        ("core.hooksPath", &script),
        ("credential.helper", &script),
        ("remote.origin.url", &elsewhere),
        ("remote.origin.pushurl", &elsewhere),
        ("remote.origin.receivepack", &script),
        ("remote.origin.uploadpack", &script),
        ("remote.origin.proxy", "http://127.0.0.1:1"),
        ("http.proxy", "http://127.0.0.1:1"),
        ("protocol.allow", "never"),
        (&format!("url.{elsewhere}.insteadOf"), &f.url()),
        (&format!("url.{elsewhere}.pushInsteadOf"), &f.url()),
        ("push.gpgSign", "true"),
        ("fetch.fsck.skipList", "/nonexistent"),
    ] {
        f.clone.git(["config", key, value]);
    }
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    shared.refresh("main").unwrap();
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(f.tip("main"), Some(swap.to));
    assert!(!trap.exists());
    assert_eq!(f.clone.in_tree(std::path::Path::new(&elsewhere)).git(["for-each-ref"]), "");
}

#[test]
fn results_with_a_token_on_the_server_are_fenced_from_a_late_process() {
    let f = fresh();
    let late = f.shared();
    let swap = result(&f, &*late, &[("new.txt", "new")]);
    late.set_token(&task(), &swap.to).unwrap();
    let other = second_clone(&f, "other");
    let there = opened(&f, &other, settings(&f));
    assert_eq!(there.void_token(&task(), &swap.to).unwrap(), Token::Voided);
    assert!(!there.contains("main", &swap.to).unwrap());
    assert_eq!(late.land(&swap).unwrap(), Landed::Fenced);
    assert_eq!(f.remote_ref(&land_token(&task())), None);
    assert_eq!(f.tip("main"), Some(swap.from));
}

#[test]
fn the_branch_of_the_user_follows_only_if_it_is_clean_and_behind() {
    let f = fresh();
    f.clone.git(["config", "branch.main.remote", "origin"]);
    f.clone.git(["config", "branch.main.merge", "refs/heads/main"]);
    let shared = f.shared();
    let swap = result(&f, &*shared, &[("new.txt", "new")]);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(head(&f), swap.from, "a landing touches nothing here");
    f.write("b.txt", "the user works here");
    shared.follow("main").unwrap();
    assert_eq!(head(&f), swap.from);
    f.write("b.txt", "b");
    shared.follow("main").unwrap();
    assert_eq!(head(&f), swap.to);
    assert_eq!(f.read("new.txt").as_deref(), Some("new"));
}

#[test]
fn patience_is_short_in_these_tests() {
    assert!(settings(&fresh()).patience < Duration::from_secs(5));
}
