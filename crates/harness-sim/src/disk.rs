//! A disk in memory beneath the file store. It outlives the simulated processes that use it. At any
//! step it can kill the process, lose power or return an error.

mod others;

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness::{
    home::FileStamp,
    store::disk::{Disk, File},
};
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

impl Disk for SimDisk {
    fn identity(&self, file: File) -> io::Result<Option<FileStamp>> {
        let mut state = self.state();
        let turn = state.turn()?;
        state.done(turn)?;
        let identity = state.platter.identity(file);
        Ok(match state.quirk {
            Quirk::StaleIdentity => identity.map(|i| FileStamp {
                inode: 1,
                size: 0,
                modified_ns: 0,
                changed_ns: 0,
                ..i
            }),
            _ => identity,
        })
    }

    fn read(&self, file: File) -> io::Result<Option<(Vec<u8>, FileStamp)>> {
        let Some(identity) = self.identity(file)? else { return Ok(None) };
        Ok(Some((self.bytes(file), identity)))
    }

    fn size(&self, file: File) -> io::Result<u64> {
        let mut state = self.state();
        let turn = state.turn()?;
        state.done(turn)?;
        Ok(state.platter.bytes(file).len() as u64)
    }

    fn read_from(&self, file: File, offset: u64) -> io::Result<Vec<u8>> {
        let size = self.size(file)?;
        let from = usize::try_from(offset.min(size)).unwrap_or(usize::MAX);
        Ok(self.bytes(file)[from..].to_vec())
    }

    fn tail(&self, file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
        let size = self.size(file)?;
        self.read_from(file, size.saturating_sub(max_bytes))
    }

    fn write_tmp(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let bytes = mangled(state.quirk, bytes);
        state.act(|p| p.name(File::Tmp, None))?;
        let turn = state.turn()?;
        let part = state.part(&turn, &bytes);
        state.platter.create(File::Tmp, part);
        state.done(turn)?;
        let quirk = state.quirk;
        let synced = state.act(|p| {
            if quirk != Quirk::TmpUnsynced {
                p.sync(File::Tmp);
            }
        });
        if synced.is_err() && state.crashed.is_none() {
            state.platter.name(File::Tmp, None);
        }
        synced
    }

    fn keep_backup(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.quirk == Quirk::NoBackup {
            return Ok(());
        }
        state.act(|p| p.name(File::Backup, None))?;
        state.act(|p| p.name(File::Backup, p.number(File::Ledger)))
    }

    fn publish(&self) -> io::Result<()> {
        let mut state = self.state();
        let quirk = state.quirk;
        if quirk == Quirk::PublishInPlace {
            let turn = state.turn()?;
            let bytes = state.platter.bytes(File::Tmp).to_vec();
            let part = state.part(&turn, &bytes);
            match state.platter.number(File::Ledger) {
                Some(_) => state.platter.overwrite(File::Ledger, part),
                None => state.platter.create(File::Ledger, part),
            }
            return state.done(turn);
        }
        state.act(|p| {
            p.name(File::Ledger, p.number(File::Tmp));
            p.name(File::Tmp, None);
        })
    }

    fn sync_root(&self) -> io::Result<()> {
        let mut state = self.state();
        let quirk = state.quirk;
        state.act(|p| {
            if quirk != Quirk::RootUnsynced {
                p.sync_names();
            }
        })
    }

    fn append(&self, file: File, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let turn = state.turn()?;
        let part = state.part(&turn, bytes);
        state.platter.append(file, part);
        state.done(turn)
    }

    fn sync(&self, file: File) -> io::Result<()> {
        let mut state = self.state();
        if state.platter.number(file).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let quirk = state.quirk;
        state.act(|p| {
            if quirk != Quirk::LogUnsynced {
                p.sync(file);
            }
        })
    }

    fn archive(&self, name: &str, bytes: &[u8]) -> io::Result<String> {
        let mut state = self.state();
        let turn = state.turn()?;
        let number = state.platter.archive.len();
        let name = format!("{name}-{number}");
        if state.happens(&turn) {
            state.platter.archive.push((name.clone(), bytes.to_vec()));
        }
        state.done(turn)?;
        Ok(name)
    }

    fn make_marker(&self) -> io::Result<()> {
        self.state().act(|p| {
            if p.number(File::Marker).is_none() {
                p.create(File::Marker, &[]);
            }
        })
    }

    fn ensure_home(&self) -> io::Result<()> {
        // Creating an existing directory is not a step.
        if self.state().crashed.is_some() { Err(gone()) } else { Ok(()) }
    }

    fn has_receipts(&self) -> io::Result<bool> {
        let state = self.state();
        if state.crashed.is_some() { Err(gone()) } else { Ok(!state.platter.receipts_gone) }
    }

    fn make_receipts(&self) -> io::Result<()> {
        self.ensure_home()?;
        self.state().platter.receipts_gone = false;
        Ok(())
    }

    fn journals(&self) -> bool {
        true
    }

    fn replace_journal(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        // The file is written aside, so a process that dies here has changed nothing.
        state.act(|_| {})?;
        state.act(|p| p.create(File::Journal, bytes))
    }

    fn receipt(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut state = self.state();
        let turn = state.turn()?;
        state.done(turn)?;
        Ok(state.platter.receipts.get(name).cloned())
    }

    fn keep_receipt(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.state().act(move |p| _ = p.receipts.insert(name, bytes))
    }
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
