//! `harness log --agent`, and the entries about agents and objectives in the log and in `harness
//! runs`.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    process::Stdio,
};

use crate::objective::stage::{self, Going, fifo, hear};

#[test]
fn a_transcript_is_read_as_text_by_task_by_run_or_the_last_one() {
    let env = stage::stage();
    env.run(["log", "--agent"]).code(1).stderr_contains("there are no transcripts yet");
    let failing = "echo \"attempt $HARNESS_ATTEMPT\"; echo oops >&2; test $HARNESS_ATTEMPT = 2";
    env.run(["add", "t", "--instructions", failing, "--validate", "true"]).success();
    env.run(["run", "--agent", "shell"]).success();
    env.run(["log", "--agent", "task-001"])
        .success()
        .stdout("--- .harness/transcripts/task-001.2.0.log\nattempt 2\n--- standard error\noops");
    let says = r#"echo '{"type":"assistant","message":{"content":[{"type":"text","text":"I look."},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}'; echo TASK_COMPLETE"#;
    let command = stage::bare_agent(&env, says);
    env.run(["run", "x", "--agent-command", &command]).success();
    let last = env.run(["log", "--agent"]).success();
    assert!(last.output().ends_with("I look.\n> Bash: ls\nTASK_COMPLETE\n"), "{last}");
    let runs = env.run(["runs", "list", "--json"]).success().json();
    let id = |n: usize| runs["runs"][n]["run_id"].as_str().unwrap().to_owned();
    let by_run = env.run(["log", "--agent", "-n", "1", &id(0)]).success();
    by_run.stdout("TASK_COMPLETE");
    // For a run over the ledger, it shows the last attempt.
    env.run(["log", "--agent", &id(1)]).success().stdout_contains("attempt 2");
    env.run(["log", "--agent", "nobody"]).code(1).stderr_contains("no transcript of nobody");
}

#[test]
fn a_transcript_is_followed_into_the_next_one() {
    let env = stage::stage();
    let (ready, go) = (fifo(&env, "ready"), fifo(&env, "go"));
    let script = format!(
        "echo \"words of $HARNESS_ITERATION\"\necho x >> work.txt\necho ready > {}\n\
         read -r line < {}\necho \"end of $HARNESS_ITERATION\"\n\
         test $HARNESS_ITERATION = 0 || echo TASK_COMPLETE",
        ready.display(),
        go.display()
    );
    let command = stage::bare_agent(&env, &script);
    let run = Going::start(&env, &["run", "x", "--agent-command", &command]);
    assert_eq!(hear(&ready), "ready");
    let mut following = env.harness(["log", "--agent", "-f"]);
    let mut following = following.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut until = |words: &str| lines.find(|line| line.as_ref().unwrap() == words).is_some();
    assert!(until("words of 0"));
    drop(File::options().write(true).open(&go).unwrap());
    assert!(until("end of 0"));
    assert_eq!(hear(&ready), "ready");
    assert!(until("words of 1"));
    drop(File::options().write(true).open(&go).unwrap());
    assert!(until("end of 1"));
    _ = following.kill();
    _ = following.wait();
    let (code, _, errors) = run.end();
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn the_log_tells_the_story_of_an_objective() {
    let env = stage::stage();
    let script = "if [ $n = 1 ]; then touch done; fi; echo TASK_COMPLETE";
    stage::go(&env, script, &["--verify", "test -f done", "--max-iterations", "3"]).code(0);
    let log = stage::log(&env);
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("Objective")).collect();
    assert!(lines[0].starts_with("INIT Objective started: write it (run 01"), "{log}");
    assert_eq!(
        lines[1..],
        [
            "INIT Objective context 1 of at most 4",
            "ERROR [TEST_FAIL] Objective check failed: exit code 1",
            "INIT Objective context 2 of at most 4",
            "INIT Objective check passed",
            "INIT Objective reached: verified",
        ]
    );
    stage::go(&env, "echo later", &["--max-iterations", "0"]).code(3);
    let log = stage::log(&env);
    assert!(log.lines().last().unwrap().starts_with("WARN Objective stopped (max_iterations)"));
    let ran = env.run(["run", "--resume", "--max-iterations", "1"]).code(3);
    ran.stderr_contains("\"write it\" (stopped: max_iterations ")
        .stderr_contains(" ago)")
        .stderr_contains("INIT Objective resumed: write it");
}

#[test]
fn runs_tell_a_failed_check_a_timeout_and_a_finish_with_failures_apart() {
    let env = stage::stage();
    let add = |instructions: &str, validate: &str, more: &[&str]| {
        let args = ["add", "t", "--instructions", instructions, "--validate", validate];
        env.run([&args[..], &["--max-attempts", "1"], more].concat()).success();
    };
    add("touch a", "false", &[]);
    add("exec sleep 600", "true", &["--attempt-timeout", "1"]);
    add("touch c", "test -f c", &[]);
    env.run(["run", "--agent", "shell"]).code(4);
    let listed = env.run(["runs", "list", "--all"]).success();
    let line = |what: &str| {
        let line = listed.output().lines().find(|line| line.contains(what));
        line.unwrap_or_else(|| panic!("no {what} in {listed}")).to_owned()
    };
    assert!(line("the ledger").contains("finished with failures"), "{listed}");
    assert!(line("task-001").contains("check failed"), "{listed}");
    assert!(line("task-002").contains("timed out"), "{listed}");
    assert!(line("task-003").contains("succeeded"), "{listed}");
    let shown = env.run(["runs", "show", "--json"]).success().json();
    assert_eq!(shown["run"]["state"], "finished with failures");
}

#[test]
fn every_transcript_of_a_context_is_named() {
    let env = stage::stage();
    let command = stage::bare_agent(&env, "echo $HARNESS_ITERATION; test -f go || exec sleep 600");
    let ready = fifo(&env, "ready");
    let script = format!("test -f go || echo ready > {}\n", ready.display());
    let path = command.strip_prefix("sh ").unwrap();
    env.write(path, format!("{script}{}", env.read(path)));
    let mut run = Going::start(&env, &["run", "x", "--agent-command", &command]);
    assert_eq!(hear(&ready), "ready");
    run.kill();
    env.write("go", "");
    let done = stage::bare_agent(&env, "echo TASK_COMPLETE");
    env.run(["run", "--resume", "--agent-command", &done]).success();
    let shown = env.run(["runs", "show", "--json"]).success().json();
    let named = &shown["iterations"][0]["transcripts"];
    assert_eq!(named.as_array().unwrap().len(), 2, "{shown}");
    assert!(named[1].as_str().unwrap().ends_with(".0.2.log"), "{shown}");
}
