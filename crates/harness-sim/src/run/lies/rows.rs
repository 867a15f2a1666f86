//! Lies in the record of runs.

use harness_core::{
    RunId,
    agent::Usage,
    run::{Run, RunLimits, RunStatus},
};

use crate::{random::Random, run::stage::State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Lie {
    /// Lowers the recorded cost.
    LowersCost,
    /// Raises the budget.
    RaisesBudget,
    /// Raises the limit of contexts.
    RaisesIterations,
    /// Moves the deadline.
    MovesDeadline,
    /// Marks the run as succeeded.
    Succeeds,
}

const ALL: [(Lie, u64); 5] = [
    (Lie::LowersCost, 40),
    (Lie::RaisesBudget, 30),
    (Lie::RaisesIterations, 10),
    (Lie::MovesDeadline, 10),
    (Lie::Succeeds, 6),
];

impl Lie {
    pub(super) fn any(random: &mut Random) -> Self {
        ALL[random.weighted(&ALL.map(|(_, weight)| weight))].0
    }

    fn tell(self, run: &mut Run) {
        match self {
            Self::LowersCost => run.usage = Usage::default(),
            Self::RaisesBudget => {
                let max_iterations = run.limits.max_iterations;
                run.limits = RunLimits { max_iterations, ..RunLimits::default() };
            }
            Self::RaisesIterations => run.limits.max_iterations = 1000,
            Self::MovesDeadline => run.deadline = None,
            Self::Succeeds => run.status = RunStatus::Succeeded,
        }
    }
}

/// Forges the row of its own attempt, or of the run that pays.
pub(super) fn tell(state: &mut State, lie: Lie, own: &RunId) {
    let own_row = !state.lies.spender && state.random.percent(40);
    let id = if own_row { own.clone() } else { RunId::of_bits(0) };
    state.lies.rows_forged = true;
    state.runs.forge(&id, |run| lie.tell(run));
}
