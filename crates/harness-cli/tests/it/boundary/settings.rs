//! An agent cannot hide its changes by settings of git.

use crate::{environment::TestEnvironment, evidence::add};

const RUN: [&str; 3] = ["run", "--agent", "shell"];
const REFUSED: &str = "ERROR [task-001] [TASK_EXEC] touched protected files:";

fn world(settings: &str) -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    env.write("harness.toml", settings).write("work.txt", "todo\n");
    env.write("tests/t.sh", "grep -q done work.txt\n").write("config.local", "default\n");
    env.git(["add", "harness.toml", "work.txt", "tests", "config.local"]);
    env.git(["commit", "--quiet", "--message", "base"]);
    env
}

fn log(env: &TestEnvironment) -> String {
    env.read("harness-progress.txt")
}

#[test]
fn x_h1_local_edits_in_an_assume_unchanged_file_survive_a_rollback() {
    for flag in ["assume-unchanged", "skip-worktree"] {
        let env = world("");
        env.write("config.local", "MY LOCAL SETTINGS\n");
        env.git(["update-index", &format!("--{flag}"), "config.local"]);
        let script = "echo x > newfile; echo y >> work.txt";
        add(&env, script, "false", &["--max-attempts", "2"]);
        env.run(RUN).code(4);
        assert_eq!(env.read("config.local"), "MY LOCAL SETTINGS\n", "{flag}");
        assert_eq!(env.read("work.txt"), "todo\n");
        assert_eq!(env.git(["status", "--porcelain"]), "", "{flag}: the flag is still there");
        assert!(!log(&env).contains("put back"), "{flag}: {}", log(&env));
        assert!(!log(&env).contains("git settings"), "{flag}: {}", log(&env));
    }
}

#[test]
fn x_h1_an_agents_change_of_such_a_file_is_saved_and_undone() {
    let env = world("");
    env.write("config.local", "MY LOCAL SETTINGS\n");
    env.git(["update-index", "--assume-unchanged", "config.local"]);
    add(&env, "echo agent > config.local", "false", &["--max-attempts", "1"]);
    env.run(RUN).code(4);
    assert_eq!(env.read("config.local"), "MY LOCAL SETTINGS\n");
    assert_eq!(env.git(["show", "refs/harness/rescue/task-001/1:config.local"]), "agent");
    assert!(log(&env).contains("put back as before the claim: config.local"), "{}", log(&env));
}

#[test]
fn x_h5_protected_files_cannot_be_hidden_from_git() {
    for hiding in [
        "git update-index --assume-unchanged tests/t.sh",
        "git update-index --skip-worktree tests/t.sh",
        "git config core.ignoreStat true; git update-index --really-refresh tests/t.sh; \
         git update-index --assume-unchanged tests/t.sh",
        "echo tests/helper.sh >> .git/info/exclude; echo true > tests/helper.sh",
    ] {
        let env = world("protected = ['tests']\nprotect = 'refuse'\n");
        let script = format!("{hiding}; echo true > tests/t.sh");
        add(&env, &script, "sh tests/t.sh", &["--max-attempts", "1"]);
        env.run(RUN).code(4);
        assert!(log(&env).contains(REFUSED), "{hiding}: {}", log(&env));
        assert!(log(&env).contains("git settings were changed and set back"), "{}", log(&env));
        assert_eq!(env.read("tests/t.sh"), "grep -q done work.txt\n", "{hiding}");
        assert_eq!(env.git(["ls-files", "-v", "tests/t.sh"]), "H tests/t.sh", "{hiding}");
        assert!(!env.read(".git/info/exclude").contains("helper"));
        assert_eq!(env.task(0)["flags"], serde_json::json!(["config"]), "{hiding}");
    }
}

#[test]
fn x_h6_a_filter_of_the_agent_does_not_reach_a_clean_checkout() {
    let env = world("[validation]\nclean = true\n");
    let script = "git config filter.e.smudge 'echo done'; git config filter.e.clean 'echo todo'\n\
                  echo 'work.txt filter=e' > .git/info/attributes";
    add(&env, script, "grep -q done work.txt", &["--max-attempts", "1"]);
    env.run(RUN).code(4);
    assert!(log(&env).contains("[TEST_FAIL] The check failed (exit code 1)"), "{}", log(&env));
    assert!(!env.exists(".git/info/attributes"));
    let kept = env.program("git").args(["config", "--get", "filter.e.smudge"]).output().unwrap();
    assert!(!kept.status.success());
    // The log contains the command that sets it again.
    assert!(log(&env).contains("to make it again: git config filter.e.smudge 'echo done'"));
}

#[test]
fn x_m12_settings_do_not_outlive_an_attempt() {
    let env = world("");
    let script = "if [ $HARNESS_ATTEMPT -gt 1 ]; then test -f tests/t.sh && echo done > work.txt; exit; fi\n\
                  git sparse-checkout set --no-cone /work.txt >/dev/null\n\
                  git config core.excludesFile /dev/null; git config branch.main.remote elsewhere\n\
                  printf '#!/bin/sh\\nexit 0\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit";
    add(&env, script, "sh tests/t.sh", &[]);
    env.run(RUN).success();
    assert_eq!(env.task(0)["attempts"], 2);
    assert!(env.exists("tests/t.sh") && !env.exists(".git/hooks/pre-commit"));
    let setting = |key: &str| {
        let output = env.program("git").args(["config", "--get", key]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(setting("core.sparseCheckout"), "");
    assert_eq!(setting("core.excludesFile"), "");
    assert_eq!(setting("branch.main.remote"), "elsewhere", "left alone");
    assert!(
        log(&env).contains(
            "WARN [task-001] git settings were changed and set back: .git/hooks/pre-commit"
        )
    );
    assert_eq!(env.git(["status", "--porcelain"]), "");
}

#[test]
fn x_m12_a_hooks_path_in_the_work_tree_is_left_alone_and_flagged() {
    let env = world("");
    let script = "git config core.hooksPath .githooks; echo done > work.txt";
    add(&env, script, "sh tests/t.sh", &[]);
    env.run(RUN).success();
    assert_eq!(env.git(["config", "--get", "core.hooksPath"]), ".githooks");
    assert!(log(&env).contains("WARN [task-001] git settings were changed: core.hookspath"));
    assert_eq!(env.task(0)["flags"], serde_json::json!(["config"]));
}
