//! What is judged is what is kept: the tree that a passing check began with is the one that is
//! committed, and what a person should look at is flagged on the way.

use super::{AfterKeep, Effect, Ended, Finding, Judge, Keeper, State, Step};
use crate::{
    Command, CommitId, TreeId,
    check::Verdict,
    command::Raise,
    flag::{self, Flag},
    protect::{self, OnTouch},
    receipt::CheckRecord,
};

/// How often somebody may commit on the branch while the check runs.
const MOST_MOVES: u32 = 3;

/// A setting of git that the attempt changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// What counts as a protected file.
    pub name: String,
    /// For the log: old, new, and the command that makes the change again.
    pub message: String,
    /// It changes what git sees.
    pub sight: bool,
}

/// What was seen of the work tree around a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// Settings that were changed, and set back.
    pub settings: Vec<Setting>,
    /// `None` where the check ran in a clean checkout, or where nothing is committed.
    pub tree: Option<JudgedTree>,
}

/// The tree that would be committed, before and after a check that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedTree {
    /// What the check began with.
    pub before: TreeId,
    /// What it left, without the files that only the check made.
    pub after: TreeId,
    /// The files in which they differ.
    pub changed: Vec<String>,
    /// Somebody committed meanwhile.
    pub moved: bool,
    /// Work that no commit can hold.
    pub hidden: Vec<String>,
}

/// What follows when everything is flagged.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Then {
    Check,
    CheckAgain,
    Keep(Option<TreeId>),
    PutBack(TreeId),
    Record,
    Found(Finding),
}

impl Judge {
    /// Flags the attempt, in the receipt and in the ledger.
    pub(super) fn flag(&mut self, flag: Flag, message: String) {
        flag::raise(&mut self.flags, flag);
        self.pending.push(Raise { task: Some(self.task.id.clone()), flag, message });
    }

    /// Goes on when the flags are durable.
    pub(super) fn go(&mut self, then: Then) -> Step {
        if !self.pending.is_empty() {
            let raise = self.pending.remove(0);
            return self.commit(State::Flagging { then }, Command::Raise(raise));
        }
        match then {
            Then::Check => self.before_check(),
            Then::CheckAgain => self.check(),
            Then::Keep(tree) => {
                self.tree.clone_from(&tree);
                self.start(State::Keeping { then: AfterKeep::Record }, Effect::Keep { tree })
            }
            Then::PutBack(tree) => {
                self.start(State::PuttingBack { tree: tree.clone() }, Effect::PutBack { tree })
            }
            Then::Record => self.record(),
            Then::Found(finding) => Self::found(finding),
        }
    }

    /// Somebody stops it. Settings that were set back are flagged, since nobody else tells of them.
    pub(super) fn stopped(&mut self, ended: &Ended) -> Step {
        match ended {
            Ended::Checked { around, .. } => drop(self.settings(&around.settings)),
            Ended::Touched { settings, .. } => drop(self.settings(settings)),
            _ => {}
        }
        self.go(Then::Found(Finding::Stopped))
    }

    /// Flags changed settings. Returns those that count as protected files.
    fn settings(&mut self, settings: &[Setting]) -> Vec<String> {
        for setting in settings {
            self.flag(Flag::Config, setting.message.clone());
        }
        settings.iter().filter(|set| set.sight).map(|set| set.name.clone()).collect()
    }

    /// Flags protected files that were touched, or says why the work is refused for them.
    fn protect(&mut self, files: Vec<String>) -> Option<Finding> {
        if files.is_empty() {
            return None;
        }
        let touched = self.touched.get_or_insert_default();
        touched.extend(
            files.iter().filter(|file| !touched.contains(file)).cloned().collect::<Vec<_>>(),
        );
        match self.rules.protected.on_touch() {
            OnTouch::Flag => {
                self.flag(Flag::Protected, protect::touched(&files));
                None
            }
            OnTouch::Refuse => Some(Finding::Protected { files }),
        }
    }

    pub(super) fn touched(&mut self, files: &[String], settings: &[Setting]) -> Step {
        self.touched.get_or_insert_default();
        let mut protected = self.rules.protected.among(files);
        protected.extend(self.settings(settings));
        let then = self.protect(protected).map_or(Then::Check, Then::Found);
        self.go(then)
    }

    /// A check came to its end in whatever way.
    pub(super) fn checked(
        &mut self,
        verdict: Verdict,
        check: CheckRecord,
        output: String,
        around: Around,
    ) -> Step {
        let clean = check.clean;
        let protected = self.settings(&around.settings);
        if let Some(finding) = self.protect(protected) {
            return self.go(Then::Found(finding));
        }
        let found = match verdict {
            Verdict::Passed => {
                self.check = Some(check);
                let then = match self.keeper {
                    Keeper::Harness if !self.rules.clean => self.settled(around.tree, output),
                    // What was judged is the commit itself, whatever the work tree holds by now.
                    Keeper::Harness | Keeper::Worker => self.before_record(),
                };
                return self.go(then);
            }
            Verdict::Red { why } => Finding::CheckFailed { why, output, clean },
            Verdict::TimedOut => {
                let seconds = self.task.validation.timeout_seconds;
                Finding::CheckTimedOut { seconds, output }
            }
            Verdict::Missing if !self.prepared => {
                self.prepared = true;
                return self.start(State::Preparing, Effect::Prepare);
            }
            Verdict::Missing => {
                let command = self.task.check().unwrap_or_default().to_owned();
                Finding::CheckMissing { command, output }
            }
            Verdict::Cancelled => Finding::Stopped,
        };
        self.go(Then::Found(found))
    }

    /// The check passed: was it about what is there now?
    fn settled(&mut self, tree: Option<JudgedTree>, output: String) -> Then {
        let Some(tree) = tree else { return Then::Keep(None) };
        self.hidden = tree.hidden;
        if tree.moved {
            return self.moved();
        }
        if tree.changed.is_empty() {
            return Then::Keep(Some(tree.before));
        }
        let protected = self.rules.protected.among(&tree.changed);
        if std::mem::replace(&mut self.changed_once, true) {
            if !protected.is_empty() {
                let why = format!("it changes protected files: {}", protected.join(", "));
                return Then::Found(Finding::CheckFailed { why, output, clean: false });
            }
            return Then::PutBack(tree.before);
        }
        self.protect(protected).map_or(Then::CheckAgain, Then::Found)
    }

    /// Commits of others are not the check's doing: what is there now is judged.
    pub(super) fn moved(&mut self) -> Then {
        self.moves += 1;
        if self.moves >= MOST_MOVES { Then::Found(Finding::Restless) } else { Then::CheckAgain }
    }

    pub(super) fn put_back(&mut self, tree: TreeId, files: &[String]) -> Step {
        let files = protect::named(files);
        self.flag(Flag::Unstable, format!("the check changes files each time it runs: {files}"));
        self.go(Then::Keep(Some(tree)))
    }

    pub(super) fn kept(
        &mut self,
        then: AfterKeep,
        commit: CommitId,
        hidden: Vec<String>,
        settings: &[Setting],
    ) -> Step {
        self.commit = Some(commit);
        if !hidden.is_empty() {
            self.hidden = hidden;
        }
        let protected = self.settings(settings);
        if let Some(finding) = self.protect(protected) {
            return self.go(Then::Found(finding));
        }
        let then = match then {
            AfterKeep::Check => Then::CheckAgain,
            AfterKeep::Record => self.before_record(),
        };
        self.go(then)
    }

    /// Flags a commit that does not hold the work.
    fn before_record(&mut self) -> Then {
        if self.commit.is_some() && self.commit == self.task.started_at_commit {
            match self.keeper {
                Keeper::Harness => {
                    let message = "completed without a change: the commit is the one it began with";
                    self.flag(Flag::NoChange, message.to_owned());
                }
                // Clients complete by the thousand: the receipt says it.
                Keeper::Worker => flag::raise(&mut self.flags, Flag::NoChange),
            }
        }
        let hidden = std::mem::take(&mut self.hidden);
        if !hidden.is_empty() {
            let files = protect::named(&hidden);
            self.flag(Flag::HiddenWork, format!("work that the commit does not hold: {files}"));
        }
        Then::Record
    }
}
