//! The parts of a project that `harness init` finds: its check, which is tried, and its tests.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::environment::{Ran, TestEnvironment};

/// Returns a project that is tested by `npm test`, which runs `sh test.sh`.
fn npm_project(test: &str) -> TestEnvironment {
    let env = with_program(TestEnvironment::with_git(), "npm", "sh ./test.sh");
    env.write("package.json", r#"{"scripts":{"test":"vitest run"}}"#);
    env.write("test.sh", test).write("tests/one.txt", "");
    env
}

/// Puts a program of that name before all others.
fn with_program(env: TestEnvironment, name: &str, script: &str) -> TestEnvironment {
    let file = env.home().join("bin").join(name);
    env.write(&file, format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path = format!("{}:{}", env.home().join("bin").display(), path.display());
    env.variable("PATH", path)
}

fn commit(env: &TestEnvironment) {
    env.git(["add", "--all"]);
    env.git(["commit", "--quiet", "--message", "project"]);
}

fn settings(env: &TestEnvironment) -> Value {
    let ran = env.run(["config", "--json", "validation.clean"]).success();
    ran.json()["values"]["validation.clean"]["value"].clone()
}

/// Removes the duration in seconds, and the commit.
fn timeless(text: &str) -> String {
    let seconds = regex::Regex::new(r"\d+ s\b").unwrap().replace_all(text, "N s");
    let commits = regex::Regex::new(r"checkout of [0-9a-f]{7}").unwrap();
    commits.replace_all(&seconds, "checkout of [COMMIT]").into_owned()
}

#[test]
fn a_check_that_works_in_a_clean_checkout_is_run_there_from_now_on() {
    let env = npm_project("echo tested >> $HOME/places; pwd >> $HOME/places");
    commit(&env);
    let ran = env.run(["init", "--yes"]).success();
    assert_snapshot!(timeless(ran.output()), @r#"
    [ROOT]
      made harness-tasks.json, harness-progress.txt and .harness-active
      added ignore rules to .git/info/exclude
      found `npm test` (package.json): it checks tasks added without --validate
      it passed (N s) in the work tree, and passed (N s) in a clean checkout of [COMMIT]: tasks are judged in a clean checkout
      attempts that change the tests are flagged: tests/
      wrote harness.toml: commit it with the project
    next: harness add "what is to be done"
    "#);
    assert_snapshot!(timeless(ran.errors()), @r"
    Trying `npm test` in the work tree (at most N s; Ctrl-C ends only the trial) …
      passed
    Trying `npm test` in a clean checkout of [COMMIT] …
      passed
    ");
    assert_snapshot!(timeless(&env.read("harness.toml")), @r#"
    #:schema .harness/harness.schema.json
    # Made by `harness init`. `harness config` shows every setting and where it comes from.

    # The tests. An attempt that changes one of them is flagged; with
    # protect = "refuse" it fails.
    protected = ["tests/"]

    [validation]
    # The check of tasks that are added without --validate. Found by package.json.
    command = "npm test"
    # Judge a clean checkout of each commit instead of the work tree.
    # Tried: it passed (N s) in the work tree, and passed (N s) in a clean checkout of [COMMIT].
    clean = true
    "#);
    assert_eq!(settings(&env), json!(true));
    let places = env.read(env.home().join("places"));
    assert_eq!(places.matches("tested").count(), 2, "{places}");
    assert!(places.contains("harness-checkout-"), "{places}");
}

#[test]
fn a_check_that_needs_what_git_does_not_hold_stays_in_the_work_tree() {
    let env = npm_project("test -f built || { echo nothing was built; exit 3; }");
    env.write(".gitignore", "built\n").write("built", "");
    commit(&env);
    let ran = env.run(["init", "--yes"]).success();
    ran.stderr_contains("  | nothing was built")
        .stdout_contains("but failed (exit code 3, ")
        .stdout_contains(": tasks are judged in the work tree");
    let text = env.read("harness.toml");
    assert!(text.contains("\ncommand = \"npm test\"\n"), "{text}");
    assert!(text.contains("# Switched off: it passed ("), "{text}");
    assert!(text.contains("\n# clean = true\n"), "{text}");
    assert_eq!(settings(&env), json!(false));
}

#[test]
fn a_check_that_fails_already_is_said_to() {
    let env = npm_project("exit 1");
    commit(&env);
    let document = env.run(["init", "--yes", "--json"]).success().json();
    let check = &document["project"]["check"];
    assert_eq!(
        (&check["command"], &check["shown_by"], &check["used"], &check["clean"]),
        (&json!("npm test"), &json!("package.json"), &json!(true), &json!(false))
    );
    assert_eq!(check["work_tree"]["why"], "exit code 1");
    assert_eq!(check["clean_checkout"], Value::Null);
    assert_eq!(document["project"]["protected"], json!(["tests/"]));
    assert!(env.read("harness.toml").contains("# Switched off: it failed (exit code 1, "));
}

#[test]
fn a_check_that_cannot_be_run_is_not_used() {
    let env = TestEnvironment::with_git();
    env.write("package.json", r#"{"scripts":{"test":"x"},"packageManager":"pnpm@9"}"#);
    commit(&env);
    let git = env.program("sh").args(["-c", "command -v git"]).output().unwrap();
    let git = String::from_utf8(git.stdout).unwrap();
    let bin = env.home().join("only");
    fs::create_dir(&bin).unwrap();
    for program in [git.trim(), "/bin/sh"] {
        let name = std::path::Path::new(program).file_name().unwrap();
        std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    }
    let env = env.variable("PATH", &bin);
    env.run(["init", "--yes"])
        .success()
        .stdout_contains(
            "found `pnpm test` (package.json), but it is not used: it could not be run",
        )
        .stdout_contains("--validate 'the command that proves it'");
    assert!(env.read("harness.toml").contains("\n# command = \"pnpm test\"\n"));
}

#[test]
fn nothing_of_the_repository_is_run_without_a_yes() {
    for args in [&["init"][..], &["init", "--yes", "--no-try"]] {
        let env = npm_project("touch $HOME/ran");
        commit(&env);
        env.run(args).success().stdout_contains("it was not tried");
        assert!(!env.exists(env.home().join("ran")), "{args:?}");
        assert!(env.read("harness.toml").contains("# Switched off: it was not tried"), "{args:?}");
        assert_eq!(settings(&env), json!(false));
    }
    let env = npm_project("touch $HOME/ran");
    env.run(["init", "--yes", "--no-config"]).success();
    assert!(!env.exists("harness.toml") && !env.exists(env.home().join("ran")));
}

#[test]
fn an_init_script_that_came_with_the_repository_is_not_run_by_the_trial() {
    let env = npm_project("true");
    env.write("harness-init.sh", "touch $HOME/ran\n");
    commit(&env);
    env.run(["init", "--yes"]).success().stdout_contains("because the repository is not trusted");
    assert!(!env.exists(env.home().join("ran")));
}

#[test]
fn without_a_commit_or_a_repository_there_is_no_clean_checkout() {
    let env = with_program(TestEnvironment::new(), "npm", "true");
    env.write("package.json", r#"{"scripts":{"test":"x"}}"#);
    env.run(["init", "--yes"]).success().stdout_contains("but there is no repository");
    assert_eq!(settings(&env), json!(false));
    let env = with_program(TestEnvironment::new(), "npm", "true");
    env.write("package.json", r#"{"scripts":{"test":"x"}}"#);
    env.run(["init", "--yes", "--git"]).success().stdout_contains("but there is no commit yet");
}

#[test]
fn what_was_configured_before_is_left_alone() {
    let env = npm_project("touch $HOME/ran");
    env.write("harness.toml", "stall_limit = 5\n");
    commit(&env);
    env.run(["init", "--yes"]).success();
    assert_eq!(env.read("harness.toml"), "stall_limit = 5\n");
    assert!(!env.exists(env.home().join("ran")));
}

#[test]
fn an_interrupt_ends_the_trial_and_nothing_else() {
    let env = npm_project("echo begun > $HOME/begun; exec sleep 600");
    commit(&env);
    let fifo = env.home().join("begun");
    assert!(env.program("mkfifo").arg(&fifo).status().unwrap().success());
    let mut init = env.harness(["init", "--yes"]);
    let init = init.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(fs::read_to_string(&fifo).unwrap(), "begun\n");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(init.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let ran: Ran = env.ran(init.wait_with_output().unwrap());
    ran.success().stdout_contains("it was stopped").stdout_contains("wrote harness.toml");
    assert!(env.exists("harness-tasks.json"));
}

#[test]
fn tasks_that_are_added_without_a_check_get_that_of_the_project() {
    let env = npm_project("true");
    commit(&env);
    env.run(["init", "--yes"]).success();
    env.run(["add", "one"])
        .success()
        .stdout("task-001")
        .stderr("it gets the check of harness.toml: npm test");
    assert_eq!(env.task(0)["validation"]["command"], "npm test");
    env.run(["add", "two", "--validate", "true"]).success().stderr("");
    assert_eq!(env.task(1)["validation"]["command"], "true");
    env.run(["add", "three", "--validate", ""]).success().stderr("");
    assert!(env.task(2)["validation"]["command"].is_null(), "{}", env.task(2));
    // The committed file is still the one that this user agreed to.
    commit(&env);
    env.run(["add", "four"]).success();
    assert_eq!(env.task(3)["validation"]["command"], "npm test");
    // A pull that changes it is not trusted.
    env.write("harness.toml", "[validation]\ncommand = 'touch pwned'\n");
    commit(&env);
    env.run(["add", "five"]).success().stderr_contains("is not trusted and was not used");
    assert!(env.task(4)["validation"]["command"].is_null(), "{}", env.task(4));
    env.run(["trust", "--yes"]).success();
    env.run(["add", "six"]).success();
    assert_eq!(env.task(5)["validation"]["command"], "touch pwned");
}
