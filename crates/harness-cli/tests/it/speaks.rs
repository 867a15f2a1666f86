//! The output of `harness run` about itself: questions, progress, and its end.

use std::fs::File;

use serde_json::{Value, json};

use crate::{
    environment::TestEnvironment,
    objective::stage::{self, Going, fifo, hear},
    terminal::{Terminal, screen},
};

/// Returns a project whose terminal can be drawn on.
fn stage() -> TestEnvironment {
    stage::stage().variable("TERM", "xterm")
}

/// Writes one phase that a person has to approve, with a task in it and one after it.
fn phased(env: &TestEnvironment) {
    let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["phases"] = json!([{ "name": "Plan", "approve": true }, { "name": "Build" }]);
    let task = |id: &str, phase: &str| {
        json!({ "id": id, "title": "Do it", "phase": phase, "instructions": format!("touch {id}"),
            "validation": { "command": format!("test -f {id}") } })
    };
    ledger["tasks"] = json!([task("one", "Plan"), task("two", "Build")]);
    env.write("harness-tasks.json", ledger.to_string());
}

/// Returns a script that reports its start and then hangs.
fn hanging(env: &TestEnvironment) -> (String, std::path::PathBuf) {
    let ready = fifo(env, "ready");
    (format!("echo ready > {}\nexec sleep 600", ready.display()), ready)
}

fn started_at(ready: &std::path::PathBuf) {
    assert_eq!(hear(ready), "ready");
}

#[test]
fn a_question_appears_at_once_with_the_command_that_answers_it() {
    let env = stage();
    phased(&env);
    let mut run = Going::start(&env, &["run", "--agent", "shell"]);
    let asked = run.until("QUESTION prompt-");
    assert!(asked.contains(": May the work go on after phase Plan? [approve, reject]"), "{asked}");
    let command = run.until("answer with: harness reply ");
    let args: Vec<&str> = command.split("harness ").nth(1).unwrap().split_whitespace().collect();
    assert_eq!(args[2], "approve");
    stage::beside(&env, &args);
    let (code, _, errors) = run.end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("or: harness reply prompt-") && errors.contains(" reject"), "{errors}");
}

#[test]
fn a_question_is_answered_on_the_terminal_of_the_run() {
    let env = stage();
    phased(&env);
    let mut terminal = Terminal::start(&env, &["run", "--agent", "shell"]);
    let asked = terminal.until("QUESTION prompt-");
    assert!(asked.contains('\x07'), "no bell: {asked:?}");
    terminal.until("approve, reject");
    terminal.until("> ");
    terminal.type_line("banana");
    terminal.until("that is no answer: ");
    terminal.type_line("approve");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let log = env.read("harness-progress.txt");
    assert!(log.contains("Gate passed: Plan, approved by operator (pid="), "{log}");
    let screen = screen(&shown);
    assert!(screen.iter().any(|line| line == "done: 2 tasks are completed"), "{screen:#?}");
    assert!(!screen.iter().any(|line| line.contains('━')), "{screen:#?}");
}

#[test]
fn what_was_typed_before_a_question_is_no_answer_to_it() {
    let env = stage();
    phased(&env);
    let mut terminal = Terminal::start(&env, &["run", "--agent", "shell"]);
    terminal.type_line("approve");
    terminal.until("QUESTION prompt-");
    terminal.until("> ");
    terminal.type_line("reject");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(3), "{shown}");
    assert!(!env.read("harness-progress.txt").contains("Gate passed"), "{shown}");
}

#[test]
fn a_wait_for_a_usage_limit_is_shown_with_its_end() {
    let env = stage();
    let limit = r#"{"type":"limit","until":"UNTIL"}"#.replace("UNTIL", stage::later());
    let script = format!(
        "test -f limited && echo TASK_COMPLETE && exit\ntouch limited\n\
         echo '{limit}' >> $HARNESS_EVENTS\nexit 1"
    );
    let command = stage::bare_agent(&env, &script);
    let mut terminal = Terminal::start(&env, &["run", "x", "--agent-command", &command]);
    let shown = terminal.until(", or `harness kick`");
    assert!(shown.contains("waits for a usage limit until "), "{shown}");
    assert!(shown.contains(" (in 29 d 23 h)") || shown.contains(" (in 30 d)"), "{shown}");
    stage::kick(&env);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
}

#[test]
fn the_end_of_a_run_over_the_ledger_is_told_in_words() {
    let env = stage();
    let run = ["run", "--agent", "shell"];
    env.run(run)
        .success()
        .stderr_contains("nothing to do: the ledger has no tasks")
        .stderr_contains("next         harness add TITLE");
    env.run(["add", "a", "--instructions", "touch a", "--validate", "test -f a"]).success();
    env.run(["add", "b", "--instructions", "true", "--validate", "false", "--max-attempts", "1"])
        .success();
    let ran = env.run(run).code(4);
    let told = ran.errors().split("LOCK released\n").nth(1).unwrap().to_owned();
    let commit = env.git(["rev-parse", "--short=7", "HEAD"]);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "finished: 1 task is completed, 1 failed for good");
    assert_eq!(lines[1], "  tasks        1 completed, 1 failed, 0 left");
    assert_eq!(lines[2], "  attempts     1 failed; `harness rescue list` shows what it left");
    assert_eq!(lines[3], format!("  commits      {commit} on main"));
    assert!(lines[4].starts_with("  transcripts  in .harness/transcripts"), "{told}");
    assert!(lines[5].starts_with("  used         "), "{told}");
    assert_eq!(lines[6], "  next         harness why task-002");
    env.run(run).code(4).stderr_contains("nothing to do: what is not completed has failed");
    env.run(["task", "remove", "task-002"]).success();
    env.run(run).success().stderr_contains("nothing to do: every task is completed");
}

#[test]
fn a_run_that_stops_early_says_why_and_what_to_type() {
    let env = stage();
    for n in 0..2 {
        let (instructions, check) = (format!("touch {n}"), format!("test -f {n}"));
        env.run(["add", "t", "--instructions", &instructions, "--validate", &check]).success();
    }
    let once = ["run", "--agent", "shell", "--once", "--max-tasks-per-session", "1"];
    env.run(once)
        .code(3)
        .stderr_contains("stopped (once): only one session was asked for (--once)")
        .stderr_contains("1 completed, 0 failed, 1 left")
        .stderr_contains("next         harness run\n");
    env.run(["run", "--agent", "shell", "--max-sessions", "1"])
        .code(3)
        .stderr_contains("stopped (max_sessions): the ledger has had 1 sessions, as many as it may")
        .stderr_contains("next         harness run --max-sessions 51");
}

#[test]
fn the_end_of_an_objective_is_told_in_words() {
    let env = stage();
    let usage = r#"echo '{"type":"usage","input_tokens":10,"output_tokens":5,"cost_usd":0.2}' >> $HARNESS_EVENTS"#;
    let script = format!("{usage}\nif [ $n = 1 ]; then echo TASK_COMPLETE; else echo later; fi");
    let more = ["--verify", "test -f work.txt", "--max-cost", "5"];
    stage::go(&env, &script, &more)
        .code(0)
        .stderr_contains("done: the agent kept its promise, and the check passed: test -f work.txt")
        .stderr_contains("objective    write it\n")
        .stderr_contains("contexts     2\n")
        .stderr_contains("30 tokens, $0.40 of $5.00")
        .stderr_contains("next         git status");
}

#[test]
fn the_command_after_a_spent_budget_works_and_one_that_cannot_is_refused() {
    let env = stage();
    let usage = r#"echo '{"type":"usage","input_tokens":10,"output_tokens":0,"cost_usd":0.75}' >> $HARNESS_EVENTS"#;
    let ran = stage::go(&env, &format!("{usage}\necho later"), &["--max-cost", "0.50"]).code(3);
    let command =
        ran.errors().lines().find_map(|line| line.strip_prefix("  next         harness "));
    let mut args: Vec<&str> = command.unwrap().split_whitespace().collect();
    assert_eq!(args.last(), Some(&"1.25"), "{ran}");
    let done = stage::agent(&env, "echo TASK_COMPLETE");
    env.run(["run", "--resume", "--max-cost", "0.7"])
        .code(2)
        .stderr_contains("--max-cost: the run has used $0.75 already");
    args.extend(["--agent-command", &done]);
    env.run(args).success();
}

#[test]
fn an_abort_tells_its_reason() {
    let env = stage();
    let (script, ready) = hanging(&env);
    let command = stage::bare_agent(&env, &script);
    let mut run = Going::start(&env, &["run", "x", "--agent-command", &command]);
    started_at(&ready);
    stage::beside(&env, &["abort", "wrong branch"]);
    run.until("stopping, as `harness abort` asked: wrong branch");
    let (code, _, errors) = run.end();
    assert_eq!(code, Some(130), "{errors}");
    assert!(errors.contains("stopped (cancelled): by `harness abort`: wrong branch"), "{errors}");
    let log = env.read("harness-progress.txt");
    assert!(log.contains("WARN harness abort: wrong branch"), "{log}");
}

#[test]
fn the_first_interrupt_says_what_happens_and_that_a_second_one_forces() {
    let env = stage();
    // The agent ignores the request to end.
    let (script, ready) = hanging(&env);
    let command =
        stage::bare_agent(&env, &format!("trap '' TERM INT\n{}", script.replace("exec ", "")));
    let mut terminal = Terminal::start(&env, &["run", "x", "--agent-command", &command]);
    started_at(&ready);
    terminal.press_ctrl_c();
    terminal.until("press Ctrl-C again to end it at once");
    terminal.press_ctrl_c();
    terminal.until("ending everything at once");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(130), "{shown}");
    let screen = screen(&shown);
    assert!(screen.iter().any(|l| l == "stopped (cancelled): it was interrupted"), "{screen:#?}");
    assert!(!screen.iter().any(|line| line.starts_with("context 1 of")), "{screen:#?}");
}

#[test]
fn the_terminal_shows_agent_objective_and_last_activity() {
    let env = stage();
    let ready = fifo(&env, "ready");
    let go = fifo(&env, "go");
    let script = format!(
        "echo 'I look at the parser'\necho ready > {}\nread -r line < {}\necho TASK_COMPLETE",
        ready.display(),
        go.display()
    );
    let command = stage::bare_agent(&env, &script);
    let args = ["run", "Port the parser", "--agent-command", &command, "--max-iterations", "3"];
    let mut terminal = Terminal::start(&env, &args);
    started_at(&ready);
    terminal.until("context 1 of at most 4  ");
    let style = regex::Regex::new(r"\x1b\[[0-9;]*m").unwrap();
    let line = terminal.until("I look at the parser");
    let line = style.replace_all(&line, "");
    assert!(line.contains("Port the parser · "), "{line}");
    // Silence is shown too, before the activity.
    terminal.until(" ago");
    terminal.until("I look at the parser");
    drop(File::options().write(true).open(&go).unwrap());
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let screen = screen(&shown);
    assert!(screen.iter().any(|line| line.starts_with("done: the agent says so")), "{screen:#?}");
    assert!(!screen.iter().any(|line| line.contains("I look at")), "{screen:#?}");
}

#[test]
fn verbose_shows_every_line_of_the_agent() {
    let env = stage();
    let run = ["run", "x", "--agent-command"];
    let command = stage::bare_agent(&env, "echo one; echo; echo two; echo TASK_COMPLETE");
    let ran = env.run([&run[..], &[&command, "-v"]].concat()).success();
    assert!(ran.errors().contains("  | one\n  | two\n  | TASK_COMPLETE\n"), "{ran}");
    let quiet = env.run([&run[..], &[&command]].concat()).success();
    assert!(!quiet.errors().contains("| one"), "{quiet}");
}

#[test]
fn a_simple_terminal_gets_plain_lines() {
    for term in [None, Some("dumb")] {
        let env = stage().without_variable("TERM");
        let env = match term {
            Some(term) => env.variable("TERM", term),
            None => env,
        };
        env.run(["add", "a", "--instructions", "touch a", "--validate", "test -f a"]).success();
        let (code, shown) = Terminal::start(&env, &["run", "--agent", "shell"]).end();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("Completed [task-001]") && !shown.contains('\x1b'), "{shown:?}");
        assert!(shown.contains("done: 1 task is completed"), "{shown}");
    }
}

#[test]
fn lines_on_a_terminal_are_coloured_and_in_local_time() {
    let env = stage().variable("TZ", "Etc/GMT-7");
    env.run(["add", "a", "--instructions", "touch a", "--validate", "test -f a"]).success();
    let (code, shown) = Terminal::start(&env, &["run", "--agent", "shell"]).end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("\x1b[32mCompleted"), "{shown:?}");
    let log = env.read("harness-progress.txt");
    let line = log.lines().find(|line| line.contains("Completed [")).unwrap();
    let time = harness_core::Timestamp::parse(&line[1..21]).unwrap().plus(7 * 3600).to_string();
    let screen = screen(&shown);
    let expected = format!("{} Completed [task-001]", &time[11..19]);
    assert!(screen.iter().any(|line| line.starts_with(&expected)), "{expected} in {screen:#?}");
    assert!(!screen.iter().any(|line| line.contains("LOCK")), "{screen:#?}");
}

#[test]
fn a_file_on_standard_output_gets_the_lines_and_the_summary_once() {
    let env = stage();
    env.run(["add", "a", "--instructions", "touch a", "--validate", "test -f a"]).success();
    let harness = env!("CARGO_BIN_EXE_harness");
    let night = env.home().join("night.log");
    let run = format!("{harness} run --agent shell > {} 2>/dev/null", night.display());
    assert!(env.program("sh").args(["-c", &run]).status().unwrap().success());
    let text = env.read(&night);
    assert!(text.contains("] Completed [task-001]"), "{text}");
    assert!(text.contains("\ndone: 1 task is completed\n"), "{text}");
    let both = format!("{harness} run --agent shell > {} 2>&1", night.display());
    assert!(env.program("sh").args(["-c", &both]).status().unwrap().success());
    assert_eq!(env.read(&night).matches("nothing to do").count(), 1, "{}", env.read(&night));
    let json = format!("{harness} run --agent shell --json > {} 2>/dev/null", night.display());
    assert!(env.program("sh").args(["-c", &json]).status().unwrap().success());
    assert!(serde_json::from_str::<Value>(&env.read(&night)).is_ok());
}
