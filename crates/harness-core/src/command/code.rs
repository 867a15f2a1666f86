//! Codes for refusals, which programs can rely on.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident: $word:literal;)+) => {
        /// The closed set of values of `code` on the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
            /// The request failed for another reason.
            #[default]
            Failed,
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name,)+ Self::Failed];

            /// Returns the word on the wire.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                    Self::Failed => "failed",
                }
            }
        }
    };
}

codes! {
    /// The caller is an agent or a worker, but only the operator may do this.
    OnlyOperator: "only_operator";
    /// There is no such task, run, phase or question.
    NotFound: "not_found";
    /// Another worker holds the task, or the claim has another epoch.
    NotClaimedBy: "not_claimed_by";
    /// No worker holds the task.
    NotClaimed: "not_claimed";
    /// The task has not failed.
    NotFailed: "not_failed";
    /// A worker holds the task.
    InProgress: "in_progress";
    /// A task with that id exists.
    Exists: "exists";
    /// A named dependency is not in the ledger.
    UnknownDependency: "unknown_dependency";
    /// The ledger itself names a dependency that does not exist.
    MissingDependency: "missing_dependency";
    /// Tasks would wait for each other.
    Cycle: "cycle";
    /// Another task depends on it, or belongs to it.
    Needed: "needed";
    /// The worker already holds a task.
    HoldsAnother: "holds_another";
    /// Another task comes first.
    NotNext: "not_next";
    /// Claiming is paused.
    Paused: "paused";
    /// The check has not passed.
    Unchecked: "unchecked";
    /// The check or the gate was changed while it ran.
    CheckChanged: "check_changed";
    /// There is no check, and one is required.
    NoCheck: "no_check";
    /// A rollback or a commit has to be finished first.
    Undecided: "undecided";
    /// Unfinished tasks would be lost.
    UnfinishedWork: "unfinished_work";
    /// A limit was reached.
    Limit: "limit";
    /// The run has succeeded.
    RunFinished: "run_finished";
    /// Another process drives the run.
    RunTaken: "run_taken";
    /// The request or one of its values is wrong.
    BadRequest: "bad_request";
    /// The plan is wrong.
    BadPlan: "bad_plan";
    /// A run holds the ledger exclusively.
    Busy: "busy";
    /// The socket serves another root.
    AnotherRoot: "another_root";
    /// The command is unknown.
    UnknownCommand: "unknown_command";
    /// There is no ledger.
    NoLedger: "no_ledger";
    /// No run is active.
    NoRun: "no_run";
    /// The check failed, or could not be run.
    CheckFailed: "check_failed";
    /// The request was stopped before it was done.
    Stopped: "stopped";
    /// A person must fix the ledger or the configuration.
    Config: "config";
}

impl Code {
    /// Returns `None` for a word that is no code of this version.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == word)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
