//! Floods of connections, half lines and checkpoints. Other clients are still served.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::{
    daemon::world,
    environment::TestEnvironment,
    host::socket,
    objective::stage::{Going, bare_agent, fifo, hear},
};

fn memory_kilobytes(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn x_l4_idle_connections_lock_nobody_out() {
    let env = world();
    env.run(["daemon", "start"]).success();
    let socket = socket(&env);
    let idle: Vec<_> = (0..600).map(|_| UnixStream::connect(&socket)).collect();
    env.run(["ping"]).success().stdout("ok");
    env.run(["add", "one"]).success();
    env.run(["task", "claim"]).success().stdout_contains("task-001");
    drop(idle);
    env.run(["shutdown"]).success();
}

#[test]
fn x_l4_half_lines_are_bounded_together() {
    let env = world();
    let pid = env.run(["daemon", "start"]).success().raw().to_owned();
    let half = vec![b'x'; 8 * 1024 * 1024 - 1];
    let halves: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = UnixStream::connect(socket(&env)).unwrap();
            // When this returns, everything was read except what the kernel buffers.
            stream.write_all(&half).unwrap();
            stream
        })
        .collect();
    let used = memory_kilobytes(&pid);
    assert!(used < 200 * 1024, "{used} kB for {} half lines", halves.len());
    env.run(["ping"]).success().stdout("ok");
    // The last client got an error, and can send requests again.
    let mut last = halves.into_iter().last().unwrap();
    last.write_all(b"\n{\"command\":\"ping\"}\n").unwrap();
    let mut answers = BufReader::new(last).lines().map(Result::unwrap);
    let told = answers.next().unwrap();
    assert!(told.contains("Too many large requests at a time"), "{told}");
    assert!(answers.next().unwrap().contains("\"ok\""));
    env.run(["shutdown"]).success();
}

fn with_flood(after: &str) -> (TestEnvironment, String) {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    env.run(["init"]).success();
    env.run(["add", "one", "--validate", "true"]).success();
    let flood = "yes '{\"type\":\"checkpoint\",\"step\":1,\"total\":9,\"description\":\"again\"}' \
                 | head -n 200000 >> \"$HARNESS_EVENTS\"\n\
                 echo '{\"type\":\"checkpoint\",\"step\":9,\"total\":9,\"description\":\"the last\"}' \
                 >> \"$HARNESS_EVENTS\"\n";
    let command = bare_agent(&env, &format!("echo x > f\n{flood}{after}"));
    (env, command)
}

#[test]
fn x_l5_a_flood_of_checkpoints_is_cut_to_ten_a_second() {
    let (env, command) = with_flood("echo TASK_COMPLETE");
    let start = Instant::now();
    let ran = env.run(["run", "--agent-command", &command]).success();
    let seconds = start.elapsed().as_secs() + 1;
    ran.stderr_contains("WARN: the agent makes more than 10 checkpoints a second");
    let trajectory = env.read(".harness/trajectory.jsonl");
    let stored = trajectory.matches("task_checkpoint").count() as u64;
    assert!((1..=11 * seconds + 11).contains(&stored), "{stored} in {seconds} s");
    let checkpoints = env.task(0)["checkpoints"].to_string();
    assert!(checkpoints.contains("the last"), "{checkpoints}");
}

#[test]
fn x_l5_a_flood_does_not_keep_a_stop_away() {
    let (env, command) = with_flood("");
    let up = fifo(&env, "up");
    let script = env.home().join("flooding.sh");
    let words = command.replace("sh ", ". ");
    let text = format!("{words}\necho up > {}\nexec sleep 600\n", up.display());
    fs::write(&script, text).unwrap();
    let command = format!("sh {}", script.display());
    let run = Going::start(&env, &["run", "--agent-command", &command]);
    assert_eq!(hear(&up), "up");
    let start = Instant::now();
    run.signal(Signal::SIGTERM);
    run.end();
    // The agent itself gets five seconds. A checkpoint for each event would take minutes.
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}
