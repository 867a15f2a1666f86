//! Judges work that its worker reports as done. A run steps this machine inside of an attempt. The
//! daemon and a client without a host drive it by itself.
//!
//! ```text
//! (head) → (touched) → check ─ passed → (keep) → record → Complete
//!                            └ else ──→ a finding: the caller decides what follows
//! ```
//! The committed tree is the one that the check began with. If the check changed it, the check runs
//! once more. If it changes the tree again, its changes are undone before the commit.
//!
//! A check in a clean checkout needs the commit first: keep → check → record.
//!
//! The machine renews the lease at every tick, because a check may outlast it. It changes nothing
//! but the one completion. The attempt machine rolls back and counts attempts.

mod client;
mod completion;
mod effect;
mod finding;
mod rules;
mod settings;
mod tree;

pub use client::{ClientWork, Request, Standing};
pub use effect::{Effect, Ended};
pub use finding::{Fault, Finding, NotDone};
pub use rules::Rules;
pub use settings::Setting;
pub use tree::{Around, Before, JudgedTree};

use tree::{Settling, Then};

use super::{Input, Machine, Next};
use crate::{
    Command, CommitId, Epoch, Holder, Receipt, Refusal, Task, Timestamp, TreeId,
    agent::StoppedBy,
    check::Baseline,
    command::{Authority, Raise, Renew, Unchecked},
    flag::Flag,
    receipt::CheckRecord,
};

/// The end of a judge.
#[derive(Debug, Clone, PartialEq)]
pub enum JudgeEnd {
    /// The check passed, and the completion is recorded.
    Completed {
        /// The commit that holds the work; `None` without git.
        commit: Option<CommitId>,
    },
    /// The check passed. The result has to land before it is completed.
    Green(Box<Receipt>),
    /// The task is not completed, and nothing is recorded.
    Found(Finding),
    /// The ledger refuses the completion, or the holder has lost the claim.
    Refused(Refusal),
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Begun,
    Heading,
    Touching,
    Flagging { then: Then },
    Checking,
    Preparing,
    Keeping { then: AfterKeep },
    Settling(Box<Settling>),
    SettingBack { looked: Box<State>, found: Option<Finding> },
    PuttingBack { tree: TreeId },
    Recording,
    Completing,
    Looking,
    RecordingAgain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterKeep {
    Check,
    Record,
}

/// The party that commits the judged work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeper {
    /// Harness commits when the check has passed.
    Harness,
    /// The worker commits, or does not. HEAD is judged.
    Worker,
}

/// What follows a passed check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The completion is recorded.
    Complete,
    /// The result lands first.
    Land,
}

/// The machine that judges one task.
pub struct Judge {
    task: Task,
    holder: Holder,
    authority: Authority,
    unchecked: Unchecked,
    lease_seconds: u64,
    rules: Rules,
    keeper: Keeper,
    ending: Ending,
    work: ClientWork,
    /// `true` if the holder has the claim, so that there is a lease to renew.
    held: bool,
    /// The epoch of the claim in the receipt.
    epoch: Epoch,
    /// `true` if the holder cannot complete the task. The ledger refuses, or repeats its earlier
    /// answer.
    foregone: bool,
    state: State,
    /// The time of the last step.
    now: Timestamp,
    /// `true` while a renewal is on its way to the store, beside the effect.
    aside: bool,
    interrupts: u32,
    /// The refusal that showed that another worker holds the claim.
    lost: Option<Refusal>,
    /// `true` if the init script may not run again.
    prepared: bool,
    /// `true` if the commit comes before the check.
    keep_first: bool,
    commit: Option<CommitId>,
    /// The commit was made for a client.
    committed_by_us: bool,
    baseline: Option<Baseline>,
    /// The protected files among those that differ from the claim, once they were listed.
    touched: Option<Vec<String>>,
    /// The tests among those files.
    tests: Vec<String>,
    check: Option<CheckRecord>,
    /// `true` if the check changed files of the tree that it judged.
    changed_once: bool,
    /// The number of commits by others while the check ran.
    moves: u32,
    /// Work that no commit can hold.
    hidden: Vec<String>,
    /// Flags that are not in the ledger yet.
    pending: Vec<Raise>,
    /// The changed settings that were flagged.
    reported: Vec<String>,
    /// The number of times that settings were set back.
    set_backs: u32,
    /// Changed settings that count as protected files, until the files themselves are listed.
    sights: Vec<String>,
    /// The tree that was judged, if it is known.
    tree: Option<TreeId>,
    /// The flags for the receipt. The performer adds those that were raised elsewhere.
    flags: Vec<Flag>,
}

type Step = Next<Effect, JudgeEnd>;

impl Judge {
    /// Creates the judge for the work of an agent in a run, which harness commits.
    pub fn of_attempt(task: Task, holder: Holder, lease_seconds: u64, rules: Rules) -> Self {
        let rules = rules.of(&task);
        Self {
            authority: Authority::Holder,
            unchecked: Unchecked::Forbidden,
            lease_seconds,
            keeper: Keeper::Harness,
            ending: Ending::Complete,
            work: ClientWork::Left,
            held: true,
            epoch: task.epoch.unwrap_or_default(),
            foregone: false,
            state: State::Begun,
            now: Timestamp::default(),
            aside: false,
            interrupts: 0,
            lost: None,
            prepared: false,
            keep_first: rules.clean || rules.commit_first,
            commit: None,
            committed_by_us: false,
            baseline: None,
            touched: None,
            check: None,
            changed_once: false,
            moves: 0,
            hidden: Vec::new(),
            pending: Vec::new(),
            reported: Vec::new(),
            set_backs: 0,
            sights: Vec::new(),
            tests: Vec::new(),
            tree: None,
            flags: task.flags.clone(),
            rules,
            task,
            holder,
        }
    }

    /// Commits before the check. It is for work that already has commits.
    pub fn keep_first(&mut self) {
        self.keep_first = true;
    }

    /// Ends with [`JudgeEnd::Green`] instead of a completion.
    pub fn before_landing(&mut self) {
        self.ending = Ending::Land;
    }

    /// Sets the result of the check before any work.
    pub fn baseline(&mut self, baseline: Option<Baseline>) {
        self.baseline = baseline;
    }

    /// Returns whether a command of the ledger will be run.
    pub fn runs_a_check(&self) -> bool {
        !self.foregone && self.task.check().is_some()
    }

    fn start(&mut self, state: State, effect: Effect) -> Step {
        self.state = state;
        Next::Start(effect)
    }

    fn commit(&mut self, state: State, command: Command) -> Step {
        self.state = state;
        Next::Commit(Box::new(command))
    }

    fn found(finding: Finding) -> Step {
        Next::Done(JudgeEnd::Found(finding))
    }

    fn begin(&mut self) -> Step {
        match self.keeper {
            _ if self.foregone => self.complete(),
            Keeper::Worker => self.start(State::Heading, Effect::Head),
            Keeper::Harness => self.look_at_files(),
        }
    }

    /// Lists the touched files first if some are protected.
    fn look_at_files(&mut self) -> Step {
        if self.rules.protected.is_empty() {
            return self.before_check();
        }
        self.start(State::Touching, Effect::Touched)
    }

    /// Decides whether the check or the commit comes first.
    fn before_check(&mut self) -> Step {
        match self.keeper {
            Keeper::Harness if self.keep_first => {
                let effect = Effect::Keep { tree: None };
                self.start(State::Keeping { then: AfterKeep::Check }, effect)
            }
            Keeper::Worker if self.must_commit_first() => {
                let then = match self.task.check() {
                    Some(_) => AfterKeep::Check,
                    None => AfterKeep::Record,
                };
                self.start(State::Keeping { then }, Effect::Keep { tree: None })
            }
            Keeper::Worker if self.task.check().is_none() => self.without_check(),
            Keeper::Worker if self.rules.clean && self.commit.is_none() => {
                Self::found(Finding::NoCommit)
            }
            Keeper::Harness | Keeper::Worker => self.check(),
        }
    }

    /// There is no check, or it judges a commit.
    fn must_commit_first(&self) -> bool {
        let counts = self.task.check().is_some() || self.unchecked == Unchecked::Allowed;
        let first = self.rules.clean || self.task.check().is_none();
        self.work == ClientWork::Committed && counts && first && !self.committed_by_us
    }

    fn check(&mut self) -> Step {
        let commit = self.commit.clone().filter(|_| self.rules.clean);
        self.start(State::Checking, Effect::Check { commit })
    }

    fn ended(&mut self, ended: Ended) -> Step {
        if let Some(refusal) = self.lost.take() {
            return Next::Done(JudgeEnd::Refused(refusal));
        }
        let state = self.state.clone();
        let may_stop = matches!(
            state,
            State::Heading
                | State::Touching
                | State::Checking
                | State::Preparing
                | State::Settling(_)
        );
        if self.interrupts > 0 && may_stop {
            return self.stopped(&ended);
        }
        match (state, ended) {
            (State::Heading, Ended::Head(commit)) => {
                self.commit = commit;
                self.look_at_files()
            }
            (State::Touching, Ended::Touched { files, settings }) => {
                self.touched(&files, &settings)
            }
            (State::Checking, Ended::Checked { verdict, record, output, around }) => {
                self.checked(verdict, *record, output, *around)
            }
            (state, Ended::Changed(settings)) => self.changed(state, &settings),
            (State::SettingBack { looked, found }, Ended::SetBack) => self.set_back(*looked, found),
            (State::Settling(settling), Ended::Settled { tree, settings }) => {
                self.settled(*tree, settling.output, &settings)
            }
            (State::PuttingBack { tree }, Ended::PutBack(files)) => self.put_back(tree, &files),
            (State::Preparing, Ended::Prepared) => self.check(),
            (State::Keeping { then }, Ended::Kept { commit, hidden, settings }) => {
                self.kept(then, commit, hidden, &settings)
            }
            (State::Keeping { .. }, Ended::Moved) => {
                let then = self.moved();
                self.go(then)
            }
            (State::Keeping { .. }, Ended::Blocked { why }) => {
                Self::found(Finding::Blocked { why })
            }
            (State::Keeping { .. } | State::Checking, Ended::NotKept { why }) => {
                Self::found(Finding::NotKept { why })
            }
            (State::Recording, Ended::Recorded) => self.complete(),
            (State::Looking, Ended::Looked(standing)) => self.looked(*standing),
            (State::RecordingAgain, Ended::Recorded) => self.completed(),
            (state, ended) => unreachable!("{ended:?} cannot be the end of {state:?}"),
        }
    }

    fn committed(&mut self) -> Step {
        if std::mem::take(&mut self.aside) {
            return Next::Wait;
        }
        match self.state.clone() {
            State::Flagging { then } => self.go(then),
            // A completion by force has its own epoch, and so does its receipt.
            State::Completing if !self.held && !self.foregone => {
                self.start(State::Looking, Effect::Look)
            }
            State::Completing => self.completed(),
            state => unreachable!("{state:?} waits for no commit"),
        }
    }

    fn completed(&self) -> Step {
        Next::Done(JudgeEnd::Completed { commit: self.commit.clone() })
    }

    fn refused(&mut self, refusal: Refusal) -> Step {
        if !std::mem::take(&mut self.aside) {
            return Next::Done(JudgeEnd::Refused(refusal));
        }
        if !refusal.ends_a_claim() {
            return Next::Wait;
        }
        self.lost = Some(refusal);
        Next::Cancel(StoppedBy::Fenced)
    }

    fn interrupted(&mut self) -> Step {
        self.interrupts += 1;
        match self.state {
            _ if self.interrupts > 1 => Self::found(Finding::Stopped),
            State::Checking | State::Preparing => Next::Cancel(StoppedBy::User),
            // An operation of git is short, so it is finished.
            _ => Next::Wait,
        }
    }

    fn renew(&mut self) -> Step {
        if !self.held || self.lost.is_some() {
            return Next::Wait;
        }
        self.aside = true;
        let (holder, lease_seconds) = (self.holder.clone(), self.lease_seconds);
        Next::Commit(Box::new(Command::Renew(Renew::new(holder, lease_seconds))))
    }
}

impl Machine for Judge {
    type Effect = Effect;
    type Ended = Ended;
    type Outcome = JudgeEnd;

    fn step(&mut self, now: Timestamp, input: Input<Ended>) -> Step {
        self.now = now;
        match input {
            Input::Begin => self.begin(),
            Input::Ended(ended) => self.ended(ended),
            Input::Committed(_) => self.committed(),
            Input::Refused(refusal) => self.refused(refusal),
            Input::Tick => self.renew(),
            Input::Interrupt => self.interrupted(),
            Input::Told(_) | Input::Allowed(_) => Next::Wait,
        }
    }
}
