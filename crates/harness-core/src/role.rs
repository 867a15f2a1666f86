//! Roles and their permissions. A role belongs to a state root: an agent of one root is an ordinary
//! user of every other. The table refuses operations that weaken the judge or act in the name of
//! the person, and allows those that only add.

use serde::{Deserialize, Serialize};

use std::fmt;

use crate::{Epoch, TaskId};

/// The role of a process in a state root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// The person, or a program that acts for the person.
    Operator,
    /// A process that harness started for this root (agent, check, gate, init script, cleanup,
    /// notify command), or a descendant of such a process.
    Agent,
    /// A client inside of an agent's own interactive session, or a process that cannot be
    /// attributed.
    Worker,
}

impl Role {
    /// Returns the word that is logged and stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Agent => "agent",
            Self::Worker => "worker",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The task of the attempt.
    pub task: TaskId,
    /// The epoch of its claim.
    pub epoch: Epoch,
}

impl Attempt {
    /// Parses the form of [`Display`](fmt::Display), `<task>.<epoch>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (task, epoch) = text.rsplit_once('.')?;
        Some(Self { task: TaskId::parse(task).ok()?, epoch: Epoch(epoch.parse().ok()?) })
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task, self.epoch)
    }
}

/// The process that asked for a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The role of the process.
    pub role: Role,
    /// The id of the process.
    pub pid: u32,
    /// The attempt that an agent was started for.
    pub attempt: Option<Attempt>,
}

impl Author {
    /// Returns the value of `added_by` for a task; `None` for the operator.
    pub fn mark(&self) -> Option<String> {
        match (self.role, &self.attempt) {
            (Role::Operator, _) => None,
            (role, Some(attempt)) => Some(format!("{role} {attempt}")),
            (role, None) => Some(role.to_string()),
        }
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid={})", self.role, self.pid)
    }
}

macro_rules! operations {
    ($($name:ident: $word:literal, $phrase:literal;)+) => {
        /// The operations that a process can ask for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "`phrase` says what each is")]
        pub enum Operation { $($name),+ }

        impl Operation {
            /// All operations.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the name that the wire uses.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// Returns the phrase that follows "may" in a message.
            pub const fn phrase(self) -> &'static str {
                match self { $(Self::$name => $phrase),+ }
            }
        }
    };
}

operations! {
    Look: "look", "look";
    Checkpoint: "task_checkpoint", "record a checkpoint for an attempt of somebody else";
    Renew: "task_renew", "renew the claim of somebody else";
    Complete: "task_complete", "complete the task of somebody else";
    Fail: "task_fail", "fail the task of somebody else";
    Claim: "task_claim", "claim a task";
    Ask: "ask", "ask a question";
    Handoff: "handoff", "write a handoff";
    FinalizeResearch: "research_finalize", "finalize research";
    Add: "task_add", "add a task";
    MergePlan: "plan_merge", "merge a plan that existing tasks come to depend on";
    BeginPlan: "plan_import", "begin a ledger or a plan";
    UpdatePlan: "plan_update", "import tasks of another tool";
    Install: "install", "install the hooks of an agent";
    Run: "run", "start a run";
    Work: "work", "start a worker";
    Release: "task_release", "release a claim";
    ForceComplete: "task_complete_force", "complete a task by force";
    RestoreRescue: "rescue_restore", "restore a rescue";
    Edit: "task_edit", "edit a task";
    Remove: "task_remove", "remove a task";
    Retry: "task_retry", "retry a task";
    ReplacePlan: "plan_replace", "replace the plan";
    ResetPlan: "plan_reset", "reset the plan";
    EditPhase: "phase_edit", "change the phases";
    Reply: "reply", "answer a question";
    Send: "send", "send a message to a run";
    Kick: "kick", "end the wait of a run";
    Abort: "abort", "abort a run";
    Pause: "pause", "pause a run";
    Budget: "budget", "change a budget";
    Trust: "trust", "change what is trusted";
    Acknowledge: "ack", "acknowledge alerts";
    Configure: "config", "change the configuration";
    Drain: "drain", "drain a run";
    CollectGarbage: "gc", "remove what is no longer needed";
    Revert: "revert", "take back what landed";
    Store: "store", "change the store";
    Transact: "worker_transaction", "make transactions of a worker";
    Web: "web", "serve the web view";
    Notify: "notify", "send notifications";
    Shutdown: "shutdown", "shut the daemon down";
    Uninstall: "uninstall", "uninstall the hooks of an agent";
    Purge: "purge", "purge a root";
}

impl Operation {
    /// Returns `None` for a word that is no operation.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operation| operation.name() == word)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.phrase())
    }
}

/// The circumstances that a permission depends on, besides role and operation. The default applies
/// to operations that do not depend on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The owner of the attempt or task that the operation concerns.
    pub whose: Whose,
    /// The lease of the claim that would be released.
    pub lease: Lease,
    /// The setting `[tasks] agents_may_add`.
    pub adding: Adding,
    /// The effect of a merged plan on the existing tasks.
    pub merge: Merge,
}

/// The owner of an attempt or task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Whose {
    /// The caller, or an owner that the rules for holders decide later.
    #[default]
    Own,
    /// Another process.
    Other,
}

/// The lease of a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lease {
    /// The lease still runs, or its state is not known.
    #[default]
    Live,
    /// The lease has run out.
    Lapsed,
}

/// The permission of agents to add tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Adding {
    /// Agents may add tasks.
    #[default]
    Allowed,
    /// Agents may not add tasks (`agents_may_add = false`).
    Forbidden,
}

/// The effect of a merged plan on the existing tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Merge {
    /// No existing task depends on a task of the plan.
    #[default]
    OnlyAdds,
    /// An existing task depends on a task of the plan.
    Awaited,
}

/// The error for an operation that only the operator may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("only the operator may {operation}")]
pub struct NotPermitted {
    /// The operation that was asked for.
    pub operation: Operation,
}

/// Checks whether a process in this role may use this operation.
pub fn may(role: Role, operation: Operation, given: Circumstances) -> Result<(), NotPermitted> {
    use Operation as O;
    let allowed = match (role, operation) {
        (Role::Operator, _) => true,
        (_, O::Look | O::Ask | O::Handoff | O::FinalizeResearch) => true,
        (_, O::Checkpoint | O::Renew | O::Complete | O::Fail) => given.whose == Whose::Own,
        (Role::Worker, O::Add | O::Claim | O::BeginPlan | O::Install | O::Run | O::Work) => true,
        (Role::Worker, O::MergePlan) => given.merge == Merge::OnlyAdds,
        (Role::Worker, O::Release) => given.lease == Lease::Lapsed,
        (Role::Worker, O::RestoreRescue) => true,
        (Role::Agent, O::Add) => given.adding == Adding::Allowed,
        (Role::Agent, O::RestoreRescue) => given.whose == Whose::Own,
        (
            Role::Agent,
            O::Claim | O::BeginPlan | O::Install | O::Run | O::Work | O::MergePlan | O::Release,
        ) => false,
        (
            Role::Agent | Role::Worker,
            O::ForceComplete
            | O::Edit
            | O::Remove
            | O::Retry
            | O::ReplacePlan
            | O::UpdatePlan
            | O::ResetPlan
            | O::EditPhase
            | O::Reply
            | O::Send
            | O::Kick
            | O::Abort
            | O::Pause
            | O::Budget
            | O::Trust
            | O::Acknowledge
            | O::Configure
            | O::Drain
            | O::CollectGarbage
            | O::Revert
            | O::Store
            | O::Transact
            | O::Web
            | O::Notify
            | O::Shutdown
            | O::Uninstall
            | O::Purge,
        ) => false,
    };
    if allowed { Ok(()) } else { Err(NotPermitted { operation }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one letter each for operator, agent and worker: `y` for yes, `n` for no.
    fn row(operation: Operation, given: Circumstances) -> String {
        let roles = [Role::Operator, Role::Agent, Role::Worker];
        roles
            .map(|role| if may(role, operation, given).is_ok() { 'y' } else { 'n' })
            .iter()
            .collect()
    }

    #[test]
    fn the_table_is_that_of_the_specification() {
        use Operation as O;
        let usual = Circumstances::default();
        let expected = |operation| match operation {
            O::Look | O::Ask | O::Handoff | O::FinalizeResearch => "yyy",
            O::Checkpoint | O::Renew | O::Complete | O::Fail | O::Add | O::RestoreRescue => "yyy",
            O::Claim | O::MergePlan | O::BeginPlan | O::Install | O::Run | O::Work => "yny",
            _ => "ynn",
        };
        for operation in Operation::ALL {
            assert_eq!(row(*operation, usual), expected(*operation), "{operation:?}");
        }
    }

    #[test]
    fn circumstances_count_where_the_table_says_so() {
        use Operation as O;
        let usual = Circumstances::default();
        for operation in [O::Checkpoint, O::Renew, O::Complete, O::Fail] {
            assert_eq!(row(operation, Circumstances { whose: Whose::Other, ..usual }), "ynn");
        }
        let others = Circumstances { whose: Whose::Other, ..usual };
        assert_eq!(row(O::RestoreRescue, others), "yny");
        assert_eq!(row(O::Release, Circumstances { lease: Lease::Lapsed, ..usual }), "yny");
        assert_eq!(row(O::Add, Circumstances { adding: Adding::Forbidden, ..usual }), "yny");
        assert_eq!(row(O::MergePlan, Circumstances { merge: Merge::Awaited, ..usual }), "ynn");
        let all = Circumstances {
            whose: Whose::Own,
            lease: Lease::Lapsed,
            adding: Adding::Allowed,
            merge: Merge::OnlyAdds,
        };
        assert_eq!(row(O::Edit, all), "ynn", "nothing helps where the judge would be weakened");
    }

    #[test]
    fn operations_are_found_by_their_words_and_refusals_say_who_may() {
        for operation in Operation::ALL {
            assert_eq!(Operation::parse(operation.name()), Some(*operation));
        }
        assert_eq!(Operation::parse("dance"), None);
        let refusal = may(Role::Agent, Operation::Edit, Circumstances::default()).unwrap_err();
        assert_eq!(refusal.to_string(), "only the operator may edit a task");
    }

    #[test]
    fn an_author_is_named_and_marks_what_it_adds() {
        let attempt = Attempt::parse("a.b.7").unwrap();
        assert_eq!((attempt.task.as_str(), attempt.epoch), ("a.b", Epoch(7)));
        let author = |role, attempt| Author { role, pid: 12, attempt };
        let agent = author(Role::Agent, Some(attempt));
        assert_eq!(
            (agent.to_string(), agent.mark()),
            ("agent (pid=12)".into(), Some("agent a.b.7".into()))
        );
        assert_eq!(author(Role::Worker, None).mark(), Some("worker".into()));
        assert_eq!(author(Role::Operator, None).mark(), None);
        assert!(Attempt::parse("a").is_none() && Attempt::parse("a.x").is_none());
    }
}
