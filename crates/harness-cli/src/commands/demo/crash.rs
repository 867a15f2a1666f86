//! The process that dies: a real transaction on the real disk, ended by a real SIGKILL at one step.

use std::{io, path::Path, time::Duration};

use harness::{
    clock::{Clock, SystemClock},
    home::FileStamp,
    shell::{Script, Shell, SystemShell},
    store::{
        FileStore, Locking, Store,
        disk::{Disk, File, RealDisk},
        lock::Wait,
    },
};
use harness_core::{
    Command, Holder, TaskId, WorkerId,
    check::{Found, Verdict},
    command::{Authority, Complete, Proof, Unchecked},
};

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
};

/// Right before which step of the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Step {
    Rename,
    Log,
}

impl Step {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rename => "rename",
            Self::Log => "log",
        }
    }

    pub(super) fn when(self) -> &'static str {
        match self {
            Self::Rename => "after harness-tasks.json.tmp was written and before it was renamed",
            Self::Log => "after the ledger was durable and before the log line was written",
        }
    }
}

/// Completes `publish` as `cat` would, and dies during it.
pub(super) fn complete_and_die(root: &Path, step: Step) -> Result<ExitCode> {
    let disk = Deadly { disk: RealDisk::open(root)?, step };
    let locking = Locking::Each(Wait::For(Duration::from_secs(5)));
    let mut store = FileStore::on(root, Box::new(disk), locking);
    let ledger = store.ledger()?;
    let task = TaskId::parse("publish")?;
    let check = ledger.task(&task).and_then(|t| t.check()).unwrap_or_default().to_owned();
    let script = Script {
        command: check.clone(),
        directory: root.to_owned(),
        timeout: Duration::from_secs(60),
        environment: Vec::new(),
    };
    let exit = SystemShell::default().run(&script)?.exit;
    if Verdict::of(Found::Yes, exit) != Verdict::Passed {
        return Err(Failure::error(format!("the check of {task} failed: {exit:?}")));
    }
    let complete = Command::Complete(Complete {
        holder: Holder { task, worker: WorkerId::parse("cat")?, epoch: None },
        authority: Authority::Holder,
        proof: Proof::Passed { command: check },
        unchecked: Unchecked::Forbidden,
        commit: harness::workspace::glance::head(root),
    });
    let applied = store.apply(SystemClock.now(), &[complete])?;
    Err(Failure::error(format!("still alive: {:?}", applied.replies)))
}

struct Deadly {
    disk: RealDisk,
    step: Step,
}

impl Deadly {
    fn die_at(&self, step: Step) -> io::Result<()> {
        if self.step == step {
            rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            )?;
        }
        Ok(())
    }
}

impl Disk for Deadly {
    fn publish(&self) -> io::Result<()> {
        self.die_at(Step::Rename)?;
        self.disk.publish()
    }

    fn append(&self, file: File, bytes: &[u8]) -> io::Result<()> {
        if file == File::Log {
            self.die_at(Step::Log)?;
        }
        self.disk.append(file, bytes)
    }

    fn identity(&self, file: File) -> io::Result<Option<FileStamp>> {
        self.disk.identity(file)
    }

    fn read(&self, file: File) -> io::Result<Option<(Vec<u8>, FileStamp)>> {
        self.disk.read(file)
    }

    fn size(&self, file: File) -> io::Result<u64> {
        self.disk.size(file)
    }

    fn read_from(&self, file: File, offset: u64) -> io::Result<Vec<u8>> {
        self.disk.read_from(file, offset)
    }

    fn tail(&self, file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
        self.disk.tail(file, max_bytes)
    }

    fn write_tmp(&self, pieces: &[&[u8]]) -> io::Result<()> {
        self.disk.write_tmp(pieces)
    }

    fn keep_backup(&self) -> io::Result<()> {
        self.disk.keep_backup()
    }

    fn sync_root(&self) -> io::Result<()> {
        self.disk.sync_root()
    }

    fn sync(&self, file: File) -> io::Result<()> {
        self.disk.sync(file)
    }

    fn archive(&self, name: &str, bytes: &[u8]) -> io::Result<String> {
        self.disk.archive(name, bytes)
    }

    fn make_marker(&self) -> io::Result<()> {
        self.disk.make_marker()
    }

    fn ensure_home(&self) -> io::Result<()> {
        self.disk.ensure_home()
    }

    fn has_receipts(&self) -> io::Result<bool> {
        self.disk.has_receipts()
    }

    fn make_receipts(&self) -> io::Result<()> {
        self.disk.make_receipts()
    }

    fn journals(&self) -> bool {
        self.disk.journals()
    }

    fn replace_journal(&self, bytes: &[u8]) -> io::Result<()> {
        self.disk.replace_journal(bytes)
    }

    fn receipt(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.disk.receipt(name)
    }

    fn keep_receipt(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.disk.keep_receipt(name, bytes)
    }
}
