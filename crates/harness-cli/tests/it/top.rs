//! `harness top` on a terminal of its own, beside a run.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use crate::{host::world, objective::stage::rows, terminal::Terminal};

#[test]
fn a_person_watches_a_run_pauses_it_and_leaves_without_stopping_it() {
    let env = world().variable("TERM", "xterm-256color").variable("NO_COLOR", "1");
    let [ready, go] = ["ready", "go"].map(|name| env.home().join(name));
    for fifo in [&ready, &go] {
        assert!(env.program("mkfifo").arg(fifo).status().unwrap().success());
    }
    let script =
        format!("echo ready > {}; read go < {}; touch done", ready.display(), go.display());
    let title = "Write the evil \u{1b}]0;title\u{7} parser";
    env.run(["add", title, "--instructions", &script, "--validate", "test -f done"]).success();
    let log = fs::File::create(env.home().join("run.log")).unwrap();
    let mut run = env.harness(["run", "--agent", "shell"]);
    let mut run = run.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    BufReader::new(fs::File::open(&ready).unwrap()).read_line(&mut String::new()).unwrap();

    let mut terminal = Terminal::start(&env, &["top"]);
    terminal.until("\u{1b}[?1049h");
    terminal.until_drawn("running");
    let shown = terminal.until_drawn("parser");
    assert!(shown.contains(r"evil \u{1b}]0;title\u{7} parser"), "{shown}");
    terminal.type_keys("p");
    terminal.until_drawn("‖ paused");
    assert!(env.run(["status", "--json"]).success().json()["paused_at"].is_string());
    terminal.type_keys("p");
    terminal.until_drawn("claiming goes on");
    terminal.type_keys("?");
    terminal.until_drawn("quit; the run goes on");
    // A letter, because an escape character and the next key may arrive as one key.
    terminal.type_keys("j");
    terminal.type_keys("q");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("\u{1b}[?1049l"), "the screen is restored: {shown:?}");
    assert!(!shown.contains("\u{1b}]0;") && !shown.contains('\u{7}'), "{shown:?}");
    assert!(run.try_wait().unwrap().is_none(), "the run goes on");
    fs::write(&go, "go\n").unwrap();
    assert!(run.wait().unwrap().success());
}

#[test]
fn a_view_that_is_open_before_the_run_finds_it_and_says_when_it_is_gone() {
    let env = world().variable("TERM", "xterm-256color").variable("NO_COLOR", "1");
    let mut terminal = Terminal::start(&env, &["top"]);
    terminal.until_drawn("no run");
    env.run(["add", "one", "--instructions", "touch one", "--validate", "true"]).success();
    env.run(["run", "--agent", "shell"]).success();
    terminal.until_drawn("■ complete");
    terminal.type_keys("q");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let env = world();
    env.run(["top"]).code(2).stderr_contains("harness top --json");
}

#[test]
fn each_attempt_has_the_output_of_its_own_check() {
    let env = world();
    let work = "echo more >> tries";
    let check = "echo found $(wc -l < tries) lines; test $(wc -l < tries) -ge 3";
    // A failed attempt is rolled back, so that the count is kept outside of the work tree.
    let tries = env.home().join("tries").display().to_string();
    let [work, check] = [work, check].map(|text| text.replace("tries", &tries));
    env.run(["add", "one", "--instructions", &work, "--validate", &check]).success();
    env.run(["run", "--agent", "shell"]).success();
    let story = env.run(["top", "--json", "task-001"]).success().json();
    let outputs = story["attempts"].as_array().unwrap().iter().map(|a| &a["check_output"]);
    let outputs: Vec<&str> = outputs.map(|text| text.as_str().unwrap().trim()).collect();
    assert_eq!(outputs, ["found 1 lines", "found 2 lines", "found 3 lines"]);
}

/// The rows of attempts name the work tree of their worker, so that views can show who did what.
#[test]
fn an_attempt_of_one_of_several_workers_names_its_work_tree() {
    let env = world();
    for name in ["one", "two"] {
        let (work, check) = (format!("touch {name}"), format!("test -f {name}"));
        env.run(["add", name, "--instructions", &work, "--validate", &check]).success();
    }
    env.run(["run", "--agent", "shell", "--workers", "2"]).success();
    let rows = rows(&env, "SELECT task_id, workspace FROM runs");
    let (attempts, runs): (Vec<_>, Vec<_>) = rows.iter().partition(|r| r["task_id"].is_string());
    let place = |row: &serde_json::Value| row["workspace"].as_str().unwrap().to_owned();
    assert_eq!(attempts.len(), 2, "{rows:#?}");
    assert!(attempts.iter().all(|row| place(row).contains("/.harness/worktrees/")), "{rows:#?}");
    assert!(runs.iter().all(|row| !place(row).contains("worktrees")), "{rows:#?}");
}
