//! The journal: a second copy of the ledger that cleaning a work tree does not reach.

use std::fs;

use crate::environment::TestEnvironment;

const LEDGER: &str = "harness-tasks.json";

const PLAN: &str =
    "```json\n{\"goal\": \"g\", \"tasks\": {\"a\": {\"description\": \"t\"}}}\n```\n";

fn worker() -> TestEnvironment {
    TestEnvironment::of_worker()
}

/// Removes every file of harness in the project, as `git clean -fdx` does.
fn clean(env: &TestEnvironment) {
    env.git(["clean", "-fdxq"]);
    assert!(!env.exists(LEDGER) && !env.exists(".harness"));
}

#[test]
fn s1_an_agent_that_cleans_the_work_tree_destroys_nothing() {
    let env = worker();
    env.run(["add", "first", "--validate", "test -f a", "--instructions", "touch a"]).success();
    let cleaning = "git clean -fdxq; touch r";
    env.run(["add", "cleaner", "--validate", "test -f r", "--instructions", cleaning]).success();
    env.run(["add", "third", "--validate", "test -f c", "--instructions", "touch c"]).success();
    let ran = env.run(["run", "--agent", "shell"]);
    let ran = ran.code(4);
    for n in 0..3 {
        assert_eq!(env.task(n)["status"], "completed", "{ran}");
    }
    let log = env.read("harness-progress.txt");
    assert!(log.contains("RECOVERY action=\"write harness-tasks.json back\""), "{log}");
    assert!(log.contains("harness-progress.txt, 1 receipt"), "{log}");
    for line in ["INIT", "Starting [task-001]", "Completed [task-001]", "Completed [task-003]"] {
        assert_eq!(log.matches(line).count(), 1, "{line}\n{log}");
    }
    // The receipt of the earlier task was restored, and is still valid.
    env.run(["verify"]).success().stdout_contains("3 of 3 hold");
    env.run(["runs", "list"]).success().stdout_contains("succeeded");
}

#[test]
fn s1_any_command_after_a_clean_finds_what_is_left() {
    let env = worker();
    env.run(["add", "one", "--validate", "true"]).success();
    clean(&env);
    let seen = env.run(["status"]).code(1);
    seen.stderr_contains("no harness-tasks.json").stderr_contains("harness init");
    env.run(["add", "two", "--validate", "true"])
        .success()
        .stdout("task-002")
        .stderr_contains("restored from the journal");
    assert_eq!(env.task(0)["title"], "one");
    assert!(env.read("harness-progress.txt").contains("INIT Harness initialized"));
    // The same works below the root, and no ledger further up is used.
    clean(&env);
    fs::create_dir(env.root().join("deep")).unwrap();
    env.write(env.root().parent().unwrap().join(LEDGER), "{\"tasks\": []}");
    env.run_in("deep", ["add", "three", "--validate", "true"]).success().stdout("task-003");
    assert_eq!(env.task(2)["title"], "three");
}

#[test]
fn s1_epochs_go_on_after_a_restore() {
    let env = worker();
    env.run(["add", "one", "--validate", "true"]).success();
    env.run(["task", "claim"]).success();
    let before = env.task(0)["epoch"].as_u64().unwrap();
    clean(&env);
    env.run(["task", "release", "task-001"]).success();
    env.run(["task", "claim"]).success();
    assert!(env.task(0)["epoch"].as_u64().unwrap() > before + 1);
}

#[test]
fn s2_a_missing_ledger_with_a_backup_is_never_replaced_by_an_empty_one() {
    // Without git only the backup is left. With git there is also the journal.
    for env in [TestEnvironment::new(), TestEnvironment::with_git()] {
        env.run(["init"]).success();
        env.run(["add", "one", "--validate", "true"]).success();
        env.run(["add", "two", "--validate", "true"]).success();
        fs::remove_file(env.root().join(LEDGER)).unwrap();
        env.run(["status"]).code(1).stderr_contains("harness init");
        let refused = env.run(["init", "--yes"]).code(5);
        let refused = refused.stderr_contains("harness-tasks.json is missing, but");
        refused.stderr_contains("harness init --restore").stderr_contains("harness init --fresh");
        assert!(!env.exists(LEDGER));
        env.run(["init", "--restore"])
            .success()
            .stdout_contains("restored harness-tasks.json (2 tasks) from the journal");
        assert_eq!(env.task(1)["title"], "two");
        env.run(["init", "--restore"]).success().stdout_contains("newest version (2 tasks)");
    }
}

#[test]
fn s2_the_backup_alone_is_enough() {
    let env = TestEnvironment::new().without_variable("HOME").without_variable("XDG_STATE_HOME");
    env.run(["init"]).success();
    env.run(["add", "one"]).success();
    env.run(["add", "two"]).success();
    fs::remove_file(env.root().join(LEDGER)).unwrap();
    env.run(["init"]).code(5).stderr_contains("harness-tasks.json.bak has a version with 1 task");
    env.run(["init", "--restore"])
        .success()
        .stdout_contains("(1 tasks) from harness-tasks.json.bak");
}

#[test]
fn s3_there_is_a_way_out_when_ledger_and_backup_are_broken() {
    let broken = |env: &TestEnvironment| {
        env.write(LEDGER, "{").write("harness-tasks.json.bak", "{");
    };
    let env = worker();
    env.run(["add", "one", "--validate", "true"]).success();
    broken(&env);
    env.run(["init"]).code(5).stderr_contains("init --restore").stderr_contains("init --fresh");
    env.run(["init", "--restore"]).success().stdout_contains("from the journal");
    assert_eq!(env.task(0)["title"], "one");
    // Without a journal nothing can be restored, and every hint explains how to start over.
    broken(&env);
    fs::remove_dir_all(env.root().join(".git/harness")).unwrap();
    for command in [&["add", "x"][..], &["plan", "reset", "--yes"], &["init", "--restore"]] {
        env.run(command).code(5).stderr_contains("harness init --fresh");
    }
    let fresh = env.run(["init", "--fresh", "--yes"]).success();
    fresh.stdout_contains("archived .harness/archive/harness-tasks.");
    env.run(["add", "anew", "--validate", "true"]).success().stdout("task-001");
    env.run(["status"]).success().stdout_contains("1 task:");
}

#[test]
fn s3_starting_over_keeps_the_old_ledger_and_its_epochs() {
    let env = worker();
    env.run(["add", "one", "--validate", "true"]).success();
    env.run(["task", "claim"]).success();
    let epoch = env.task(0)["epoch"].as_u64().unwrap();
    env.run(["init", "--fresh", "--yes"]).success().stdout_contains("archived");
    env.run(["add", "two", "--validate", "true"]).success();
    env.run(["task", "claim"]).success();
    assert!(env.task(0)["epoch"].as_u64().unwrap() > epoch);
    assert_eq!(env.task(0)["title"], "two");
    let archive = fs::read_dir(env.root().join(".harness/archive")).unwrap();
    let kept: Vec<String> = archive
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .filter(|text| text.contains("\"title\": \"one\""))
        .collect();
    assert!(!kept.is_empty());
    // A ledger that was given up is not restored.
    fs::remove_file(env.root().join(LEDGER)).unwrap();
    env.run(["init", "--restore"]).success();
    assert_eq!(env.task(0)["title"], "two");
}

#[test]
fn s9_git_ignores_a_ledger_that_a_plan_or_a_later_repository_found() {
    let env = TestEnvironment::with_git();
    env.write("plan.md", PLAN);
    env.git(["add", "-A"]);
    env.git(["commit", "-qm", "plan"]);
    env.run(["plan", "import", "--file", "plan.md"]).success();
    assert_eq!(env.git(["status", "--porcelain"]), "");
    // A plan does not replace work that is only lost.
    clean(&env);
    env.run(["plan", "import", "--file", "plan.md"]).code(1).stderr_contains("--merge");
    assert_eq!(env.task(0)["id"], "a");
    let env = TestEnvironment::new();
    env.run(["init"]).success();
    env.run(["init", "--git"]).success().stdout_contains("ignore rules");
    assert_eq!(env.git(["status", "--porcelain"]), "");
}

#[test]
fn r3_a_run_restores_a_broken_ledger_first() {
    let env = worker();
    env.run(["add", "one", "--validate", "test -f a", "--instructions", "touch a"]).success();
    env.write(LEDGER, "{x");
    env.run(["run", "--agent", "shell"]).success().stderr_contains("restored");
    assert_eq!(env.task(0)["status"], "completed");
}

#[test]
fn a_journal_that_cannot_be_written_is_said_once_and_caught_up_with() {
    let env = worker();
    env.run(["add", "one", "--validate", "true"]).success();
    let journal = fs::read_dir(env.root().join(".git/harness")).unwrap().next().unwrap().unwrap();
    let journal = journal.path().join("journal");
    let before = fs::read_to_string(&journal).unwrap();
    // A folder has its place, so that even root cannot write it.
    fs::remove_file(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    env.run(["add", "two", "--validate", "true"]).success().stderr_contains("the journal");
    fs::remove_dir(&journal).unwrap();
    fs::write(&journal, &before[..before.len() - 9]).unwrap();
    env.run(["add", "three", "--validate", "true"]).success();
    clean(&env);
    env.run(["init", "--restore"]).success().stdout_contains("(3 tasks) from the journal");
}

#[test]
fn purge_removes_everything_of_ours_and_nothing_else() {
    let env = worker();
    env.write("mine.txt", "mine").write("harness.toml", "");
    env.git(["add", "-A"]);
    env.git(["commit", "-qm", "mine"]);
    env.run(["install", "claude"]).success();
    env.run(["add", "one", "--validate", "false", "--instructions", "touch a"]).success();
    env.run(["run", "--agent", "shell", "--once"]);
    assert_ne!(env.git(["for-each-ref", "refs/harness"]), "");
    env.run(["purge"]).code(2).stderr_contains("--yes");
    assert!(env.exists(LEDGER));
    env.run(["purge", "--yes"]).success().stdout_contains("refs/harness");
    assert_eq!(env.git(["for-each-ref", "refs/harness"]), "");
    assert_eq!(env.git(["status", "--porcelain"]), "");
    let mut left: Vec<String> = fs::read_dir(env.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [".git", "harness.toml", "mine.txt"]);
    assert!(!env.exists(".git/harness"));
    let exclude = env.read(".git/info/exclude");
    assert!(!exclude.contains("harness"), "{exclude}");
    let state = env.home().join(".local/state/harness/roots");
    assert_eq!(fs::read_dir(state).unwrap().count(), 0);
    env.run(["status"]).code(1);
    env.run(["purge", "--yes"]).success().stdout_contains("no files of harness");
}

#[test]
fn s1_without_a_git_directory_the_ledger_is_written_back() {
    let env = worker();
    let instructions = "rm -rf .git harness-tasks.json harness-tasks.json.bak; touch r";
    env.run(["add", "wild", "--validate", "test -f r", "--instructions", instructions]).success();
    env.run(["run", "--agent", "shell"]).code(5).stderr_contains("the git directory is gone");
    assert_eq!(env.task(0)["title"], "wild");
    assert!(env.read("harness-progress.txt").contains("RECOVERY"));
}
