//! One attempt at a task: from its claim, or from what a crash left of it, to its one end.
//!
//! ```text
//! (baseline) → work → judge ─ completed
//!                           └ not ───→ Intend(rollback) → undo → clean up → Fail
//! ```
//!
//! Recovery is not another way: it only says where on this one an attempt is taken up again. What
//! was intended is finished, whatever comes up meanwhile; a lost claim ends in a rescue of the work
//! and changes nothing.

mod judge;

pub use super::judge::Rules;

use super::{
    Input, Machine, Next,
    judge::{self as judging, Judge},
    recovery::{Action, CommitWhen},
};
use crate::{
    Category, Command, CommitId, Holder, Refusal, Reply, Task, Timestamp,
    agent::{AgentEvent, StoppedBy},
    check::{Baseline, Verdict},
    command::{AddCheckpoint, Attempts, Fail, Intend, Release, Renew},
    run::StopReason,
    stop::{Stop, StopDetail},
    task::Intent,
};
use judge::AfterWarning;

/// Where an attempt begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Just claimed.
    Fresh,
    /// Found `in_progress`; a task with an intent goes on with that, whatever this says.
    Recovered(Action),
}

/// What an attempt asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The agent works, after this checkpoint if there is one.
    Work {
        /// The last step that is done; `None`: from the beginning.
        after_step: Option<u32>,
    },
    /// The task's check is run before any work.
    Baseline,
    /// What the judge asks for.
    Judge(judging::Effect),
    /// What would vanish is saved, then the tree is what it was at the claim.
    Undo,
    /// The task's own cleanup, in the tree that was put back.
    Cleanup {
        /// A line for the shell.
        command: String,
    },
    /// Whether anything is different from the claim.
    Look,
    /// What was done is saved; the tree stays.
    Rescue,
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// The agent is done, in whatever way and after however many contexts.
    Worked(Stop),
    /// What the check said before any work.
    Based(Verdict),
    /// What came of what the judge asked for.
    Judged(judging::Ended),
    /// The work of the attempt is taken back.
    Undone {
        /// The commit that the branch was reset to, for the log; `None` if it was not reset.
        base: Option<CommitId>,
        /// Files from before the claim that the attempt had changed.
        put_back: Vec<String>,
        /// How it was undone beneath commits of others, if there are any.
        remark: Option<String>,
    },
    /// Commits of the attempt lie below commits of others and do not revert cleanly. Nothing was
    /// touched: a person has to settle it, and the intent stays.
    NotUndone {
        /// What is in the way, and how to settle it.
        why: String,
    },
    /// The commit that the claim started from is gone: no further attempt can help.
    NoBase,
    /// Or it failed, and why: that changes nothing.
    CleanedUp(Option<String>),
    /// Of `Look`.
    Looked {
        /// Also when that can not be told: recovery decides then.
        changed: bool,
    },
    /// What could be saved is where a person finds it.
    Rescued,
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The check passed, and that is recorded.
    Completed {
        /// With all of the work.
        commit: Option<CommitId>,
    },
    /// It was undone as far as that was possible, and that is recorded.
    Failed {
        /// Another attempt may follow.
        retryable: bool,
    },
    /// The session has to stop. The task is pending again, or can be recovered.
    Left(Stop),
    /// Somebody else has the task. Nothing was recorded.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Begun(Entry),
    Baselining,
    Warning {
        then: AfterWarning,
    },
    Working,
    Judging,
    Intending,
    Undoing,
    CleaningUp,
    Failing,
    /// Nothing came of the attempt; perhaps there is nothing to take back either.
    LookingBack {
        category: Category,
        message: String,
    },
    Looking(Stop),
    Releasing(Stop),
    Rescuing,
}

/// The machine of one attempt. It renews the lease at every tick.
pub struct Attempt {
    task: Task,
    holder: Holder,
    lease_seconds: u64,
    state: State,
    /// A renewal or a checkpoint is on its way to the store, beside the effect.
    aside: bool,
    interrupts: u32,
    /// The claim is somebody else's.
    lost: bool,
    /// The agent said that it can not do it, and why.
    gave_up: Option<(Category, String)>,
    /// What the attempt fails with, once it is decided that it does.
    verdict: Option<(Category, String)>,
    attempts: Attempts,
    base: Option<CommitId>,
    /// The check is run before any work too.
    baseline_first: bool,
    baseline: Option<Baseline>,
    judging: Judge,
    /// Of the last step.
    now: Timestamp,
}

type Step = Next<Effect, AttemptEnd>;

impl Attempt {
    /// `task` as it was claimed or found.
    pub fn new(task: Task, holder: Holder, lease_seconds: u64, entry: Entry) -> Self {
        let (judged, by) = (task.clone(), holder.clone());
        let verdict = match task.intent().cloned() {
            Some(Intent::Rollback { category, message }) => Some((category, message)),
            Some(Intent::Land { .. }) | None => None,
        };
        Self {
            task,
            holder,
            lease_seconds,
            state: State::Begun(entry),
            aside: false,
            interrupts: 0,
            lost: false,
            gave_up: None,
            verdict,
            attempts: Attempts::One,
            base: None,
            baseline_first: false,
            baseline: None,
            judging: Judge::of_attempt(judged, by, lease_seconds, Rules::default()),
            now: Timestamp::default(),
        }
    }

    fn begin(&mut self, entry: &Entry) -> Step {
        if self.verdict.is_some() {
            return self.start(State::Undoing, Effect::Undo);
        }
        match entry {
            Entry::Fresh if self.baseline_first && self.task.attempts == 0 => {
                self.start(State::Baselining, Effect::Baseline)
            }
            Entry::Fresh => self.work(),
            Entry::Recovered(action) => match (action.failure(), *action) {
                // Whether there is anything to take back is looked at first.
                (Some((category, message)), _) => {
                    let state = State::LookingBack { category, message: message.into_owned() };
                    self.start(state, Effect::Look)
                }
                (None, Action::Resume { step }) => {
                    self.start(State::Working, Effect::Work { after_step: Some(step) })
                }
                (None, Action::Judge { commit: CommitWhen::BeforeCheck }) => {
                    self.judging.keep_first();
                    self.judge()
                }
                (None, Action::Judge { .. } | Action::FailNoProgress | Action::FailWorkLost) => {
                    self.judge()
                }
            },
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

    fn work(&mut self) -> Step {
        self.start(State::Working, Effect::Work { after_step: None })
    }

    fn intend(&mut self, category: Category, message: String) -> Step {
        self.verdict = Some((category, message.clone()));
        let intent = Intent::Rollback { category, message };
        let command = Intend { holder: self.holder.clone(), intent };
        self.commit(State::Intending, Command::Intend(command))
    }

    /// The loop over contexts is over. A kept promise asks for the check, no more.
    fn worked(&mut self, stop: Stop) -> Step {
        let words = stop.words().unwrap_or_default().to_owned();
        match stop.reason {
            StopReason::Complete => self.judge(),
            StopReason::Cancelled => self.leave(Stop::interrupted()),
            StopReason::Budget | StopReason::Limit | StopReason::EnvSetup => self.leave(stop),
            _ if matches!(stop.detail, StopDetail::OutOfTime(_)) => {
                let limit = self.task.timeout_seconds.unwrap_or_default();
                let message = format!("The attempt took longer than {limit} s");
                self.intend(Category::Timeout, message)
            }
            StopReason::MaxIterations | StopReason::Stalled | StopReason::Crashed => {
                self.intend(Category::TaskExec, words)
            }
            StopReason::Config | StopReason::MaxSessions | StopReason::Once | StopReason::Gate => {
                self.leave(Stop::config(words))
            }
        }
    }

    fn fail(&mut self) -> Step {
        let nothing = || (Category::TaskExec, String::new());
        let (category, message) = self.verdict.clone().unwrap_or_else(nothing);
        let command = Command::Fail(Fail {
            holder: self.holder.clone(),
            category,
            message,
            attempts: self.attempts,
            rolled_back_to: self.base.clone(),
        });
        self.commit(State::Failing, command)
    }

    /// Stops with the task as it is; one that nobody has touched goes back to pending.
    fn leave(&mut self, stop: Stop) -> Step {
        self.start(State::Looking(stop), Effect::Look)
    }

    fn rescue(&mut self) -> Step {
        self.start(State::Rescuing, Effect::Rescue)
    }

    fn ended(&mut self, ended: Ended) -> Step {
        let state = self.state.clone();
        if self.lost && state != State::Rescuing {
            return self.rescue();
        }
        if state == State::Working
            && let Some((category, message)) = self.gave_up.take()
        {
            return self.intend(category, message);
        }
        if self.interrupts > 0 {
            match state {
                State::Working | State::Baselining => return self.leave(Stop::interrupted()),
                _ => {}
            }
        }
        match (state, ended) {
            (State::Baselining, Ended::Based(verdict)) => self.based(&verdict),
            (State::Working, Ended::Worked(end)) => self.worked(end),
            (State::Judging, Ended::Judged(ended)) => self.through(Input::Ended(ended)),
            (State::Undoing, Ended::Undone { base, put_back, remark }) => {
                self.undone(base, &put_back, remark)
            }
            (State::Undoing, Ended::NotUndone { why }) => {
                Next::Done(AttemptEnd::Left(Stop::config(format!("{}: {why}", self.task.id))))
            }
            (State::Undoing, Ended::NoBase) => {
                self.attempts = Attempts::All;
                self.fail()
            }
            (State::CleaningUp, Ended::CleanedUp(failed)) => self.cleaned_up(failed),
            (State::LookingBack { category, message }, Ended::Looked { changed: true }) => {
                self.intend(category, message)
            }
            (State::LookingBack { category, message }, Ended::Looked { changed: false }) => {
                self.verdict = Some((category, message));
                self.clean_up()
            }
            (State::Looking(why), Ended::Looked { changed: true }) => {
                Next::Done(AttemptEnd::Left(why))
            }
            (State::Looking(why), Ended::Looked { changed: false }) => {
                let command = Command::Release(Release {
                    task: self.task.id.clone(),
                    holder: Some(self.holder.clone()),
                    reason: "interrupted; nothing had been changed".into(),
                });
                self.commit(State::Releasing(why), command)
            }
            (State::Rescuing, Ended::Rescued) => Next::Done(AttemptEnd::Lost),
            (state, ended) => unreachable!("{ended:?} can not be the end of {state:?}"),
        }
    }

    fn committed(&mut self, reply: &Reply) -> Step {
        if std::mem::take(&mut self.aside) {
            return Next::Wait;
        }
        match (self.state.clone(), reply) {
            (State::Warning { then: AfterWarning::Work }, _) => self.work(),
            (State::Warning { then: AfterWarning::CleanUp }, _) => self.clean_up(),
            (State::Warning { then: AfterWarning::Fail }, _) => self.fail(),
            (State::Intending, _) => self.start(State::Undoing, Effect::Undo),
            (State::Failing, Reply::Failed { retryable, .. }) => {
                Next::Done(AttemptEnd::Failed { retryable: *retryable })
            }
            (State::Releasing(why), _) => Next::Done(AttemptEnd::Left(why)),
            (state, reply) => unreachable!("{reply:?} is no answer to {state:?}"),
        }
    }

    fn refused(&mut self, refusal: &Refusal) -> Step {
        let lost = refusal.ends_a_claim();
        if std::mem::take(&mut self.aside) {
            self.lost |= lost;
            // A checkpoint that made no sense is no reason to stop.
            return if lost { Next::Cancel(StoppedBy::Fenced) } else { Next::Wait };
        }
        self.refused_for_good(refusal)
    }

    fn refused_for_good(&mut self, refusal: &Refusal) -> Step {
        match refusal {
            refusal if refusal.ends_a_claim() => self.rescue(),
            // Somebody gave the task another check while this one ran.
            Refusal::CheckChanged { .. } => {
                Next::Done(AttemptEnd::Left(Stop::config("its check was changed while it ran")))
            }
            refusal => Next::Done(AttemptEnd::Left(Stop::config(refusal.to_string()))),
        }
    }

    fn interrupted(&mut self) -> Step {
        self.interrupts += 1;
        match self.state {
            _ if self.interrupts > 1 => Next::Done(AttemptEnd::Left(Stop::interrupted())),
            State::Judging => self.through(Input::Interrupt),
            State::Working | State::Baselining => Next::Cancel(StoppedBy::User),
            // What git is in the middle of takes a moment and is finished.
            _ => Next::Wait,
        }
    }

    /// An agent that gives up is not asked whether it meant it; its end follows.
    fn gave_up(&mut self, category: Category, message: String) -> Step {
        if self.state != State::Working || self.lost || self.interrupts > 0 {
            return Next::Wait;
        }
        self.gave_up.get_or_insert((category, message));
        Next::Cancel(StoppedBy::User)
    }

    fn told(&mut self, event: AgentEvent) -> Step {
        let (step, total, description) = match event {
            AgentEvent::Checkpoint { step, total, description } => (step, total, description),
            AgentEvent::GaveUp { category, message } => return self.gave_up(category, message),
            _ => return Next::Wait,
        };
        self.aside = true;
        Next::Commit(Box::new(Command::Checkpoint(AddCheckpoint {
            holder: self.holder.clone(),
            step,
            total,
            description,
            tree: None,
            lease_seconds: self.lease_seconds,
        })))
    }

    fn renew(&mut self) -> Step {
        self.aside = true;
        let (holder, lease_seconds) = (self.holder.clone(), self.lease_seconds);
        Next::Commit(Box::new(Command::Renew(Renew { holder, lease_seconds })))
    }
}

impl Machine for Attempt {
    type Effect = Effect;
    type Ended = Ended;
    type Outcome = AttemptEnd;

    fn step(&mut self, now: Timestamp, input: Input<Ended>) -> Step {
        self.now = now;
        let judging = self.state == State::Judging;
        match input {
            Input::Begin => match self.state.clone() {
                State::Begun(entry) => self.begin(&entry),
                state => unreachable!("an attempt begins once, not in {state:?}"),
            },
            Input::Ended(ended) => self.ended(ended),
            Input::Committed(reply) if judging => self.through(Input::Committed(reply)),
            Input::Refused(refusal) if judging => self.through(Input::Refused(refusal)),
            Input::Tick if judging => self.through(Input::Tick),
            Input::Told(_) if judging => Next::Wait,
            Input::Committed(reply) => self.committed(&reply),
            Input::Refused(refusal) => self.refused(&refusal),
            // Once the claim is known to be lost there is nothing to renew.
            Input::Tick if self.lost => Next::Wait,
            Input::Tick => self.renew(),
            Input::Told(event) => self.told(event),
            Input::Interrupt => self.interrupted(),
        }
    }
}
