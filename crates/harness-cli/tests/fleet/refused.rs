//! Databases that cannot be used, through the binary. Nothing is half made.

use harness_sim::postgres::{Cluster, TestServer};

use crate::{
    Test,
    environment::TestEnvironment,
    stage::{Fleet, add},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "what_cannot_be_used_is_named_and_leaves_nothing",
        what_cannot_be_used_is_named_and_leaves_nothing,
    ),
    ("a_newer_schema_is_refused_with_both_versions", a_newer_schema_is_refused_with_both_versions),
    (
        "a_server_that_may_lose_changes_is_accepted_only_by_name",
        a_server_that_may_lose_changes_is_accepted_only_by_name,
    ),
    ("a_replica_is_refused", a_replica_is_refused),
    ("a_database_that_is_gone_costs_an_error", a_database_that_is_gone_costs_an_error),
];

/// Tries to create a ledger, which is refused with these words, and leaves no file.
#[track_caller]
fn refused(env: &TestEnvironment, url: &str, code: i32, words: &str) {
    let ran = env.run(["init", "--yes", "--database", url, "--ledger", "shop"]);
    ran.code(code).stderr_contains(words);
    for file in ["harness.toml", "harness-tasks.json", ".harness-active"] {
        assert!(!env.exists(file), "{file} is there after {words:?}");
    }
}

fn what_cannot_be_used_is_named_and_leaves_nothing(server: &TestServer) {
    let fleet = Fleet::new(server);
    let env = fleet.clone_for("a");
    let port = server.url().port();
    refused(&env, "mysql://db/work", 2, "starts with postgres://");
    refused(&env, "postgres://me@db/work?sslmod=off", 2, "sslmod");
    let nowhere = fleet.database.url().with_database("no_such_database").to_string();
    refused(&env, &nowhere, 5, "there is no database");
    let stranger = format!(
        "postgres://nobody_of_that_name@127.0.0.1:{port}/{}?sslmode=disable",
        fleet.database.name
    );
    refused(&env, &stranger, 5, "does not accept the user nobody_of_that_name");
    let role = format!("poor_{}", fleet.database.name);
    fleet.database.sql(&format!("CREATE ROLE {role} LOGIN"));
    let poor = fleet.url().replace("postgres@", &format!("{role}@"));
    refused(&env, &poor, 5, "lacks a right");
    fleet.database.sql(&format!("DROP ROLE {role}"));
    let tables = "SELECT count(*) FROM pg_namespace WHERE nspname = 'harness'";
    assert_eq!(fleet.database.value(tables), "0", "not even the schema is there");
    fleet.database.create();
    refused(&env, &fleet.url(), 1, "already has a ledger \"shop\"");
    let bad = env.run(["init", "--yes", "--database", &fleet.url(), "--ledger", "a b"]);
    bad.code(2).stderr_contains("ledger name");
}

fn a_newer_schema_is_refused_with_both_versions(server: &TestServer) {
    let fleet = Fleet::new(server);
    let env = fleet.first("a");
    fleet.database.sql("UPDATE harness.schema_version SET version = 99");
    for args in [&["status"][..], &["add", "x"], &["store", "migrate"], &["store", "status"]] {
        let ran = env.run(args).code(5);
        ran.stderr_contains("schema version 99, and this harness knows version 1: upgrade harness");
    }
}

fn a_server_that_may_lose_changes_is_accepted_only_by_name(_: &TestServer) {
    let cluster = Cluster::temporary("-c fsync=off").unwrap();
    let fleet = Fleet::new(&cluster.server());
    let env = fleet.clone_for("a");
    refused(&env, &fleet.url(), 5, "has fsync = off");
    let init = ["init", "--yes", "--database", &fleet.url(), "--unsafe-durability"];
    env.run(init).success();
    // The word counts for this user from then on, and for no other clone.
    env.run(["add", "x"]).success();
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "the ledger"]);
    env.git(["push", "--quiet", "origin", "HEAD:main"]);
    let other = fleet.another("b");
    other.run(["status"]).code(5).stderr_contains("--unsafe-durability");
    other.run(["trust", "--yes", "--unsafe-durability"]).success();
    other.run(["status"]).success().stdout_contains("1 task");
}

fn a_replica_is_refused(_: &TestServer) {
    let cluster = Cluster::temporary("").unwrap();
    let fleet = Fleet::new(&cluster.server());
    fleet.database.create();
    let replica = cluster.replica().unwrap();
    let url = replica.server().url().clone().with_database(&fleet.database.name).to_string();
    refused(&fleet.clone_for("a"), &url, 5, "is a replica");
}

fn a_database_that_is_gone_costs_an_error(_: &TestServer) {
    let cluster = Cluster::temporary("").unwrap();
    let fleet = Fleet::new(&cluster.server());
    let env = fleet.first("a");
    add(&env, "one", "echo > one", "test -f one");
    env.run(["run", "--agent", "shell"]).success();
    env.run(["doctor"]).stdout_contains("PostgreSQL").stdout_contains("results land on origin");
    let copy: serde_json::Value = serde_json::from_str(&env.read(".harness/mirror.json")).unwrap();
    assert_eq!(copy["ledger"]["tasks"][0]["id"], "one", "{copy}");
    let port = cluster.server().url().port();
    let words = format!("cannot reach the database 127.0.0.1:{port}/");
    cluster.crash().unwrap();
    drop(cluster);
    env.run(["add", "x"]).code(1).stderr_contains(&words);
    // The copy of this machine is shown, with its age.
    let status = env.run(["status"]).code(0).stdout_contains("1 task");
    status.stderr_contains(&words).stderr_contains("this is the copy of this machine");
}
