//! One worker: it chooses a task, claims it and has it attempted, one after the other, until
//! nothing is left for it or something stops it. Several workers are several of these machines.
//! Their common state, such as the number of the session and its end, belongs to the
//! [session](super::session).

mod parallel;
mod terms;

pub use terms::{
    Abandoned, Claiming, Found, LandedAlready, Others, ParallelWork, WhenIdle, WorkerEffect,
    WorkerEnd, WorkerReport, WorkerStop, WorkerTerms,
};

use super::{
    Input, Machine, Next,
    attempt::{self, AttemptEnd},
    gate::GateEnd,
    halt::Halt,
};
use crate::{
    Category, Command, Epoch, Holder, Refusal, Reply, Task, TaskId, Timestamp,
    agent::StoppedBy,
    command::{Claim, ClaimChoice, Hold, Note, Place},
    ledger::Phase,
    run::StopReason,
    stop::{Stop, StopDetail},
    task::Via,
};

#[derive(Debug, Clone, PartialEq)]
enum State {
    Begun,
    KeepingUp,
    Peeking,
    Gating(String),
    Basing(Box<Task>),
    Claiming,
    Attempting(TaskId),
    /// The loss of a claim is being written to the log.
    Losing,
    Complaining(Stop),
    /// Nothing can be claimed now, but others are at work.
    Awaiting,
    /// The tree is being made ready for the claimed task.
    Opening(Box<Task>),
    /// The claim of a task whose tree could not be made ready is given back.
    Returning(Stop),
    TakingOver(Box<Task>),
    /// It is determined whether the result of a dead worker has landed.
    Resolving(Box<TakenOver>),
    Voiding(Box<TakenOver>),
    Transplanting(Box<TakenOver>),
    /// The task of the dead worker is completed or failed at once.
    Settling,
    /// The lease of a task that is left ends at once, so that others need not wait.
    EndingLease(Stop),
    HoldingGate(Phase),
    /// The gate is given back.
    ReleasingGate(Stop),
}

/// A task of a dead worker: as it was found, and as it was taken.
#[derive(Debug, Clone, PartialEq)]
struct TakenOver {
    found: Task,
    taken: Task,
    holder: Holder,
}

/// The machine of one worker in one session.
pub struct Worker {
    terms: WorkerTerms,
    state: State,
    attempts: i64,
    halt: Halt,
    alerted: bool,
    /// The number of completed tasks at the last look, if the next task reserves files.
    landed: Option<usize>,
    /// `true` while the hold of a gate is renewed, beside the effect.
    aside: bool,
}

type Step = Next<WorkerEffect, WorkerEnd>;

impl Worker {
    /// Creates the machine. Nothing is read before the first step.
    pub fn new(terms: WorkerTerms) -> Self {
        let halt = Halt::new(terms.until);
        let (state, landed) = (State::Begun, None);
        Self { terms, state, attempts: 0, halt, alerted: false, landed, aside: false }
    }

    fn start(&mut self, state: State, effect: WorkerEffect) -> Step {
        self.state = state;
        Next::Start(effect)
    }

    fn commit(&mut self, state: State, command: Command) -> Step {
        self.state = state;
        Next::Commit(Box::new(command))
    }

    fn end(&self, why: WorkerStop) -> Step {
        Next::Done(WorkerEnd { why, alerted: self.alerted })
    }

    fn stop(&self, stop: Stop) -> Step {
        self.end(WorkerStop::Stopped(stop))
    }

    /// Continues with the next task, after checking everything that can stop a worker.
    fn next_task(&mut self) -> Step {
        match self.halt.stop() {
            Some(stop) => self.stop(stop),
            None => self.commit(State::KeepingUp, Command::Upkeep),
        }
    }

    fn peeked(
        &mut self,
        next: Option<Box<Task>>,
        gate: Option<Phase>,
        in_progress: Option<TaskId>,
        waiting: Option<String>,
        others: Option<&Others>,
        claiming: Claiming,
    ) -> Step {
        if let Some(stop) = self.halt.stop() {
            return self.stop(stop);
        }
        self.landed = others.and_then(|others| others.landed);
        // Without work left, a pause makes no difference: the worker ends as it would otherwise.
        let is_left = next.is_some() || gate.is_some();
        if claiming == Claiming::Paused && is_left && others.is_none_or(|o| o.stopped.is_none()) {
            return self.wait();
        }
        if let Some(step) = others.and_then(|others| self.before_next(others)) {
            return step;
        }
        match (next, gate) {
            (Some(task), _) if task.check().is_some() => self.choose(task, others),
            (_, Some(phase)) if self.terms.parallel.is_some() => self.hold_gate(phase),
            // The gate may open more work, and a task without a check comes last.
            (_, Some(phase)) => {
                let state = State::Gating(phase.name.clone());
                self.start(state, WorkerEffect::Gate { phase, until: self.terms.until })
            }
            (Some(task), None) => {
                let message = "Missing validation.command".to_owned();
                let (reason, detail) = (StopReason::Config, StopDetail::NoCheck);
                let stop = Stop { reason, detail, task: Some(task.id.clone()) };
                let category = Category::Config;
                let note = Note::Problem { task: Some(task.id), category, message };
                if let Some(step) = others.and_then(|others| self.wait_for_others(others)) {
                    return step;
                }
                self.commit(State::Complaining(stop), Command::Note(note))
            }
            (None, None) => match others.and_then(|others| self.wait_for_others(others)) {
                Some(step) => step,
                None => self.nothing_left(in_progress, waiting),
            },
        }
    }

    /// Claims the task, unless the session is full. A session is full only with work left, because
    /// the last task needs no further session.
    fn choose(&mut self, task: Box<Task>, others: Option<&Others>) -> Step {
        let most = self.terms.max_tasks;
        let full = match &self.terms.parallel {
            None => most > 0 && self.attempts >= most,
            Some(_) => self.full_for_all(others),
        };
        if full {
            return self.session_full();
        }
        let id = task.id.clone();
        self.start(State::Basing(task), WorkerEffect::Base { task: id })
    }

    fn nothing_left(&self, in_progress: Option<TaskId>, waiting: Option<String>) -> Step {
        self.stop(match (in_progress, waiting) {
            (Some(task), _) => Stop {
                reason: StopReason::Crashed,
                detail: StopDetail::Unattended,
                task: Some(task),
            },
            (None, Some(waiting)) => Stop::with_words(StopReason::Once, waiting),
            (None, None) => Stop::because(StopReason::Complete),
        })
    }

    fn gated(&mut self, phase: String, end: GateEnd) -> Step {
        let held = phase.clone();
        let stop = match end {
            GateEnd::Passed => return self.next_task(),
            GateEnd::Closed { why, .. } => {
                let detail = StopDetail::Gate { phase, why };
                Stop { detail, ..Stop::because(StopReason::Gate) }
            }
            GateEnd::Interrupted => self.halt.stop().unwrap_or(Stop::interrupted()),
        };
        match &self.terms.parallel {
            None => self.stop(stop),
            Some(_) => {
                let release = self.gate_command(&held, Hold::Release);
                self.commit(State::ReleasingGate(stop), release)
            }
        }
    }

    fn based(&mut self, task: &Task, place: Place) -> Step {
        if let Some(stop) = self.halt.stop() {
            return self.stop(stop);
        }
        let command = Command::Claim(Claim {
            worker: self.terms.worker.clone(),
            via: Via::Run,
            role: None,
            labels: self.terms.labels.clone(),
            choice: match &self.terms.parallel {
                None => self.terms.scope.choice(task.id.clone()),
                // Others claim too, so that this task need not be the next one any more.
                Some(_) => ClaimChoice::Ready(task.id.clone()),
            },
            lease_seconds: self.terms.lease_seconds,
            place,
            parallel: self.parallel_terms(),
        });
        self.commit(State::Claiming, command)
    }

    fn claimed(&mut self, task: Task, epoch: Epoch) -> Step {
        self.attempts += 1;
        match &self.terms.parallel {
            None => self.attempt(task, epoch),
            Some(_) => self.open(task),
        }
    }

    fn attempt(&mut self, task: Task, epoch: Epoch) -> Step {
        let holder = self.holder(&task, epoch);
        let state = State::Attempting(task.id.clone());
        let (task, entry) = (Box::new(task), attempt::Entry::Fresh);
        self.start(state, WorkerEffect::Attempt { task, holder, entry })
    }

    fn attempted(&mut self, task: TaskId, end: AttemptEnd) -> Step {
        match end {
            // A task that it still holds is found again, as one of a dead worker would be.
            AttemptEnd::Completed { .. } | AttemptEnd::Failed { .. } | AttemptEnd::Paused => {
                self.next_task()
            }
            AttemptEnd::Lost => {
                self.alerted = true;
                let note = match &self.terms.parallel {
                    None => lost_claim(task),
                    Some(_) => self.late_result(task),
                };
                self.commit(State::Losing, note)
            }
            AttemptEnd::Left(stop) if self.terms.parallel.is_some() => {
                self.end_lease(task, None, stop)
            }
            AttemptEnd::Left(stop) => self.complain(stop, Some(task)),
        }
    }

    /// Stops, with a line in the log if the environment is the reason.
    fn complain(&mut self, stop: Stop, task: Option<TaskId>) -> Step {
        match environment_problem(&stop, task) {
            Some(note) => self.commit(State::Complaining(stop), note),
            None => self.stop(stop),
        }
    }

    fn ended(&mut self, report: WorkerReport) -> Step {
        match (self.state.clone(), report) {
            (
                State::Peeking,
                WorkerReport::Peeked { next, gate, in_progress, waiting, alerts, others, claiming },
            ) => {
                self.alerted |= alerts.grew_since(&self.terms.alerts);
                self.peeked(next, gate, in_progress, waiting, others.as_deref(), claiming)
            }
            (State::Awaiting, WorkerReport::Awaited) => self.next_task(),
            (State::Opening(task), WorkerReport::Opened) => {
                let epoch = task.epoch.unwrap_or_default();
                self.attempt(*task, epoch)
            }
            (State::Opening(task), WorkerReport::NotOpened { why }) => self.not_opened(&task, &why),
            (State::Resolving(over), WorkerReport::Resolved(landed)) => self.resolved(over, landed),
            (State::Transplanting(over), WorkerReport::Transplanted(found)) => {
                self.transplanted(*over, found)
            }
            (State::Gating(phase), WorkerReport::Gated(end)) => self.gated(phase, end),
            (State::Basing(task), WorkerReport::Based(place)) => self.based(&task, place),
            (State::Basing(_), WorkerReport::NoBase { why }) => self.stop(Stop::config(why)),
            (State::Peeking | State::Basing(_), WorkerReport::Unreachable { why }) => {
                self.complain(Stop::with_words(StopReason::EnvSetup, why), None)
            }
            (
                State::Resolving(over) | State::Transplanting(over),
                WorkerReport::Unreachable { why },
            ) => {
                let stop = Stop::with_words(StopReason::EnvSetup, why);
                self.end_lease(over.taken.id, over.taken.epoch, stop)
            }
            (State::Attempting(task), WorkerReport::Attempted(end)) => self.attempted(task, end),
            (state, report) => unreachable!("{report:?} cannot be the end of {state:?}"),
        }
    }

    fn committed(&mut self, reply: Reply) -> Step {
        match (self.state.clone(), reply) {
            (State::KeepingUp, _) => {
                let (scope, labels) = (self.terms.scope.clone(), self.terms.labels.clone());
                self.start(State::Peeking, WorkerEffect::Peek { scope, labels })
            }
            (State::Claiming, Reply::Claimed(claimed)) => self.claimed(claimed.task, claimed.epoch),
            // Upkeep left nothing between the peek and the claim.
            (State::Claiming | State::Losing | State::Settling, _) => self.next_task(),
            (State::Complaining(stop) | State::ReleasingGate(stop), _) => self.stop(stop),
            (State::EndingLease(stop), _) => self.complain(stop, None),
            (State::Returning(stop), _) => self.returned(stop),
            (State::TakingOver(found), Reply::Claimed(claimed)) => {
                self.taken_over(*found, claimed.task, claimed.epoch)
            }
            (State::Voiding(over), _) => self.transplant(over),
            (State::HoldingGate(phase), _) => {
                let state = State::Gating(phase.name.clone());
                self.start(state, WorkerEffect::Gate { phase, until: self.terms.until })
            }
            (state, reply) => unreachable!("{reply:?} is no answer to {state:?}"),
        }
    }

    fn refused(&mut self, refusal: Refusal) -> Step {
        match (&self.state, refusal) {
            // Something else became more urgent, or was taken: look again.
            (
                State::Claiming,
                Refusal::NotNext { .. }
                | Refusal::NotReady { .. }
                | Refusal::Paused { .. }
                | Refusal::Unsettled,
            ) => self.next_task(),
            // Another worker was faster, or the dead one is not dead.
            (State::TakingOver(_) | State::Voiding(_) | State::Settling, _) => self.wait(),
            (State::HoldingGate(_), Refusal::GateHeld { .. }) => self.wait(),
            (State::EndingLease(stop) | State::ReleasingGate(stop), _) => {
                let stop = stop.clone();
                self.complain(stop, None)
            }
            (State::Claiming, Refusal::MaxSessions { .. }) => {
                self.stop(Stop::because(StopReason::MaxSessions))
            }
            (_, refusal) => self.stop(Stop::config(refusal.to_string())),
        }
    }

    fn wait(&mut self) -> Step {
        self.start(State::Awaiting, WorkerEffect::Await)
    }
}

impl Machine for Worker {
    type Effect = WorkerEffect;
    type Ended = WorkerReport;
    type Outcome = WorkerEnd;

    fn step(&mut self, now: Timestamp, input: Input<WorkerReport>) -> Step {
        self.halt.note_time(now);
        match input {
            Input::Begin => self.next_task(),
            Input::Ended(report) => self.ended(report),
            // The hold of a gate was renewed, or is lost to a worker that took this one for dead.
            Input::Committed(_) | Input::Refused(_) if self.aside => {
                self.aside = false;
                Next::Wait
            }
            Input::Committed(reply) => self.committed(reply),
            Input::Refused(refusal) => self.refused(refusal),
            // The attempt receives it too and stops its agent. Here it prevents the start of the
            // next attempt.
            Input::Interrupt => {
                self.halt.interrupt();
                match self.state {
                    State::Awaiting => Next::Cancel(StoppedBy::User),
                    _ => Next::Wait,
                }
            }
            Input::Tick => self.renew_gate(),
            Input::Allowed(allowance) => {
                self.terms.until = allowance.deadline;
                self.halt.extend(allowance.deadline, now);
                Next::Wait
            }
            Input::Told(_) => Next::Wait,
        }
    }
}

/// Returns the line of the log for a stop because of the environment. Other stops have a line
/// already, or need none.
pub fn environment_problem(stop: &Stop, task: Option<TaskId>) -> Option<Command> {
    if stop.reason != StopReason::EnvSetup {
        return None;
    }
    let message = stop.words().unwrap_or("the environment is not ready").to_owned();
    Some(Command::Note(Note::Problem { task, category: Category::EnvSetup, message }))
}

/// Returns the line of the log for an attempt whose claim was taken by another process.
pub(super) fn lost_claim(task: TaskId) -> Command {
    let message = "its claim was lost: what was done is in no commit of this run, \
                   `harness rescue list` shows what was saved";
    Command::Note(Note::Warning { task: Some(task), message: message.to_owned() })
}
