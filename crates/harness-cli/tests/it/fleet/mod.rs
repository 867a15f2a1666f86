//! A ledger in a database, as far as no database is needed: the settings, and what is never connected.

use std::{io::ErrorKind, net::TcpListener};

use crate::environment::TestEnvironment;

#[test]
fn a_password_in_a_file_is_refused_and_not_shown() {
    let env = TestEnvironment::with_git();
    env.write("harness.toml", "[store]\nurl = \"postgres://me:Hunter-22@db/work\"\n");
    for args in [&["status"][..], &["config"], &["add", "x"], &["store", "status"]] {
        let ran = env.run(args).code(5);
        let ran =
            ran.stderr_contains("harness.toml:2: `store.url`: the address of the database holds");
        assert!(!ran.errors().contains("Hunter-22"), "{ran}");
    }
}

#[test]
fn keys_of_the_store_are_refused_where_they_do_not_belong() {
    let env = TestEnvironment::with_git();
    env.write("harness.toml", "[store]\nledger = \"shop\"\npassword_command = \"echo x\"\n");
    env.run(["config"]).code(5).stderr_contains(
        "harness.toml:3: `store.password_command` is read from your own configuration only",
    );
    env.write("harness.toml", "[store]\nledger = \"a b\"\n");
    env.run(["config"]).code(5).stderr_contains("`store.ledger`: ");
    env.write("harness.toml", "[store]\nledger = \"shop\"\n");
    env.run(["trust", "--yes"]).code(5).stderr_contains("[store] has no `url`");
    env.write("harness.toml", "");
    env.write(env.home().join(".config/harness/config.toml"), "[store]\nledger = \"shop\"\n");
    env.run(["config"]).code(5).stderr_contains("belongs into the harness.toml of a project");
}

#[test]
fn an_untrusted_root_connects_nowhere() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let env = TestEnvironment::with_git();
    env.write("harness.toml", format!("[store]\nurl = \"postgres://me@{address}/work\"\n"));
    let commands: [&[&str]; 8] = [
        &["status"],
        &["add", "x"],
        &["task", "list"],
        &["log"],
        &["report"],
        &["runs", "list"],
        &["store", "status"],
        &["store", "migrate"],
    ];
    for args in commands {
        let ran = env.run(args);
        assert!(ran.ended_with(&[1, 5]), "{args:?} {ran}");
        ran.stderr_contains("nothing was connected");
    }
    env.run(["store", "grant"]).success();
    let event = r#"{"hook_event_name":"SessionStart","session_id":"s","source":"startup"}"#;
    env.write(".harness-active", "");
    env.run_with_input(event, ["hook", "session-start"]);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    // Trust is in the server, the database and the name.
    env.run(["trust", "--yes"]).success().stderr_contains("everyone who may write there");
    env.write("harness.toml", format!("[store]\nurl = \"postgres://me@{address}/other\"\n"));
    env.run(["status"]).code(5).stderr_contains("nothing was connected");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_root_is_found_by_its_settings() {
    let env = TestEnvironment::with_git();
    env.write(
        "harness.toml",
        "[store]\nurl = \"postgres://me@db.invalid/work\"\nledger = \"shop\"\n",
    );
    env.write("deep/down/file", "");
    let found = env.run_in("deep/down", ["status"]).code(5);
    found.stderr_contains(
        "[ROOT] is not trusted to use the ledger shop in the database db.invalid:5432/work",
    );
    // An empty table, as `harness config --init` writes it, names no database.
    env.write("harness.toml", "[store]\n# url = \"\"\n");
    env.run(["status"]).code(1).stderr_contains("no harness-tasks.json");
}
