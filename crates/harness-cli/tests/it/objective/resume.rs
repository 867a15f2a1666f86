//! Resuming: after a kill and with other limits, and runs that cannot be resumed.

use std::fs::File;

use serde_json::Value;

use super::stage::*;
use crate::terminal::Terminal;

#[test]
fn killed_in_iteration_k_it_ends_with_the_exact_count() {
    for k in 0..3 {
        let env = stage();
        let [ready, alive] = ["ready", "alive"].map(|name| fifo(&env, name));
        let script = format!(
            "if [ $n = {k} -a ! -e \"$HOME/again\" ]; then touch \"$HOME/again\"\n\
             exec 9> {alive}; echo ready > {ready}; exec sleep 600\nfi\n\
             if [ $n = 3 ]; then echo TASK_COMPLETE; else echo $n; fi",
            alive = alive.display(),
            ready = ready.display()
        );
        let command = agent(&env, &script);
        let held = File::options().read(true).write(true).open(&alive).unwrap();
        let mut run = Going::start(&env, &["run", "write it", "--agent-command", &command]);
        assert_eq!(hear(&ready), "ready");
        let reading = File::open(&alive).unwrap();
        drop(held);
        run.kill();
        // Its agent ends with it.
        std::io::Read::read_to_end(&mut { reading }, &mut Vec::new()).unwrap();
        let row = run_row(&env);
        assert_eq!((&row["status"], &row["iteration_count"]), (&"running".into(), &k.into()));
        assert_eq!(iterations(&env).len(), k + 1, "the intent was durable");
        assert!(iterations(&env)[k]["ended_at"].is_null());
        let id = row["run_id"].as_str().unwrap();
        let document =
            came_to(env.run(["run", "--resume", "--run-id", id, "--json"]), 0, "complete", 3);
        assert_eq!(document["run_id"], id);
        let mut expected: Vec<_> = (0..4).map(|n| n.to_string()).collect();
        expected.insert(k, k.to_string());
        assert_eq!(env.read("work.txt").lines().collect::<Vec<_>>(), expected);
        assert_eq!(outcomes(&env), ["finished"; 4]);
    }
}

#[test]
fn s33_a_newer_run_than_the_resumed_one_is_named_and_a_person_is_asked() {
    let env = stage();
    came_to(go(&env, "echo not yet", &["--max-iterations", "0"]), 3, "max_iterations", 0);
    let done = agent(&env, "echo TASK_COMPLETE");
    let other = ["run", "another one", "--agent-command", &done, "--json"];
    let newer = came_to(env.run(other), 0, "complete", 0)["run_id"].as_str().unwrap().to_owned();
    let resume = ["run", "--resume", "--agent-command", &done, "--max-iterations", "1"];
    let (code, shown) = {
        let mut terminal = Terminal::start(&env, &resume);
        terminal.until("Resume the older run");
        terminal.type_line("n");
        terminal.end()
    };
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("nothing was resumed"), "{shown}");
    let ran = env.run(resume).success();
    let words = format!("this is not the newest run: {newer} \"another one\" (succeeded");
    assert!(ran.errors().contains(&words), "{ran}");
    assert!(ran.errors().contains("\"write it\""), "{ran}");
    // The run that is newest now needs no words about another one.
    let failed = ["run", "a third", "--agent-command", "/no/such/agent", "--json"];
    came_to(env.run(failed), 1, "env_setup", 0);
    let ran = env.run(resume).success();
    assert!(!ran.errors().contains("not the newest"), "{ran}");
}

#[test]
fn s40_a_run_that_another_agent_resumes_books_each_cost_to_its_agent() {
    let env = stage();
    let paid = |cents: u32, then: &str| {
        let usage = format!(
            "{{\"type\":\"usage\",\"input_tokens\":100,\"output_tokens\":{cents},\"cost_usd\":0.{cents:02}}}"
        );
        agent(&env, &format!("echo '{usage}' >> $HARNESS_EVENTS\n{then}"))
    };
    // The first agent cannot go on in the middle of a context, and the second one ends it.
    let stuck = "echo '{\"type\":\"end\",\"reason\":\"auth\"}' >> $HARNESS_EVENTS";
    let first = paid(30, stuck);
    let second = paid(12, "echo TASK_COMPLETE");
    came_to(go_with(&env, &first, &[]), 1, "env_setup", 0);
    let resume = ["run", "--resume", "--agent-command", &second, "--json"];
    came_to(env.run(resume), 0, "complete", 0);
    let cost = env.run(["runs", "cost", "--json"]).success().json();
    let agents: Vec<(String, f64)> = cost["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["agent"].as_str().unwrap().to_owned(), row["cost_usd"].as_f64().unwrap()))
        .collect();
    assert_eq!(agents, [(format!("command: {first}"), 0.3), (format!("command: {second}"), 0.12)]);
    let shown = env.run(["runs", "show", "--json"]).success().json();
    let parts = &shown["iterations"][0]["agents"];
    assert_eq!(parts[format!("command: {first}")]["output_tokens"], 30);
    // An older program wrote rows without the column: the rest is booked to the agent of the run.
    rows(&env, "UPDATE iterations SET agents = NULL");
    let cost = env.run(["runs", "cost", "--json"]).success().json();
    assert_eq!(cost["agents"].as_array().unwrap().len(), 1, "{cost}");
}

#[test]
fn killed_at_random_moments_no_iteration_is_skipped_or_counted_twice() {
    let seed = std::env::var("HARNESS_TEST_SEED").ok().and_then(|s| s.parse().ok());
    let mut random: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761);
    println!("HARNESS_TEST_SEED={random}");
    let env = stage();
    let tick = fifo(&env, "tick");
    // The pipe always has a reader, so that no agent waits for the test.
    let ticks = File::options().read(true).write(true).open(&tick).unwrap();
    let script = format!(
        "echo $n > {}; if [ $n = 6 ]; then echo TASK_COMPLETE; else echo $n; fi",
        tick.display()
    );
    let command = agent(&env, &script);
    let mut args = vec!["run", "write it", "--agent-command", &command];
    let mut lines = std::io::BufReader::new(ticks);
    let mut kills = std::collections::BTreeMap::<usize, u32>::new();
    for _ in 0..8 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut run = Going::start(&env, &args);
        // The moment is shortly after an agent has begun.
        let mut line = String::new();
        std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        (0..random % 20_000_000).for_each(|n| _ = std::hint::black_box(n));
        run.kill();
        args = vec!["run", "--resume"];
        // A third start without an end would count as a failed end. The rows show which context was
        // killed, because the line that was read may belong to an earlier context.
        let kills = kills.entry(iterations(&env).len()).or_default();
        *kills += 1;
        if *kills == 2 || run_row(&env)["status"] == "succeeded" {
            break;
        }
    }
    if run_row(&env)["status"] != "succeeded" {
        came_to(env.run(["run", "--resume", "--json"]), 0, "complete", 6);
    }
    assert_eq!(run_row(&env)["iteration_count"], 6);
    assert_eq!(outcomes(&env), ["finished"; 7]);
    let numbers: Vec<_> = iterations(&env).iter().map(|i| i["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
    let worked: Vec<u64> = env.read("work.txt").lines().map(|n| n.parse().unwrap()).collect();
    assert!(worked.is_sorted_by(|a, b| *b == *a || *b == a + 1), "{worked:?}");
}

#[test]
fn limits_may_be_raised_and_everything_else_is_stored() {
    let env = stage();
    let more = ["--max-iterations", "1", "--verify", "true", "--completion-promise", "FINISHED"];
    let script = "if [ $n = 3 ]; then echo FINISHED; else echo $n; fi";
    came_to(go(&env, script, &more), 3, "max_iterations", 1);
    // Nothing changed, so there is the same decision and no further context.
    came_to(env.run(["run", "--resume", "--json"]), 3, "max_iterations", 1);
    assert_eq!(env.read("work.txt"), "0\n1\n");
    let id = run_row(&env)["run_id"].as_str().unwrap().to_owned();
    let raised = ["run", "--resume", "--run-id", &id, "--max-iterations", "20", "--json"];
    came_to(env.run(raised), 0, "complete", 3);
    let row = run_row(&env);
    assert_eq!(
        (&row["max_iterations"], &row["verify"], &row["completion_promise"]),
        (&20.into(), &"true".into(), &"FINISHED".into())
    );
    assert!(prompt(&env, 3).contains("Iteration 3 of 20\n"));
}

#[test]
fn what_is_given_anew_replaces_what_is_stored() {
    let env = stage();
    came_to(go(&env, "echo so far", &["--max-iterations", "0"]), 3, "max_iterations", 0);
    let other = agent(&env, "echo OTHER");
    let anew = [
        "run",
        "--resume",
        "--agent-command",
        &other,
        "--completion-promise",
        "OTHER",
        "--max-iterations",
        "5",
        "--verify",
        "test -f work.txt",
        "--json",
    ];
    came_to(env.run(anew), 0, "complete", 1);
    let row = run_row(&env);
    assert_eq!(row["agent_command"], other);
    assert_eq!(row["agent"], format!("command: {other}"));
}

#[test]
fn failed_stopped_and_stalled_runs_go_on() {
    let env = stage();
    let crash = go(&env, "exit 9", &[]);
    came_to(crash, 1, "crashed", 2);
    let done = agent(&env, "if [ $n = 4 ]; then echo TASK_COMPLETE; else exit 9; fi");
    // Failures in a row before a person resumed it do not count any more.
    came_to(env.run(["run", "--resume", "--agent-command", &done, "--json"]), 0, "complete", 4);
    assert_eq!(outcomes(&env), ["crashed", "crashed", "crashed", "crashed", "finished"]);
}

#[test]
fn what_can_not_be_resumed_is_said_and_changes_nothing() {
    let env = stage();
    env.run(["run", "--resume"]).code(1).stderr_contains("there is no run to resume");
    let unknown = "0197f0a2-0000-7000-8000-000000000000";
    let resume = |id: &str| env.run(["run", "--resume", "--run-id", id, "--agent", "shell"]);
    resume(unknown).code(1).stderr_contains("there is no run");
    came_to(go(&env, "echo TASK_COMPLETE", &[]), 0, "complete", 0);
    resume(unknown).code(1).stderr_contains(&format!("there is no run {unknown}"));
    resume("first").code(1).stderr_contains("there is no run first");
    let row = run_row(&env);
    let id = row["run_id"].as_str().unwrap();
    resume(id).code(1).stderr_contains("has succeeded");
    env.run(["run", "--resume"]).code(1).stderr_contains("there is no run to resume");
    env.run(["run", "--run-id", id]).code(2).stderr_contains("--resume");
    env.run(["run", "another one", "--resume"]).code(2);
    assert_eq!(run_row(&env), row);
}

#[test]
fn the_newest_unfinished_run_is_meant_and_attempts_are_not() {
    let env = stage();
    came_to(go(&env, "echo one", &["--max-iterations", "0"]), 3, "max_iterations", 0);
    let add =
        ["add", "a task", "--instructions", "exit 1", "--validate", "true", "--max-attempts", "1"];
    env.run(add).success();
    env.git(["add", "work.txt"]);
    env.git(["commit", "--quiet", "-m", "work"]);
    env.run(["run", "--agent", "shell"]).code(4);
    let attempt = rows(&env, "SELECT * FROM runs WHERE parent_run_id IS NOT NULL");
    let [attempt] = &attempt[..] else { panic!("{attempt:#?}") };
    let (id, parent) =
        (attempt["run_id"].as_str().unwrap(), attempt["parent_run_id"].as_str().unwrap());
    env.run(["run", "--resume", "--run-id", id])
        .code(1)
        .stderr_contains(&format!("run {id} is an attempt of {parent}"));
    let done = agent(&env, "echo TASK_COMPLETE");
    let more = ["--agent-command", &done, "--max-iterations", "1", "--json"];
    came_to(env.run([&["run", "--resume"][..], &more[..]].concat()), 0, "complete", 1);
    let objective = rows(&env, "SELECT status FROM runs WHERE objective = 'write it'");
    assert_eq!(objective[0]["status"], "succeeded");
}

#[test]
fn one_run_at_a_time_and_never_two_drivers() {
    let env = stage();
    let [ready, go_on] = ["ready", "go"].map(|name| fifo(&env, name));
    let script = format!(
        "echo ready > {}; read x < {}; echo TASK_COMPLETE",
        ready.display(),
        go_on.display()
    );
    let command = agent(&env, &script);
    let run = Going::start(&env, &["run", "write it", "--agent-command", &command]);
    assert_eq!(hear(&ready), "ready");
    let row = run_row(&env);
    let id = row["run_id"].as_str().unwrap();
    let pid = format!("pid={}", run.child.id());
    let second = env.run(["run", "--resume", "--run-id", id]).code(1);
    assert!(second.errors().contains("pid="), "{second} {pid}");
    assert_eq!(run_row(&env)["lease_owner"], row["lease_owner"]);
    std::fs::write(&go_on, "go\n").unwrap();
    assert_eq!(run.end().0, Some(0));
    assert_eq!(run_row(&env)["lease_owner"], Value::Null);
}
