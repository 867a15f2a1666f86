//! The kinds of lies, and the code that performs one.

use harness::{Result, store::disk::File};
use harness_core::{Epoch, RunId, TaskId};

use super::{files, ledger, rows, tree};
use crate::run::stage::State;

/// The number of earlier versions that a liar keeps.
const VERSIONS_MAX: usize = 8;

/// An action of an agent beside its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Deed {
    Ledger(ledger::Lie),
    File(files::Lie),
    Row(rows::Lie),
    Tree(tree::Lie),
    /// Sends a request to the host.
    Verb,
    /// Starts a process that outlives it.
    LeavesProcess,
    KillsSupervisor,
    /// Reports a step without doing anything.
    Pretends,
}

pub(in crate::run) fn choose(state: &mut State) -> Deed {
    let random = &mut state.random;
    if state.lies.killer {
        return [Deed::KillsSupervisor, Deed::Pretends, Deed::Pretends][random.below(3)];
    }
    if state.lies.spender && random.percent(60) {
        return Deed::Row(rows::Lie::LowersCost);
    }
    match random.weighted(&[30, 16, 22, 18, 12, 2, 16]) {
        0 => Deed::Ledger(ledger::Lie::any(random)),
        1 => Deed::File(files::Lie::any(random)),
        2 => Deed::Tree(tree::Lie::any(random)),
        3 => Deed::Verb,
        4 => Deed::LeavesProcess,
        5 => Deed::KillsSupervisor,
        _ => Deed::Row(rows::Lie::any(random)),
    }
}

/// The attempt of the lying agent.
pub(in crate::run) struct Teller<'a> {
    pub(in crate::run) task: &'a TaskId,
    pub(in crate::run) epoch: Epoch,
    pub(in crate::run) run: &'a RunId,
    /// The committer name that its commits should have.
    pub(in crate::run) committer: &'a str,
}

/// Performs the action. The caller handles requests to the host.
pub(in crate::run) fn tell(state: &mut State, deed: Deed, teller: &Teller<'_>) -> Result<()> {
    state.tally.lies += 1;
    if state.lies.forged.is_none() && state.lies.versions.len() < VERSIONS_MAX {
        let version = state.disk.bytes(File::Ledger);
        state.lies.versions.push(version);
    }
    match deed {
        Deed::Ledger(lie) => ledger::tell(state, lie, teller.task),
        Deed::File(lie) => files::tell(state, lie, teller.task),
        Deed::Row(lie) => rows::tell(state, lie, teller.run),
        Deed::Tree(lie) => tree::tell(state, lie, teller)?,
        Deed::Verb | Deed::Pretends => {}
        Deed::LeavesProcess => {
            state.lies.behind += 1 + state.random.below(3) as u32;
        }
        Deed::KillsSupervisor => {
            state.dies();
        }
    }
    Ok(())
}
