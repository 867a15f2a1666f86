//! An attempt at a task is a loop too: several contexts, one commit.

use serde_json::{Value, json};

use super::stage::*;
use crate::environment::{Ran, TestEnvironment};

fn add(env: &TestEnvironment, validate: &str, more: &[&str]) {
    let args = ["add", "a task", "--instructions", "make it", "--validate", validate];
    env.run([&args[..], more].concat()).success();
}

/// Runs over the ledger. Its prompts are named by task, attempt and iteration.
fn over_ledger(env: &TestEnvironment, script: &str, more: &[&str]) -> Ran {
    let script =
        format!("n=$HARNESS_ITERATION; cat > \"$HOME/prompt.$n\"; echo $n >> work.txt\n{script}");
    let command = bare_agent(env, &script);
    let args = ["run", "--agent-command", &command, "--json"];
    env.run([&args[..], more].concat())
}

fn attempts(env: &TestEnvironment) -> Vec<Value> {
    rows(env, "SELECT * FROM runs WHERE parent_run_id IS NOT NULL ORDER BY epoch")
}

#[test]
fn a_task_may_take_two_contexts() {
    let env = stage();
    add(&env, "test $(tail -n 1 work.txt) = 1", &[]);
    let script = "echo '{\"type\":\"usage\",\"input_tokens\":10,\"output_tokens\":1,\"cost_usd\":0.5}' >> $HARNESS_EVENTS\n\
                  [ $HARNESS_TASK_ID = task-001 ] && [ $HARNESS_ATTEMPT = 1 ] || exit 9\n\
                  if [ $n = 1 ]; then echo TASK_COMPLETE; else echo half; fi";
    over_ledger(&env, script, &[]).success();
    assert_eq!(
        (&env.task(0)["status"], &env.task(0)["attempts"]),
        (&"completed".into(), &1.into())
    );
    assert_eq!(env.git(["log", "--format=%s"]), "task-001: a task\nstart");
    assert_eq!(env.read("work.txt"), "0\n1\n");
    let second = prompt(&env, 1);
    assert!(second.contains("Iteration 1 of 10\n") && second.contains("make it"), "{second}");
    // The run over the ledger has the sums, and the attempt has its own usage.
    let parent = run_row(&env);
    let [attempt] = &attempts(&env)[..] else { panic!("{:#?}", attempts(&env)) };
    for row in [&parent, attempt] {
        assert_eq!(
            (&row["input_tokens"], &row["output_tokens"], &row["cost_usd"]),
            (&20.into(), &2.into(), &json!(1.0)),
            "{row}"
        );
    }
    assert_eq!(attempt["parent_run_id"], parent["run_id"]);
    assert_eq!((&attempt["task_id"], &attempt["lease_owner"]), (&"task-001".into(), &Value::Null));
    assert_eq!(
        (&attempt["iteration_count"], &attempt["stop_reason"]),
        (&1.into(), &"complete".into())
    );
    assert_eq!((&parent["objective"], &parent["iteration_count"]), (&Value::Null, &0.into()));
    assert_eq!(parent["stop_reason"], "complete");
}

#[test]
fn a_checkpoint_that_an_agent_tells_of_goes_with_the_tree() {
    let env = stage();
    add(&env, "true", &[]);
    let script = "echo '{\"type\":\"checkpoint\",\"step\":1,\"total\":2,\"description\":\"half\"}' >> $HARNESS_EVENTS\n\
                  echo TASK_COMPLETE";
    over_ledger(&env, script, &[]).success();
    let checkpoint = &env.task(0)["checkpoints"][0];
    assert_eq!(checkpoint["description"], "half");
    assert_eq!(checkpoint["tree"], env.git(["rev-parse", "HEAD^{tree}"]), "{checkpoint}");
}

#[test]
fn a_receipt_says_what_the_attempt_took() {
    let env = stage();
    add(&env, "test $(tail -n 1 work.txt) = 1", &[]);
    let script = "echo '{\"type\":\"usage\",\"input_tokens\":10,\"output_tokens\":1,\"cost_usd\":0.5}' >> $HARNESS_EVENTS\n\
                  if [ $n = 1 ]; then echo TASK_COMPLETE; else echo half; fi";
    over_ledger(&env, script, &[]).success();
    let folder = env.root().join(".harness/receipts");
    let receipts: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    let [receipt] = &receipts[..] else { panic!("{receipts:?}") };
    let receipt: Value = serde_json::from_str(&env.read(receipt)).unwrap();
    assert_eq!(receipt["iterations"], 2, "{receipt:#}");
    assert_eq!(receipt["tokens"], 22, "{receipt:#}");
    assert_eq!(receipt["cost_usd"], 1.0, "{receipt:#}");
}

#[test]
fn running_out_of_contexts_or_standing_still_or_crashing_fails_the_attempt() {
    for (script, more, words, contexts) in [
        (
            "echo not yet",
            &["--max-iterations", "1"][..],
            "the promise was not kept after 1 restarts",
            2,
        ),
        ("exit 9", &[], "the agent failed 3 times in a row: exit code 9", 3),
        ("rm work.txt; echo not yet", &[], "nothing changed for 3 iterations", 3),
    ] {
        let env = stage();
        add(&env, "true", &["--max-attempts", "1"]);
        over_ledger(&env, script, more).code(4);
        let error = env.task(0)["error_log"][0].as_str().unwrap().to_owned();
        assert!(error.starts_with("[TASK_EXEC] ") && error.contains(words), "{error}");
        assert_eq!(iterations(&env).len(), contexts);
        assert!(!env.exists("work.txt"), "rolled back");
        assert_eq!(env.git(["log", "--format=%s"]), "start");
    }
}

#[test]
fn a_promise_only_asks_for_the_check() {
    let env = stage();
    add(&env, "test $HARNESS_ATTEMPT = 2", &[]);
    over_ledger(&env, "echo TASK_COMPLETE", &[]).success();
    assert_eq!(env.task(0)["attempts"], 2);
    assert!(env.task(0)["error_log"][0].as_str().unwrap().starts_with("[TEST_FAIL]"));
    let reasons: Vec<_> = attempts(&env).iter().map(|a| a["stop_reason"].clone()).collect();
    assert_eq!(reasons, ["complete", "complete"], "each attempt kept its promise");
}

#[test]
fn budget_limit_and_environment_stop_the_session_and_leave_the_task() {
    let spend =
        "echo '{\"type\":\"usage\",\"input_tokens\":100}' >> $HARNESS_EVENTS; exec sleep 600";
    let limit = "echo '{\"type\":\"limit\"}' >> $HARNESS_EVENTS; exit 1";
    for (script, more, code, reason) in [
        (spend, &["--max-tokens", "50"][..], 3, "budget"),
        (limit, &["--no-wait"], 3, "limit"),
        ("exit 127", &[], 1, "env_setup"),
        ("exit 126", &[], 5, "config"),
    ] {
        let env = stage();
        add(&env, "true", &[]);
        let ran = over_ledger(&env, script, more).code(code);
        assert_eq!(ran.json()["stop_reason"], reason, "{ran}");
        assert_eq!(run_row(&env)["stop_reason"], reason);
        let left = env.task(0);
        assert_eq!(
            (&left["status"], &left["attempts"]),
            (&"in_progress".into(), &0.into()),
            "{ran}"
        );
        assert!(env.exists("work.txt"), "what was done is there");
        let done = bare_agent(&env, "cat > /dev/null; echo TASK_COMPLETE");
        env.run(["run", "--resume", "--max-tokens", "1000", "--agent-command", &done]).success();
        assert_eq!(env.task(0)["status"], "completed");
    }
}

#[test]
fn the_time_of_an_attempt_is_that_of_all_its_contexts() {
    let env = stage();
    add(&env, "true", &["--max-attempts", "1", "--attempt-timeout", "1"]);
    over_ledger(&env, "if [ $n = 1 ]; then exec sleep 600; fi; echo not yet", &[]).code(4);
    let error = env.task(0)["error_log"][0].as_str().unwrap().to_owned();
    assert!(error.starts_with("[TIMEOUT] "), "{error}");
}

#[test]
fn a_handoff_survives_a_rollback_and_is_put_away_for_another_task() {
    let env = stage();
    add(&env, "test $HARNESS_ATTEMPT = 2", &[]);
    let more =
        ["add", "b", "--instructions", "x", "--validate", "true", "--depends-on", "task-001"];
    env.run(more).success();
    let script = "mkdir -p state; [ ! -e state/handoff.json ] || cp state/handoff.json \"$HOME/seen.$HARNESS_TASK_ID.$HARNESS_ATTEMPT\"\n\
                  echo \"{\\\"next_step\\\": \\\"$HARNESS_TASK_ID $HARNESS_ATTEMPT\\\"}\" > state/handoff.json; echo TASK_COMPLETE";
    over_ledger(&env, script, &[]).success();
    let seen = |name: &str| env.home().join(format!("seen.{name}"));
    assert!(env.read(seen("task-001.2")).contains("task-001 1"), "it survived the rollback");
    assert!(!env.exists(seen("task-002.1")), "it was put away");
    let archived = std::fs::read_dir(env.root().join(".harness/archive")).unwrap();
    let names: Vec<_> = archived.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|n| n.starts_with("handoff-task-001-")), "{names:?}");
    assert!(!env.git(["log", "--name-only", "--format="]).contains("handoff"), "never in a commit");
}

#[test]
fn an_attempt_that_goes_on_takes_what_was_given_anew() {
    let env = stage();
    add(&env, "test -f done", &[]);
    // The tree is unchanged, so the work goes on after the checkpoint.
    let harness = env!("CARGO_BIN_EXE_harness");
    let checkpoint =
        format!("unset HARNESS_DAEMON; {harness} task checkpoint --step 1 --total 2 half");
    let command = bare_agent(&env, &format!("cat > /dev/null; {checkpoint}; exec sleep 600"));
    let mut run = Going::start(&env, &["run", "--agent-command", &command]);
    run.until("CHECKPOINT [task-001]");
    run.kill();
    let other = bare_agent(&env, "cat > \"$HOME/prompt\"; touch done; echo FINISHED");
    let anew =
        ["--agent-command", &other, "--completion-promise", "FINISHED", "--max-iterations", "2"];
    env.run([&["run", "--resume"][..], &anew[..]].concat()).success();
    assert_eq!(
        (&env.task(0)["status"], &env.task(0)["attempts"]),
        (&"completed".into(), &1.into())
    );
    assert!(env.read(env.home().join("prompt")).contains("    FINISHED\n"));
    let [attempt] = &attempts(&env)[..] else { panic!("{:#?}", attempts(&env)) };
    assert_eq!(
        (&attempt["completion_promise"], &attempt["max_iterations"]),
        (&"FINISHED".into(), &2.into())
    );
    assert_eq!(attempt["agent_command"], other);
    assert_eq!(iterations(&env).len(), 1, "it began again under its number");
}
