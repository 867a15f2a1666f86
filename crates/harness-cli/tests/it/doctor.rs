//! `harness doctor`

use std::os::unix::fs::{PermissionsExt, symlink};

use insta::assert_snapshot;

use crate::{environment::TestEnvironment, ledgers::MIXED};

/// Returns a world without agents and with git, in a directory of the test's own.
pub(crate) fn environment() -> TestEnvironment {
    let env = TestEnvironment::with_git();
    let bin = env.home().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for program in ["git", "sh"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|directory| directory.join(program))
            .find(|path| path.exists())
            .unwrap();
        symlink(found, bin.join(program)).unwrap();
    }
    env.variable("PATH", bin)
}

pub(crate) fn program(env: &TestEnvironment, name: &str, script: &str) {
    let path = env.home().join("bin").join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Replaces text that differs from machine to machine.
fn normal(text: &str) -> String {
    let text = regex::Regex::new(r"(git +)\d\S*").unwrap().replace(text, "${1}[VERSION]");
    regex::Regex::new(r"\d+ [MG]iB free").unwrap().replace(&text, "[SIZE] free").into_owned()
}

#[test]
fn a_healthy_project_is_ok_throughout() {
    let env = environment();
    env.write("harness-tasks.json", MIXED).write("harness-tasks.json.bak", MIXED);
    env.run(["trust", "--yes", "--json"]).success();
    program(&env, "claude", "echo '2.0.1 (Claude Code)'");
    program(&env, "codex", "echo codex-cli 0.50.0");
    std::fs::create_dir(env.home().join(".codex")).unwrap();
    std::fs::write(env.home().join(".codex/auth.json"), "{}").unwrap();
    std::fs::create_dir_all(env.home().join(".claude")).unwrap();
    std::fs::write(env.home().join(".claude/.credentials.json"), "{}").unwrap();
    env.write("harness.toml", "agent = 'claude'\n");
    assert_snapshot!(normal(env.run(["doctor"]).success().output()), @r"
    ok    git            [VERSION] ([HOME]/bin/git)
    ok    repository     branch main, clean
    ok    state root     [ROOT]
    ok    ledger         7 tasks, 1 completed
    ok    backup         readable, 7 tasks
    ok    files          regular files, no links
    ok    lock           free
    ok    disk           writable, [SIZE] free
    ok    trust          this ledger may run its commands
    ok    configuration  1 key set
    ok    agent          claude: 2.0.1 (Claude Code), signed in (its own credentials)
    ok    agent          codex: codex-cli 0.50.0, signed in by [HOME]/.codex/auth.json
    ok    agent          claude is configured
    ok    socket         in [HOME]/run
    ");
    let document = env.run(["doctor", "--json"]).success().json();
    assert_eq!(document["ok"], true);
    assert!(document["checks"].as_array().unwrap().iter().all(|check| check["level"] == "ok"));
}

#[test]
fn without_a_state_root_it_looks_at_the_rest() {
    let env = environment();
    assert_snapshot!(normal(env.run(["doctor"]).success().output()), @r"
    ok    git            [VERSION] ([HOME]/bin/git)
    ok    repository     branch main, clean
    warn  state root     no harness-tasks.json in [ROOT] or above — create one with `harness init`
    ok    disk           writable, [SIZE] free
    ok    configuration  nothing set, defaults apply
    warn  agent          claude and codex not found on PATH — install one, or name another agent in harness.toml
    ok    socket         in [HOME]/run
    ");
    assert_eq!(env.root().read_dir().unwrap().count(), 1, "only .git");
}

#[test]
fn a_broken_ledger_or_configuration_is_exit_5() {
    let env = environment();
    env.write("harness-tasks.json", "{").write("harness-tasks.json.bak", MIXED);
    env.write("harness.toml", "agnet = 'claude'\n");
    let ran = env.run(["doctor"]).code(5);
    let failed: Vec<_> = ran.output().lines().filter(|line| line.starts_with("fail")).collect();
    assert_snapshot!(failed.join("\n"), @r"
    fail  ledger         harness-tasks.json is not readable JSON: EOF while parsing an object at line 1 column 1 — any command that changes something restores the backup
    fail  configuration  [ROOT]/harness.toml:1: unknown key `agnet` — did you mean `agent`?
    ");
    assert_eq!(env.read("harness-tasks.json"), "{");
    let env = environment();
    env.write("harness-tasks.json", r#"{"tasks": [{"id": "a", "depends_on": ["b"]}]}"#);
    env.run(["doctor"]).code(5).stdout_contains("task a depends on b, which does not exist");
    let env = environment().variable("HARNESS_STATE_ROOT", "/");
    env.run(["doctor"]).code(5).stdout_contains("fail  state root");
}

#[test]
fn links_and_special_files_in_our_places_are_named() {
    let env = environment();
    env.write("harness-tasks.json", MIXED);
    symlink("/etc/passwd", env.root().join("harness-progress.txt")).unwrap();
    symlink("/etc/passwd", env.root().join("harness-tasks.json.bak")).unwrap();
    std::fs::create_dir(env.root().join(".harness-active")).unwrap();
    let ran = env.run(["doctor"]).code(5);
    let files: Vec<_> = ran.output().lines().filter(|l| l.contains("  files ")).collect();
    assert_snapshot!(files.join("\n"), @r"
    warn  files          harness-tasks.json.bak is a symbolic link — the next change replaces it
    fail  files          harness-progress.txt is a symbolic link — remove it; harness follows no links and opens no special files
    fail  files          .harness-active is a directory — remove it; harness follows no links and opens no special files
    ");
}

#[test]
fn a_stale_lock_is_seen_and_left_alone() {
    let env = environment();
    env.write("harness-tasks.json", MIXED);
    let hash = <sha2::Sha256 as sha2::Digest>::digest(env.root().to_str().unwrap());
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let lock = std::path::PathBuf::from(format!("/tmp/harness-{hash}.lock"));
    env.write(lock.join("pid"), "999999999\n");
    let held = env.run(["doctor"]);
    std::fs::write(lock.join("pid"), format!("{}\n", std::process::id())).unwrap();
    let live = env.run(["doctor"]);
    assert!(lock.exists());
    std::fs::remove_dir_all(&lock).unwrap();
    held.success().stdout_contains("warn  lock           left behind by pid=[PID], which is gone");
    live.success().stdout_contains("ok    lock           held by pid=[PID], which runs");
}

#[test]
fn agents_and_repository_are_judged() {
    let env = environment();
    env.write("file", "1");
    env.git(["add", "file"]);
    program(&env, "claude", "echo broken >&2; exit 3");
    program(&env, "codex", "printf 'evil \\033[2J\\n'");
    env.write("harness-tasks.json", MIXED);
    env.write("harness.toml", "agent = 'mine'\n[agents.mine]\ncommand = 'no-such-agent --fast'\n");
    let ran = env.run(["doctor"]).code(1);
    let lines: Vec<_> = ran
        .output()
        .lines()
        .filter(|line| line.contains("  agent ") || line.contains("  repository "))
        .collect();
    assert_snapshot!(lines.join("\n"), @r"
    warn  repository     branch main, 1 file with uncommitted changes — commit or stash them: `harness run` needs a clean tree
    warn  agent          claude: [HOME]/bin/claude does not work: exit 3: broken — reinstall it, or remove it from PATH
    warn  agent          codex: evil \u{1b}[2J, no sign of a login — run `codex login`, or set CODEX_API_KEY
    fail  agent          mine is configured, but no-such-agent is not found on PATH — install it, or choose another `agent`
    ");
    let env = TestEnvironment::new();
    env.run(["doctor"]).success().stdout_contains("not a git repository — ");
    let env = env.variable("PATH", "/nowhere");
    env.run(["doctor"]).code(1).stdout_contains("fail  git            not found on PATH");
}

#[test]
fn a_strange_repository_runs_nothing() {
    let env = environment();
    env.write("harness-tasks.json", MIXED).write("file", "a").write(".gitattributes", "* filter=x");
    env.git(["add", "file", ".gitattributes"]);
    env.git(["commit", "-qm", "file"]);
    let evil = format!("touch {}", env.root().join("pwned").display());
    for key in ["core.fsmonitor", "filter.x.clean", "filter.x.process", "diff.external"] {
        env.git(["config", key, &evil]);
    }
    // The content differs and the size does not, so git has to read the file.
    env.write("file", "b");
    env.run(["doctor"]).stdout_contains("branch main, 1 file with uncommitted changes");
    assert!(!env.exists("pwned"));
}

#[test]
fn a_git_dir_of_the_caller_leads_nowhere() {
    let other = TestEnvironment::with_git();
    other.git(["checkout", "-qb", "elsewhere"]);
    let env = environment().variable("GIT_DIR", other.root().join(".git"));
    env.write("harness-tasks.json", MIXED);
    env.run(["doctor"]).stdout_contains("branch main, clean");
}

#[test]
fn a_warning_beside_the_version_is_not_the_version() {
    let env = environment();
    program(&env, "codex", "echo 'WARNING: no PATH (os error 13)' >&2; echo codex-cli 0.50.0");
    env.run(["doctor"]).success().stdout_contains("codex: codex-cli 0.50.0, no sign of a login");
}

#[test]
fn a_configured_agent_is_judged_as_it_would_be_started() {
    let env = environment();
    env.write("harness-tasks.json", MIXED).write("harness-tasks.json.bak", MIXED);
    env.run(["trust", "--yes", "--json"]).success();
    program(&env, "my-claude", "echo 2.0.1");
    let path = env.home().join("bin/my-claude");
    let table = format!("command = \"{}\"\nenv = [\"ANTHROPIC_API_KEY=k\"]\n", path.display());
    env.write("harness.toml", format!("agent = 'claude'\n[agents.claude]\n{table}"));
    let ran = env.run(["doctor"]).success();
    let ran =
        ran.stdout_contains("ok    agent          claude: 2.0.1, signed in (ANTHROPIC_API_KEY)");
    assert!(!ran.output().contains("not found"), "{ran}");
    // The same holds for an agent under another name.
    let fast = format!("agent = 'fast'\n[agents.fast]\nkind = 'claude'\n{table}");
    env.write("harness.toml", &fast);
    let ran = env.run(["doctor"]).success();
    ran.stdout_contains("ok    agent          fast: 2.0.1, signed in (ANTHROPIC_API_KEY)");
    env.write("harness.toml", format!("{fast}yolo = true\n"));
    if rustix::process::geteuid().is_root() {
        let words = "fail  agent          fast: Claude Code refuses to bypass permissions";
        env.run(["doctor"]).code(1).stdout_contains(words);
    }
}
