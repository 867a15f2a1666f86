//! An edit of the ledger from outside while a run holds it: some changes are accepted, others are
//! reverted.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::environment::{Ran, TestEnvironment};

const LEDGER: &str = "harness-tasks.json";

/// Returns a line of shell that changes the ledger in place, as an agent would.
fn sed(script: &str) -> String {
    format!("sed '{script}' {LEDGER} > t.new; cat t.new > {LEDGER}; rm t.new")
}

fn add(env: &TestEnvironment, title: &str, check: &str, instructions: &str) {
    let args = ["add", title, "--validate", check, "--instructions", instructions];
    env.run(args.into_iter().chain(["--max-attempts", "2"])).success();
}

fn run(env: &TestEnvironment) -> Ran {
    env.run(["run", "--agent", "shell"])
}

fn log(env: &TestEnvironment) -> String {
    env.read("harness-progress.txt")
}

#[test]
fn x_c1_a_status_that_an_agent_writes_is_not_believed() {
    let env = TestEnvironment::of_worker();
    let forge = sed("s/\"status\": \"[a-z_]*\"/\"status\": \"completed\"/");
    add(&env, "impossible", "false", &forge);
    add(&env, "other", "test -f never", "true");
    run(&env).code(4).stderr_contains("changed from outside and written back");
    for n in 0..2 {
        assert_eq!(env.task(n)["status"], "failed", "{}", env.read(LEDGER));
        assert_eq!(env.task(n)["attempts"], 2);
    }
    let log = log(&env);
    assert!(!log.contains("Completed ["), "{log}");
    assert!(log.contains("WARN [task-001] harness-tasks.json was changed"), "{log}");
    assert!(log.contains("task-002: status"), "{log}");
    let foreign = fs::read_dir(env.root().join(".harness/archive")).unwrap();
    let foreign =
        foreign.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().contains(".foreign"));
    assert!(foreign.count() > 0);
    // The alert is shown until a person acknowledges it.
    env.run(["status"]).success().stdout_contains("ALERT").stdout_contains("status --ack");
    env.run(["report"]).success().stdout_contains("ALERT");
    let said = env.run(["report", "--json"]).success().json();
    assert!(!said["alerts"].as_array().unwrap().is_empty());
    env.run(["status", "--ack"]).success();
    let said = env.run(["status", "--json"]).success().json();
    assert_eq!(said["alerts"], serde_json::json!([]));
}

#[test]
fn x_c1_forged_receipts_checks_and_log_lines_do_not_pass() {
    let env = TestEnvironment::of_worker();
    add(&env, "honest", "test -f a", "touch a");
    let forge = [
        sed("s/\"command\": \"false\"/\"command\": \"true\"/"),
        "sed 's/test -f a/true/' .harness/receipts/task-001.1.json > t.new".into(),
        "cat t.new > .harness/receipts/task-001.1.json; rm t.new".into(),
        "cp .harness/receipts/task-001.1.json .harness/receipts/task-002.2.json".into(),
        "echo \"[2025-07-01T10:00:00Z] [SESSION-1] Completed [task-002] (commit 1234567)\" \
         >> harness-progress.txt"
            .into(),
    ];
    add(&env, "liar", "false", &forge.join("; "));
    run(&env).code(4);
    assert_eq!(env.task(0)["status"], "completed");
    assert_eq!(env.task(1)["status"], "failed");
    assert_eq!(env.task(1)["validation"]["command"], "false");
    let verified = env.run(["verify"]).code(1);
    let verified = verified.stdout_contains("its receipt was not written by harness");
    verified
        .stderr_contains("but not written by harness: [[TIME]] [SESSION-1] Completed [task-002]");
    let doctor = env.run(["doctor"]);
    let doctor = doctor.stdout_contains("the receipt of task-001 was not written by harness");
    doctor.stdout_contains("a line of the log was not written by harness");
}

#[test]
fn x_m8_attempts_stay_bounded_whatever_an_agent_does_to_the_ledger() {
    let forgeries = [
        format!("echo '{{' > {LEDGER}"),
        format!("rm -f {LEDGER}"),
        format!("echo '{{\"tasks\": 3}}' > {LEDGER}"),
        sed("s/\"in_progress\"/\"pending\"/"),
        sed("s/\"max_attempts\": 2/\"max_attempts\": 1000000/"),
        sed("s/\"attempts\": [0-9]*/\"attempts\": 0/"),
        format!("cp {LEDGER}.bak t.new; cat t.new > {LEDGER}; rm t.new"),
    ];
    for forgery in forgeries {
        let env = TestEnvironment::of_worker();
        let count = env.root().parent().unwrap().join("count");
        let counted = format!("echo x >> {}; {forgery}", count.display());
        add(&env, "endless", "false", &counted);
        run(&env).code(4);
        let contexts = fs::read_to_string(&count).unwrap().lines().count();
        assert_eq!(contexts, 2, "{forgery}");
        assert_eq!(env.task(0)["attempts"], 2, "{forgery}");
        assert_eq!(env.task(0)["max_attempts"], 2, "{forgery}");
        assert!(log(&env).contains("WARN [task-001]"), "{forgery}\n{}", log(&env));
    }
}

#[test]
fn an_edit_that_adds_or_describes_is_taken_and_named() {
    let env = TestEnvironment::of_worker();
    let edit = [
        sed("s/\"title\": \"later\"/\"title\": \"better\"/"),
        sed("s/\"tasks\": \\[/\"ours\": 7, \"tasks\": [{\"id\": \"extra\", \
             \"validation\": {\"command\": \"test -f x\"}, \"instructions\": \"touch x\"},/"),
        "touch a".into(),
    ];
    add(&env, "now", "test -f a", &edit.join("; "));
    add(&env, "later", "test -f b", "touch b");
    run(&env).success();
    let said = log(&env);
    assert!(said.contains("was taken: task-002: title; extra: added"), "{said}");
    assert!(env.read(LEDGER).contains("\"ours\": 7"));
    assert!(said.contains("Completed [extra]"), "{said}");
    let said = env.run(["status", "--json"]).success().json();
    assert_eq!(said["counts"]["completed"], 3);
    assert_eq!(said["alerts"], serde_json::json!([]));
}

#[test]
fn a_ledger_that_nobody_holds_may_be_edited_freely() {
    let env = TestEnvironment::of_worker();
    add(&env, "one", "true", "true");
    let text = env.read(LEDGER).replace("\"pending\"", "\"completed\"");
    env.write(LEDGER, text.replace("\"max_attempts\": 2", "\"max_attempts\": 9"));
    env.run(["add", "two", "--validate", "true"]).success().stderr("");
    assert_eq!(env.task(0)["status"], "completed");
    assert_eq!(env.task(0)["max_attempts"], 9);
    let said = env.run(["status", "--json"]).success().json();
    assert_eq!(said["alerts"], serde_json::json!([]));
}

/// Returns a world with a run that was killed while its agent worked.
fn killed() -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    let started = env.root().parent().unwrap().join("started");
    let wait = format!("touch {}; while :; do sleep 0.05; done", started.display());
    add(&env, "endless", "false", &wait);
    let mut child = env.harness(["run", "--agent", "shell"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !started.exists() {
        assert!(Instant::now() < deadline, "the agent does not start");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(env.task(0)["status"], "in_progress");
    let forged = env.read(LEDGER).replace("\"in_progress\"", "\"completed\"");
    env.write(LEDGER, forged);
    env
}

#[test]
fn x_c1_after_a_killed_run_a_person_decides_about_an_edit() {
    let env = killed();
    let forged = env.read(LEDGER);
    for command in [&["add", "x"][..], &["run", "--agent", "shell"]] {
        let refused = env.run(command).code(5).stderr_contains("task-001: status");
        refused.stderr_contains("init --restore").stderr_contains("status --ack");
        assert_eq!(env.read(LEDGER), forged, "nothing is written back");
    }
    env.run(["status"]).success();
    env.run(["init", "--restore"]).success().stdout_contains("from the journal");
    assert_eq!(env.task(0)["status"], "in_progress");
    env.run(["add", "x"]).success();
}

#[test]
fn x_c1_after_a_killed_run_the_edit_may_be_taken() {
    let env = killed();
    env.run(["status", "--ack"]).success().stderr_contains("the operator took an edit");
    assert_eq!(env.task(0)["status"], "completed");
    assert!(log(&env).contains("the operator took an edit of harness-tasks.json"));
    env.run(["add", "x"]).success();
}

/// Several workers share the ledger by the published protocol. Others may write rows without a
/// holder.
#[test]
fn a_completion_that_somebody_wrote_into_a_shared_ledger_is_unproven() {
    let env = TestEnvironment::of_worker();
    for title in ["one", "two"] {
        env.run(["add", title, "--validate", "true"]).success();
    }
    let edit = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut ledger = serde_json::from_str(&env.read(LEDGER)).unwrap();
        change(&mut ledger);
        // The edit is made under the lock, as a script would make it.
        let hash = harness::home::root_hash(env.root());
        let lock = std::path::PathBuf::from(format!("/tmp/harness-{hash}.lock"));
        fs::create_dir(&lock).unwrap();
        env.write(lock.join("pid"), format!("{}\n", std::process::id()));
        env.write("harness-tasks.json.tmp", ledger.to_string());
        fs::rename(env.root().join("harness-tasks.json.tmp"), env.root().join(LEDGER)).unwrap();
        fs::remove_dir_all(&lock).unwrap();
    };
    edit(&|ledger| ledger["session_config"]["concurrency_mode"] = "concurrent".into());
    env.run(["task", "claim"]).success();
    edit(&|ledger| ledger["tasks"][1]["status"] = "completed".into());
    env.run(["task", "complete", "--id", "task-001"]).success();
    assert_eq!(env.task(1)["flags"], serde_json::json!(["unproven"]));
    assert!(env.task(0)["flags"].is_null(), "{}", env.task(0));
    let line = "WARN [task-002] unproven: completed by an edit of harness-tasks.json";
    assert!(log(&env).contains(line), "{}", log(&env));
    env.run(["status"]).success().stdout_contains("unproven");
    env.run(["report"]).success().stdout_contains("unproven");
    let report = env.run(["report", "--json"]).success().json().to_string();
    assert!(report.contains("\"unproven\""), "{report}");
    env.run(["verify"]).code(1).stdout_contains("there is no receipt");
}
