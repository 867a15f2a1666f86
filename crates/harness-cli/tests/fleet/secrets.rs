//! The password of a database: its sources, and the places where it never appears.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use harness_sim::postgres::TestServer;

use crate::{
    Test,
    environment::TestEnvironment,
    stage::{Fleet, add},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_password_has_four_sources", a_password_has_four_sources),
    ("a_password_reaches_neither_agents_nor_files", a_password_reaches_neither_agents_nor_files),
];

const PASSWORD: &str = "Right-hunter2";

/// Returns the address of the database for a user who needs a password, without it.
fn secured(fleet: &Fleet) -> String {
    let make = format!(
        "DO $$ BEGIN CREATE ROLE secured LOGIN SUPERUSER PASSWORD '{PASSWORD}'; \
         EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$; \
         ALTER ROLE secured PASSWORD '{PASSWORD}'"
    );
    fleet.database.sql(&make);
    fleet.url().replace("postgres@", "secured@")
}

fn a_password_has_four_sources(server: &TestServer) {
    let fleet = Fleet::new(server);
    let url = secured(&fleet);
    let whole = url.replace("secured@", &format!("secured:{PASSWORD}@"));
    let make = |env: &TestEnvironment, name: &str| {
        env.run(["init", "--yes", "--database", &url, "--ledger", name])
    };
    let refused = make(&fleet.clone_for("x"), "x").code(5);
    refused.stderr_contains("does not accept the user secured");
    let wrong = fleet.clone_for("x").variable("PGPASSWORD", "Wrong-hunter2");
    let refused = make(&wrong, "x").code(5);
    assert!(!refused.errors().contains("hunter2"), "{refused}");
    // An argument is visible to all users of the machine.
    let env = fleet.clone_for("x");
    let refused = env.run(["init", "--yes", "--database", &whole, "--ledger", "x"]).code(2);
    assert!(!refused.errors().contains("hunter2"), "{refused}");

    let env = fleet.clone_for("a").variable("HARNESS_DATABASE_URL", &whole);
    env.run(["init", "--yes", "--database", "--ledger", "a"]).success();
    assert!(!env.read("harness.toml").contains("hunter2"));
    env.run(["add", "x"]).success();

    let env = fleet.clone_for("b").variable("PGPASSWORD", PASSWORD);
    make(&env, "b").success();
    env.run(["add", "x"]).success();

    let env = fleet.clone_for("c");
    let file = env.home().join(".pgpass");
    fs::write(&file, format!("*:*:*:secured:{PASSWORD}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    make(&env, "c").code(5).stderr_contains("others can read it");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    make(&env, "c").success();

    let env = fleet.clone_for("d");
    let command = format!("[store]\npassword_command = \"echo {PASSWORD}\"\n");
    env.write(env.home().join(".config/harness/config.toml"), command);
    make(&env, "d").success();
    env.run(["status"]).success();
    env.write(
        env.home().join(".config/harness/config.toml"),
        "[store]\npassword_command = \"exit 3\"\n",
    );
    env.run(["status"]).code(5).stderr_contains("`store.password_command` failed");
}

fn a_password_reaches_neither_agents_nor_files(server: &TestServer) {
    let fleet = Fleet::new(server);
    let url = secured(&fleet);
    let whole = url.replace("secured@", &format!("secured:{PASSWORD}@"));
    let env = fleet.clone_for("a").variable("HARNESS_DATABASE_URL", &whole);
    let env = env.variable("PGPASSWORD", PASSWORD);
    env.run(["init", "--yes", "--database", "--ledger", "shop"]).success();
    let (agent, check) = (env.home().join("of-agent"), env.home().join("of-check"));
    let script = format!("env > {}; echo > one", agent.display());
    add(&env, "one", &script, &format!("env > {} && test -f one", check.display()));
    let ran = env.run(["run", "--agent", "shell", "-v"]).success();
    for seen in [env.read(agent), env.read(check), ran.output().to_owned(), ran.errors().to_owned()]
    {
        assert!(!seen.contains("hunter2"), "{seen}");
        assert!(!seen.contains("HARNESS_DATABASE_URL"), "{seen}");
    }
    let dump = "SELECT coalesce(string_agg(entry, ' '), '') FROM harness.change";
    assert!(!fleet.database.value(dump).contains("hunter2"));
    assert_eq!(holding(env.root(), "hunter2"), [""; 0], "files of the project");
    assert_eq!(holding(&env.home().join(".local"), "hunter2"), [""; 0], "files of the user");
}

/// Returns the files below a folder that contain a text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(holding(&entry.path(), text));
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}
