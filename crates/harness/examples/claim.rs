//! A worker that is a program: it claims tasks and completes them.
//!
//! ```sh
//! cargo run -p harness-supervisor --example claim             # a ledger of its own, in a temporary folder
//! cargo run -p harness-supervisor --example claim -- PROJECT  # the ledger in PROJECT, as the worker "example"
//! ```
//!
//! It asks the daemon or the run that serves the ledger. Without one, it changes the files, under
//! their lock. A program that starts a daemon sets `ClientOptions::launch`.

use std::{error::Error, path::Path};

use harness::{
    Client,
    clock::{Clock as _, SystemClock},
    core::{Holder, WorkerId},
    protocol::{TaskCheckpoint, TaskClaim},
    store::{FileStore, Locking, lock::Wait},
};

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args_os().nth(1) {
        Some(project) => work(Path::new(&project)),
        None => {
            let folder = tempfile::tempdir()?;
            FileStore::open(folder.path(), Locking::Each(Wait::No))?.create(SystemClock.now())?;
            let mut client = Client::connect(folder.path())?;
            client.add_task("Write the parser")?;
            client.add_task("Test the parser")?;
            work(folder.path())
        }
    }
}

fn work(root: &Path) -> Result<(), Box<dyn Error>> {
    let mut client = Client::connect(root)?;
    let worker = WorkerId::parse("example")?;
    while let Some(claimed) = client.claim(TaskClaim::any(worker.clone()))? {
        let task = claimed.task;
        println!("{}: {}", task.id, task.description);
        let holder = Holder { task: task.id.clone(), worker: worker.clone(), epoch: task.epoch() };
        // The work is done here. Each step is recorded, and renews the lease.
        let description = "looked at it".to_owned();
        client.checkpoint(TaskCheckpoint {
            holder: holder.clone(),
            step: 1,
            total: 1,
            description,
        })?;
        // The check of the task decides. A task without a check is completed without proof.
        let completed = client.complete(holder)?;
        println!("{} is completed", completed.task_id);
    }
    Ok(())
}
