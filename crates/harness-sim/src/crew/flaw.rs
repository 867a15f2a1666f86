//! Deliberate faults, to show that the checkers detect them.

use harness_core::{
    Command, Epoch, Ledger, Task, TaskId, Timestamp,
    command::Attempts,
    ledger::{Head, LandingEntry},
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CrewFlaw {
    #[default]
    None,
    /// The result of a check is ignored.
    EveryCheckPasses,
    /// A completion is recorded without its receipt.
    SkipsReceipt,
    /// A landing needs no token.
    NeedsNoToken,
    /// A token that is voided stays.
    KeepsTokens,
    /// A branch is moved wherever it is.
    ForcesTarget,
    /// A rebase gives the work as it was, on its own base.
    SkipsRebase,
    /// The tree of the user is moved although it is not clean.
    TramplesTree,
    /// A landing that was cut short is not finished.
    LeavesTreeHalfMoved,
    /// Work trees are not removed.
    KeepsTrees,
    /// Branches of attempts are not deleted.
    KeepsBranches,
    /// The first place in the line belongs to nobody.
    KeepsAPlaceFree,
    /// The files that a task reserves are ignored.
    IgnoresReservations,
    /// Nothing is reserved: others land in the files, and the conflict counts as an attempt.
    ReservesNothing,
    /// A result is completed without having landed.
    SkipsSwap,
    /// The line about a completion is written twice.
    LogsTwice,
    /// The receipt names another commit than the one that lands.
    MisnamesCommit,
    /// The work of a dead worker is left behind.
    ForgetsWork,
}

impl CrewFlaw {
    /// Returns the ledger as workers with this fault read it.
    pub(super) fn misread(self, ledger: Ledger) -> Ledger {
        let (mut head, mut tasks) =
            (ledger.head().clone(), ledger.tasks().cloned().collect::<Vec<Task>>());
        match self {
            Self::KeepsAPlaceFree => add_place(&mut head),
            Self::IgnoresReservations => tasks.iter_mut().for_each(|task| task.conflicts.clear()),
            Self::ReservesNothing => {
                let claimed = tasks.iter_mut().filter(|task| task.claim().is_some());
                claimed.for_each(|task| task.conflicts.clear());
            }
            _ => return ledger,
        }
        Ledger::new(head, tasks).unwrap_or(ledger)
    }
}

/// Returns a command as workers with this fault send it.
pub(super) fn missent(flaw: CrewFlaw, command: &Command) -> Command {
    let mut command = command.clone();
    match &mut command {
        Command::Intend(intend) if flaw == CrewFlaw::ReservesNothing => intend.files.clear(),
        Command::Fail(fail)
            if flaw == CrewFlaw::ReservesNothing && fail.attempts == Attempts::None =>
        {
            fail.attempts = Attempts::One;
        }
        _ => {}
    }
    command
}

fn add_place(head: &mut Head) {
    head.landing.insert(
        0,
        LandingEntry {
            task: TaskId::numbered(99),
            epoch: Epoch(1),
            onto: None,
            commit: None,
            green: None,
            renewed_at: Some(Timestamp::from_seconds(4_000_000_000)),
        },
    );
}
