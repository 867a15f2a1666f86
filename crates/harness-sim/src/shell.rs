//! A scripted shell in which commands take no time.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harness::shell::{Exit, Ran, Script, Shell};

/// Ends commands in the order of its script. After the last entry, all of them succeed.
#[derive(Debug, Default)]
pub struct SimShell(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    script: VecDeque<(Exit, String)>,
    unknown: BTreeSet<String>,
    ran: Vec<Script>,
}

impl SimShell {
    pub fn new(script: impl IntoIterator<Item = (Exit, String)>) -> Self {
        let script = script.into_iter().collect();
        Self(Mutex::new(State { script, ..State::default() }))
    }

    /// Makes `program` missing from now on.
    pub fn forget(&self, program: impl Into<String>) {
        self.lock().unknown.insert(program.into());
    }

    /// Returns the commands that were run so far.
    pub fn ran(&self) -> Vec<Script> {
        self.lock().ran.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the end of a command that took no time and printed `output`.
pub(crate) fn ended(exit: Exit, output: impl Into<Vec<u8>>) -> Ran {
    let tail = output.into();
    let output_bytes = u64::try_from(tail.len()).unwrap_or(u64::MAX);
    Ran { exit, duration: Duration::ZERO, tail, output_bytes, output_sha256: String::new() }
}

impl Shell for SimShell {
    fn run(&self, script: &Script) -> io::Result<Ran> {
        let mut state = self.lock();
        state.ran.push(script.clone());
        let (exit, output) = state.script.pop_front().unwrap_or((Exit::Code(0), String::new()));
        Ok(ended(exit, output))
    }

    fn lacks(&self, command: &str, _: &Path) -> bool {
        let first = command.split_whitespace().next();
        first.is_some_and(|word| self.lock().unknown.contains(word))
    }
}
