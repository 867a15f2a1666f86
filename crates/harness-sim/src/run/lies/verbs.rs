//! Requests of an agent to the host. The product's own code decides who may do what. A refusal is
//! recorded in the same way as by the host.

use harness_core::{
    Category, Command, Flag, Holder, WorkerId,
    agent::AgentEvent,
    command::{Authority, Complete, Edit, Proof, Raise, Release, Remove, Retry, Unchecked},
    role::{Attempt, Author, Circumstances, Operation, Role, Whose, may},
};

use super::lie::Teller;
use crate::run::{Flaw, stage::State};

/// The result of a request.
#[derive(Debug)]
pub(in crate::run) enum Asked {
    /// It is carried out by this command.
    Done(Box<Command>),
    /// It is reported to the run.
    Told(AgentEvent),
    /// It is refused, and this command records the refusal.
    Refused(Box<Command>),
    /// It is refused again, without a new record.
    RefusedAgain,
}

const VERBS: [Operation; 16] = [
    Operation::Edit,
    Operation::Edit,
    Operation::Edit,
    Operation::ForceComplete,
    Operation::ForceComplete,
    Operation::Retry,
    Operation::Release,
    Operation::Remove,
    Operation::ResetPlan,
    Operation::Reply,
    Operation::Budget,
    Operation::Acknowledge,
    Operation::Claim,
    Operation::Complete,
    Operation::Fail,
    Operation::Shutdown,
];

/// Returns the answer of the host to a random request of the agent.
pub(in crate::run) fn answer(state: &mut State, teller: &Teller<'_>) -> Asked {
    let operation = VERBS[state.random.below(VERBS.len())];
    let other = state.random.percent(30);
    let whose = if other { Whose::Other } else { Whose::Own };
    let given = Circumstances { whose, ..Circumstances::default() };
    state.story.tell(|| format!("      it asks to {operation} ({whose:?})"));
    let refusal = match may(Role::Agent, operation, given) {
        Err(refusal) if state.flaw != Flaw::AnyoneMay => refusal,
        _ => return allowed(state, operation, teller),
    };
    state.tally.lies_refused += 1;
    let of = (teller.task.clone(), teller.epoch);
    if !state.lies.refused.insert((of, operation.name())) {
        return Asked::RefusedAgain;
    }
    let attempt = Some(Attempt { task: teller.task.clone(), epoch: teller.epoch });
    let author = Author { role: Role::Agent, pid: 4711, attempt };
    let message = format!("refused to {author}: {refusal}");
    let raise = Raise { task: Some(teller.task.clone()), flag: Flag::Verb, message };
    Asked::Refused(Box::new(Command::Raise(raise)))
}

/// Returns the result of a permitted request.
fn allowed(state: &mut State, operation: Operation, teller: &Teller<'_>) -> Asked {
    let task = teller.task.clone();
    let reason = "so that it ends".to_owned();
    let command = match operation {
        Operation::Complete => return Asked::Told(AgentEvent::Promised),
        Operation::Fail => {
            let message = "I give up".to_owned();
            return Asked::Told(AgentEvent::GaveUp { category: Category::TaskExec, message });
        }
        Operation::ForceComplete => {
            let Ok(worker) = WorkerId::parse("agent") else { return Asked::RefusedAgain };
            Command::Complete(Complete {
                holder: Holder { task, worker, epoch: None },
                authority: Authority::Force,
                proof: Proof::Passed { command: format!("check {}", teller.task) },
                unchecked: Unchecked::Allowed,
                commit: state.head(),
            })
        }
        Operation::Retry => Command::Retry(Retry { task, reason }),
        Operation::Release => Command::Release(Release { task, holder: None, reason }),
        Operation::Remove => Command::Remove(Remove { task }),
        Operation::ResetPlan => Command::Reset,
        Operation::Acknowledge => Command::Acknowledge,
        _ => Command::Edit(Edit {
            validation_command: Some("pass".to_owned()),
            max_attempts: Some(99),
            ..Edit::nothing(task)
        }),
    };
    Asked::Done(Box::new(command))
}
