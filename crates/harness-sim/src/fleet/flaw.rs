//! Deliberate faults, to show that the checkers detect them.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FleetFlaw {
    #[default]
    None,
    /// The id of an operation whose commit was lost is not read back.
    ForgetsOperations,
    /// The id is read back without waiting for the old transaction.
    WaitsForNobody,
    /// A host keeps no memory of the last change, so epochs do not jump after a takeover.
    RemembersNothing,
    /// A change is answered before the disk of the server has it.
    AnswersFirst,
    /// A host uses its own clock for decisions.
    TrustsOwnClock,
}
