//! One worker: it chooses a task, claims it and has it attempted, one after the other, until
//! nothing is left for it or something stops it. Several workers are several of these machines.
//! Their common state, such as the number of the session and its end, belongs to the
//! [session](super::session).

use super::{
    Input, Machine, Next,
    attempt::{self, AttemptEnd},
    gate::GateEnd,
    halt::Halt,
    scope::TaskScope,
    session::Alerts,
};
use crate::{
    Category, Command, Epoch, Holder, Refusal, Reply, Task, TaskId, Timestamp, WorkerId,
    command::{Claim, Note, Place},
    ledger::Phase,
    run::StopReason,
    stop::{Stop, StopDetail},
    task::Via,
};

/// The start conditions of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerTerms {
    /// The worker in whose name tasks are claimed.
    pub worker: WorkerId,
    /// The tasks that it works on.
    pub scope: TaskScope,
    /// The duration of a claim without a renewal.
    pub lease_seconds: u64,
    /// The limit of attempts that it may begin in this session; zero or less is no limit.
    pub max_tasks: i64,
    /// The end of the run's time. Nothing is begun after that, and no gate continues.
    pub until: Option<Timestamp>,
    /// The alerts when the session began. Later ones are reported at the end.
    pub alerts: Alerts,
}

/// The effects of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEffect {
    /// Determines the next one of these tasks.
    Peek(TaskScope),
    /// Determines the base from which a claim of this task starts.
    Base {
        /// The task that was peeked.
        task: TaskId,
    },
    /// Makes one whole attempt, by the machine of that name.
    Attempt {
        /// The task as it was claimed.
        task: Box<Task>,
        /// The holder of the claim, which every command of the attempt names.
        holder: Holder,
        /// The step at which it begins. A worker only begins attempts.
        entry: attempt::Entry,
    },
    /// Tries the gate that all remaining tasks wait for.
    Gate {
        /// The phase of the gate.
        phase: Phase,
        /// The end of the time. A gate that has not answered by then counts as not tried.
        until: Option<Timestamp>,
    },
}

/// The result of an effect of a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerReport {
    /// The work that is available.
    Peeked {
        /// The next task of the run, those without a check last; `None` if nothing can be worked
        /// on.
        next: Option<Box<Task>>,
        /// The phase that waits for its gate.
        gate: Option<Phase>,
        /// A task that is in progress although no attempt of this session is.
        in_progress: Option<TaskId>,
        /// What the chosen tasks that are left wait for; `None` if all tasks were chosen.
        waiting: Option<String>,
        /// The alerts of the ledger.
        alerts: Alerts,
    },
    /// The result of the gate, which is recorded already.
    Gated(GateEnd),
    /// The base, which is recorded with the claim.
    Based(Place),
    /// The end of the attempt, which is recorded already.
    Attempted(AttemptEnd),
}

/// The end of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEnd {
    /// The reason why it claims nothing more.
    pub why: WorkerStop,
    /// Whether a person has to look at something: a claim was lost, or an alert was raised
    /// meanwhile.
    pub alerted: bool,
}

/// The reason why a worker claims nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerStop {
    /// It began as many attempts as this session allows. The session decides what follows.
    SessionFull,
    /// Nothing is left, or something stops the run.
    Stopped(Stop),
}

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
}

/// The machine of one worker in one session.
pub struct Worker {
    terms: WorkerTerms,
    state: State,
    attempts: i64,
    halt: Halt,
    alerted: bool,
}

type Step = Next<WorkerEffect, WorkerEnd>;

impl Worker {
    /// Creates the machine. Nothing is read before the first step.
    pub fn new(terms: WorkerTerms) -> Self {
        let halt = Halt::new(terms.until);
        Self { terms, state: State::Begun, attempts: 0, halt, alerted: false }
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
    ) -> Step {
        if let Some(stop) = self.halt.stop() {
            return self.stop(stop);
        }
        match (next, gate) {
            (Some(task), _) if task.check().is_some() => self.choose(task),
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
                self.commit(State::Complaining(stop), Command::Note(note))
            }
            (None, None) => self.nothing_left(in_progress, waiting),
        }
    }

    /// Claims the task, unless the session is full. A session is full only with work left, because
    /// the last task needs no further session.
    fn choose(&mut self, task: Box<Task>) -> Step {
        let most = self.terms.max_tasks;
        if most > 0 && self.attempts >= most {
            return self.end(WorkerStop::SessionFull);
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
        match end {
            GateEnd::Passed => self.next_task(),
            GateEnd::Closed { why, .. } => {
                let detail = StopDetail::Gate { phase, why };
                self.stop(Stop { detail, ..Stop::because(StopReason::Gate) })
            }
            GateEnd::Interrupted => self.stop(self.halt.stop().unwrap_or(Stop::interrupted())),
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
            choice: self.terms.scope.choice(task.id.clone()),
            lease_seconds: self.terms.lease_seconds,
            place,
        });
        self.commit(State::Claiming, command)
    }

    fn attempt(&mut self, task: Task, epoch: Epoch) -> Step {
        self.attempts += 1;
        let holder =
            Holder { task: task.id.clone(), worker: self.terms.worker.clone(), epoch: Some(epoch) };
        let state = State::Attempting(task.id.clone());
        let (task, entry) = (Box::new(task), attempt::Entry::Fresh);
        self.start(state, WorkerEffect::Attempt { task, holder, entry })
    }

    fn attempted(&mut self, task: TaskId, end: AttemptEnd) -> Step {
        match end {
            AttemptEnd::Completed { .. } | AttemptEnd::Failed { .. } => self.next_task(),
            AttemptEnd::Lost => {
                self.alerted = true;
                self.commit(State::Losing, lost_claim(task))
            }
            AttemptEnd::Left(stop) => match environment_problem(&stop, Some(task)) {
                Some(note) => self.commit(State::Complaining(stop), note),
                None => self.stop(stop),
            },
        }
    }

    fn ended(&mut self, report: WorkerReport) -> Step {
        match (self.state.clone(), report) {
            (State::Peeking, WorkerReport::Peeked { next, gate, in_progress, waiting, alerts }) => {
                self.alerted |= alerts.grew_since(&self.terms.alerts);
                self.peeked(next, gate, in_progress, waiting)
            }
            (State::Gating(phase), WorkerReport::Gated(end)) => self.gated(phase, end),
            (State::Basing(task), WorkerReport::Based(place)) => self.based(&task, place),
            (State::Attempting(task), WorkerReport::Attempted(end)) => self.attempted(task, end),
            (state, report) => unreachable!("{report:?} cannot be the end of {state:?}"),
        }
    }

    fn committed(&mut self, reply: Reply) -> Step {
        match (self.state.clone(), reply) {
            (State::KeepingUp, _) => {
                self.start(State::Peeking, WorkerEffect::Peek(self.terms.scope.clone()))
            }
            (State::Claiming, Reply::Claimed(claimed)) => self.attempt(claimed.task, claimed.epoch),
            // Upkeep left nothing between the peek and the claim.
            (State::Claiming | State::Losing, _) => self.next_task(),
            (State::Complaining(stop), _) => self.stop(stop),
            (state, reply) => unreachable!("{reply:?} is no answer to {state:?}"),
        }
    }

    fn refused(&mut self, refusal: Refusal) -> Step {
        match (&self.state, refusal) {
            // Something else became more urgent, or was taken: look again.
            (State::Claiming, Refusal::NotNext { .. } | Refusal::NotReady { .. }) => {
                self.next_task()
            }
            (_, refusal) => self.stop(Stop::config(refusal.to_string())),
        }
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
            Input::Committed(reply) => self.committed(reply),
            Input::Refused(refusal) => self.refused(refusal),
            // The attempt receives it too and stops its agent. Here it prevents the start of the
            // next attempt.
            Input::Interrupt => {
                self.halt.interrupt();
                Next::Wait
            }
            Input::Tick | Input::Told(_) => Next::Wait,
        }
    }
}

/// Returns the line of the log for a stop because of the environment. Other stops have a line
/// already, or need none.
pub(super) fn environment_problem(stop: &Stop, task: Option<TaskId>) -> Option<Command> {
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
