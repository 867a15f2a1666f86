//! Workers that cannot renew their claims, and budgets that several workers share.

use nix::sys::signal::Signal;

use super::{
    crash::{Pipes, add_hanging, all_ended, at_work},
    stage::{add, all_landed_once, nothing_left, tasks, world},
};
use crate::objective::stage::{Going, bare_agent, fifo, run_row};

#[test]
fn a_frozen_worker_finds_that_its_task_was_taken_over_and_stops_its_agent() {
    let env = world().variable("HARNESS_LEASE_SECONDS", "3");
    let pipes = [add_hanging(&env, 1)];
    let frozen = Going::start(&env, &["work", "--agent", "shell", "--worker", "a"]);
    let held = at_work(&pipes);
    frozen.signal(Signal::SIGSTOP);
    // Its lock is held, so another worker waits until the lease is over.
    let ran = env.run(["work", "--agent", "shell", "--worker", "b"]).success();
    assert!(ran.errors().contains("the lease ran out (claimed_by=a)"), "{}", ran.errors());
    frozen.signal(Signal::SIGCONT);
    let ended = frozen.end();
    assert_eq!(ended.0, Some(4), "a person should look: {}", ended.2);
    assert!(ended.2.contains("[task-001] late result of a refused"), "{}", ended.2);
    let rescue = env.git(["for-each-ref", "--format=%(refname)", "refs/harness/rescue/task-001"]);
    assert!(!rescue.is_empty(), "its work is kept");
    all_ended(&pipes, held);
    all_landed_once(&env, "main");
    nothing_left(&env);
}

#[test]
fn an_agent_is_stopped_before_the_lease_ends_if_the_ledger_cannot_be_written() {
    let env = world().variable("HARNESS_LEASE_SECONDS", "3");
    let pipes = [add_hanging(&env, 1)];
    let work = Going::start(&env, &["work", "--agent", "shell", "--worker", "a"]);
    let held = at_work(&pipes);
    let wait = harness::store::lock::Wait::For(std::time::Duration::from_secs(60));
    let lock = harness::store::lock::StateLock::acquire(env.root(), wait).unwrap();
    all_ended(&pipes, held);
    assert_eq!(tasks(&env)[0]["status"], "in_progress");
    drop(lock);
    // The claim is still its own, so it takes the task up again.
    let ended = work.end();
    assert_eq!(ended.0, Some(0), "{}", ended.2);
    all_landed_once(&env, "main");
    nothing_left(&env);
}

#[test]
fn a_budget_is_shared_and_its_end_stops_the_agents_of_all_workers() {
    let env = world();
    let alive = fifo(&env, "alive");
    let ready = fifo(&env, "ready");
    for n in 1..=3 {
        add(&env, "-", &format!("test -f f{n}"), &[]);
    }
    // The first agent waits for the other one, and then uses more than there is.
    let script = format!(
        "case $HARNESS_TASK_ID in\n\
         task-001) echo ready > {ready}; read word < {}\n\
         echo '{{\"type\":\"usage\",\"input_tokens\":60}}' >> $HARNESS_EVENTS; exec sleep 600;;\n\
         *) exec 9> {}; echo ready > {ready}; exec sleep 600;;\n\
         esac",
        fifo(&env, "go").display(),
        alive.display(),
        ready = ready.display(),
    );
    let command = bare_agent(&env, &script);
    let args = ["run", "--agent-command", &command, "--workers", "2", "--max-tokens", "50"];
    let run = Going::start(&env, &args);
    let pipes: [Pipes; 1] = [[ready.clone(), alive]];
    let open = |path| std::fs::File::options().read(true).write(true).open(path).unwrap();
    let held = vec![open(&pipes[0][1])];
    // Each of them opens the pipe for itself.
    let both = open(&ready);
    for _ in 0..2 {
        hear_line(&both);
    }
    std::fs::write(env.home().join("go"), "go\n").unwrap();
    let ended = run.end();
    assert_eq!(ended.0, Some(3), "{}", ended.2);
    assert!(ended.2.contains("budget"), "{}", ended.2);
    all_ended(&pipes, held);
    assert_eq!(run_row(&env)["stop_reason"], "budget");
    assert_eq!(tasks(&env)[2]["status"], "pending", "nobody claims any more");
}

/// Reads one line without taking more from the pipe.
fn hear_line(mut pipe: &std::fs::File) {
    use std::io::Read as _;
    let mut byte = [0];
    while byte != *b"\n" {
        pipe.read_exact(&mut byte).unwrap();
    }
}
