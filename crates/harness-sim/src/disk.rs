//! A disk in memory beneath the file store. It outlives the simulated processes that use it. At any
//! step it can kill the process, lose power or return an error.

mod others;
mod port;

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness::store::disk::File;
use harness_core::format;

use crate::{platter::Platter, random::Random};

/// The kind of an unexpected end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashKind {
    /// Completed steps stay. The current step is done, torn or not done.
    Kill,
    /// Any part of the unsynced data may be lost.
    PowerLoss,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    Crash(CrashKind),
    /// The step fails, and the process continues.
    Fault(io::ErrorKind),
}

/// A deliberate fault of the disk, to show that the checkers detect it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Quirk {
    #[default]
    None,
    /// The new ledger is renamed into place before its bytes are durable.
    TmpUnsynced,
    /// Names are never made durable.
    RootUnsynced,
    /// The log is never made durable.
    LogUnsynced,
    /// No `.bak` is kept.
    NoBackup,
    /// The ledger is written in place.
    PublishInPlace,
    /// The ledger does not remember its log lines.
    ForgetsLogTail,
    /// Fields that are not ours are dropped.
    DropsUnknownFields,
    /// A file keeps its identity when another program writes it.
    StaleIdentity,
    /// Alerts are not stored.
    ForgetsAlerts,
}

/// A handle. All handles share the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    platter: Platter,
    random: Random,
    quirk: Quirk,
    /// The number of steps until the trouble comes.
    plan: Option<(u32, Trouble)>,
    crashed: Option<CrashKind>,
    steps: u64,
    /// From here on, there must always be a readable ledger.
    founded: bool,
    readable: BTreeSet<(u64, usize)>,
    unreadable: Option<String>,
}

enum Turn {
    Whole,
    /// The process dies in this step.
    Last(CrashKind),
}

impl SimDisk {
    pub fn new(seed: u64, quirk: Quirk) -> Self {
        let state = State {
            platter: Platter::default(),
            random: Random::new(seed ^ 0xD15C),
            quirk,
            plan: None,
            crashed: None,
            steps: 0,
            founded: false,
            readable: BTreeSet::new(),
            unreadable: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new process. The trouble, if any, comes at one of its next steps.
    pub fn begin(&self, plan: Option<(u32, Trouble)>) {
        let mut state = self.state();
        state.plan = plan;
        state.crashed = None;
    }

    /// Returns how the process that used the disk since [`SimDisk::begin`] died.
    pub fn crashed(&self) -> Option<CrashKind> {
        self.state().crashed
    }

    /// Returns the number of steps so far, which shows the cost of a transaction.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Loses power while no process writes.
    pub fn lose_power(&self) {
        let state = &mut *self.state();
        state.platter.lose_power(&mut state.random);
        state.inspect();
    }

    /// Makes everything durable.
    pub fn settle(&self) {
        self.state().platter.sync_names();
    }

    /// Makes the journal durable.
    pub fn settle_journal(&self) {
        let platter = &mut self.state().platter;
        platter.sync(File::Journal);
        platter.sync_names();
    }

    /// Requires a readable ledger from now on.
    pub fn founded(&self) {
        self.state().founded = true;
    }

    pub fn unreadable(&self) -> Option<String> {
        self.state().unreadable.clone()
    }

    pub fn bytes(&self, file: File) -> Vec<u8> {
        self.state().platter.bytes(file).to_vec()
    }

    /// Returns whether the current ledger would survive any power loss.
    pub fn ledger_is_durable(&self) -> bool {
        let platter = &self.state().platter;
        platter.durable_number(File::Ledger) == platter.number(File::Ledger)
            && platter.file(File::Ledger).is_some_and(|i| i.synced == i.bytes.len())
    }

    pub fn archived(&self) -> usize {
        self.state().platter.archive.len()
    }

    /// Returns whether an edit of the ledger in place would change `.bak` as well. A process that
    /// dies between the last two steps of a write leaves them linked. The next write separates
    /// them.
    pub fn backup_is_ledger(&self) -> bool {
        let platter = &self.state().platter;
        platter.number(File::Backup) == platter.number(File::Ledger)
    }
}

impl State {
    fn turn(&mut self) -> io::Result<Turn> {
        if self.crashed.is_some() {
            return Err(gone());
        }
        self.steps += 1;
        match self.plan.take() {
            None => Ok(Turn::Whole),
            Some((0, Trouble::Crash(kind))) => Ok(Turn::Last(kind)),
            Some((0, Trouble::Fault(kind))) => Err(io::Error::new(kind, "simulated fault")),
            Some((more, trouble)) => {
                self.plan = Some((more - 1, trouble));
                Ok(Turn::Whole)
            }
        }
    }

    fn done(&mut self, turn: Turn) -> io::Result<()> {
        let result = match turn {
            Turn::Whole => Ok(()),
            Turn::Last(kind) => {
                self.crashed = Some(kind);
                if kind == CrashKind::PowerLoss {
                    self.platter.lose_power(&mut self.random);
                }
                Err(gone())
            }
        };
        self.inspect();
        result
    }

    fn happens(&mut self, turn: &Turn) -> bool {
        match turn {
            Turn::Whole => true,
            Turn::Last(_) => self.random.percent(50),
        }
    }

    fn part<'a>(&mut self, turn: &Turn, bytes: &'a [u8]) -> &'a [u8] {
        match turn {
            Turn::Whole => bytes,
            Turn::Last(_) => &bytes[..self.random.below(bytes.len() + 1)],
        }
    }

    /// Performs one step, which happens or does not.
    fn act(&mut self, act: impl FnOnce(&mut Platter)) -> io::Result<()> {
        let turn = self.turn()?;
        if self.happens(&turn) {
            act(&mut self.platter);
        }
        self.done(turn)
    }

    /// Checks after each step that the ledger or its backup can be read, both now and after the
    /// worst power loss.
    fn inspect(&mut self) {
        if !self.founded || self.unreadable.is_some() {
            return;
        }
        let p = &self.platter;
        let as_is = |file| p.number(file).and_then(|n| Some((n, p.inode(n)?.bytes.len())));
        let worst = |file| p.durable_number(file).and_then(|n| Some((n, p.inode(n)?.synced)));
        let as_is = [as_is(File::Ledger), as_is(File::Backup)];
        let worst = [worst(File::Ledger), worst(File::Backup)];
        for (image, when) in [(as_is, "as it stands"), (worst, "after a power loss")] {
            if !image.into_iter().flatten().any(|(number, length)| self.is_readable(number, length))
            {
                self.unreadable = Some(format!("neither ledger nor backup can be read {when}"));
            }
        }
    }

    fn is_readable(&mut self, number: u64, length: usize) -> bool {
        if self.readable.contains(&(number, length)) {
            return true;
        }
        let Some(inode) = self.platter.inode(number) else { return false };
        let readable = format::read_ledger(&inode.bytes[..length]).is_ok();
        if readable {
            self.readable.insert((number, length));
        }
        readable
    }
}

fn gone() -> io::Error {
    io::Error::other("this process is dead")
}

/// Returns the new ledger in the form that a disk with this quirk stores.
fn mangled(quirk: Quirk, bytes: &[u8]) -> Vec<u8> {
    let drop = |unwanted: fn(&str) -> bool| {
        let Ok(mut root) = serde_json::from_slice::<serde_json::Value>(bytes) else {
            return bytes.to_vec();
        };
        let tasks = root.get_mut("tasks").and_then(|t| t.as_array_mut());
        for task in tasks.into_iter().flatten().filter_map(|t| t.as_object_mut()) {
            task.retain(|key, _| !unwanted(key));
        }
        if let Some(root) = root.as_object_mut() {
            root.retain(|key, _| !unwanted(key));
        }
        root.to_string().into_bytes()
    };
    match quirk {
        Quirk::ForgetsLogTail => drop(|key| key == "log_tail"),
        Quirk::DropsUnknownFields => drop(|key| key.starts_with("x_")),
        Quirk::ForgetsAlerts => drop(|key| key == "alerts"),
        _ => bytes.to_vec(),
    }
}
