//! A usage limit: the wait is stored and reported. It ends by its time or by a person, or does not
//! begin.

use serde_json::{Value, json};

use super::stage::*;

/// Returns a script that is limited until a file exists.
fn limited(until: &str) -> String {
    let until = if until.is_empty() { String::new() } else { format!(",\"until\":\"{until}\"") };
    format!(
        "if [ ! -e \"$HOME/lifted\" ]; then\n\
         echo '{{\"type\":\"limit\"{until}}}' >> $HARNESS_EVENTS; touch \"$HOME/lifted\"; exit 1\nfi\n\
         echo TASK_COMPLETE"
    )
}

#[test]
fn a_limit_is_waited_out_in_the_same_iteration_until_somebody_kicks() {
    let env = stage();
    let command = agent(&env, &limited(later()));
    let mut run = Going::start(&env, &["run", "write it", "--agent-command", &command, "--json"]);
    run.until(&format!("usage limit: waiting until {}", later()));
    let row = run_row(&env);
    assert_eq!(
        (&row["status"], &row["wake_at"], &row["iteration_count"]),
        (&"running".into(), &later().into(), &0.into())
    );
    kick(&env);
    let (code, out, err) = run.end();
    assert_eq!(code, Some(0), "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&document["stop_reason"], &document["iterations"]),
        (&"complete".into(), &0.into())
    );
    assert_eq!(outcomes(&env), ["finished"]);
    assert!(run_row(&env)["wake_at"].is_null());
    assert_eq!(env.read("work.txt"), "0\n0\n");
}

#[test]
fn without_a_time_the_first_wait_is_a_minute_at_most() {
    let env = stage();
    let command = agent(&env, &limited(""));
    let mut run = Going::start(&env, &["run", "write it", "--agent-command", &command]);
    run.until("usage limit: waiting until ");
    let wait = rows(
        &env,
        "SELECT strftime('%s', wake_at) - strftime('%s', updated_at) AS seconds FROM runs",
    );
    let seconds = wait[0]["seconds"].as_i64().unwrap();
    assert!((25..=60).contains(&seconds), "{seconds}");
    kick(&env);
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn whoever_does_not_wait_is_stopped_and_can_go_on() {
    let env = stage();
    let ran = go(&env, &limited(later()), &["--no-wait"]);
    assert!(
        ran.errors().contains(&"stopped (limit): a usage limit holds until".to_owned()),
        "{ran}"
    );
    let document = came_to(ran, 3, "limit", 0);
    assert_eq!(document["outcome"], "stopped");
    assert!(run_row(&env)["wake_at"].is_null());
    came_to(env.run(["run", "--resume", "--json"]), 0, "complete", 0);
}

#[test]
fn a_killed_wait_is_gone_on_with() {
    let env = stage();
    let command = agent(&env, &limited(later()));
    let args = ["run", "write it", "--agent-command", &command];
    let mut run = Going::start(&env, &args);
    run.until("usage limit: waiting until");
    run.kill();
    assert_eq!(run_row(&env)["wake_at"], later());
    // With --no-wait the limit is reported, and the next run asks the agent.
    came_to(env.run(["run", "--resume", "--no-wait", "--json"]), 3, "limit", 0);
    assert_eq!(env.read("work.txt"), "0\n");
    came_to(env.run(["run", "--resume", "--json"]), 0, "complete", 0);
    // A longer wait is reported, and meanwhile the status shows its end.
    let env = stage();
    let command = agent(&env, &limited(later()));
    for args in [&["run", "write it", "--agent-command", &command][..], &["run", "--resume"]] {
        let mut run = Going::start(&env, args);
        run.until("usage limit: waiting until");
        run.kill();
        env.run(["status"]).success().stdout_contains("cut off, waits until ");
    }
    // A kick makes it forget the wait.
    let env = stage();
    let command = agent(&env, &limited(later()));
    let mut run = Going::start(&env, &["run", "write it", "--agent-command", &command]);
    run.until("usage limit: waiting until");
    run.kill();
    env.run(["kick"]).success().stdout("the wait has ended");
    came_to(env.run(["run", "--resume", "--json"]), 0, "complete", 0);
}

#[test]
fn an_interrupt_ends_a_wait() {
    let env = stage();
    let command = agent(&env, &limited(later()));
    let mut run = Going::start(&env, &["run", "write it", "--agent-command", &command]);
    run.until("usage limit: waiting until");
    run.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(run.end().0, Some(130));
    let row = run_row(&env);
    assert_eq!((&row["status"], &row["wake_at"]), (&"cancelled".into(), &Value::Null));
}

#[test]
fn another_agent_takes_over_meanwhile() {
    let env = stage();
    let first = agent(
        &env,
        &format!(
            "echo first >> \"$HOME/who\"\necho '{{\"type\":\"limit\",\"until\":\"{}\"}}' >> $HARNESS_EVENTS; exit 1",
            later()
        ),
    );
    let second = agent(
        &env,
        "echo second >> \"$HOME/who\"\n\
         echo '{\"type\":\"usage\",\"input_tokens\":1000000}' >> $HARNESS_EVENTS\n\
         [ $n = 0 ] || echo TASK_COMPLETE; echo so far",
    );
    env.write(
        "harness.toml",
        format!(
            "agent = \"first\"\n[agents.first]\ncommand = \"{first}\"\nfallback = [\"second\"]\n\
             [agents.second]\ncommand = \"{second}\"\nprice = {{ input = 3.0, output = 1.0 }}\n"
        ),
    );
    let document = came_to(env.run(["run", "write it", "--json"]), 0, "complete", 1);
    let told = format!("usage limit of first until {}: second takes over", later());
    assert_eq!(log(&env).matches(&told).count(), 1, "{}", log(&env));
    assert_eq!(env.read(env.home().join("who")), "first\nsecond\nsecond\n");
    assert_eq!(document["cost_usd"], json!(6.0), "by its own list");
}
