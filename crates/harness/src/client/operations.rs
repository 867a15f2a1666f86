//! The operations of a client, with typed answers.

use std::{path::Path, time::Duration};

use harness_core::{
    Holder, TaskId,
    command::{Add, Authority, ConfigureSession, Edit, EditPhase},
    machine::judge::ClientWork,
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Caller, Client, ClientError, Connection, EventLines, Hosts, Reach, everyone::sockets_beside,
};
use crate::host::socket::Places;
use crate::project::Backing;
use crate::protocol::{
    Answer, BudgetRequest, BudgetView, Call, ClaimedTask, CompletedTask, ExtendedLease, FailedTask,
    ImportedPlan, Inquiry, PlanText, Pong, QuestionAnswer, QuestionReply, QuestionView, Request,
    ResetPlan, SentMessage, StateView, StatusView, Subscribe, TaskCheckpoint, TaskClaim,
    TaskComplete, TaskFail, TaskReason, TaskRenew, Verb,
};

/// How long a host may take to list its questions before a view is shown without them.
const QUESTIONS_WITHIN: Duration = Duration::from_millis(500);

/// Checks that the answer has the form that belongs to the request. Otherwise it comes from another
/// version.
macro_rules! expect {
    ($answer:expr, $pattern:pat => $value:expr) => {
        match $answer? {
            $pattern => Ok($value),
            _ => Err(ClientError::Strange),
        }
    };
}

impl<C: Caller> Client<C> {
    /// Returns the host that answers. One is started if the options provide it.
    pub fn ping(&mut self) -> Result<Pong, ClientError> {
        expect!(self.ask(Request::Ping), Answer::Pong(pong) => pong)
    }

    /// Returns the goal and all tasks; `None` if there is no ledger.
    pub fn get_state(&mut self) -> Result<Option<StateView>, ClientError> {
        expect!(self.ask(Request::GetState), Answer::State(state) => state)
    }

    /// Returns the tasks with counts, and the last `event_count` events.
    pub fn status(&mut self, event_count: u64) -> Result<StatusView, ClientError> {
        let request = Request::Status { event_count: Some(event_count) };
        expect!(self.ask(request), Answer::Status(status) => status)
    }

    /// Imports a plan into the ledger, which is created if there is none.
    pub fn import_plan(&mut self, plan: PlanText) -> Result<ImportedPlan, ClientError> {
        expect!(self.ask(Request::PlanImport(plan)), Answer::Imported(imported) => imported)
    }

    /// Archives all tasks.
    pub fn reset_plan(&mut self) -> Result<ResetPlan, ClientError> {
        expect!(self.ask(Request::PlanReset), Answer::Reset(reset) => reset)
    }

    /// Claims the next task; `None` if none is ready. A worker that holds a task gets the same one.
    pub fn claim(&mut self, claim: TaskClaim) -> Result<Option<ClaimedTask>, ClientError> {
        let answer = self.ask(Request::TaskClaim(claim));
        expect!(answer, Answer::Claimed(claimed) => claimed.map(|claimed| *claimed))
    }

    /// Records a step, and renews the lease.
    pub fn checkpoint(&mut self, step: TaskCheckpoint) -> Result<ExtendedLease, ClientError> {
        expect!(self.ask(Request::TaskCheckpoint(step)), Answer::Lease(lease) => lease)
    }

    /// Renews the lease.
    pub fn renew(&mut self, holder: Holder) -> Result<ExtendedLease, ClientError> {
        self.renew_for(holder, None)
    }

    /// Renews the lease for this many seconds, unless the task has a time limit.
    pub fn renew_for(
        &mut self,
        holder: Holder,
        lease_seconds: Option<u64>,
    ) -> Result<ExtendedLease, ClientError> {
        let renewal = TaskRenew { holder, lease_seconds };
        expect!(self.ask(Request::TaskRenew(renewal)), Answer::Lease(lease) => lease)
    }

    /// Runs the check of a claimed task. The task is completed only if it passes.
    pub fn complete(&mut self, holder: Holder) -> Result<CompletedTask, ClientError> {
        self.complete_as(holder, Authority::Holder)
    }

    /// Does the same, possibly for a task that another worker or nobody has claimed.
    pub fn complete_as(
        &mut self,
        holder: Holder,
        authority: Authority,
    ) -> Result<CompletedTask, ClientError> {
        self.complete_task(TaskComplete { holder, authority, work: ClientWork::Left })
    }

    /// The same with everything that can be asked for.
    pub fn complete_task(&mut self, request: TaskComplete) -> Result<CompletedTask, ClientError> {
        let request = Request::TaskComplete(request);
        expect!(self.ask(request), Answer::Completed(completed) => completed)
    }

    /// Gives up an attempt.
    pub fn fail(&mut self, fail: TaskFail) -> Result<FailedTask, ClientError> {
        expect!(self.ask(Request::TaskFail(fail)), Answer::Failed(failed) => failed)
    }

    /// Adds or changes a phase.
    pub fn edit_phase(&mut self, edit: EditPhase) -> Result<(), ClientError> {
        expect!(self.ask(Request::PhaseEdit(edit)), Answer::Nothing {} => ())
    }

    /// Removes a phase that has no tasks.
    pub fn remove_phase(&mut self, name: String) -> Result<(), ClientError> {
        expect!(self.ask(Request::PhaseRemove { name }), Answer::Nothing {} => ())
    }

    /// Changes a key of `session_config`.
    pub fn configure_session(&mut self, of: ConfigureSession) -> Result<(), ClientError> {
        expect!(self.ask(Request::SessionConfigure(of)), Answer::Nothing {} => ())
    }

    /// Adds a task with only a title.
    pub fn add_task(&mut self, title: &str) -> Result<TaskId, ClientError> {
        let fields = Edit::nothing(TaskId::numbered(0));
        self.add(Add { id: None, title: title.to_owned(), fields })
    }

    /// Adds a task.
    pub fn add(&mut self, add: Add) -> Result<TaskId, ClientError> {
        self.change(Request::TaskAdd(add))
    }

    /// Changes a task.
    pub fn edit(&mut self, edit: Edit) -> Result<TaskId, ClientError> {
        self.change(Request::TaskEdit(edit))
    }

    /// Removes a task.
    pub fn remove(&mut self, task_id: TaskId) -> Result<TaskId, ClientError> {
        self.change(Request::TaskRemove { task_id })
    }

    /// Gives a failed task new attempts.
    pub fn retry(&mut self, task: TaskReason) -> Result<TaskId, ClientError> {
        self.change(Request::TaskRetry(task))
    }

    /// Releases a claim.
    pub fn release(&mut self, task: TaskReason) -> Result<TaskId, ClientError> {
        self.change(Request::TaskRelease(task))
    }

    fn change(&mut self, request: Request) -> Result<TaskId, ClientError> {
        expect!(self.ask(request), Answer::Task { task_id } => task_id)
    }

    /// Asks the people behind a run, and waits for their answer.
    pub fn inquire(&mut self, inquiry: Inquiry) -> Result<QuestionAnswer, ClientError> {
        expect!(self.ask(Request::Ask(inquiry)), Answer::Answered(answer) => answer)
    }

    /// Returns the questions that wait for an answer.
    pub fn questions(&mut self) -> Result<Vec<QuestionView>, ClientError> {
        expect!(self.ask(Request::Questions), Answer::Questions(questions) => questions)
    }

    /// Answers a question.
    pub fn reply(&mut self, reply: QuestionReply) -> Result<(), ClientError> {
        expect!(self.ask(Request::Reply(reply)), Answer::Replied { .. } => ())
    }

    /// Sends a message to a run. Returns how many agents can read it; an older host does not tell.
    pub fn send(&mut self, message: SentMessage) -> Result<Option<u64>, ClientError> {
        expect!(self.ask(Request::Send(message)), Answer::Sent { received } => received)
    }

    /// Acknowledges the alerts of the ledger.
    pub fn acknowledge(&mut self) -> Result<(), ClientError> {
        expect!(self.ask(Request::Ack), Answer::Nothing {} => ())
    }

    /// Ends waits for usage limits, and returns their number.
    pub fn kick(&mut self) -> Result<u64, ClientError> {
        expect!(self.ask(Request::Kick), Answer::Woken { woken } => woken)
    }

    /// Stops claiming, for all workers.
    pub fn pause(&mut self) -> Result<(), ClientError> {
        expect!(self.ask(Request::Pause), Answer::Nothing {} => ())
    }

    /// Starts claiming again.
    pub fn resume(&mut self) -> Result<(), ClientError> {
        expect!(self.ask(Request::Resume), Answer::Nothing {} => ())
    }

    /// Returns the budget of a run, after changing it if the request has a limit.
    pub fn budget(&mut self, of: BudgetRequest) -> Result<BudgetView, ClientError> {
        expect!(self.ask(Request::Budget(of)), Answer::Budget(budget) => budget)
    }

    /// Stops a run.
    pub fn abort(&mut self, reason: Option<String>) -> Result<(), ClientError> {
        expect!(self.ask(Request::Abort { reason }), Answer::Nothing {} => ())
    }

    /// Ends a daemon. It returns before the daemon is gone.
    pub fn shutdown(&mut self) -> Result<(), ClientError> {
        expect!(self.ask(Request::Shutdown), Answer::Shutdown { .. } => ())
    }

    /// Subscribes to events of the given types (all types if none is given), on its own connection.
    /// `since` is the last event that was seen.
    pub fn subscribe(
        &self,
        kinds: &[&str],
        since: Option<Uuid>,
    ) -> Result<EventLines, ClientError> {
        let reach = Reach::of(&self.root, &self.options.places);
        let Reach::Host(connection) = reach else {
            return Err(ClientError::Nobody { root: self.root.clone() });
        };
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let filter = (!kinds.is_empty()).then_some(kinds);
        let line = self.line(&Request::Subscribe(Subscribe { filter, since }));
        EventLines::begin(connection, &line, self.options.stop.clone())
    }
}

/// The open questions of the processes at work in `root`, and of other machines if the ledger is in a
/// database, for what must never wait long. It starts nothing, and a process that does not answer at once
/// has none.
pub fn open_questions(
    root: &Path,
    hosts: Hosts,
    places: &Places,
    backing: &Backing,
) -> Vec<QuestionView> {
    let mut open = match hosts {
        Hosts::Asked => questions_here(root, places),
        Hosts::Ignored => Vec::new(),
    };
    open.extend(questions_elsewhere(root, hosts, backing));
    open
}

fn questions_here(root: &Path, places: &Places) -> Vec<QuestionView> {
    let line = Value::Object(Call::line(&Request::Questions, root, None));
    let of = |mut connection: Connection| {
        let answer = connection.ask(&line, Some(QUESTIONS_WITHIN)).ok();
        match answer.and_then(|data| Answer::read(Verb::Questions, data)) {
            Some(Answer::Questions(questions)) => questions,
            Some(_) | None => Vec::new(),
        }
    };
    let host = Connection::find(root, places);
    let sockets = sockets_beside(root, host.as_ref().and_then(Connection::path).as_deref());
    let others = sockets.iter().filter_map(|socket| Connection::connect(socket).ok());
    host.into_iter().chain(others).flat_map(of).collect()
}

#[cfg(feature = "postgres")]
fn questions_elsewhere(root: &Path, hosts: Hosts, backing: &Backing) -> Vec<QuestionView> {
    super::elsewhere::seen_questions(backing, root, hosts)
}

#[cfg(not(feature = "postgres"))]
fn questions_elsewhere(_: &Path, _: Hosts, _: &Backing) -> Vec<QuestionView> {
    Vec::new()
}
