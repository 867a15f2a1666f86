//! A ledger that goes from files into a database and back.

use harness_sim::postgres::TestServer;
use serde_json::Value;

use crate::{
    Test,
    environment::TestEnvironment,
    stage::{Fleet, add, states},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_ledger_goes_into_a_database_and_back", a_ledger_goes_into_a_database_and_back),
    ("a_push_that_fails_changes_nothing", a_push_that_fails_changes_nothing),
    ("two_truths_are_refused", two_truths_are_refused),
    ("the_owner_looks_after_the_database", the_owner_looks_after_the_database),
];

fn with_files(fleet: &Fleet) -> TestEnvironment {
    let env = fleet.clone_for("w");
    env.run(["init", "--yes", "--no-config"]).success();
    add(&env, "one", "echo > one", "test -f one");
    add(&env, "two", "echo > two", "test -f two");
    env.run(["run", "--agent", "shell", "--task", "one"]).success();
    env
}

fn ledger(env: &TestEnvironment) -> Value {
    let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    // The seal and the number of the version are those of the file.
    for key in ["seal", "revision", "log_tail", "log_position"] {
        ledger.as_object_mut().unwrap().remove(key);
    }
    ledger
}

fn a_ledger_goes_into_a_database_and_back(server: &TestServer) {
    let fleet = Fleet::new(server);
    let env = with_files(&fleet);
    env.write("harness.toml", "[git]\nsign = false\n");
    let (before, log) = (ledger(&env), env.run(["log"]).success().raw().to_owned());
    let pushed =
        env.run(["store", "push", "--database", &fleet.url(), "--ledger", "shop", "--json"]);
    let pushed = pushed.success().json();
    assert_eq!(pushed["tasks"], 2, "{pushed}");
    assert!(!env.exists("harness-tasks.json") && !env.exists("harness-progress.txt"));
    for path in pushed["archived"].as_array().unwrap() {
        assert!(env.exists(path.as_str().unwrap()), "{path}");
    }
    let settings = env.read("harness.toml");
    assert!(settings.starts_with("[git]\nsign = false\n\n[store]\nurl = "), "{settings}");
    assert_eq!(env.run(["log"]).success().raw(), log);
    env.run(["why", "one"]).success().stdout_contains("`test -f one` passed");
    env.run(["run", "--agent", "shell"]).success();
    assert_eq!(states(&env)[1].1, "completed");
    let pulled = env.run(["store", "pull", "--json"]).success().json();
    assert_eq!(pulled["tasks"], 2, "{pulled}");
    assert_eq!(env.read("harness.toml"), "[git]\nsign = false\n\n");
    let after = ledger(&env);
    assert_eq!(after["tasks"][0], before["tasks"][0], "the finished task came back as it was");
    assert_eq!(after["tasks"][1]["status"], "completed");
    assert!(env.read("harness-progress.txt").starts_with(&log));
    env.run(["verify"]).success().stdout_contains("2 of 2 hold");
    let retired = pulled["retired_as"].as_str().unwrap();
    let names = fleet.database.value("SELECT string_agg(name, ' ') FROM harness.ledger");
    assert_eq!(names, retired, "no other machine goes on with it");
}

fn a_push_that_fails_changes_nothing(server: &TestServer) {
    let fleet = Fleet::new(server);
    fleet.database.create();
    let env = with_files(&fleet);
    let before = (env.read("harness-tasks.json"), env.read("harness-progress.txt"));
    let push = |url: &str| env.run(["store", "push", "--database", url, "--ledger", "shop"]);
    push(&fleet.url()).code(1).stderr_contains("already has a ledger \"shop\"");
    let nowhere = fleet.database.url().with_database("no_such_database").to_string();
    push(&nowhere).code(5).stderr_contains("there is no database");
    assert_eq!((env.read("harness-tasks.json"), env.read("harness-progress.txt")), before);
    assert!(!env.exists("harness.toml"));
    env.run(["status"]).success().stdout_contains("1 completed");
}

fn two_truths_are_refused(server: &TestServer) {
    let fleet = Fleet::new(server);
    let other = with_files(&fleet);
    let env = fleet.first("a");
    env.run(["init", "--yes", "--database", &fleet.url()]).code(1).stderr_contains("already");
    env.run(["init", "--yes"]).code(1).stderr_contains("in a database");
    let init = ["init", "--yes", "--database", &fleet.url(), "--ledger", "other"];
    other.run(init).code(1).stderr_contains("harness store push");
    // A file that appears beside the database stops every command.
    env.write("harness-tasks.json", other.read("harness-tasks.json"));
    env.run(["status"]).code(5).stderr_contains("harness store push");
    env.run(["add", "x"]).code(5).stderr_contains("says that the ledger is in the database");
}

fn the_owner_looks_after_the_database(server: &TestServer) {
    let fleet = Fleet::new(server);
    let env = fleet.first("a");
    add(&env, "one", "echo > one", "test -f one");
    add(&env, "two", "echo > two", "test -f two");
    env.run(["store", "migrate"]).success().stdout_contains("version 1 already");
    let compacted = env.run(["store", "compact", "--keep", "1", "--json"]).success().json();
    assert_eq!(compacted["replaced"], 1, "{compacted}");
    assert_eq!(states(&env).len(), 2);
    let (worker, reader) =
        (format!("w_{}", fleet.database.name), format!("r_{}", fleet.database.name));
    let granted = env.run(["store", "grant", "--worker", &worker, "--reader", &reader]).success();
    fleet.database.sql(granted.raw());
    let url = fleet.url().replace("postgres@", &format!("{worker}@"));
    let by_worker = fleet.another("b").variable("HARNESS_DATABASE_URL", &url);
    by_worker.run(["add", "x"]).success();
    by_worker.run(["store", "compact", "--keep", "0"]).code(5).stderr_contains("lacks a right");
    let url = fleet.url().replace("postgres@", &format!("{reader}@"));
    let by_reader = fleet.another("c").variable("HARNESS_DATABASE_URL", &url);
    by_reader.run(["status"]).success().stdout_contains("3 tasks");
    by_reader.run(["add", "y"]).code(5).stderr_contains("lacks a right");
    fleet.database.sql(&format!("DROP OWNED BY {worker}, {reader}; DROP ROLE {worker}, {reader}"));
}
