//! The errors of a database that cannot be used, and the rights of each role.

use harness::store::{
    Store as _,
    postgres::{Database, DatabaseAccess, DatabaseError, Durability, Grants, SCHEMA_VERSION},
};
use harness_core::database::{DatabaseUrl, LedgerName, Password};
use harness_sim::{
    conformance::store::{add, at},
    postgres::{Cluster, TestDatabase, TestServer},
};

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_wrong_password_is_refused_and_shown_nowhere",
        a_wrong_password_is_refused_and_shown_nowhere,
    ),
    ("what_is_missing_is_named", what_is_missing_is_named),
    ("a_newer_schema_is_refused_with_both_versions", a_newer_schema_is_refused_with_both_versions),
    ("a_server_that_may_lose_changes_is_refused", a_server_that_may_lose_changes_is_refused),
    ("a_replica_is_refused", a_replica_is_refused),
    (
        "changes_are_not_rewritten_even_by_their_owner",
        changes_are_not_rewritten_even_by_their_owner,
    ),
    ("the_two_roles_may_do_what_they_are_for", the_two_roles_may_do_what_they_are_for),
    ("tls_proves_who_the_server_is", tls_proves_who_the_server_is),
    ("a_damaged_change_is_found", a_damaged_change_is_found),
];

fn error(access: DatabaseAccess) -> DatabaseError {
    Database::open(access).err().expect("it is refused")
}

fn by(database: &TestDatabase, user: &str, parameters: &str) -> DatabaseAccess {
    let (port, name) = (database.server.url().port(), &database.name);
    let text = format!("postgres://{user}@127.0.0.1:{port}/{name}?{parameters}");
    database.access_by(DatabaseUrl::parse(&text).unwrap())
}

fn a_wrong_password_is_refused_and_shown_nowhere(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let make = "DO $$ BEGIN CREATE ROLE secured LOGIN SUPERUSER PASSWORD 'right-hunter2'; \
                EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$";
    database.sql(make);
    let access = || by(&database, "secured", "sslmode=disable");
    let wrong = access().with_password(Some(Password::new("wrong-hunter2")));
    assert!(!format!("{wrong:?}").contains("hunter2"));
    for refused in [error(wrong), error(access())] {
        assert!(
            matches!(&refused, DatabaseError::Login { user, .. } if user == "secured"),
            "{refused:?}"
        );
        assert!(!format!("{refused} {refused:?}").contains("hunter2"));
    }
    let right =
        Database::open(access().with_password(Some(Password::new("right-hunter2")))).unwrap();
    let applied = right.store().apply(at(0), &[add("x")]).unwrap();
    assert!(applied.replies[0].is_ok());
    // A password in an address counts too, and is shown nowhere either.
    let text = format!(
        "postgres://secured:right-hunter2@127.0.0.1:{}/{}?sslmode=disable",
        server.url().port(),
        database.name
    );
    let access = database.access_by(DatabaseUrl::parse(&text).unwrap());
    assert!(!format!("{access:?} {}", access.server()).contains("hunter2"));
    assert!(Database::open(access).is_ok());
}

fn what_is_missing_is_named(server: &TestServer) {
    let database = server.fresh();
    let none = DatabaseUrl::parse(&format!(
        "postgres://postgres@127.0.0.1:{}/no_such_database?sslmode=disable",
        server.url().port()
    ));
    let refused = error(database.access_by(none.unwrap()));
    assert!(matches!(refused, DatabaseError::NoDatabase { .. }), "{refused:?}");
    let refused = error(database.access());
    assert!(matches!(refused, DatabaseError::NoSchema { .. }), "{refused:?}");
    database.create();
    let refused = Database::create(database.access()).err().unwrap();
    assert!(matches!(refused, DatabaseError::LedgerTaken { .. }), "{refused:?}");
    let mut other = database.access();
    other.ledger = LedgerName::parse("other").unwrap();
    let refused = error(other.clone());
    assert_eq!(refused.to_string(), format!("{} has no ledger \"other\"", other.server()));
    let second = Database::create(other).unwrap();
    let _ = second.store().apply(at(0), &[add("x")]).unwrap();
    assert_eq!(database.open().store().ledger().unwrap().len(), 0, "ledgers are apart");
    let foreign = server.fresh();
    foreign.sql("CREATE SCHEMA harness; CREATE TABLE harness.theirs (n integer)");
    let refused = Database::create(foreign.access()).err().unwrap();
    assert!(matches!(refused, DatabaseError::NotOurs { .. }), "{refused:?}");
}

fn a_newer_schema_is_refused_with_both_versions(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let again = Database::migrate(database.access()).unwrap();
    assert_eq!((again.from, again.to), (SCHEMA_VERSION, SCHEMA_VERSION));
    let newer = SCHEMA_VERSION + 1;
    database.sql(&format!("UPDATE harness.schema_version SET version = {newer}"));
    for refused in [error(database.access()), Database::migrate(database.access()).err().unwrap()] {
        let words = refused.to_string();
        let both =
            format!("schema version {newer}, and this harness knows version {SCHEMA_VERSION}");
        assert!(words.contains(&both), "{words}");
    }
    database.sql("UPDATE harness.schema_version SET version = 0");
    assert!(matches!(error(database.access()), DatabaseError::OlderSchema { found: 0, .. }));
}

fn a_server_that_may_lose_changes_is_refused(server: &TestServer) {
    let database = server.fresh();
    database.create();
    database.sql(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.name));
    let refused = error(database.access());
    let expected = ("synchronous_commit", "off");
    assert!(
        matches!(&refused, DatabaseError::Unsafe { setting, found, .. } if (*setting, found.as_str()) == expected),
        "{refused:?}"
    );
    assert!(Database::open(database.access().with_durability(Durability::Unsafe)).is_ok());
    for setting in ["fsync", "full_page_writes"] {
        let cluster = Cluster::temporary(&format!("-c {setting}=off")).unwrap();
        let database = cluster.server().fresh();
        let refused = Database::create(database.access()).err().unwrap();
        let named =
            matches!(&refused, DatabaseError::Unsafe { setting: found, .. } if *found == setting);
        assert!(named, "{refused:?}");
    }
}

fn a_replica_is_refused(_: &TestServer) {
    let cluster = Cluster::temporary("").unwrap();
    let primary = cluster.server().fresh();
    primary.create();
    let replica = cluster.replica().unwrap();
    let url = replica.server().url().clone().with_database(&primary.name);
    let refused = error(primary.access_by(url));
    assert!(matches!(refused, DatabaseError::Replica { .. }), "{refused:?}");
}

fn changes_are_not_rewritten_even_by_their_owner(server: &TestServer) {
    let database = server.fresh();
    let mut store = database.create().store();
    let _ = store.apply(at(0), &[add("x")]).unwrap();
    for sql in [
        "UPDATE harness.change SET entry = ''",
        "DELETE FROM harness.change",
        "TRUNCATE harness.change",
    ] {
        let refused = database.try_sql(sql).unwrap_err();
        assert_eq!(refused, "harness.change is append-only", "{sql}");
    }
}

fn the_two_roles_may_do_what_they_are_for(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let grants = Grants {
        worker: format!("worker_{}", database.name),
        reader: format!("reader_{}", database.name),
    };
    let refused = {
        database.sql(&format!("CREATE ROLE {} LOGIN", grants.worker));
        let refused = error(by(&database, &grants.worker, "sslmode=disable"));
        database.sql(&format!("DROP ROLE {}", grants.worker));
        refused
    };
    assert!(matches!(refused, DatabaseError::NoRights { .. }), "{refused:?}");
    for statement in grants.statements(&database.access()) {
        database.sql(&statement);
    }
    let opened = Database::open(by(&database, &grants.worker, "sslmode=disable")).unwrap();
    let mut worker = opened.store();
    let applied = worker.apply(at(0), &[add("x")]).unwrap();
    assert!(applied.replies[0].is_ok());
    let compacted = opened.compact(0).err().unwrap();
    assert!(matches!(compacted, DatabaseError::NoRights { .. }), "{compacted:?}");
    let as_role = |role: &str, sql: &str| {
        let url = by(&database, role, "sslmode=disable").url;
        harness_sim::postgres::query(&url, sql)
    };
    for sql in [
        "UPDATE harness.change SET entry = ''",
        "DELETE FROM harness.change",
        "TRUNCATE harness.change",
        "CREATE TABLE harness.other (n integer)",
        "ALTER TABLE harness.change DISABLE TRIGGER append_only",
        "DELETE FROM harness.ledger",
    ] {
        assert!(as_role(&grants.worker, sql).is_err(), "{sql}");
    }
    let reader = Database::open(by(&database, &grants.reader, "sslmode=disable")).unwrap();
    assert_eq!(reader.store().ledger().unwrap().len(), 1);
    let refused = reader.store().apply(at(0), &[add("y")]).unwrap_err();
    assert!(refused.to_string().contains("lacks a right"), "{refused}");
    let roles = format!("{0}, {1}", grants.worker, grants.reader);
    database.sql(&format!("DROP OWNED BY {roles}; DROP ROLE {roles}"));
}

fn tls_proves_who_the_server_is(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let port = server.url().port();
    let Some(root) = server.authority() else {
        eprintln!("NOT RUN: the server has no certificate, because openssl is missing");
        return;
    };
    let access = |host: &str, parameters: &str| {
        let name = &database.name;
        let text = format!("postgres://postgres@{host}:{port}/{name}?{parameters}");
        database.access_by(DatabaseUrl::parse(&text).unwrap())
    };
    let root = format!("sslrootcert={}", root.display());
    for (host, parameters, good) in [
        ("localhost", format!("sslmode=verify-full&{root}"), true),
        ("127.0.0.1", format!("sslmode=verify-ca&{root}"), true),
        ("127.0.0.1", format!("sslmode=require&{root}"), true),
        ("127.0.0.1", "sslmode=require".to_owned(), true),
        ("127.0.0.1", String::new(), true),
        ("127.0.0.1", format!("sslmode=verify-full&{root}"), false),
        ("localhost", "sslmode=verify-full".to_owned(), false),
        ("localhost", "sslmode=verify-ca".to_owned(), false),
    ] {
        let opened = Database::open(access(host, &parameters));
        match (opened, good) {
            (Ok(opened), true) => {
                let applied = opened.store().apply(at(0), &[add("x")]).unwrap();
                assert!(applied.replies[0].is_ok());
            }
            (Err(DatabaseError::Tls { .. }), false) => {}
            (opened, _) => panic!("{host} {parameters}: {:?}", opened.err()),
        }
    }
}

fn a_damaged_change_is_found(server: &TestServer) {
    let database = server.fresh();
    let mut store = database.create().store();
    let mut other = database.open().store();
    let _ = other.ledger().unwrap();
    let _ = store.apply(at(0), &[add("x")]).unwrap();
    database.sql(
        "ALTER TABLE harness.change DISABLE TRIGGER append_only; \
         UPDATE harness.change SET entry = replace(entry, '\"x\"', '\"z\"') WHERE version = 2; \
         ALTER TABLE harness.change ENABLE TRIGGER append_only",
    );
    let found = other.ledger().err().unwrap().to_string();
    assert!(found.contains("change 2 is not the one that was made"), "{found}");
    database.sql("UPDATE harness.task SET entry = replace(entry, '\"x\"', '\"z\"')");
    let found = database.open().store().ledger().err().unwrap().to_string();
    assert!(found.contains("damaged"), "{found}");
}
