//! The yardstick: connections that take rows of a table with `FOR UPDATE SKIP LOCKED`.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use harness_sim::postgres::TestDatabase;
use tokio_postgres::{Client, Config, NoTls, config::SslMode};

/// A queue as people build one: a row for each task, and an index of those that are open.
const TABLE: &str = "CREATE TABLE queue (id bigint PRIMARY KEY, title text NOT NULL, \
     status text NOT NULL, worker text, entry text NOT NULL) WITH (fillfactor = 80); \
     CREATE INDEX open_tasks ON queue (id) WHERE status = 'open'";
const FILL: &str = "INSERT INTO queue SELECT n, 'Implement part ' || n, 'open', NULL, \
     repeat('x', 400) FROM generate_series(1, {TASKS}) AS n; VACUUM ANALYZE queue";
const NEXT: &str = "SELECT id, entry FROM queue WHERE status = 'open' ORDER BY id LIMIT 1 \
     FOR UPDATE SKIP LOCKED";
const CLAIM: &str = "UPDATE queue SET status = 'claimed', worker = $2 WHERE id = $1";
// A claim that looked at this row a moment ago may still hold it.
const OURS: &str = "SELECT id FROM queue WHERE id = $1 AND worker = $2 FOR UPDATE";
const COMPLETE: &str = "UPDATE queue SET status = 'completed' WHERE id = $1";

/// Returns the time per task of `clients` connections that each make `each` tasks.
pub(super) fn per_task(
    database: &TestDatabase,
    tasks: usize,
    clients: usize,
    each: usize,
) -> Result<Duration, Box<dyn Error>> {
    database.sql(TABLE);
    for statement in FILL.replace("{TASKS}", &tasks.to_string()).split(';') {
        database.sql(statement);
    }
    let (url, mut config) = (database.url(), Config::new());
    config.host(url.host()).port(url.port()).user("postgres").dbname(&database.name);
    config.ssl_mode(SslMode::Disable);
    // All connections share one thread, which is the cheapest way.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connected = Vec::new();
        for _ in 0..clients {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            connected.push(client);
        }
        let started = Instant::now();
        let works = connected.iter().enumerate().map(|(n, client)| work(client, n, each));
        try_join_all(works).await?;
        Ok(started.elapsed() / u32::try_from(clients * each)?)
    })
}

/// Claims and completes with statements that are prepared once.
async fn work(client: &Client, number: usize, each: usize) -> Result<(), Box<dyn Error>> {
    let worker = format!("w{number}");
    let (next, claim) = (client.prepare(NEXT).await?, client.prepare(CLAIM).await?);
    let (ours, complete) = (client.prepare(OURS).await?, client.prepare(COMPLETE).await?);
    for _ in 0..each {
        client.batch_execute("BEGIN").await?;
        let row = client.query_one(&next, &[]).await?;
        let id: i64 = row.try_get(0)?;
        client.execute(&claim, &[&id, &worker]).await?;
        client.batch_execute("COMMIT").await?;
        client.batch_execute("BEGIN").await?;
        client.query_one(&ours, &[&id, &worker]).await?;
        client.execute(&complete, &[&id]).await?;
        client.batch_execute("COMMIT").await?;
    }
    Ok(())
}
