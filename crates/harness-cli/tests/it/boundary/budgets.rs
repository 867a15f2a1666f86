//! The budget of a run and the count of its starts stay true, whatever an agent does to the
//! database or to its supervisor.

use std::{fs, process::Stdio, thread};

use rusqlite::Connection;
use serde_json::json;

use crate::{
    environment::TestEnvironment,
    evidence::{add, task},
    objective::stage::{agent, bare_agent, go, iterations, stage},
    run::{Hanging, hanging_script, pipes},
};

fn edit(env: &TestEnvironment, sql: &str) {
    let database = Connection::open(env.root().join(".harness/harness.db")).unwrap();
    database.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
    database.execute_batch(sql).unwrap();
}

fn fifo(env: &TestEnvironment, name: &str) -> std::path::PathBuf {
    let path = env.home().join(name);
    assert!(env.program("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// After each context the database claims that nothing was spent and that more is allowed.
#[test]
fn x_m7_an_agent_cannot_lower_what_it_has_spent() {
    let env = stage();
    let (ready, on) = (fifo(&env, "ready"), fifo(&env, "on"));
    let usage = r#"{"type":"usage","input_tokens":1,"output_tokens":0,"cost_usd":1.0}"#;
    let script = format!(
        "echo '{usage}' >> $HARNESS_EVENTS\necho x >> $HOME/contexts\n\
         echo edited > {}\ncat {} > /dev/null\necho not yet",
        ready.display(),
        on.display()
    );
    let command = agent(&env, &script);
    let args = ["run", "write it", "--agent-command", &command, "--max-cost", "2.5", "--json"];
    let mut run = env.harness(args);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let forged = "UPDATE runs SET cost_usd = 0, max_cost_usd = 100, max_iterations = 1000";
    let editing = thread::spawn({
        let (ready, on, root) = (ready.clone(), on.clone(), env.root().to_owned());
        move || {
            while fs::read_to_string(&ready).unwrap() == "edited\n" {
                let database = Connection::open(root.join(".harness/harness.db")).unwrap();
                database.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
                database.execute_batch(forged).unwrap();
                // This waits until the agent reads. An agent that was stopped never does; then the
                // test holds the other end.
                drop(fs::File::options().write(true).open(&on));
            }
        }
    });
    let ended = run.wait_with_output().unwrap();
    let held = fs::File::options().read(true).write(true).open(&on).unwrap();
    fs::write(&ready, "end\n").unwrap();
    editing.join().unwrap();
    drop(held);
    assert_eq!(ended.status.code(), Some(3));
    let contexts = env.read(env.home().join("contexts")).lines().count();
    assert!(contexts <= 3, "{contexts} contexts of 1 USD under 2.5 USD");
}

#[test]
fn x_m7_a_resume_says_what_was_edited() {
    let env = stage();
    let limits = ["--max-iterations", "0", "--max-cost", "2.5", "--verify", "test -f done"];
    go(&env, "echo not yet", &limits).code(3);
    edit(&env, "UPDATE runs SET max_cost_usd = 100, verify = NULL");
    let command = bare_agent(&env, "echo TASK_COMPLETE");
    let resume = ["run", "--resume", "--max-iterations", "1", "--agent-command", &command];
    env.run(resume)
        .stderr_contains("max_cost was \"2.5\" and is \"100\" in harness.db")
        .stderr_contains("verify was \"test -f done\" and is \"none\" in harness.db");
}

/// An outside program restarts a supervisor that its agent kills. Three starts without an end count
/// as a failed end.
#[test]
fn x_m8_starts_without_an_end_are_counted() {
    let env = stage();
    let command = {
        let pipes = pipes(&env);
        let script =
            format!("if [ -f $HOME/enough ]; then echo no; exit; fi\n{}", hanging_script(&pipes));
        let command = bare_agent(&env, &script);
        let args = ["run", "write it", "--agent-command", &command, "--max-iterations", "1"];
        Hanging::run(env.harness(args), pipes.clone()).kill();
        for _ in 0..2 {
            Hanging::run(env.harness(["run", "--resume"]), pipes.clone()).kill();
        }
        command
    };
    assert_eq!((iterations(&env).len(), &iterations(&env)[0]["starts"]), (1, &json!(3)));
    env.write(env.home().join("enough"), "");
    env.run(["run", "--resume", "--agent-command", &command]).code(3);
    let rows = iterations(&env);
    assert_eq!(
        (&rows[0]["outcome"], &rows[0]["detail"]),
        (&json!("crashed"), &json!("started 3 times without an end"))
    );
    assert_eq!((&rows[1]["number"], &rows[1]["starts"]), (&json!(1), &json!(1)));
}

#[test]
fn x_m9_a_locked_index_costs_no_attempt() {
    let env = TestEnvironment::of_worker();
    add(&env, "touch one; touch .git/index.lock", "test -f one", &["--max-attempts", "1"]);
    let lock = env.root().join(".git/index.lock");
    let mut run = env.harness(["run", "--agent", "shell"]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The agent does not lock it any more, and the commit has met the lock.
    crate::mcp::eventually("the commit waits", || {
        env.read("harness-progress.txt").contains("WARN [task-001] the index is locked by")
    });
    fs::remove_file(lock).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));
    let done = task(&env, 0);
    assert_eq!((&done["status"], &done["attempts"]), (&json!("completed"), &json!(1)));
}

/// The process that knew the real usage is dead. Its knowledge is stored where the agent was not
/// asked to write.
#[test]
fn x_m7_what_was_spent_counts_after_a_kill_too() {
    let env = stage();
    let pipes = pipes(&env);
    let usage = r#"{"type":"usage","input_tokens":1,"output_tokens":0,"cost_usd":2.0}"#;
    let script = format!(
        "echo x >> $HOME/contexts\nif [ $(wc -l < $HOME/contexts) = 2 ]; then\n{}\nfi\n\
         echo '{usage}' >> $HARNESS_EVENTS\necho not yet",
        hanging_script(&pipes)
    );
    let command = agent(&env, &script);
    let args = ["run", "write it", "--agent-command", &command, "--max-cost", "2.5"];
    Hanging::run(env.harness(args), pipes).kill();
    edit(&env, "UPDATE runs SET cost_usd = 0, input_tokens = 0");
    env.run(["run", "--resume"])
        .code(3)
        .stderr_contains("it had used 2.00 USD and 1 tokens and harness.db has");
    let contexts = env.read(env.home().join("contexts")).lines().count();
    assert_eq!(contexts, 3, "the one that was killed is started again, and no other");
    let rows = env.run(["runs", "list", "--json"]).success().json();
    assert_eq!(rows["runs"][0]["cost_usd"], json!(4.0), "{rows}");
}
