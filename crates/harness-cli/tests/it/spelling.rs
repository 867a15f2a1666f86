//! Ids, durations and verbs have the same spelling everywhere.

use crate::{
    environment::TestEnvironment,
    objective::stage::{go, run_row, stage},
};

#[test]
fn help_and_version_are_verbs_too() {
    let env = TestEnvironment::new();
    let same = |verb: &[&str], flag: &[&str]| {
        let (verb, flag) = (env.run(verb).success(), env.run(flag).success());
        assert_eq!(verb.raw(), flag.raw());
    };
    same(&["help"], &["--help"]);
    same(&["help", "run"], &["run", "--help"]);
    same(&["help", "task", "claim"], &["task", "claim", "--help"]);
    same(&["version"], &["--version"]);
    env.run(["help", "nonsense"]).code(2);
}

#[test]
fn a_task_is_named_by_its_id_alone_and_the_old_flags_still_work() {
    for old in [false, true] {
        let env = TestEnvironment::of_worker();
        env.run(["add", "one", "--validate", "true"]).success();
        env.run(["add", "two", "--validate", "true"]).success();
        env.run(["task", "claim"]).success();
        let task = |id: &'static str| if old { vec!["--id", id] } else { vec![id] };
        let step = ["--step", "1", "--total", "2"];
        let checkpoint =
            [vec!["task", "checkpoint"], task("task-001"), vec!["half"], step.to_vec()];
        env.run(checkpoint.concat()).success();
        env.run([vec!["task", "renew"], task("task-001")].concat()).success();
        env.run([vec!["task", "complete"], task("task-001")].concat()).success();
        env.run(["task", "claim"]).success();
        env.run([vec!["task", "fail"], task("task-002"), vec!["unclear"]].concat()).success();
        let log = if old { vec!["log", "--task", "task-002"] } else { vec!["log", "task-002"] };
        env.run(log).success().stdout_contains("unclear");
    }
    let env = TestEnvironment::of_worker();
    env.run(["task", "fail", "task-001", "why", "--id", "task-002"]).code(2);
    env.run(["task", "fail", "no id at all"]).code(2).stderr_contains("no task was named");
    env.run(["research", "finalize"]).code(2);
    env.run(["research", "finalize", "survey"]).success();
}

#[test]
fn a_length_of_time_is_a_number_of_seconds_or_has_a_unit() {
    let env = TestEnvironment::of_worker();
    for (n, (time, seconds)) in
        [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400)].into_iter().enumerate()
    {
        env.run(["add", "x", "--timeout", time, "--attempt-timeout", time]).success();
        let task = env.task(n);
        assert_eq!(task["validation"]["timeout_seconds"], seconds, "{time}");
        assert_eq!(task["timeout_seconds"], seconds, "{time}");
    }
    for wrong in ["0", "5x", "soon", "-1"] {
        env.run(["add", "x", &format!("--timeout={wrong}")]).code(2);
    }
    let env = stage();
    go(&env, "echo TASK_COMPLETE", &["--max-duration", "3600"]).success();
    assert_eq!(run_row(&env)["max_duration_seconds"], 3600);
}

#[test]
fn a_plan_is_named_by_its_file_alone() {
    let env = TestEnvironment::of_worker();
    let plan = r#"{"goal": "g", "tasks": {"a": {"description": "A"}}}"#;
    env.write("plan.md", format!("```json\n{plan}\n```\n"));
    env.run(["plan", "check", "plan.md"]).success().stdout_contains("Plan is valid (1 task)");
    env.run(["plan", "check", "--file", "plan.md"]).success();
    env.run(["plan", "check"]).code(2);
    env.run(["plan", "check", "plan.md", "--file", "plan.md"]).code(2);
    env.run(["plan", "import", "plan.md"]).success().stdout_contains("Plan imported (1 task)");
}

#[test]
fn a_run_is_named_by_the_beginning_of_its_id() {
    let env = stage();
    go(&env, "echo no", &["--max-iterations", "0"]).code(3);
    let id = run_row(&env)["run_id"].as_str().unwrap().to_owned();
    env.run(["runs", "show", &id[..13]]).success();
    let resume =
        |name: &str| env.run(["run", "--resume", "--run-id", name, "--max-iterations", "0"]);
    resume(&id[..13]).code(3);
    resume("ffff").code(1).stderr_contains("there is no run ffff");
    // Without any run the error contains the name too.
    let env = stage();
    let ran = env.run(["run", "--resume", "--run-id", "0197", "--agent", "shell"]).code(1);
    ran.stderr_contains("there is no run 0197");
    env.run(["run", "x", "--run-id", "0197", "--agent", "shell"]).code(2);
}
