//! Why something was refused, in a word that programs can rely on.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident: $word:literal;)+) => {
        /// The closed set of words behind `code` on the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
            /// Something else went wrong.
            #[default]
            Failed,
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+ Self::Failed];

            /// The word.
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
    /// The caller is an agent or a worker, and only the operator may do this.
    OnlyOperator: "only_operator";
    /// There is no such task, run or question.
    NotFound: "not_found";
    /// Somebody else holds the task, or holds it anew.
    NotClaimedBy: "not_claimed_by";
    /// Nobody holds the task.
    NotClaimed: "not_claimed";
    /// The task has not failed.
    NotFailed: "not_failed";
    /// Somebody works on the task.
    InProgress: "in_progress";
    /// There is a task of that id.
    Exists: "exists";
    /// A dependency is not in the ledger.
    UnknownDependency: "unknown_dependency";
    /// The ledger itself names a dependency that it does not have.
    MissingDependency: "missing_dependency";
    /// Tasks would wait for each other.
    Cycle: "cycle";
    /// Another task depends on it.
    Needed: "needed";
    /// The worker has a task already.
    HoldsAnother: "holds_another";
    /// Another task comes first.
    NotNext: "not_next";
    /// The check has not passed.
    Unchecked: "unchecked";
    /// The check was changed while it ran.
    CheckChanged: "check_changed";
    /// There is no check, and one is required.
    NoCheck: "no_check";
    /// A rollback or a commit has to be finished first.
    Undecided: "undecided";
    /// Unfinished tasks would be thrown away.
    UnfinishedWork: "unfinished_work";
    /// A limit is reached.
    Limit: "limit";
    /// The run has ended well.
    RunFinished: "run_finished";
    /// Another process drives the run.
    RunTaken: "run_taken";
    /// The request or one of its values is wrong.
    BadRequest: "bad_request";
    /// The plan is wrong.
    BadPlan: "bad_plan";
    /// A run has the ledger for itself.
    Busy: "busy";
    /// The socket serves another root.
    AnotherRoot: "another_root";
    /// No such command is known.
    UnknownCommand: "unknown_command";
    /// There is no ledger.
    NoLedger: "no_ledger";
    /// No run is active.
    NoRun: "no_run";
    /// The check failed, or could not be run.
    CheckFailed: "check_failed";
    /// It was stopped before it was done.
    Stopped: "stopped";
    /// A person has to put the ledger or the configuration right.
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
