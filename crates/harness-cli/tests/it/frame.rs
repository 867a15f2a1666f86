//! The common behaviour of all commands: help, usage, exit codes, closed pipes.

use insta::assert_snapshot;

use crate::environment::TestEnvironment;

#[test]
fn help_groups_the_commands() {
    let env = TestEnvironment::new();
    let help = env.run(["--help"]).success();
    for heading in ["Set up:", "For scripts:", "Options:", "Exit codes:"] {
        assert!(help.output().contains(&format!("\n{heading}\n")), "{help}");
    }
    assert!(!help.output().contains("\n\n\n"), "{help}");
    env.run(["--version"]).success().stdout(concat!("harness ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_and_version_read_nothing() {
    let env = TestEnvironment::new().without_variable("HOME").variable("HARNESS_STATE_ROOT", "/no");
    env.write("harness.toml", "broken = = \n");
    env.run(["--version"]).success();
    env.run(["--help"]).success();
    env.run(["config", "--help"]).success().stdout_contains("Examples:\n  harness config\n");
    env.run(["completions", "bash"]).success();
}

#[test]
fn wrong_usage_is_exit_2() {
    let env = TestEnvironment::new();
    env.run(["confg"]).code(2).stderr_contains("Error: unrecognized subcommand 'confg'");
    env.run(["config", "--nope"]).code(2).stderr_contains("Error: ");
    env.run([] as [&str; 0]).code(2).stdout("");
}

#[test]
fn a_failure_names_the_problem_and_the_next_step() {
    let env = TestEnvironment::new();
    assert_snapshot!(env.run(["task", "list"]).code(1).errors(), @r"
    Error: no harness-tasks.json in [ROOT] or above
    Hint: create one with `harness init`
    ");
    let env = env.variable("HARNESS_STATE_ROOT", "/");
    assert_snapshot!(env.run(["task", "list"]).code(5).errors(), @r"
    Error: HARNESS_STATE_ROOT is /, but there is no harness-tasks.json there
    Hint: create one with `harness init`, or unset the variable
    ");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let env = TestEnvironment::new();
    for args in [&["config"][..], &["--help"], &["config", "--schema"], &["completions", "zsh"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = env.harness(args).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let env = TestEnvironment::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = env.harness(["config"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("Error: cannot write to"));
}

#[test]
fn another_directory_is_as_if_started_there() {
    let env = TestEnvironment::new();
    env.write("sub/harness-tasks.json", "{}").write("sub/harness.toml", "agent = 'codex'\n");
    env.run(["-C", "sub", "config", "agent"]).success().stdout_contains("\"codex\"");
    env.run(["config", "agent", "-C", "nowhere"])
        .code(1)
        .stderr_contains("Error: cannot change to nowhere: ");
}

#[test]
fn colour_is_never_in_a_pipe_unless_asked_for() {
    let env = TestEnvironment::new();
    let plain = env.run(["task", "list"]);
    assert!(!plain.errors().contains('\x1b'), "{plain}");
    let coloured = env.run(["task", "list", "--color", "always"]);
    assert!(coloured.errors().starts_with("\x1b["), "{coloured}");
    let plain = env.run(["task", "list", "--color", "always", "--plain"]);
    assert!(!plain.errors().contains('\x1b'), "{plain}");
}

#[test]
fn completions_and_manual_are_generated() {
    let env = TestEnvironment::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        env.run(["completions", shell]).success().stdout_contains("worker-id");
    }
    env.run(["man"]).success().stdout_contains(".TH harness 1");
    env.run(["man", "--dir", "pages"]).success().stdout("");
    assert!(env.read("pages/harness.1").contains("harness\\-config"));
    assert!(env.read("pages/harness-config.1").contains("where each value comes from"));
}

#[test]
fn completions_and_manual_are_installed_for_the_user_and_removed_again() {
    let env = TestEnvironment::new().variable("SHELL", "/usr/bin/zsh");
    let installed = env.run(["completions", "--install"]).success();
    installed.stdout_contains("[HOME]/.local/share/zsh/site-functions/_harness");
    for (shell, file) in [
        ("bash", ".local/share/bash-completion/completions/harness"),
        ("zsh", ".local/share/zsh/site-functions/_harness"),
        ("fish", ".config/fish/completions/harness.fish"),
    ] {
        env.run(["completions", shell, "--install"]).success().stdout_contains(file);
        assert!(env.read(env.home().join(file)).contains("worker-id"), "{shell}");
        env.run(["completions", shell, "--uninstall"]).success().stdout_contains("removed");
        assert!(!env.home().join(file).exists(), "{shell}");
    }
    env.run(["completions", "elvish", "--install"])
        .code(2)
        .stderr_contains("harness completions elvish");
    env.run(["completions"]).code(2).stderr_contains("no shell was named");
    env.run(["man", "--install"]).success().stdout_contains("[HOME]/.local/share/man/man1");
    let page = env.home().join(".local/share/man/man1/harness-run.1");
    assert!(env.read(&page).contains("objective"), "{}", page.display());
    env.run(["man", "--uninstall"]).success().stdout_contains("removed ");
    assert!(!page.exists());
}

#[test]
fn self_check_is_the_doctor() {
    let env = TestEnvironment::with_git();
    let names = |ran: &crate::environment::Ran| {
        ran.output().lines().map(|line| line.chars().take(20).collect()).collect::<Vec<String>>()
    };
    assert_eq!(names(&env.run(["self-check"])), names(&env.run(["doctor"])));
}
