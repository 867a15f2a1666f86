//! The rows of the decision table, and the report about each end.

use serde_json::{Value, json};

use super::stage::*;
use crate::environment::TestEnvironment;

#[test]
fn it_goes_on_over_contexts_until_the_promise_is_kept() {
    let env = stage();
    let script = "if [ $n = 2 ]; then echo 'All done. TASK_COMPLETE'; else echo so far $n; fi";
    let ran = go(&env, script, &[]);
    let document = came_to(ran, 0, "complete", 2);
    assert_eq!(document["outcome"], "succeeded");
    let row = run_row(&env);
    for (column, value) in [
        ("run_id", document["run_id"].clone()),
        ("status", "succeeded".into()),
        ("stop_reason", "complete".into()),
        ("objective", "write it".into()),
        ("task_id", Value::Null),
        ("verify", Value::Null),
        ("iteration_count", 2.into()),
        ("max_iterations", 10.into()),
        ("completion_promise", "TASK_COMPLETE".into()),
        ("workspace", env.root().to_str().into()),
        ("wake_at", Value::Null),
        ("lease_owner", Value::Null),
        ("parent_run_id", Value::Null),
        ("epoch", Value::Null),
    ] {
        assert_eq!(row[column], value, "{column}");
    }
    assert!(row["agent_command"].as_str().unwrap().starts_with("sh "));
    let iterations = iterations(&env);
    let seen: Vec<_> = iterations.iter().map(|i| (&i["number"], &i["outcome"])).collect();
    let finished = &Value::from("finished");
    assert_eq!(seen, [(&0.into(), finished), (&1.into(), finished), (&2.into(), finished)]);
    assert_eq!(iterations[1]["final_text"], "so far 1\n");
    let head = env.git(["rev-parse", "HEAD"]);
    for iteration in &iterations {
        assert_eq!(
            (&iteration["head_before"], &iteration["head_after"]),
            (&head.clone().into(), &head.clone().into())
        );
        assert!(env.exists(iteration["transcript"].as_str().unwrap()), "{iteration}");
    }
    // Each context knew its number, and nothing was committed or rolled back.
    assert_eq!(env.read("work.txt"), "0\n1\n2\n");
    assert_eq!(env.git(["log", "--format=%s"]), "start");
}

#[test]
fn the_database_has_the_columns_that_people_may_ask_for() {
    let env = stage();
    came_to(go(&env, "echo TASK_COMPLETE", &[]), 0, "complete", 0);
    let named: Vec<String> = rows(&env, "PRAGMA table_info(runs)")
        .iter()
        .map(|column| column["name"].as_str().unwrap().to_owned())
        .collect();
    let promised = "run_id created_at updated_at status objective task_id agent agent_command verify \
                    workspace iteration_count max_iterations completion_promise stop_reason \
                    provider_session_id parent_run_id epoch input_tokens output_tokens cost_usd \
                    max_cost_usd max_tokens max_duration_seconds deadline wake_at lease_owner \
                    lease_expires_at";
    assert_eq!(named, promised.split_whitespace().collect::<Vec<_>>());
    assert_eq!(rows(&env, "PRAGMA journal_mode")[0]["journal_mode"], "wal");
    // These are the recorded events, without the text of the transcript.
    let row = run_row(&env);
    let told = env.read(format!(".harness/runs/{}.jsonl", row["run_id"].as_str().unwrap()));
    assert!(told.contains("run:iteration"), "{told}");
    assert!(!told.contains("agent:text") && !told.contains("agent:thinking"), "{told}");
}

#[test]
fn the_document_has_what_a_program_needs() {
    let env = stage();
    let ran = go(&env, "echo TASK_COMPLETE", &[]).success();
    let mut document = ran.json();
    document["run_id"] = "id".into();
    assert_eq!(
        document,
        json!({ "version": document["version"], "outcome": "succeeded", "stop_reason": "complete",
            "exit_code": 0, "run_id": "id", "sessions": 0, "iterations": 0,
            "counts": { "total": 0, "completed": 0, "failed": 0, "pending": 0, "in_progress": 0,
                "blocked": 0 },
            "input_tokens": 0, "output_tokens": 0, "cost_usd": null, "pull_request": null })
    );
    assert!(!document["version"].is_null());
    assert!(ran.errors().contains("no budget is set"), "{ran}");
    let with_budget = stage();
    let ran = go(&with_budget, "echo TASK_COMPLETE", &["--max-tokens", "9"]).success();
    assert!(!ran.errors().contains("no budget is set"), "{ran}");
}

#[test]
fn an_objective_starts_on_a_dirty_tree_and_knows_no_task() {
    let env = stage().variable("HARNESS_TASK_ID", "task-009").variable("HARNESS_ATTEMPT", "7");
    let env = env.variable("HARNESS_EPOCH", "3");
    env.write("tracked", "before\n").git(["add", "tracked"]);
    env.git(["commit", "--quiet", "-m", "tracked"]);
    env.write("tracked", "mine\n").write("staged", "x").git(["add", "staged"]);
    let look = "env | grep -E '^HARNESS_(TASK_ID|EPOCH|ATTEMPT)=' | sort";
    let script = format!(
        "{{ {look}; }} > \"$HOME/seen\"; echo $HARNESS_RUN_ID > \"$HOME/id\"; echo TASK_COMPLETE"
    );
    let verify = format!("{look} > \"$HOME/verify-seen\"; true");
    let document = came_to(go(&env, &script, &["--verify", &verify]), 0, "complete", 0);
    assert_eq!(env.read(env.home().join("seen")), "");
    assert_eq!(env.read(env.home().join("verify-seen")), "", "the check is no task's either");
    assert_eq!(env.read(env.home().join("id")).trim_end(), document["run_id"]);
    assert_eq!(env.read("tracked"), "mine\n");
    assert_eq!(env.git(["status", "--porcelain"]), "A  staged\n M tracked\n?? work.txt");
}

#[test]
fn max_iterations_allows_one_context_more() {
    for (most, contexts) in [("0", "0\n"), ("2", "0\n1\n2\n")] {
        let env = stage();
        let ran = go(&env, "echo not yet", &["--max-iterations", most]);
        assert!(ran.errors().contains("stopped (max_iterations)"), "{ran}");
        assert!(ran.errors().contains("harness run --resume --run-id"), "{ran}");
        let document = came_to(ran, 3, "max_iterations", most.parse().unwrap());
        assert_eq!(
            (&document["outcome"], env.read("work.txt").as_str()),
            (&"stopped".into(), contexts)
        );
        assert_eq!(run_row(&env)["status"], "stopped");
    }
}

#[test]
fn an_agent_that_could_not_run_burns_no_iteration() {
    for (script, code, reason) in [
        ("exit 127", 1, "env_setup"),
        ("exit 126", 5, "config"),
        ("echo '{\"type\":\"end\",\"reason\":\"auth\"}' >> $HARNESS_EVENTS", 1, "env_setup"),
    ] {
        let env = stage();
        let late = format!("if [ $n = 1 ]; then {script}; exit; fi; echo not yet");
        came_to(go(&env, &late, &[]), code, reason, 1);
        assert_eq!(outcomes(&env), [json!("finished"), Value::Null], "{script}: it stays open");
        assert_eq!(run_row(&env)["status"], "failed");
        let problem = format!("ERROR [{}]", reason.to_uppercase());
        let problems = log(&env).lines().filter(|line| line.starts_with(&problem)).count();
        assert_eq!(problems, usize::from(reason == "env_setup"), "{}", log(&env));
        // Once it is fixed, the run goes on under the same number.
        let id = run_row(&env)["run_id"].as_str().unwrap().to_owned();
        let fixed = agent(&env, "echo TASK_COMPLETE");
        let again = ["run", "--resume", "--run-id", &id, "--agent-command", &fixed, "--json"];
        came_to(env.run(again), 0, "complete", 1);
        assert_eq!(env.read("work.txt"), "0\n1\n1\n");
    }
    let env = stage();
    let ran = go_with(&env, "/no/such/agent", &[]);
    assert!(ran.errors().contains("/no/such/agent"), "{ran}");
    came_to(ran, 1, "env_setup", 0);
}

#[test]
fn the_third_failed_end_in_a_row_is_a_crash() {
    let env = stage();
    let ran = go(&env, "echo why $n >&2; exit 9", &[]);
    assert!(
        ran.errors().contains("the agent failed 3 times in a row: exit code 9: why 2"),
        "{ran}"
    );
    came_to(ran, 1, "crashed", 2);
    assert_eq!(run_row(&env)["status"], "failed");
    assert!(prompt(&env, 1).contains("exit code 9: why 0"));
    let iterations = iterations(&env);
    assert_eq!(
        (&iterations[2]["outcome"], &iterations[2]["detail"]),
        (&"crashed".into(), &"exit code 9: why 2".into())
    );
    // A proper end between two crashes starts the count again.
    let env = stage();
    let flaky = "case $n in 2|5) echo not yet;; 6) echo TASK_COMPLETE;; *) exit 9;; esac";
    came_to(go(&env, flaky, &[]), 0, "complete", 6);
}

#[test]
fn what_an_agent_says_of_its_end_is_recorded_and_told() {
    let env = stage();
    let says = |reason: &str| {
        format!("echo '{{\"type\":\"end\",\"reason\":\"{reason}\"}}' >> $HARNESS_EVENTS")
    };
    let script = format!(
        "case $n in 0) {};; 1) {};; 2) {};; *) echo TASK_COMPLETE;; esac",
        says("out_of_context"),
        says("refused"),
        says("network")
    );
    came_to(go(&env, &script, &[]), 0, "complete", 3);
    assert_eq!(outcomes(&env), ["out_of_context", "refused", "network", "finished"]);
    assert!(prompt(&env, 1).contains("The last context was full before the work was done."));
    assert!(prompt(&env, 2).contains("the agent refused"));
    assert!(prompt(&env, 3).contains("the agent reports that it has no network"));
}

#[test]
fn a_blank_turn_is_overlooked_twice_and_then_counted() {
    let env = stage();
    let script = "echo x >> \"$HOME/turns\"\n\
                  if [ $(wc -l < \"$HOME/turns\") -gt 4 ]; then echo TASK_COMPLETE; else echo ' '; fi";
    came_to(go(&env, script, &[]), 0, "complete", 1);
    // The first context had three turns, of which two were not counted. The second had two.
    assert_eq!(env.read("work.txt"), "0\n0\n0\n1\n1\n");
    assert_eq!(outcomes(&env), ["finished", "finished"]);
}

#[test]
fn nothing_changed_for_three_iterations_is_a_standstill() {
    let env = stage();
    // Ignored files, and files that harness writes itself, are no progress.
    env.write(".gitignore", "ignored\n");
    let idle = "n=$HARNESS_ITERATION; cat > /dev/null; echo $n >> ignored; echo not yet";
    let idle = bare_agent(&env, idle);
    came_to(go_with(&env, &idle, &[]), 3, "stalled", 2);
    assert_eq!(run_row(&env)["status"], "stopped");
    let marks = iterations(&env);
    assert!(
        marks.iter().all(|i| i["mark_before"] == i["mark_after"] && !i["mark_after"].is_null())
    );
}

#[test]
fn a_handoff_a_commit_or_an_untracked_file_is_progress() {
    for progress in [
        "mkdir -p state; echo \"{\\\"phase\\\": \\\"$n\\\"}\" > state/handoff.json",
        "git commit --quiet --allow-empty -m $n",
        "echo $n > untracked",
    ] {
        let env = stage();
        let script = format!("n=$HARNESS_ITERATION; cat > /dev/null; {progress}; echo not yet");
        let script = bare_agent(&env, &script);
        env.write("harness.toml", "stall_limit = 1\n");
        came_to(go_with(&env, &script, &["--max-iterations", "2"]), 3, "max_iterations", 2);
    }
    let env = stage();
    env.write("harness.toml", "stall_limit = 0\n");
    let idle = bare_agent(&env, "cat > /dev/null; echo not yet");
    came_to(go_with(&env, &idle, &["--max-iterations", "1"]), 3, "max_iterations", 1);
}

#[test]
fn an_interrupt_cancels_the_run_and_ends_its_agent() {
    let env = stage();
    let [ready, alive] = ["ready", "alive"].map(|name| fifo(&env, name));
    let script =
        format!("exec 9> {}; echo ready > {}; exec sleep 600", alive.display(), ready.display());
    let command = agent(&env, &script);
    let held = std::fs::File::options().read(true).write(true).open(&alive).unwrap();
    let args = ["run", "write it", "--agent-command", &command, "--json"];
    let run = Going::start(&env, &args);
    assert_eq!(hear(&ready), "ready");
    let row = run_row(&env);
    assert_eq!((&row["status"], &row["stop_reason"]), (&"running".into(), &Value::Null));
    assert!(row["lease_owner"].as_str().unwrap().contains(&format!(" {} ", run.child.id())));
    let reading = std::fs::File::open(&alive).unwrap();
    drop(held);
    run.signal(nix::sys::signal::Signal::SIGINT);
    // The end of the pipe shows that no process holds it open any more.
    std::io::Read::read_to_end(&mut { reading }, &mut Vec::new()).unwrap();
    let (code, out, err) = run.end();
    assert_eq!(code, Some(130), "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&document["outcome"], &document["stop_reason"]),
        (&"cancelled".into(), &"cancelled".into())
    );
    assert_eq!(run_row(&env)["status"], "cancelled");
    // The run goes on with the same iteration.
    let done = agent(&env, "echo TASK_COMPLETE");
    came_to(env.run(["run", "--resume", "--agent-command", &done, "--json"]), 0, "complete", 0);
}

#[test]
fn a_script_keeps_its_promise_by_ending_well() {
    let env = stage();
    let run = |objective: &str| env.run(["run", objective, "--agent", "shell", "--json"]);
    came_to(run("echo hello > hello"), 0, "complete", 0);
    assert_eq!(env.read("hello"), "hello\n");
    let ran = run("echo broken >&2; exit 4");
    assert!(ran.errors().contains("exit code 4: broken"), "{ran}");
    came_to(ran, 1, "crashed", 0);
    env.run(["run", "  ", "--agent", "shell"]).code(2).stderr_contains("the objective is empty");
}

#[test]
fn an_objective_needs_no_init() {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    let none = "no harness-tasks.json in";
    env.run(["run", "--agent", "shell"]).code(1).stderr_contains(none);
    env.run(["run", "it", "--agent", "shell", "--dry-run"]).code(1).stderr_contains(none);
    assert!(!env.exists("harness-tasks.json"));
    let ran = go(&env, "echo TASK_COMPLETE", &[]);
    let made = "made harness-tasks.json, harness-progress.txt and .harness-active in [ROOT]";
    assert!(ran.errors().contains(made), "{ran}");
    came_to(ran, 0, "complete", 0);
    assert_eq!(env.git(["status", "--porcelain"]), "?? work.txt");
    let again = go(&env, "echo TASK_COMPLETE", &[]);
    assert!(!again.errors().contains("made harness-tasks.json"), "{again}");
    // Without a repository there is nothing to run in, so nothing is made.
    let env = TestEnvironment::new();
    env.run(["run", "it", "--agent", "shell"]).code(1).stderr_contains(none);
    assert!(!env.exists("harness-tasks.json"));
}
