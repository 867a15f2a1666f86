//! The cost of a durable change, compared with the minimum that the disk needs for one.

use std::{
    error::Error,
    fs::{self, File},
    io::Write,
    path::Path,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use harness::{
    clock::SystemClock,
    store::{FileStore, Locking, Observers, Writer, lock::Wait},
};
use harness_core::{
    Command, Holder, Reply, WorkerId,
    command::{Authority, Claim, ClaimChoice, Complete, Place, Proof, Unchecked},
    task::Via,
};

use crate::{
    Effort,
    program::ledger_of,
    report::{Report, median},
};

pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    for tasks in [1_000, 10_000] {
        let place = tempfile::tempdir()?;
        let text = ledger_of(tasks)?;
        fs::write(place.path().join("harness-tasks.json"), &text)?;
        let writer = writer(place.path())?;
        let (mut ours, mut yardstick) = (Vec::new(), Vec::new());
        for _ in 0..effort.rounds(100) {
            let started = Instant::now();
            replace(place.path(), text.as_bytes())?;
            replace(place.path(), text.as_bytes())?;
            yardstick.push(started.elapsed());
            let started = Instant::now();
            claim_and_complete(&writer, "w")?;
            ours.push(started.elapsed());
        }
        let what = format!("claim + complete, {tasks} tasks / two durable replacements");
        report.ratio(&what, median(ours), median(yardstick), 3.0);
    }
    together(effort, report)
}

/// Measures many clients that share a write. Each should be as fast as a single one.
fn together(effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    fs::write(place.path().join("harness-tasks.json"), ledger_of(4_000)?)?;
    let writer = Arc::new(writer(place.path())?);
    let rounds = effort.rounds(40);
    let alone = per_task(&writer, 1, rounds)?;
    let crowd = per_task(&writer, 100, rounds.div_ceil(8))?;
    report.ratio("a task, 100 clients / a task, 1 client", crowd, alone, 1.0 / 3.0);
    Ok(())
}

fn per_task(
    writer: &Arc<Writer>,
    clients: usize,
    rounds: usize,
) -> Result<Duration, Box<dyn Error>> {
    let ready = Arc::new(Barrier::new(clients + 1));
    let threads: Vec<_> = (0..clients)
        .map(|n| {
            let (writer, ready) = (Arc::clone(writer), Arc::clone(&ready));
            thread::spawn(move || {
                ready.wait();
                (0..rounds).try_for_each(|_| {
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
    Ok(started.elapsed() / u32::try_from(clients * rounds)?)
}

fn writer(root: &Path) -> Result<Writer, Box<dyn Error>> {
    let wait = Wait::For(Duration::from_secs(5));
    let store = FileStore::open(root, Locking::Each(wait))?;
    Ok(Writer::start(store, Arc::new(SystemClock), Observers::default())?)
}

pub(crate) fn claim_and_complete(writer: &Writer, worker: &str) -> Result<(), Box<dyn Error>> {
    let reply = writer.apply(claim(worker)?)?;
    writer.apply(complete(worker, reply)?.ok_or("the ledger is empty")?)?;
    Ok(())
}

/// Returns the claim of the next task.
pub(crate) fn claim(worker: &str) -> Result<Command, Box<dyn Error>> {
    Ok(Command::Claim(Claim {
        worker: WorkerId::parse(worker)?,
        via: Via::Client,
        role: None,
        labels: Vec::new(),
        choice: ClaimChoice::Next,
        lease_seconds: 600,
        place: Place::default(),
        parallel: None,
    }))
}

/// Returns the completion of what was claimed; `None` if nothing was.
pub(crate) fn complete(worker: &str, reply: Reply) -> Result<Option<Command>, Box<dyn Error>> {
    let Reply::Claimed(claimed) = reply else { return Ok(None) };
    let (task, worker) = (claimed.task.id.clone(), WorkerId::parse(worker)?);
    Ok(Some(Command::Complete(Complete {
        holder: Holder { task, worker, epoch: Some(claimed.epoch) },
        authority: Authority::Holder,
        proof: Proof::Passed { command: claimed.task.check().unwrap_or_default().to_owned() },
        unchecked: Unchecked::Forbidden,
        commit: None,
    })))
}

/// Replaces a file durably in the cheapest way.
pub(crate) fn replace(directory: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let (new, old) = (directory.join("yardstick.new"), directory.join("yardstick"));
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, &old)?;
    File::open(directory)?.sync_all()
}
