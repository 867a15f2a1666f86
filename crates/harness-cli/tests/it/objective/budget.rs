//! Money, tokens and time: checked at every usage event, never exceeded by more than one.

use serde_json::{Value, json};

use super::stage::*;

fn usage(tokens: u64, cost: Option<f64>) -> String {
    let mut event = json!({ "type": "usage", "input_tokens": tokens, "output_tokens": 0 });
    if let Some(cost) = cost {
        event["cost_usd"] = cost.into();
    }
    format!("echo '{event}' >> $HARNESS_EVENTS")
}

#[test]
fn what_the_agent_tells_is_summed_up() {
    let env = stage();
    let script = format!(
        "{}\necho '{{\"type\":\"usage\",\"input_tokens\":5,\"output_tokens\":7}}' >> $HARNESS_EVENTS\n\
         if [ $n = 1 ]; then echo TASK_COMPLETE; else echo $n; fi",
        usage(100, Some(0.25))
    );
    let document = came_to(go(&env, &script, &["--max-cost", "5.00"]), 0, "complete", 1);
    assert_eq!(
        (&document["input_tokens"], &document["output_tokens"], &document["cost_usd"]),
        (&210.into(), &14.into(), &json!(0.5))
    );
    let row = run_row(&env);
    assert_eq!((&row["input_tokens"], &row["cost_usd"]), (&210.into(), &json!(0.5)));
    assert_eq!(row["max_cost_usd"], json!(5.0));
    for iteration in iterations(&env) {
        assert_eq!(
            (&iteration["input_tokens"], &iteration["cost_usd"]),
            (&105.into(), &json!(0.25))
        );
    }
}

/// The agent spends and then works until it is stopped. The holder of its pipe sees its end.
#[test]
fn the_event_that_crosses_the_budget_stops_the_agent() {
    for (flag, most, events, spent) in [
        ("--max-cost", "1.00", [usage(10, Some(0.75)), usage(10, Some(0.75))], json!(1.5)),
        ("--max-tokens", "100", [usage(60, None), usage(60, None)], Value::Null),
    ] {
        let env = stage();
        let script = format!("{}\n{}\nexec sleep 600", events[0], events[1]);
        let ran = go(&env, &script, &[flag, most]);
        assert!(ran.errors().contains("stopped (budget): the budget is used up:"), "{ran}");
        let document = came_to(ran, 3, "budget", 0);
        assert_eq!(document["cost_usd"], spent, "exactly the two events");
        assert_eq!(run_row(&env)["status"], "stopped");
        // The context had not ended, so it continues under its number, with more to spend.
        let done = agent(&env, "echo TASK_COMPLETE");
        let again = ["run", "--resume", flag, "200", "--agent-command", &done, "--json"];
        came_to(env.run(again), 0, "complete", 0);
        assert_eq!(outcomes(&env), ["finished"]);
    }
}

#[test]
fn no_agent_is_started_on_a_budget_that_is_gone() {
    let env = stage();
    let script = format!("{}\necho not yet", usage(100, None));
    came_to(go(&env, &script, &["--max-tokens", "250"]), 3, "budget", 2);
    assert_eq!(env.read("work.txt"), "0\n1\n2\n");
    assert_eq!(run_row(&env)["input_tokens"], 300);
    // A resume without a larger budget does not continue either.
    came_to(env.run(["run", "--resume", "--json"]), 3, "budget", 2);
    assert_eq!(env.read("work.txt"), "0\n1\n2\n");
    came_to(env.run(["run", "--resume", "--max-tokens", "350", "--json"]), 3, "budget", 3);
    assert_eq!(env.read("work.txt"), "0\n1\n2\n3\n");
}

#[test]
fn a_promise_goes_before_the_budget() {
    let env = stage();
    let script = format!("{}\necho TASK_COMPLETE", usage(100, None));
    came_to(go(&env, &script, &["--max-tokens", "10"]), 0, "complete", 0);
}

#[test]
fn the_time_is_a_budget_and_waits_count() {
    let env = stage();
    let ran = go(&env, "exec sleep 600", &["--max-duration", "1s"]);
    came_to(ran, 3, "budget", 0);
    let row = run_row(&env);
    assert_eq!(row["max_duration_seconds"], 1);
    assert!(!row["deadline"].is_null());
    let env = stage();
    let limit = format!(
        "echo '{{\"type\":\"limit\",\"until\":\"{}\"}}' >> $HARNESS_EVENTS; exit 1",
        later()
    );
    came_to(go(&env, &limit, &["--max-duration", "1s"]), 3, "budget", 0);
    assert!(run_row(&env)["wake_at"].is_null());
}

#[test]
fn neither_the_runs_own_check_nor_a_gate_nor_a_question_goes_on_beyond_its_time() {
    let env = stage();
    let more = ["--max-duration", "2s", "--verify", "exec sleep 600"];
    came_to(go(&env, "echo TASK_COMPLETE", &more), 3, "budget", 0);
    // The result is judged again, without another context.
    came_to(env.run(["run", "--resume", "--verify", "true", "--json"]), 0, "complete", 0);
    for gate in [json!({ "gate": { "command": "exec sleep 600" } }), json!({ "approve": true })] {
        let env = stage();
        let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
        let mut phase = gate.clone();
        phase["name"] = "Plan".into();
        ledger["phases"] = json!([phase]);
        env.write("harness-tasks.json", ledger.to_string());
        came_to(go(&env, "echo TASK_COMPLETE", &["--max-duration", "2s"]), 3, "budget", 0);
        assert!(!log(&env).contains("ERROR"), "a gate without a word is not closed: {}", log(&env));
    }
}

#[test]
fn tokens_are_priced_by_the_table_of_the_agent() {
    let env = stage();
    let command = agent(&env, &format!("{}\nexec sleep 600", usage(500_000, None)));
    env.write(
        "harness.toml",
        format!(
            "[agents.mine]\ncommand = \"{command}\"\nprice = {{ input = 2.0, output = 10.0 }}\n"
        ),
    );
    let args = ["run", "write it", "--agent", "mine", "--max-cost", "1.00", "--json"];
    let document = came_to(env.run(args), 3, "budget", 0);
    assert_eq!(document["cost_usd"], json!(1.0));
    assert_eq!(run_row(&env)["agent"], "mine");
}

#[test]
fn nonsense_in_the_events_spends_nothing_and_stops_nothing() {
    let env = stage();
    let script = "printf '%s\\n' 'no json' '{\"type\":\"usage\",\"cost_usd\":-5}' \
                  '{\"type\":\"usage\",\"input_tokens\":-1}' '{\"type\":\"other\"}' '' >> $HARNESS_EVENTS\n\
                  echo TASK_COMPLETE";
    let document = came_to(go(&env, script, &["--max-cost", "1"]), 0, "complete", 0);
    assert_eq!(document["input_tokens"], 0);
    assert!(document["cost_usd"].is_null() || document["cost_usd"] == 0.0, "{document}");
}

#[test]
fn money_that_nobody_tells_of_can_not_be_limited_and_that_is_said() {
    let words = "and has no table with a `price` in harness.toml: --max-cost has no effect";
    let tells = |usage: &str| {
        format!(
            "for i in 1 2; do echo '{{\"type\":\"usage\",{usage}}}' >> $HARNESS_EVENTS; done; echo TASK_COMPLETE"
        )
    };
    let tokens = tells("\"input_tokens\":5");
    for (script, more, said) in [
        (&tokens, &["--max-cost", "5"][..], 1),
        (&tokens, &[], 0),
        (&tells("\"input_tokens\":5,\"cost_usd\":0.1"), &["--max-cost", "5"], 0),
    ] {
        let env = stage();
        let ran = go(&env, script, more);
        assert_eq!(ran.errors().matches(words).count(), said, "{ran}");
        came_to(ran, 0, "complete", 0);
    }
    // For Codex this is known before it works.
    let env = stage();
    let words = "WARN: mine reports no cost and has no `price` in [agents.mine]";
    let table = "[agents.mine]\nkind = \"codex\"\ncommand = \"/nowhere/codex\"\n";
    let run = ["run", "write it", "--agent", "mine", "--max-cost", "5"];
    env.write("harness.toml", table);
    env.run(run).code(1).stderr_contains(words);
    env.write("harness.toml", format!("{table}price = {{ input = 1.0, output = 1.0 }}\n"));
    let ran = env.run(run).code(1);
    assert!(!ran.errors().contains(words), "{ran}");
}

#[test]
fn a_program_that_reports_a_nearly_full_context_is_followed_by_a_fresh_one() {
    for (fields, setting) in [
        (r#""context_tokens":76,"context_window":100"#, ""),
        (r#""context_tokens":76"#, "[agents.command]\ncontext_window = 100\n"),
        (r#""context_tokens":30,"context_window":100"#, "context_threshold = 0.3\n"),
    ] {
        let env = stage();
        env.write("harness.toml", setting);
        env.run(["trust", "--yes"]).success();
        let line = format!(r#"{{"type":"usage","input_tokens":5,{fields}}}"#);
        let script = format!(
            "if [ $n = 1 ]; then echo TASK_COMPLETE; exit; fi\n\
             echo '{line}' >> $HARNESS_EVENTS\nexec sleep 600"
        );
        came_to(go(&env, &script, &[]), 0, "complete", 1);
        let ends = rows(&env, "SELECT outcome FROM iterations ORDER BY number");
        let ends: Vec<_> = ends.iter().map(|row| row["outcome"].clone()).collect();
        assert_eq!(ends, ["out_of_context", "finished"], "{fields}");
    }
}
