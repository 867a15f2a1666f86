//! One attempt at a task: from its claim, or from the state that a crash left, to its single end.
//!
//! ```text
//! (baseline) → work → judge ─ completed
//!                           └ not ───→ Intend(rollback) → undo → clean up → Fail
//! ```
//!
//! Recovery has no path of its own; it only determines where an attempt is continued. An intent is
//! always finished, whatever happens meanwhile. If the claim is lost, the work is rescued and
//! nothing else changes.

mod judge;
mod terms;

pub use super::judge::Rules;
pub use terms::{AttemptEnd, Effect, Ended, Entry};

use super::{
    Input, Machine, Next,
    judge::Judge,
    land::Land,
    recovery::{Action, CommitWhen},
};
use crate::{
    Category, Command, CommitId, Holder, Refusal, Reply, Task, Timestamp,
    agent::{AgentEvent, StoppedBy},
    check::Baseline,
    command::{AddCheckpoint, Attempts, Fail, Intend, Release, Renew},
    run::StopReason,
    stop::{Stop, StopDetail},
    task::Intent,
};
use judge::AfterWarning;

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Begun(Entry),
    Baselining,
    Warning {
        then: AfterWarning,
    },
    Working,
    Judging,
    Landing,
    Intending,
    Undoing,
    CleaningUp,
    Failing,
    /// The work produced nothing. Check whether there is anything to undo.
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
    /// `true` while a renewal or a checkpoint is on its way to the store, beside the effect.
    aside: bool,
    interrupts: u32,
    /// `true` if another worker holds the claim.
    lost: bool,
    /// The agent reported that it cannot do the task, with the reason.
    gave_up: Option<(Category, String)>,
    /// The category and message of the failure, once it is decided.
    verdict: Option<(Category, String)>,
    attempts: Attempts,
    base: Option<CommitId>,
    /// `true` if the check runs before any work too.
    baseline_first: bool,
    baseline: Option<Baseline>,
    judging: Judge,
    rules: Rules,
    /// The number of results that prepare at the same time, if results land in a line.
    preparing: Option<usize>,
    landing: Option<Box<Land>>,
    /// The time of the last step.
    now: Timestamp,
    /// The number of ticks from one renewal to the next, outside of the line.
    renews_every: u32,
    /// The number of ticks since the last renewal.
    ticks: u32,
}

type Step = Next<Effect, AttemptEnd>;

impl Attempt {
    /// Creates the machine for `task` as it was claimed or found.
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
            rules: Rules::default(),
            preparing: None,
            landing: None,
            now: Timestamp::default(),
            renews_every: 1,
            ticks: 0,
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
                // First check whether there is anything to undo.
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
        let command =
            Intend { holder: self.holder.clone(), intent, check: None, files: Vec::new() };
        self.commit(State::Intending, Command::Intend(command))
    }

    /// Continues after the loop over contexts. A kept promise only leads to the check.
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

    /// Stops and leaves the task as it is. A task without any work returns to pending.
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
            (State::Landing, Ended::Landing(report)) => self.land(Input::Ended(*report)),
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
            (state, ended) => unreachable!("{ended:?} cannot be the end of {state:?}"),
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
            // An invalid checkpoint is no reason to stop.
            return if lost { Next::Cancel(StoppedBy::Fenced) } else { Next::Wait };
        }
        self.refused_for_good(refusal)
    }

    fn refused_for_good(&mut self, refusal: &Refusal) -> Step {
        match refusal {
            refusal if refusal.ends_a_claim() => self.rescue(),
            // The task got another check while this one ran.
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
            State::Landing => self.land(Input::Interrupt),
            State::Working | State::Baselining => Next::Cancel(StoppedBy::User),
            // An operation of git is short, so it is finished.
            _ => Next::Wait,
        }
    }

    /// Cancels the agent that gave up. The attempt fails when the agent has ended.
    fn gave_up(&mut self, category: Category, message: String) -> Step {
        if self.state != State::Working || self.lost || self.interrupts > 0 {
            return Next::Wait;
        }
        self.gave_up.get_or_insert((category, message));
        Next::Cancel(StoppedBy::User)
    }

    fn agent_event(&mut self, event: AgentEvent) -> Step {
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

    /// Counts a tick. Ticks come more often than renewals if results land in a line.
    fn renewal_is_due(&mut self) -> bool {
        self.ticks += 1;
        let due = self.ticks >= self.renews_every;
        if due {
            self.ticks = 0;
        }
        due
    }

    fn renew(&mut self) -> Step {
        self.aside = true;
        let (holder, lease_seconds) = (self.holder.clone(), self.lease_seconds);
        Next::Commit(Box::new(Command::Renew(Renew::new(holder, lease_seconds))))
    }
}

impl Machine for Attempt {
    type Effect = Effect;
    type Ended = Ended;
    type Outcome = AttemptEnd;

    fn step(&mut self, now: Timestamp, input: Input<Ended>) -> Step {
        self.now = now;
        let judging = self.state == State::Judging;
        let landing = self.state == State::Landing;
        match input {
            Input::Begin => match self.state.clone() {
                State::Begun(entry) => self.begin(&entry),
                state => unreachable!("an attempt begins once, not in {state:?}"),
            },
            Input::Ended(ended) => self.ended(ended),
            Input::Committed(reply) if judging => self.through(Input::Committed(reply)),
            Input::Refused(refusal) if judging => self.through(Input::Refused(refusal)),
            Input::Tick if !landing && !self.renewal_is_due() => Next::Wait,
            Input::Tick if judging => self.through(Input::Tick),
            Input::Told(_) if judging || landing => Next::Wait,
            Input::Allowed(_) => Next::Wait,
            Input::Committed(reply) if landing => self.land(Input::Committed(reply)),
            Input::Refused(refusal) if landing => self.land(Input::Refused(refusal)),
            Input::Tick if landing => self.land(Input::Tick),
            Input::Committed(reply) => self.committed(&reply),
            Input::Refused(refusal) => self.refused(&refusal),
            // A claim that is known to be lost cannot be renewed.
            Input::Tick if self.lost => Next::Wait,
            Input::Tick => self.renew(),
            Input::Told(event) => self.agent_event(event),
            Input::Interrupt => self.interrupted(),
        }
    }
}
