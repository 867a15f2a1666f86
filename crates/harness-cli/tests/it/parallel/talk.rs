//! People talk with the agents of every process, and not only with those of the host.

use super::{
    crash::{add_hanging, all_ended, at_work},
    stage::{add, add_independent, all_landed_once, world},
};
use crate::objective::stage::{Going, beside};

const HARNESS: &str = env!("CARGO_BIN_EXE_harness");

#[test]
fn a_question_of_an_agent_beside_the_host_is_listed_and_answered() {
    let env = world();
    let pipes = [add_hanging(&env, 1)];
    let run = ["run", "--agent", "shell", "--worktree", "--task", "task-001"];
    let host = Going::start(&env, &run);
    let held = at_work(&pipes);
    add(&env, &format!("{HARNESS} ask 'which one?' > answer"), "grep -q blue answer", &[]);
    let other = Going::start(&env, &["work", "--agent", "shell", "--worker", "second"]);
    let mut question = String::new();
    crate::mcp::eventually("the question is listed", || {
        question = beside(&env, &["questions"]);
        question.contains("which one?")
    });
    assert!(beside(&env, &["status"]).contains("which one?"), "status lists it too");
    let id = question.split(':').next().unwrap();
    beside(&env, &["reply", id, "blue"]);
    crate::mcp::eventually("the task is done", || {
        env.read("harness-progress.txt").contains("Completed [task-002]")
    });
    // An abort is for all of them.
    beside(&env, &["abort"]);
    for process in [other, host] {
        let ended = process.end();
        assert_eq!(ended.0, Some(130), "{}", ended.2);
    }
    all_ended(&pipes, held);
}

#[test]
fn an_attempt_of_a_process_beside_the_host_is_ended_through_any_terminal() {
    let env = world();
    let pipes = [add_hanging(&env, 1), add_hanging(&env, 2)];
    let host = Going::start(&env, &["run", "--agent", "shell", "--worktree", "--task", "task-001"]);
    let mut held = at_work(&pipes[..1]);
    let other = Going::start(&env, &["work", "--agent", "shell", "--worker", "second"]);
    held.extend(at_work(&pipes[1..]));
    let fail = ["task", "fail", "--worker", "second", "--id", "task-002", "wrong approach"];
    let failed = beside(&env, &fail);
    assert!(!failed.contains("Error"), "{failed}");
    all_ended(&pipes[1..], held.split_off(1));
    beside(&env, &["task", "fail", "--worker", "w.1", "--id", "task-001", "the same"]);
    all_ended(&pipes[..1], held);
    for process in [other, host] {
        let ended = process.end();
        assert_eq!(ended.0, Some(0), "{}", ended.2);
    }
    add_independent(&env, 1, "");
    env.run(["run", "--agent", "shell"]).success();
    all_landed_once(&env, "main");
}
