//! Processes of workers are killed or interrupted; the next ones finish their work, once.

use std::os::unix::fs::PermissionsExt as _;

use harness::clock::{Clock as _, SystemClock};
use nix::sys::signal::Signal;

use super::stage::{add, add_independent, all_landed_once, nothing_left, tasks, world};
use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, fifo, hear},
};

/// The pipe by which a script reports that it hangs, and the one that all its processes hold open.
pub(super) type Pipes = [std::path::PathBuf; 2];

/// Adds a task whose first life hangs, and returns the pipe that tells that it hangs, and the one
/// that all its processes hold open.
pub(super) fn add_hanging(env: &TestEnvironment, n: usize) -> Pipes {
    let pipes = [fifo(env, &format!("ready{n}")), fifo(env, &format!("alive{n}"))];
    let [ready, alive] = pipes.each_ref().map(|path| path.display().to_string());
    let once = env.home().join(format!("once{n}")).display().to_string();
    let script = format!(
        "echo {n} > h{n}\n\
         if ! [ -e {once} ]; then\n\
           touch {once}; exec 9> {alive}; setsid sleep 600 & echo ready > {ready}; exec sleep 600\n\
         fi"
    );
    add(env, &script, &format!("test -f h{n}"), &[]);
    pipes
}

/// Waits until every hanging task is at work, and returns the pipes that their processes hold open.
pub(super) fn at_work(pipes: &[Pipes]) -> Vec<std::fs::File> {
    let open = |path| std::fs::File::options().read(true).write(true).open(path).unwrap();
    let held: Vec<_> = pipes.iter().map(|[_, alive]| open(alive)).collect();
    pipes.iter().for_each(|[ready, _]| assert_eq!(hear(ready), "ready"));
    held
}

/// Waits until no process has the pipe open any more.
pub(super) fn all_ended(pipes: &[Pipes], held: Vec<std::fs::File>) {
    use std::io::Read as _;
    for ([_, alive], held) in pipes.iter().zip(held) {
        // It opens at once, because `held` writes. Then only the processes of the agent are left.
        let mut reader = std::fs::File::open(alive).unwrap();
        drop(held);
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0, "the end of the pipe");
    }
}

#[test]
fn a_killed_process_is_recovered_at_once_by_the_next() {
    let env = world();
    let pipes: Vec<_> = (1..=2).map(|n| add_hanging(&env, n)).collect();
    add_independent(&env, 2, "");
    let mut run = Going::start(&env, &["run", "--agent", "shell", "--workers", "3"]);
    let held = at_work(&pipes);
    run.kill();
    drop(run);
    let ran = env.run(["run", "--agent", "shell", "--workers", "2"]).success();
    assert!(ran.errors().contains("RECOVERY"), "{}", ran.errors());
    all_landed_once(&env, "main");
    nothing_left(&env);
    all_ended(&pipes, held);
}

#[test]
fn a_killed_worker_of_another_process_is_recovered_while_the_run_works() {
    let env = world();
    let pipes = [add_hanging(&env, 1)];
    let mut work = Going::start(&env, &["work", "--agent", "shell", "--worker", "second"]);
    let held = at_work(&pipes);
    add_independent(&env, 3, "");
    let run = Going::start(&env, &["run", "--agent", "shell", "--workers", "2"]);
    let done = |id: &str| env.read("harness-progress.txt").contains(&format!("Completed [{id}]"));
    crate::mcp::eventually("the other tasks are done", || {
        ["task-002", "task-003", "task-004"].into_iter().all(done)
    });
    work.kill();
    let ended = run.end();
    assert_eq!(ended.0, Some(0), "{}", ended.2);
    all_landed_once(&env, "main");
    nothing_left(&env);
    all_ended(&pipes, held);
}

#[test]
fn an_interrupt_stops_every_worker_and_the_next_run_goes_on() {
    let env = world();
    let pipes: Vec<_> = (1..=3).map(|n| add_hanging(&env, n)).collect();
    let run = Going::start(&env, &["run", "--agent", "shell", "--workers", "3"]);
    let held = at_work(&pipes);
    run.signal(Signal::SIGINT);
    let ended = run.end();
    assert_eq!(ended.0, Some(130), "{}", ended.2);
    all_ended(&pipes, held);
    assert_eq!(super::stage::workers(&env), Vec::<String>::new());
    for task in tasks(&env) {
        assert_ne!(task["status"], "completed");
        assert_eq!(task["attempts"], 0, "an interrupt counts no attempt");
    }
    env.run(["run", "--agent", "shell", "--workers", "2"]).success();
    all_landed_once(&env, "main");
    nothing_left(&env);
}

#[test]
fn what_an_agent_committed_itself_before_it_was_killed_is_not_forgotten() {
    let env = world();
    let once = env.home().join("once").display().to_string();
    let [ready, alive] = ["ready", "alive"].map(|name| fifo(&env, name));
    let script = format!(
        "if [ -e {once} ]; then exit 1; fi\n\
         touch {once}; exec 9> {}; echo work > h1; git add h1; git commit --quiet -m 'first draft'\n\
         echo ready > {}; exec sleep 600",
        alive.display(),
        ready.display(),
    );
    add(&env, &script, "test -f h1", &[]);
    let pipes: [Pipes; 1] = [[ready, alive]];
    let mut run = Going::start(&env, &["run", "--agent", "shell", "--workers", "2"]);
    let held = at_work(&pipes);
    run.kill();
    drop(run);
    all_ended(&pipes, held);
    env.run(["run", "--agent", "shell", "--workers", "2"]).success();
    all_landed_once(&env, "main");
    nothing_left(&env);
    assert_eq!(tasks(&env)[0]["attempts"], 1, "the work was done in the first attempt");
    assert!(env.git(["log", "--format=%s"]).contains("first draft"), "its own commit landed");
}

#[test]
fn an_error_of_one_worker_ends_the_run_and_its_task_is_free_at_once() {
    let env = world();
    env.write(".gitattributes", "*.bin filter=gone\n");
    env.git(["add", ".gitattributes"]);
    env.git(["commit", "--quiet", "--message", "a filter that is not installed"]);
    let program = env.home().join("no-such-program");
    env.git(["config", "filter.gone.clean", program.to_str().unwrap()]);
    env.git(["config", "filter.gone.required", "true"]);
    add(&env, "echo data > x.bin", "test -f x.bin", &[]);
    let ran = env.run(["run", "--agent", "shell", "--workers", "2"]).code(1);
    assert!(ran.errors().contains("no-such-program"), "{}", ran.errors());
    let task = &tasks(&env)[0];
    let log = env.read("harness-progress.txt");
    assert_eq!(task["status"], "in_progress", "{log}");
    // The end of a lease is rounded up to a second.
    let soon = SystemClock.now().plus(1).to_string();
    assert!(task["lease_expires_at"].as_str() <= Some(&*soon), "{task}");
    env.write(&program, "#!/bin/sh\nexec cat\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    env.run(["run", "--agent", "shell", "--workers", "2"]).success();
    assert_eq!(tasks(&env)[0]["status"], "completed");
}
