//! Works a ledger from Rust: adds a task, claims it, runs its check and completes it.
//!
//! ```sh
//! cargo run -p harness-supervisor --example ledger -- FOLDER
//! ```
//!
//! The files are those of the `harness` program, so `harness status` in FOLDER shows the result.

use std::{error::Error, fs, path::PathBuf, sync::Arc, time::Duration};

use harness::{
    Project,
    check::Check,
    clock::{Clock as _, SystemClock},
    core::{
        Command, Holder, Reply, WorkerId,
        check::Verdict,
        command::{Add, Authority, Claim, Complete, Proof, Unchecked},
    },
    shell::{Cancel, SystemShell},
    store::{FileStore, Locking, Observers, Transaction, Writer, lock::Wait},
};

fn main() -> Result<(), Box<dyn Error>> {
    // This must be the first call, so that nothing that a check starts outlives it.
    harness::guard::init();
    let root = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: ledger FOLDER")?);

    // Each transaction takes the lock of the folder for itself and waits for others that hold it.
    let locking = Locking::Each(Wait::For(Duration::from_secs(5)));
    let mut store = FileStore::open(&root, locking)?;
    store.create(SystemClock.now())?;
    let observers =
        Observers::default().with(|made: &Transaction<'_>| eprintln!("{:?}", made.facts));
    let writer = Writer::start(store, Arc::new(SystemClock), observers)?;

    let mut add = Add::new("greet the world");
    add.fields.validation_command = Some("grep -q world greeting.txt".to_owned());
    writer.apply(Command::Add(add))?;

    // A claim gives the task to one worker, for a lease. All others get another task.
    let worker = WorkerId::parse("example")?;
    let Reply::Claimed(claimed) = writer.apply(Command::Claim(Claim::new(worker.clone())))? else {
        return Err("nothing to claim".into());
    };
    let task = claimed.task;
    fs::write(root.join("greeting.txt"), "Hello, world!\n")?;

    // The ledger accepts a completion only with the proof that this very check passed.
    let check = Check::of(&task, Vec::new());
    let checked = check.run_in(&SystemShell::default(), &root, &Cancel::new()?)?;
    let Verdict::Passed = checked.verdict else {
        return Err(format!("{} is not done: {:?}", task.id, checked.verdict).into());
    };
    writer.apply(Command::Complete(Complete {
        holder: Holder { task: task.id.clone(), worker, epoch: Some(claimed.epoch) },
        authority: Authority::Holder,
        proof: Proof::Passed { command: check.command },
        unchecked: Unchecked::Forbidden,
        commit: None,
    }))?;

    // The completion is durable now. A reader needs neither the writer nor the lock.
    let ledger = Project::open(&root)?.snapshot()?;
    let status = ledger.task(&task.id).map(|task| task.status().name());
    println!("{} {}", task.id, status.unwrap_or("is gone"));
    Ok(())
}
