//! Clients of one or several hosts, each with its writer, over one ledger.

use std::{
    error::Error,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use harness::{
    clock::SystemClock,
    store::{Observers, Writer, postgres::Database},
};
use harness_sim::postgres::TestDatabase;

use crate::store::claim_and_complete;

/// Returns the time per task, over all clients of all hosts.
pub(super) fn per_task(
    database: &TestDatabase,
    hosts: usize,
    clients: usize,
    each: usize,
) -> Result<Duration, Box<dyn Error>> {
    let mut writers = Vec::new();
    let mut followers = Vec::new();
    for _ in 0..hosts {
        let host = Database::open(database.access())?;
        let writer = Writer::start(host.store(), Arc::new(SystemClock), Observers::default())?;
        // The tasks are loaded, as they are in a host at work.
        writer.look(|ledger| ledger.len())?;
        followers.push(host.follow(|_| ())?);
        writers.push(Arc::new(writer));
    }
    let all = hosts * clients;
    let ready = Arc::new(Barrier::new(all + 1));
    let threads: Vec<_> = (0..all)
        .map(|n| {
            let (writer, ready) = (Arc::clone(&writers[n % hosts]), Arc::clone(&ready));
            thread::spawn(move || {
                ready.wait();
                (0..each).try_for_each(|_| {
                    claim_and_complete(&writer, &format!("w{n}")).map_err(|e| e.to_string())
                })
            })
        })
        .collect();
    ready.wait();
    let started = Instant::now();
    for thread in threads {
        thread.join().map_err(|_| "a client panicked")??;
    }
    Ok(started.elapsed() / u32::try_from(all * each)?)
}
