//! The verbs of the wire, and the rules that depend only on the verb.

use std::fmt;

use harness_core::role::Operation;

macro_rules! verbs {
    ($($(#[doc = $doc:literal])+ $name:ident: $word:literal;)+) => {
        /// The verb of a request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Verb {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Verb {
            /// All verbs, in the order of PROTOCOL.md.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the value of `command` on the wire.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

verbs! {
    /// Reports the process, its version and the protocol.
    Ping: "ping";
    /// Returns the goal and all tasks.
    GetState: "get_state";
    /// Returns the tasks with counts and recent events.
    Status: "status";
    /// Imports a plan as the tasks of the ledger.
    PlanImport: "plan_import";
    /// Archives all tasks.
    PlanReset: "plan_reset";
    /// Gives the next task to a worker.
    TaskClaim: "task_claim";
    /// Adds or changes a phase.
    PhaseEdit: "phase_edit";
    /// Removes a phase.
    PhaseRemove: "phase_remove";
    /// Changes a key of `session_config`.
    SessionConfigure: "session_configure";
    /// Adds a task.
    TaskAdd: "task_add";
    /// Changes a task.
    TaskEdit: "task_edit";
    /// Removes a task.
    TaskRemove: "task_remove";
    /// Gives a failed task new attempts.
    TaskRetry: "task_retry";
    /// Releases a claim.
    TaskRelease: "task_release";
    /// Records a step of an attempt and renews its lease.
    TaskCheckpoint: "task_checkpoint";
    /// Renews a lease.
    TaskRenew: "task_renew";
    /// Runs the check of a task and completes it.
    TaskComplete: "task_complete";
    /// Ends an attempt as failed.
    TaskFail: "task_fail";
    /// Asks a person.
    Ask: "ask";
    /// Lists open questions.
    Questions: "questions";
    /// Answers a question.
    Reply: "reply";
    /// Sends a message to a run.
    Send: "send";
    /// Acknowledges the alerts of a ledger.
    Ack: "ack";
    /// Ends waits for usage limits.
    Kick: "kick";
    /// Stops claiming.
    Pause: "pause";
    /// Starts claiming again.
    Resume: "resume";
    /// Shows or changes the budget of a run.
    Budget: "budget";
    /// Stops a run.
    Abort: "abort";
    /// Streams events.
    Subscribe: "subscribe";
    /// Reports whether the caller may do something.
    May: "may";
    /// Makes a transaction for a worker of another process of harness.
    WorkerTransaction: "worker_transaction";
    /// Ends a daemon.
    Shutdown: "shutdown";
    /// Ends a daemon in favour of a run.
    Yield: "yield";
}

impl Verb {
    /// Returns the verb of this name; `None` for one of another version.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|verb| verb.name() == name)
    }

    /// Returns whether the answer may have to wait for a person, a check or another worker. The
    /// host cancels such a request when its client is gone.
    pub const fn waits(self) -> bool {
        matches!(self, Self::Ask | Self::TaskClaim | Self::TaskComplete)
    }

    /// Returns whether a client that lost the answer may send the request again.
    pub const fn is_idempotent(self) -> bool {
        !matches!(self, Self::TaskAdd | Self::PlanImport)
    }

    /// Returns whether it is for the agents of every process that works in the root.
    pub const fn is_for_everyone(self) -> bool {
        matches!(self, Self::Questions | Self::Reply | Self::Send | Self::Kick | Self::Abort)
    }

    /// Returns whether a client starts a daemon if no host answers. This holds for the requests of
    /// workers.
    pub const fn starts_host(self) -> bool {
        matches!(
            self,
            Self::Ping
                | Self::GetState
                | Self::PlanImport
                | Self::TaskClaim
                | Self::TaskCheckpoint
                | Self::TaskRenew
                | Self::TaskComplete
                | Self::TaskFail
        )
    }

    /// Returns whether a run refuses it, because it holds the ledger exclusively.
    pub const fn needs_daemon(self) -> bool {
        matches!(
            self,
            Self::TaskClaim | Self::PlanImport | Self::PlanReset | Self::Shutdown | Self::Yield
        )
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Verb {
    /// Returns the operation of a request whose fields cannot be parsed, or do not matter.
    pub fn operation(self) -> Operation {
        use Operation as O;
        match self {
            Self::Ping
            | Self::GetState
            | Self::Status
            | Self::Questions
            | Self::Subscribe
            // The fields name the operation.
            | Self::May => O::Look,
            Self::PlanImport => O::BeginPlan,
            Self::PlanReset => O::ResetPlan,
            Self::TaskClaim => O::Claim,
            Self::PhaseEdit | Self::PhaseRemove => O::EditPhase,
            Self::SessionConfigure => O::Configure,
            Self::TaskAdd => O::Add,
            Self::TaskEdit => O::Edit,
            Self::TaskRemove => O::Remove,
            Self::TaskRetry => O::Retry,
            Self::TaskRelease => O::Release,
            Self::TaskCheckpoint => O::Checkpoint,
            Self::TaskRenew => O::Renew,
            Self::TaskComplete => O::Complete,
            Self::TaskFail => O::Fail,
            Self::Ask => O::Ask,
            Self::Reply => O::Reply,
            Self::Send => O::Send,
            Self::Ack => O::Acknowledge,
            Self::Kick => O::Kick,
            Self::Pause | Self::Resume => O::Pause,
            Self::Budget => O::Budget,
            Self::Abort => O::Abort,
            Self::WorkerTransaction => O::Transact,
            Self::Shutdown => O::Shutdown,
            // A starting run sends it.
            Self::Yield => O::Run,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_verb_has_a_row_in_the_protocol() {
        let page = include_str!("../../../../PROTOCOL.md");
        let section = page.split("### Verbs").nth(1).unwrap().split("\n### ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let named: Vec<&str> = rows
            .flat_map(|row| row.split(" |").next().unwrap().split(", "))
            .map(|name| name.trim_matches(['`', ' ']))
            .collect();
        let known: Vec<&str> = Verb::ALL.iter().map(|verb| verb.name()).collect();
        assert_eq!(named, known);
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for verb in Verb::ALL {
            assert_eq!(Verb::parse(verb.name()), Some(*verb));
        }
        assert_eq!(Verb::parse("frobnicate"), None);
    }
}
