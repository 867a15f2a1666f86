//! What the heartbeats of many workers cost the server.

use std::{error::Error, fs, time::Duration};

use harness::store::postgres::{Database, FleetWorker, WorkerState};
use harness_core::{Timestamp, WorkerId};
use harness_sim::postgres::{TestDatabase, TestServer};

use crate::report::Report;

const HOSTS: usize = 10;
const WORKERS: usize = 100;
/// All workers of a host are reported once in this time.
const PERIOD: Duration = Duration::from_secs(10);
const PERIODS: u32 = 30;

pub(super) fn measure(server: &TestServer, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let database = server.fresh();
    database.create();
    let mut hosts = Vec::new();
    for host in 0..HOSTS {
        let workers = (0..WORKERS).map(|n| worker(host, n)).collect::<Result<Vec<_>, _>>()?;
        let opened = Database::open(database.access())?;
        opened.beat(&workers)?;
        hosts.push((opened, workers));
    }
    let before = spent(&database)?;
    for _ in 0..PERIODS {
        for (host, workers) in &hosts {
            host.beat(workers)?;
        }
    }
    let spent = spent(&database)?.saturating_sub(before) / PERIODS;
    let what = "postgres: 1,000 workers, CPU of the server in 10 s";
    report.absolute(what, spent, PERIOD / 10);
    Ok(())
}

fn worker(host: usize, number: usize) -> Result<FleetWorker, Box<dyn Error>> {
    let now = Timestamp::from_seconds(1_750_000_000);
    Ok(FleetWorker {
        id: WorkerId::parse(&format!("host-{host}-worker-{number}"))?,
        host: format!("host-{host}"),
        boot: Some("boot".to_owned()),
        pid: 1000,
        version: "1.0.0".to_owned(),
        labels: vec!["linux".to_owned()],
        task: None,
        state: WorkerState::Idle,
        run: None,
        started_at: now,
        seen_at: now,
        draining: false,
    })
}

/// Returns the user and system time of all processes of the server. Linux counts it in hundredths of a
/// second.
fn spent(database: &TestDatabase) -> Result<Duration, Box<dyn Error>> {
    let rows = database.sql("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()");
    let mut ticks = 0;
    for pid in rows.into_iter().flatten().flatten() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name may contain blanks. The times are the 14th and the 15th field.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let times = fields.skip(11).take(2).map(str::parse::<u64>);
        ticks += times.sum::<Result<u64, _>>()?;
    }
    Ok(Duration::from_millis(ticks * 10))
}
