//! The cost of a ledger in PostgreSQL, beside raw connections to the same server that take rows with
//! `FOR UPDATE SKIP LOCKED`. The server is a private one of this run.

mod beats;
mod fleet;
mod raw;

use std::{
    error::Error,
    fs,
    time::{Duration, Instant},
};

use harness::store::{
    FileStore, Locking, Store as _,
    lock::Wait,
    postgres::{Database, PostgresStore},
};
use harness_core::Timestamp;
use harness_sim::postgres::{Cluster, Programs, TestDatabase, TestServer};

use crate::{
    Effort,
    program::ledger_of,
    report::{Report, median},
    store::{claim, complete},
};

/// Tasks for one round of many clients. Half of them are open.
const TASKS: usize = 10_000;
const CLIENTS: usize = 32;

pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    if Programs::find().is_none() {
        eprintln!(
            "NOT MEASURED: the costs over PostgreSQL, because no PostgreSQL is installed here."
        );
        return Ok(());
    }
    let cluster = Cluster::temporary("")?;
    let server = cluster.server();
    rates(&server, effort, report)?;
    sizes(&server, effort, report)?;
    beats::measure(&server, report)
}

/// Measures how fast many clients claim and complete, over one host and over four.
fn rates(server: &TestServer, effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let each = effort.rounds(100);
    let (mut raw, mut one, mut four) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let database = server.fresh();
        raw.push(raw::per_task(&database, TASKS / 2, CLIENTS, each)?);
        let ledger = filled(server, TASKS)?;
        one.push(fleet::per_task(&ledger, 1, CLIENTS, each)?);
        let ledger = filled(server, TASKS)?;
        four.push(fleet::per_task(&ledger, 4, CLIENTS / 4, each)?);
    }
    let raw = median(raw);
    let what = "postgres: a task, 1 host with 32 clients / 32 raw connections";
    report.ratio(what, median(one), raw, 1.0);
    let what = "postgres: a task, 4 hosts with 8 clients / 32 raw connections";
    report.ratio(what, median(four), raw, 2.0);
    Ok(())
}

/// Measures what grows with the number of tasks.
fn sizes(server: &TestServer, effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let (small, large) = (filled(server, 1_000)?, filled(server, 100_000)?);
    let mut opened = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        let mut store = open(&large)?;
        let tasks = store.ledger()?.len();
        opened.push(started.elapsed());
        if tasks != 100_000 {
            return Err(format!("{tasks} tasks were opened").into());
        }
    }
    let bar = Duration::from_secs(2);
    report.absolute("postgres: opening 100,000 tasks", median(opened), bar);
    let (mut few, mut many) = (open(&small)?, open(&large)?);
    let (mut ours, mut yardstick) = (Vec::new(), Vec::new());
    // The first claim loads the tasks.
    for round in 0..=effort.rounds(200) {
        let times = (one_claim(&mut few)?, one_claim(&mut many)?);
        if round > 0 {
            yardstick.push(times.0);
            ours.push(times.1);
        }
    }
    let what = "postgres: claim, 100,000 tasks / 1,000 tasks";
    report.ratio(what, median(ours), median(yardstick), 2.0);
    Ok(())
}

/// Claims and completes, and returns the time of the claim.
fn one_claim(store: &mut PostgresStore) -> Result<Duration, Box<dyn Error>> {
    let now = Timestamp::from_seconds(0);
    let started = Instant::now();
    let claimed = store.apply(now, &[claim("w")?])?;
    let took = started.elapsed();
    let reply = claimed.replies.into_iter().next().ok_or("there is no reply")??;
    let done = complete("w", reply)?.ok_or("no task is left")?;
    store.apply(now, &[done])?.replies.into_iter().next().ok_or("there is no reply")??;
    Ok(took)
}

fn open(database: &TestDatabase) -> Result<PostgresStore, Box<dyn Error>> {
    Ok(Database::open(database.access())?.store())
}

/// Returns a database with a ledger as it looks in the middle of the work.
fn filled(server: &TestServer, tasks: usize) -> Result<TestDatabase, Box<dyn Error>> {
    let (database, place) = (server.fresh(), tempfile::tempdir()?);
    fs::write(place.path().join("harness-tasks.json"), ledger_of(tasks)?)?;
    let wait = Wait::For(Duration::from_secs(5));
    let mut files = FileStore::open(place.path(), Locking::Each(wait))?;
    Database::push(database.access(), &mut files, Timestamp::from_seconds(1_750_000_000))?;
    // The server does this by itself after a while.
    database.sql("ANALYZE");
    Ok(database)
}
