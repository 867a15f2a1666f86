//! Processes that a killed harness left are ended by the next daemon, or by a run that resumes.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    process::{Child, Command},
};

use serde_json::Value;

use crate::{
    daemon::Foreground,
    environment::TestEnvironment,
    objective::stage::{Going, bare_agent, fifo, hear},
};

/// Returns a record that a run wrote, of an owner that is dead by now.
fn record(env: &TestEnvironment) -> Value {
    let up = fifo(env, "up");
    let command = bare_agent(env, &format!("echo up > {}; exec sleep 600", up.display()));
    let mut run = Going::start(env, &["run", "write it", "--agent-command", &command]);
    assert_eq!(hear(&up), "up");
    let folder = env.root().join(".harness/processes");
    // A record that is being written has another name beside it.
    let mut files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|e| e == "json")).unwrap();
    let record = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    run.kill();
    record
}

struct Left(Child);

impl Left {
    /// Starts a process that belongs to a job of the dead owner.
    fn of(env: &TestEnvironment, mut record: Value) -> Self {
        let job = "job-of-the-dead";
        record["job"] = job.into();
        let fields = record.as_object_mut().unwrap();
        fields.remove("guard");
        fields.remove("agent");
        let child = Command::new("sleep").arg("600").env("HARNESS_JOB", job).spawn().unwrap();
        let path = env.root().join(format!(".harness/processes/{job}.json"));
        fs::write(path, record.to_string()).unwrap();
        Self(child)
    }

    fn end_by_kill(mut self) {
        assert_eq!(self.0.wait().unwrap().signal(), Some(9));
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn world() -> TestEnvironment {
    let env = TestEnvironment::with_git().with_daemon().variable("HARNESS_WORKER_ID", "w");
    let env = env.variable("HARNESS_LEASE_SECONDS", "3");
    env.run(["init"]).success();
    env
}

#[test]
fn a_daemon_ends_it_when_it_starts_and_later() {
    let env = world();
    let record = record(&env);
    let early = Left::of(&env, record.clone());
    let _daemon = Foreground::start(&env, &[]);
    early.end_by_kill();
    Left::of(&env, record).end_by_kill();
}

#[test]
fn a_run_ends_it_while_it_works() {
    let env = world();
    let record = record(&env);
    let up = fifo(&env, "up-again");
    let command = bare_agent(&env, &format!("echo up > {}; exec sleep 600", up.display()));
    let mut run = Going::start(&env, &["run", "write it", "--agent-command", &command]);
    assert_eq!(hear(&up), "up");
    Left::of(&env, record).end_by_kill();
    run.until("WARN: ended a process that a killed run left: pid=");
}
