//! A session over the ledger, with the state that its workers share. It surveys the project, takes
//! a number, prepares, and recovers attempts that an earlier session left. Then its
//! [worker](super::worker) works until nothing is left or something stops it. If the tasks of a
//! session are limited, one run goes through several sessions. Each of them takes a number and
//! prepares.

mod survey;
mod terms;

pub use survey::{Alerts, Interrupted, Survey};
pub use terms::{
    Crew, CrewMember, Gathered, Prepared, SessionEffect, SessionReport, SessionTerms, WhenFull,
};

use super::{
    Input, Machine, Next,
    attempt::{self, AttemptEnd},
    halt::Halt,
    recovery::{self, Action},
    worker::{ParallelWork, WorkerEnd, WorkerStop, WorkerTerms, environment_problem, lost_claim},
};
use crate::{
    Command, Epoch, Holder, Refusal, Reply, Task, TaskId, Timestamp, WorkerId,
    command::{Adopt, BeginSession, Divert, EndSession, Note, SetMode, SetTarget},
    ledger::ConcurrencyMode,
    run::StopReason,
    stop::{Stop, StopDetail},
    task::Intent,
};

#[derive(Debug, Clone, PartialEq)]
enum State {
    Begun,
    Surveying,
    Preparing {
        again: bool,
    },
    /// The result of the init script is being written to the log.
    Prepared {
        passed: bool,
        again: bool,
    },
    Adopting(Action),
    Recovering(TaskId),
    /// The loss of a claim is being written to the log.
    Losing,
    Beginning,
    /// The reason for the stop is being written to the log.
    Complaining(Stop),
    SettingMode,
    /// Results of an earlier session may be beside the target still.
    GatheringFirst,
    EndingOldDiversion,
    Targeting,
    SettingTarget,
    Working,
    Gathering(Following),
    EndingDiversion(Following),
    Ending(Following),
    Closing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Following {
    Stop(Stop),
    NextSession,
}

/// The action when everything is recovered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AfterRecovery {
    Work,
    /// There is no number for a session.
    Stop(Stop),
}

/// The machine of a session, or of one after the other with [`WhenFull::Continue`].
pub struct LedgerSession {
    terms: SessionTerms,
    state: State,
    interrupted: Vec<Interrupted>,
    after_recovery: AfterRecovery,
    /// Whether a session of this run has begun.
    numbered: bool,
    halt: Halt,
    /// Whether a heartbeat is being committed, beside the effect.
    beating: bool,
    /// The alerts when the session began.
    alerts: Alerts,
    /// Whether a claim was lost, or an alert was raised.
    alerted: bool,
}

type Step = Next<SessionEffect, Stop>;

impl LedgerSession {
    /// Creates the machine. Nothing is read before the first step.
    pub fn new(terms: SessionTerms) -> Self {
        let halt = Halt::new(terms.until);
        Self {
            terms,
            state: State::Begun,
            interrupted: Vec::new(),
            after_recovery: AfterRecovery::Work,
            numbered: false,
            halt,
            beating: false,
            alerts: Alerts::default(),
            alerted: false,
        }
    }

    fn start(&mut self, state: State, effect: SessionEffect) -> Step {
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
        self.begin()
    }

    /// Takes the number first, so that all lines of a session in the log have it.
    fn begin(&mut self) -> Step {
        let (pid, max_sessions) = (self.terms.pid, self.terms.max_sessions);
        self.commit(State::Beginning, Command::BeginSession(BeginSession { pid, max_sessions }))
    }

    /// Recovers interrupted attempts although there is no number left. Nothing more happens after
    /// that.
    fn used_up(&mut self) -> Step {
        let stop = Stop::because(StopReason::MaxSessions);
        if !self.interrupted.is_empty() {
            self.after_recovery = AfterRecovery::Stop(stop);
            return self.prepare();
        }
        match self.numbered {
            // The session before this one has already ended.
            true => Next::Done(stop),
            false => self.stop(stop),
        }
    }

    fn prepare(&mut self) -> Step {
        match self.halt.stop() {
            Some(stop) => self.stop(stop),
            // Each of several workers prepares its own tree.
            None if self.terms.crew.is_some() && self.interrupted.is_empty() => self.recover_next(),
            None => self.start(State::Preparing { again: false }, SessionEffect::Prepare),
        }
    }

    fn prepared(&mut self, again: bool, prepared: Prepared) -> Step {
        let passed = match prepared {
            Prepared::NoScript => return self.recover_next(),
            Prepared::Passed => true,
            Prepared::Failed => false,
        };
        self.commit(State::Prepared { passed, again }, Command::Note(Note::HealthCheck { passed }))
    }

    /// Recovers one interrupted attempt after the other, then starts the worker.
    fn recover_next(&mut self) -> Step {
        if let Some(stop) = self.halt.stop() {
            return self.stop(stop);
        }
        let Some(found) = self.interrupted.pop() else {
            return match self.after_recovery.clone() {
                AfterRecovery::Work => self.work(),
                AfterRecovery::Stop(stop) => self.stop(stop),
            };
        };
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
            task: found.task.id,
            worker: self.terms.worker.clone(),
            lease_seconds: self.terms.lease_seconds,
            action: name.to_owned(),
            reason,
        });
        self.commit(State::Adopting(action), command)
    }

    fn recover(&mut self, task: Task, epoch: Epoch, action: Action) -> Step {
        let worker = self.terms.worker.clone();
        let holder = Holder { task: task.id.clone(), worker, epoch: Some(epoch) };
        let state = State::Recovering(task.id.clone());
        let (task, entry) = (Box::new(task), attempt::Entry::Recovered(action));
        self.start(state, SessionEffect::Recover { task, holder, entry })
    }

    fn recovered(&mut self, task: TaskId, end: AttemptEnd) -> Step {
        match end {
            AttemptEnd::Completed { .. } | AttemptEnd::Failed { .. } | AttemptEnd::Paused => {
                self.recover_next()
            }
            AttemptEnd::Lost => {
                self.alerted = true;
                self.commit(State::Losing, lost_claim(task))
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

    fn work(&mut self) -> Step {
        match &self.terms.crew {
            None => {
                let terms = self.worker_terms(self.terms.worker.clone(), None);
                self.start(State::Working, SessionEffect::Work(vec![terms]))
            }
            // What an exclusive session left is recovered by now.
            Some(_) => {
                let mode = ConcurrencyMode::Concurrent;
                self.commit(State::SettingMode, Command::SetMode(SetMode { mode }))
            }
        }
    }

    fn worker_terms(&self, worker: WorkerId, parallel: Option<ParallelWork>) -> WorkerTerms {
        WorkerTerms {
            worker,
            scope: self.terms.scope.clone(),
            labels: self.terms.labels.clone(),
            lease_seconds: self.terms.lease_seconds,
            max_tasks: self.terms.max_tasks,
            until: self.terms.until,
            alerts: self.alerts.clone(),
            parallel,
        }
    }

    fn choose_target(&mut self) -> Step {
        let wanted = self.terms.crew.as_ref().and_then(|crew| crew.target.clone());
        self.start(State::Targeting, SessionEffect::Target { wanted })
    }

    fn work_together(&mut self) -> Step {
        let Some(crew) = self.terms.crew.clone() else { return self.work() };
        let member = |member: CrewMember| {
            let parallel = ParallelWork {
                max_sessions: self.terms.max_sessions,
                when_full: self.terms.when_full,
                when_idle: crew.when_idle,
                worktree: member.worktree,
            };
            self.worker_terms(member.worker, Some(parallel))
        };
        let terms = crew.members.into_iter().map(member).collect();
        self.start(State::Working, SessionEffect::Work(terms))
    }

    fn worked(&mut self, ends: Vec<WorkerEnd>) -> Step {
        let end = WorkerEnd::together(ends);
        self.alerted |= end.alerted;
        match (end.why, self.terms.when_full) {
            (WorkerStop::Stopped(stop), _) => self.stop(stop),
            (WorkerStop::SessionFull, WhenFull::Stop) => self.stop(Stop::because(StopReason::Once)),
            (WorkerStop::SessionFull, WhenFull::Continue) => self.end(Following::NextSession),
        }
    }

    fn stop(&mut self, stop: Stop) -> Step {
        self.end(Following::Stop(stop))
    }

    fn end(&mut self, following: Following) -> Step {
        match (&self.terms.crew, &self.state) {
            (Some(_), State::Working) => {
                self.start(State::Gathering(following), SessionEffect::Gather)
            }
            _ => self.end_now(following),
        }
    }

    fn gathered(&mut self, following: Following, gathered: Gathered) -> Step {
        match gathered {
            Gathered::Unchanged => self.end_now(following),
            Gathered::Done => self.commit(State::EndingDiversion(following), back_on_target()),
        }
    }

    fn end_now(&mut self, following: Following) -> Step {
        let pid = self.terms.pid;
        self.commit(State::Ending(following), Command::EndSession(EndSession { pid }))
    }

    fn ended(&mut self, report: SessionReport) -> Step {
        match (self.state.clone(), report) {
            (State::Surveying, SessionReport::Surveyed(survey)) => self.surveyed(survey),
            (State::Preparing { again }, SessionReport::Prepared(prepared)) => {
                self.prepared(again, prepared)
            }
            (State::Recovering(task), SessionReport::Recovered(end)) => self.recovered(task, end),
            (State::Targeting, SessionReport::Targeted { branch, remote }) => {
                self.commit(State::SettingTarget, Command::SetTarget(SetTarget { branch, remote }))
            }
            (State::Targeting, SessionReport::Unreachable { why }) => {
                self.complain(Stop::with_words(StopReason::EnvSetup, why), None)
            }
            (State::Targeting, SessionReport::NotTargeted { why }) => self.stop(Stop::config(why)),
            (State::Working, SessionReport::Worked(ends)) => self.worked(ends),
            (State::GatheringFirst, SessionReport::Gathered(Gathered::Unchanged)) => {
                self.choose_target()
            }
            (State::GatheringFirst, SessionReport::Gathered(Gathered::Done)) => {
                self.commit(State::EndingOldDiversion, back_on_target())
            }
            (State::Gathering(following), SessionReport::Gathered(gathered)) => {
                self.gathered(following, gathered)
            }
            (State::Closing, SessionReport::Closed(alerts)) => {
                self.alerted |= alerts.grew_since(&self.alerts);
                let complete = Stop::because(StopReason::Complete);
                Next::Done(if self.alerted { Stop::alerted() } else { complete })
            }
            (state, report) => unreachable!("{report:?} cannot be the end of {state:?}"),
        }
    }

    fn committed(&mut self, reply: Reply) -> Step {
        match (self.state.clone(), reply) {
            (State::Prepared { passed: true, .. } | State::Losing, _) => self.recover_next(),
            (State::Prepared { passed: false, again: false }, _) => {
                self.start(State::Preparing { again: true }, SessionEffect::Prepare)
            }
            (State::Prepared { passed: false, again: true }, _) => {
                let words = "harness-init.sh failed twice";
                self.complain(Stop::with_words(StopReason::EnvSetup, words), None)
            }
            (State::Complaining(stop), _) => self.stop(stop),
            // The adopted task is used, because a claim that was made by hand has its epoch only
            // now.
            (State::Adopting(action), Reply::Claimed(adopted)) => {
                self.recover(adopted.task, adopted.epoch, action)
            }
            (State::Beginning, _) => {
                self.numbered = true;
                self.prepare()
            }
            (State::SettingMode, _) => self.start(State::GatheringFirst, SessionEffect::Gather),
            (State::EndingOldDiversion, _) => self.choose_target(),
            (State::SettingTarget, _) => self.work_together(),
            (State::EndingDiversion(following), _) => self.end_now(following),
            (State::Ending(Following::NextSession), _) => self.begin(),
            (State::Ending(Following::Stop(stop)), _) if stop.reason == StopReason::Complete => {
                self.start(State::Closing, SessionEffect::Close(self.terms.scope.clone()))
            }
            (State::Ending(Following::Stop(stop)), _) => Next::Done(stop),
            (state, reply) => unreachable!("{reply:?} is no answer to {state:?}"),
        }
    }

    fn refused(&mut self, refusal: Refusal) -> Step {
        match (&self.state, refusal) {
            (State::Beginning, Refusal::MaxSessions { .. }) => self.used_up(),
            // Another process has ended the attempt meanwhile.
            (State::Adopting(_), _) => self.recover_next(),
            (State::Ending(_), refusal) => Next::Done(Stop::config(refusal.to_string())),
            (_, refusal) => self.stop(Stop::config(refusal.to_string())),
        }
    }
}

fn back_on_target() -> Command {
    Command::Divert(Divert { to: None, why: "it has all results".to_owned() })
}

impl Machine for LedgerSession {
    type Effect = SessionEffect;
    type Ended = SessionReport;
    type Outcome = Stop;

    fn step(&mut self, now: Timestamp, input: Input<SessionReport>) -> Step {
        self.halt.note_time(now);
        match input {
            Input::Begin => self.start(State::Surveying, SessionEffect::Survey),
            Input::Ended(report) => self.ended(report),
            // Another process may own the row by now. That does not matter to the ledger, which is
            // locked.
            Input::Committed(_) | Input::Refused(_) if self.beating => {
                self.beating = false;
                Next::Wait
            }
            Input::Committed(reply) => self.committed(reply),
            Input::Refused(refusal) => self.refused(refusal),
            // The worker receives it too. Here it prevents the start of the next steps.
            Input::Interrupt => {
                self.halt.interrupt();
                Next::Wait
            }
            Input::Tick => match self.terms.heartbeat.clone() {
                Some(heartbeat) => {
                    self.beating = true;
                    Next::Commit(Box::new(heartbeat.into()))
                }
                None => Next::Wait,
            },
            Input::Allowed(allowance) => {
                self.terms.until = allowance.deadline;
                self.halt.extend(allowance.deadline, now);
                Next::Wait
            }
            Input::Told(_) => Next::Wait,
        }
    }
}
