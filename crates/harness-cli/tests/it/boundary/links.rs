//! Links, pipes and second names in the place of harness's files. They are reported, never
//! followed, and never waited for.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use crate::{
    environment::TestEnvironment,
    objective::stage::{agent, bare_agent, go_with, stage},
};

fn precious(env: &TestEnvironment) -> std::path::PathBuf {
    let path = env.home().join("precious");
    fs::write(&path, "mine\n").unwrap();
    path
}

#[track_caller]
fn untouched(path: &Path) {
    assert_eq!(fs::read_to_string(path).unwrap(), "mine\n");
}

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn with_task(check: &str) -> TestEnvironment {
    let env = stage();
    env.run(["add", "one", "--validate", check, "--instructions", "do it"]).success();
    env
}

fn work(env: &TestEnvironment, script: &str) -> crate::environment::Ran {
    let command = bare_agent(env, script);
    env.run(["run", "--agent-command", &command])
}

#[test]
fn x_m3_an_agent_cannot_have_its_transcript_written_elsewhere() {
    let env = stage();
    let precious = precious(&env);
    // The name of its standard error follows from that of its standard output, which exists
    // already.
    let script = format!(
        "cd .harness/transcripts; f=$(ls *.log); ln -s {} \"${{f%.log}}.err.log\"; echo text >&2",
        precious.display()
    );
    let ran = go_with(&env, &agent(&env, &script), &["--max-iterations", "1"]);
    ran.stderr_contains(".err.log is a symbolic link; harness never follows one");
    untouched(&precious);
}

#[test]
fn x_m3_a_folder_that_is_a_link_is_not_written_into() {
    for name in ["transcripts", "processes", "prompts", "runs"] {
        let env = stage();
        let elsewhere = env.home().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, env.root().join(".harness").join(name)).unwrap();
        let ran = go_with(&env, &agent(&env, "echo TASK_COMPLETE"), &["--max-iterations", "1"]);
        ran.stderr_contains(&format!(".harness/{name}"));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn x_m3_a_kept_failure_is_neither_read_nor_written_through_a_link() {
    let env = with_task("false");
    let precious = precious(&env);
    fs::create_dir_all(env.root().join(".harness/failures")).unwrap();
    symlink(&precious, env.root().join(".harness/failures/task-001.log")).unwrap();
    let prompt = env.home().join("prompt");
    let ran = work(&env, &format!("cat > {}; echo TASK_COMPLETE", prompt.display()));
    ran.stderr_contains(".harness/failures/task-001.log is a symbolic link");
    untouched(&precious);
    let told = fs::read_to_string(prompt).unwrap_or_default();
    assert!(!told.contains("mine"), "{told}");
}

#[test]
fn x_m3_pipes_hang_nobody() {
    let env = with_task("false");
    pipe(&env.root().join(".harness/failures/task-001.log"));
    work(&env, "echo TASK_COMPLETE").stderr_contains("task-001.log is a named pipe");

    let env = with_task("true");
    pipe(&env.root().join(".harness/processes/x.json"));
    work(&env, "echo x >> f; echo TASK_COMPLETE").success();

    let env = with_task("true");
    pipe(&env.root().join(".harness/run.log"));
    env.run(["run", "--detach", "--agent-command", "true"])
        .stderr_contains(".harness/run.log is a named pipe");

    let env = with_task("true");
    pipe(&env.root().join("harness-init.sh"));
    work(&env, "echo TASK_COMPLETE").stderr_contains("harness-init.sh is a named pipe");

    let env = with_task("true");
    pipe(&env.root().join("harness.toml"));
    env.run(["config"]).code(5).stderr_contains("harness.toml is a named pipe");

    for name in ["harness.db", "harness.db-wal", "harness.db-shm"] {
        let env = with_task("true");
        pipe(&env.root().join(".harness").join(name));
        work(&env, "echo TASK_COMPLETE")
            .stderr_contains(&format!(".harness/{name} is a named pipe"));
    }
}

#[test]
fn x_m3_the_logs_of_background_processes_are_not_links() {
    let env = with_task("true");
    let precious = precious(&env);
    symlink(&precious, env.root().join(".harness/run.log")).unwrap();
    let ran = env.run(["run", "--detach", "--agent-command", "true"]);
    ran.stderr_contains(".harness/run.log is a symbolic link");
    untouched(&precious);
    let env = env.with_daemon();
    symlink(&precious, env.root().join(".harness/daemon.log")).unwrap();
    env.run(["ping"]).code(1).stderr_contains(".harness/daemon.log is a symbolic link");
    untouched(&precious);
}

#[test]
fn x_l6_init_writes_no_ignore_rules_through_a_link() {
    for (argument, name) in [("--yes", ".git/info/exclude"), ("--gitignore", ".gitignore")] {
        let env = TestEnvironment::with_git();
        let precious = precious(&env);
        let link = env.root().join(name);
        _ = fs::remove_file(&link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&precious, &link).unwrap();
        let ran = env.run(["init", argument]).success();
        ran.stderr_contains("WARN: git will not ignore these files")
            .stderr_contains("is a symbolic link")
            .stderr_contains("add to it yourself: harness-tasks.json*");
        untouched(&precious);
    }
}

#[test]
fn x_l6_install_follows_a_link_once_and_only_into_the_home() {
    let env = TestEnvironment::with_git();
    let dotfiles = env.home().join("dotfiles");
    fs::create_dir(&dotfiles).unwrap();
    symlink(&dotfiles, env.root().join(".claude")).unwrap();
    env.run(["install", "claude"]).success();
    assert!(dotfiles.join("settings.json").is_file());
    env.run(["uninstall", "claude"]).success();

    let elsewhere = tempfile::tempdir().unwrap();
    fs::remove_file(env.root().join(".claude")).unwrap();
    symlink(elsewhere.path(), env.root().join(".claude")).unwrap();
    let ran = env.run(["install", "claude"]).code(5);
    ran.stderr_contains(".claude/settings.json is a link to");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    assert!(!env.exists(".mcp.json"));
}

#[test]
fn x_l7_a_file_with_a_second_name_is_replaced_by_a_copy() {
    let env = with_task("true");
    let env = env.with_daemon();
    env.run(["daemon", "start"]).success();
    env.run(["shutdown"]).success();
    let names = [
        "harness-progress.txt",
        ".harness/trajectory.jsonl",
        ".harness/daemon.log",
        ".harness/daemon.lock",
    ];
    let seconds: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let second = env.home().join(format!("second-{n}"));
            fs::hard_link(env.root().join(name), &second).unwrap();
            (second.clone(), fs::read(&second).unwrap())
        })
        .collect();
    env.run(["daemon", "start"]).success();
    env.run(["add", "two"]).success();
    env.run(["task", "claim", "--worker", "w"]).success();
    let said = env.read("harness-progress.txt");
    assert!(said.contains("Starting [task-001]"), "{said}");
    env.run(["shutdown"]).success();
    for (second, before) in seconds {
        assert_eq!(fs::read(&second).unwrap(), before, "{}", second.display());
    }
}

#[test]
fn x_l7_run_log_with_a_second_name_is_replaced_by_a_copy() {
    let env = with_task("true");
    let second = precious(&env);
    fs::hard_link(&second, env.root().join(".harness/run.log")).unwrap();
    // The run ends at once, because the agent does not exist.
    env.run(["run", "--detach", "--agent-command", "/nonexistent/agent"]);
    assert!(env.read(".harness/run.log").starts_with("mine\n"));
    untouched(&second);
}
