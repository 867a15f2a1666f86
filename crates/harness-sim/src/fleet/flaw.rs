//! Deliberate faults, to show that the checkers detect them.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FleetFlaw {
    #[default]
    None,
    /// The id of an operation whose commit was lost is not read back.
    ForgetsOperations,
    /// The id is read back without waiting for the old transaction.
    WaitsForNobody,
    /// A host keeps no memory of the last change and does not see that another server has taken over, so
    /// epochs do not jump.
    RemembersNothing,
    /// A host does not see that another server has taken over, if it misses nothing itself.
    KnowsNoLines,
    /// Forgotten results are not looked for before work goes on.
    LooksForNothing,
    /// Forgotten results are looked for, but the tokens of forgotten landings stay.
    KeepsTokens,
    /// A change is answered before the disk of the server has it.
    AnswersFirst,
    /// A host uses its own clock for decisions.
    TrustsOwnClock,
}
