//! The schema, its versions and the rights to it. Migrations are numbered and go forward only. A
//! released step is never changed.

use tokio_postgres::types::Type;

use super::{
    DatabaseAccess, DatabaseError, Durability,
    error::Trouble,
    rows::get,
    wire::{BEGIN, Link, Step},
};

const MIGRATIONS: [&str; 1] = [include_str!("schema/1.sql")];

/// The version of the schema that this program reads and writes.
pub const SCHEMA_VERSION: i32 = MIGRATIONS.len() as i32;

/// The oldest server, in the form of `server_version_num`.
const SERVER_MIN: i32 = 140_000;

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; 0 if there was no schema.
    pub from: i32,
    /// The version now.
    pub to: i32,
}

/// The schema of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundSchema {
    None,
    Foreign,
    Version(i32),
}

/// Checks that the server is a primary that loses nothing.
pub(super) fn check_server(link: &mut Link) -> Result<(), Trouble> {
    let sql = "SELECT pg_is_in_recovery(), current_setting('fsync'), \
               current_setting('full_page_writes'), current_setting('synchronous_commit'), \
               current_setting('server_version_num')::integer, current_setting('server_version')";
    let rows = link.query(sql, Vec::new())?;
    let Some(row) = rows.first() else { return Ok(()) };
    let server = link.access.server();
    if get::<bool>(row, 0)? {
        return Err(DatabaseError::Replica { server }.into());
    }
    if get::<i32>(row, 4)? < SERVER_MIN {
        return Err(DatabaseError::TooOld { server, found: get(row, 5)? }.into());
    }
    if link.access.durability == Durability::Unsafe {
        return Ok(());
    }
    let settings = [
        (1, "fsync", &["on"][..]),
        (2, "full_page_writes", &["on"]),
        (3, "synchronous_commit", &["on", "remote_apply"]),
    ];
    for (at, setting, wanted) in settings {
        let found: String = get(row, at)?;
        if !wanted.contains(&found.as_str()) {
            return Err(DatabaseError::Unsafe { server, setting, found }.into());
        }
    }
    Ok(())
}

fn found(link: &mut Link) -> Result<FoundSchema, Trouble> {
    // Two statements, because the second one cannot be planned without the table.
    let sql = "SELECT to_regnamespace('harness') IS NOT NULL, \
               to_regclass('harness.schema_version') IS NOT NULL";
    let rows = link.query(sql, Vec::new())?;
    let Some(row) = rows.first() else { return Ok(FoundSchema::None) };
    match (get::<bool>(row, 0)?, get::<bool>(row, 1)?) {
        (false, _) => Ok(FoundSchema::None),
        (true, false) => Ok(FoundSchema::Foreign),
        (true, true) => {
            let rows = link.query("SELECT version FROM harness.schema_version", Vec::new())?;
            match rows.first() {
                Some(row) => Ok(FoundSchema::Version(get(row, 0)?)),
                None => Ok(FoundSchema::Foreign),
            }
        }
    }
}

/// Checks that the schema is the one of this program.
pub(super) fn check(link: &mut Link) -> Result<(), Trouble> {
    let server = link.access.server();
    let known = SCHEMA_VERSION;
    match found(link)? {
        FoundSchema::None => Err(DatabaseError::NoSchema { server }.into()),
        FoundSchema::Foreign => Err(DatabaseError::NotOurs { server }.into()),
        FoundSchema::Version(found) if found < known => {
            Err(DatabaseError::OlderSchema { server, found, known }.into())
        }
        FoundSchema::Version(found) if found > known => {
            Err(DatabaseError::NewerSchema { server, found, known }.into())
        }
        FoundSchema::Version(_) => Ok(()),
    }
}

/// Brings the schema to [`SCHEMA_VERSION`] in one transaction. Of several hosts, one does it.
pub(super) fn migrate(link: &mut Link) -> Result<Migrated, Trouble> {
    // The number is the same for all versions of harness, and means nothing else.
    link.all(&[Step::Plain(BEGIN), Step::Plain("SELECT pg_advisory_xact_lock(7305424312)")])?;
    let server = link.access.server();
    let from = match found(link)? {
        FoundSchema::None => 0,
        FoundSchema::Version(version) => version,
        FoundSchema::Foreign => {
            link.all(&[Step::Plain("ROLLBACK")])?;
            return Err(DatabaseError::NotOurs { server }.into());
        }
    };
    if from > SCHEMA_VERSION {
        link.all(&[Step::Plain("ROLLBACK")])?;
        let (found, known) = (from, SCHEMA_VERSION);
        return Err(DatabaseError::NewerSchema { server, found, known }.into());
    }
    let done = usize::try_from(from).unwrap_or_default();
    let mut steps: Vec<Step<'_>> = MIGRATIONS[done..].iter().map(|sql| Step::Plain(sql)).collect();
    let set = "INSERT INTO harness.schema_version (version) VALUES ($1) \
               ON CONFLICT (only_row) DO UPDATE SET version = $1, migrated_at = clock_timestamp()";
    steps.push(Step::With(set, vec![(&SCHEMA_VERSION, Type::INT4)]));
    steps.push(Step::Plain("COMMIT"));
    link.all(&steps)?;
    Ok(Migrated { from, to: SCHEMA_VERSION })
}

/// The names of the two roles, and the statements that make them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// The role for workers.
    pub worker: String,
    /// The role for dashboards.
    pub reader: String,
}

impl Default for Grants {
    fn default() -> Self {
        Self { worker: "harness_worker".to_owned(), reader: "harness_reader".to_owned() }
    }
}

impl Grants {
    /// Returns the statements. Workers change no definition and rewrite no change. The roles get a
    /// password or another way to log in afterwards.
    pub fn statements(&self, access: &DatabaseAccess) -> Vec<String> {
        let (worker, reader) = (quoted(&self.worker), quoted(&self.reader));
        let database = quoted(access.database());
        let mut all = Vec::new();
        for role in [&worker, &reader] {
            all.push(format!("CREATE ROLE {role} LOGIN"));
            all.push(format!("GRANT CONNECT ON DATABASE {database} TO {role}"));
            all.push(format!("GRANT USAGE ON SCHEMA harness TO {role}"));
            all.push(format!("GRANT SELECT ON ALL TABLES IN SCHEMA harness TO {role}"));
        }
        all.push(format!("GRANT INSERT ON harness.change TO {worker}"));
        all.push(format!("GRANT UPDATE ON harness.ledger TO {worker}"));
        let rest = "harness.task, harness.lease, harness.operation, harness.log, harness.receipt, \
                    harness.run, harness.iteration, harness.outbox, harness.book, \
                    harness.worker, harness.host, harness.question, harness.message";
        all.push(format!("GRANT INSERT, UPDATE, DELETE ON {rest} TO {worker}"));
        all
    }
}

/// Quotes a name for SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
