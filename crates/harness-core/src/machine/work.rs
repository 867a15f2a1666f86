//! A session over the ledger: look around, prepare, recover what was left, then one task after the
//! other until nothing is left or something says stop.

mod survey;

pub use survey::{Alerts, Interrupted, Survey};

use super::{
    Input, Machine, Next,
    attempt::{self, AttemptEnd},
    gate::GateEnd,
    recovery::{self, Action},
};
use crate::{
    Category, Command, Epoch, Holder, Refusal, Reply, Task, TaskId, Timestamp, WorkerId,
    command::{Adopt, BeginSession, Claim, EndSession, Note, OfRun, Place},
    ledger::Phase,
    run::StopReason,
    stop::{Stop, StopDetail},
    task::{Intent, Via},
};

/// What a session starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// In whose name tasks are claimed and adopted.
    pub worker: WorkerId,
    /// Of the process, for the log.
    pub pid: u32,
    /// How long a claim holds without a renewal.
    pub lease_seconds: u64,
    /// Attempts in one session, without those recovered; zero or less is no limit.
    pub max_tasks: i64,
    /// Sessions that the ledger may have had, in the place of what it says itself.
    pub max_sessions: Option<i64>,
    /// What follows at `max_tasks`.
    pub runs: Runs,
    /// When its time is up. Nothing is begun after that, and no gate goes on.
    pub until: Option<Timestamp>,
    /// Said at each tick, so that the row of the run stays its driver's.
    pub heartbeat: Option<OfRun>,
}

/// What follows when a session has worked on as many tasks as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// The next one begins.
    On,
    /// All is over, even if tasks are left.
    Once,
}

/// What a session asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The tree, the claims of clients, interrupted attempts.
    Survey,
    /// The init script, if there is one.
    Prepare,
    /// Which task is next.
    Peek,
    /// What a claim of this task starts from.
    Base {
        /// The one that was peeked.
        task: TaskId,
    },
    /// One whole attempt, by the machine of that name.
    Attempt {
        /// As it was claimed or adopted.
        task: Box<Task>,
        /// The right to it; every command of the attempt names it.
        holder: Holder,
        /// New, or taken up again.
        entry: attempt::Entry,
    },
    /// The gate that everything left waits for.
    Gate {
        /// Whose.
        phase: Phase,
        /// What has said nothing by then says nothing.
        until: Option<Timestamp>,
    },
    /// Nothing is left to do: the marker goes.
    Close,
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// Before anything was changed.
    Surveyed(Survey),
    /// Of the init script.
    Prepared(Prepared),
    /// What there is to do.
    Peeked {
        /// `None`: nothing can be worked on.
        next: Option<Box<Task>>,
        /// The phase that waits for its gate.
        gate: Option<Phase>,
        /// A task that is in progress although no attempt of this session is.
        in_progress: Option<TaskId>,
        /// What there is to look at.
        alerts: Alerts,
    },
    /// It passed or not, and that is recorded.
    Gated(GateEnd),
    /// It is recorded with the claim.
    Based(Place),
    /// It is recorded already.
    Attempted(AttemptEnd),
    /// The marker is gone, or there was none. What the end of the session found is in the alerts.
    Closed(Alerts),
}

/// What the init script came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepared {
    /// Nothing was run, and nothing is logged.
    NoScript,
    /// Exit code 0.
    Passed,
    /// It is run once more; failing again stops the session.
    Failed,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Begun,
    Surveying,
    Preparing {
        again: bool,
    },
    /// The result of the init script is on its way into the log.
    Prepared {
        passed: bool,
        again: bool,
    },
    Adopting(Box<Interrupted>, Action),
    Recovering,
    BeginningSession,
    KeepingUp,
    Peeking,
    Gating(String),
    Basing(Box<Task>),
    Claiming,
    Attempting,
    /// The loss of a claim is on its way into the log.
    Losing {
        recovering: bool,
    },
    Complaining(Stop),
    EndingSession(Then),
    Closing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Then {
    Stop(Stop),
    NextSession,
}

/// The machine of a session, or of one after the other with [`Runs::On`].
pub struct Work {
    session: Session,
    state: State,
    interrupted: Vec<Interrupted>,
    tasks_done: i64,
    interrupt: bool,
    out_of_time: bool,
    /// A heartbeat is on its way, beside the effect.
    beating: bool,
    /// What there was to look at when the session began.
    alerts: Alerts,
    /// A claim was lost, or an alert was raised.
    alerted: bool,
    /// The attempt that is under way.
    attempted: Option<TaskId>,
}

type Step = Next<Effect, Stop>;

impl Work {
    /// Nothing is looked at before the first step.
    pub fn new(session: Session) -> Self {
        Self {
            session,
            state: State::Begun,
            interrupted: Vec::new(),
            tasks_done: 0,
            interrupt: false,
            out_of_time: false,
            beating: false,
            alerts: Alerts::default(),
            alerted: false,
            attempted: None,
        }
    }

    fn start(&mut self, state: State, effect: Effect) -> Step {
        self.state = state;
        Next::Start(effect)
    }

    fn commit(&mut self, state: State, command: Command) -> Step {
        self.state = state;
        Next::Commit(Box::new(command))
    }

    fn surveyed(&mut self, survey: Survey) -> Step {
        if let Some((task, worker)) = survey.client {
            let detail = StopDetail::Client(worker);
            return Next::Done(Stop { reason: StopReason::Config, detail, task: Some(task) });
        }
        if !survey.dirty.is_empty() && survey.interrupted.is_empty() {
            let detail = StopDetail::Dirty(survey.dirty);
            return Next::Done(Stop { detail, ..Stop::because(StopReason::Config) });
        }
        self.interrupted = survey.interrupted;
        self.alerts = survey.alerts;
        self.start(State::Preparing { again: false }, Effect::Prepare)
    }

    fn prepared(&mut self, again: bool, prepared: Prepared) -> Step {
        let passed = match prepared {
            Prepared::NoScript => return self.recover_next(),
            Prepared::Passed => true,
            Prepared::Failed => false,
        };
        self.commit(State::Prepared { passed, again }, Command::Note(Note::HealthCheck { passed }))
    }

    /// One interrupted attempt after the other; then the session proper begins.
    fn recover_next(&mut self) -> Step {
        if let Some(why) = self.halted() {
            return self.stop(why);
        }
        let Some(found) = self.interrupted.pop() else { return self.begin_session() };
        let action = recovery::action(found.evidence);
        let (name, mut reason) = match found.task.intent() {
            Some(Intent::Rollback { category, .. }) => {
                ("roll back", format!("a rollback was intended ({category})"))
            }
            Some(Intent::Land { .. }) | None => (action.name(), action.reason().into_owned()),
        };
        if let Some(remark) = &found.remark {
            reason = format!("{reason}; {remark}");
        }
        let command = Command::Adopt(Adopt {
            task: found.task.id.clone(),
            worker: self.session.worker.clone(),
            lease_seconds: self.session.lease_seconds,
            action: name.to_owned(),
            reason,
        });
        self.commit(State::Adopting(Box::new(found), action), command)
    }

    fn begin_session(&mut self) -> Step {
        self.tasks_done = 0;
        let (pid, max_sessions) = (self.session.pid, self.session.max_sessions);
        let command = Command::BeginSession(BeginSession { pid, max_sessions });
        self.commit(State::BeginningSession, command)
    }

    /// Between two tasks everything that can end a session is looked at.
    fn next_task(&mut self) -> Step {
        if let Some(why) = self.halted() {
            return self.stop(why);
        }
        let most = self.session.max_tasks;
        if most > 0 && self.tasks_done >= most {
            return match self.session.runs {
                Runs::Once => self.stop(Stop::because(StopReason::Once)),
                Runs::On => self.end_session(Then::NextSession),
            };
        }
        self.commit(State::KeepingUp, Command::Upkeep)
    }

    fn peeked(
        &mut self,
        next: Option<Box<Task>>,
        gate: Option<Phase>,
        in_progress: Option<TaskId>,
    ) -> Step {
        if let Some(why) = self.halted() {
            return self.stop(why);
        }
        let task = match (next, gate) {
            (Some(task), _) => task,
            (None, Some(phase)) => {
                let state = State::Gating(phase.name.clone());
                return self.start(state, Effect::Gate { phase, until: self.session.until });
            }
            (None, None) => {
                return self.stop(match (in_progress, self.alerted) {
                    (Some(task), _) => Stop {
                        reason: StopReason::Crashed,
                        detail: StopDetail::Unattended,
                        task: Some(task),
                    },
                    (None, true) => Stop::alerted(),
                    (None, false) => Stop::because(StopReason::Complete),
                });
            }
        };
        if task.check().is_none() {
            let message = "Missing validation.command".to_owned();
            let why = Stop::config(format!("{}: {message}", task.id));
            let note = Note::Problem { task: Some(task.id), category: Category::Config, message };
            return self.commit(State::Complaining(why), Command::Note(note));
        }
        let id = task.id.clone();
        self.start(State::Basing(task), Effect::Base { task: id })
    }

    fn gated(&mut self, phase: String, end: GateEnd) -> Step {
        match end {
            GateEnd::Passed => self.next_task(),
            GateEnd::Closed { why, .. } => {
                let detail = StopDetail::Gate { phase, why };
                self.stop(Stop { detail, ..Stop::because(StopReason::Gate) })
            }
            GateEnd::Interrupted => self.stop(self.halted().unwrap_or(Stop::interrupted())),
        }
    }

    fn based(&mut self, task: &Task, place: Place) -> Step {
        if let Some(why) = self.halted() {
            return self.stop(why);
        }
        let command = Command::Claim(Claim {
            worker: self.session.worker.clone(),
            via: Via::Run,
            role: None,
            only: Some(task.id.clone()),
            lease_seconds: self.session.lease_seconds,
            place,
        });
        self.commit(State::Claiming, command)
    }

    fn attempt(&mut self, state: State, task: Task, epoch: Epoch, entry: attempt::Entry) -> Step {
        let holder = Holder {
            task: task.id.clone(),
            worker: self.session.worker.clone(),
            epoch: Some(epoch),
        };
        self.attempted = Some(task.id.clone());
        self.start(state, Effect::Attempt { task: Box::new(task), holder, entry })
    }

    fn attempted(&mut self, end: AttemptEnd) -> Step {
        let recovering = self.state == State::Recovering;
        match end {
            AttemptEnd::Completed { .. } | AttemptEnd::Failed { .. } => {
                self.after_attempt(recovering)
            }
            AttemptEnd::Lost => {
                self.alerted = true;
                let message = "its claim was lost: what was done is in no commit of this run, \
                               `harness rescue list` shows what was saved";
                let (task, message) = (self.attempted.take(), message.to_owned());
                let note = Command::Note(Note::Warning { task, message });
                self.commit(State::Losing { recovering }, note)
            }
            AttemptEnd::Left(stop) => self.stop(stop),
        }
    }

    fn after_attempt(&mut self, recovering: bool) -> Step {
        self.tasks_done += 1;
        if recovering { self.recover_next() } else { self.next_task() }
    }

    /// Why nothing more is begun.
    fn halted(&self) -> Option<Stop> {
        match (self.interrupt, self.out_of_time) {
            (true, _) => Some(Stop::interrupted()),
            (false, true) => Some(Stop::with_words(StopReason::Budget, "its time")),
            (false, false) => None,
        }
    }

    fn stop(&mut self, why: Stop) -> Step {
        self.end_session(Then::Stop(why))
    }

    fn end_session(&mut self, then: Then) -> Step {
        let pid = self.session.pid;
        self.commit(State::EndingSession(then), Command::EndSession(EndSession { pid }))
    }

    fn ended(&mut self, ended: Ended) -> Step {
        match (self.state.clone(), ended) {
            (State::Surveying, Ended::Surveyed(survey)) => self.surveyed(survey),
            (State::Preparing { again }, Ended::Prepared(prepared)) => {
                self.prepared(again, prepared)
            }
            (State::Peeking, Ended::Peeked { next, gate, in_progress, alerts }) => {
                self.alerted |= alerts.grew_since(&self.alerts);
                self.peeked(next, gate, in_progress)
            }
            (State::Gating(phase), Ended::Gated(outcome)) => self.gated(phase, outcome),
            (State::Basing(task), Ended::Based(place)) => self.based(&task, place),
            (State::Recovering | State::Attempting, Ended::Attempted(outcome)) => {
                self.attempted(outcome)
            }
            (State::Closing, Ended::Closed(alerts)) => {
                self.alerted |= alerts.grew_since(&self.alerts);
                let complete = Stop::because(StopReason::Complete);
                Next::Done(if self.alerted { Stop::alerted() } else { complete })
            }
            (state, ended) => unreachable!("{ended:?} can not be the end of {state:?}"),
        }
    }

    fn committed(&mut self, reply: Reply) -> Step {
        match (self.state.clone(), reply) {
            (State::Prepared { passed: true, .. }, _) => self.recover_next(),
            (State::Prepared { passed: false, again: false }, _) => {
                self.start(State::Preparing { again: true }, Effect::Prepare)
            }
            (State::Prepared { passed: false, again: true }, _) => {
                self.stop(Stop::with_words(StopReason::EnvSetup, "harness-init.sh failed twice"))
            }
            // As adopted: a claim that was made by hand has its epoch only now.
            (State::Adopting(_, action), Reply::Claimed(adopted)) => {
                let entry = attempt::Entry::Recovered(action);
                self.attempt(State::Recovering, adopted.task, adopted.epoch, entry)
            }
            (State::Losing { recovering }, _) => self.after_attempt(recovering),
            (State::BeginningSession, _) => self.next_task(),
            (State::KeepingUp, _) => self.start(State::Peeking, Effect::Peek),
            (State::Claiming, Reply::Claimed(claimed)) => {
                let entry = attempt::Entry::Fresh;
                self.attempt(State::Attempting, claimed.task, claimed.epoch, entry)
            }
            // Upkeep left nothing between the look and the claim.
            (State::Claiming, _) => self.next_task(),
            (State::Complaining(why), _) => self.stop(why),
            (State::EndingSession(Then::NextSession), _) => self.begin_session(),
            (State::EndingSession(Then::Stop(stop)), _) if stop.reason == StopReason::Complete => {
                self.start(State::Closing, Effect::Close)
            }
            (State::EndingSession(Then::Stop(stop)), _) => Next::Done(stop),
            (state, reply) => unreachable!("{reply:?} is no answer to {state:?}"),
        }
    }

    fn refused(&mut self, refusal: Refusal) -> Step {
        match (&self.state, refusal) {
            (State::BeginningSession, Refusal::MaxSessions { .. }) => {
                self.stop(Stop::because(StopReason::MaxSessions))
            }
            // Something else became more urgent, or was taken: look again.
            (State::Claiming, Refusal::NotNext { .. }) => self.next_task(),
            // It was ended by somebody else meanwhile.
            (State::Adopting(..), _) => self.recover_next(),
            (State::EndingSession(_), refusal) => Next::Done(Stop::config(refusal.to_string())),
            (_, refusal) => self.stop(Stop::config(refusal.to_string())),
        }
    }
}

impl Machine for Work {
    type Effect = Effect;
    type Ended = Ended;
    type Outcome = Stop;

    fn step(&mut self, now: Timestamp, input: Input<Ended>) -> Step {
        self.out_of_time |= self.session.until.is_some_and(|until| until <= now);
        match input {
            Input::Begin => self.start(State::Surveying, Effect::Survey),
            Input::Ended(ended) => self.ended(ended),
            // A row that is somebody else's by now does not matter to the ledger, which is locked.
            Input::Committed(_) | Input::Refused(_) if self.beating => {
                self.beating = false;
                Next::Wait
            }
            Input::Committed(reply) => self.committed(reply),
            Input::Refused(refusal) => self.refused(refusal),
            // The attempt hears it too and stops its agent; here it keeps the next one from
            // starting.
            Input::Interrupt => {
                self.interrupt = true;
                Next::Wait
            }
            Input::Tick => match self.session.heartbeat.clone() {
                Some(heartbeat) => {
                    self.beating = true;
                    Next::Commit(Box::new(heartbeat.into()))
                }
                None => Next::Wait,
            },
            Input::Told(_) => Next::Wait,
        }
    }
}
