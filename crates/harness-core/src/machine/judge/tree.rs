//! Ensures that the judged tree is the committed tree: the tree that a passing check began with is
//! committed. Points that a person should look at are flagged on the way.

use super::{AfterKeep, ClientWork, Effect, Finding, Judge, Keeper, Setting, State, Step};
use crate::{
    Command, CommitId, TreeId,
    check::Verdict,
    command::Raise,
    flag::{self, Flag},
    project,
    protect::{self, OnTouch},
    receipt::CheckRecord,
};

/// The number of times that others may commit on the branch while the check runs.
const MOST_MOVES: u32 = 3;

/// The state of the work tree before a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// Settings of git that differ from the claim and stay unchanged.
    pub settings: Vec<Setting>,
    /// The tree; `None` if the check ran in a clean checkout, or if there is no tree.
    pub before: Option<Before>,
}

/// The tree that a check began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// The tree that would be committed.
    pub tree: TreeId,
    /// Work that no commit can hold.
    pub hidden: Vec<String>,
}

/// The tree that would be committed, before and after a check that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedTree {
    /// The tree that the check began with.
    pub before: TreeId,
    /// The tree that the check left.
    pub after: TreeId,
    /// The files of the first tree that the second has in another form, or not at all.
    pub changed: Vec<String>,
    /// `true` if another program committed meanwhile.
    pub moved: bool,
    /// Work that no commit can hold.
    pub hidden: Vec<String>,
}

/// The step that follows when every flag is durable.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Then {
    Check,
    CheckAgain,
    Settle(Settling),
    /// HEAD has moved, so its files are listed again before the next check.
    LookAgain,
    SetBack {
        looked: Box<State>,
        found: Option<Finding>,
    },
    Keep(Option<TreeId>),
    PutBack(TreeId),
    Record,
    Found(Finding),
}

/// A check that passed on a tree that may have changed meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settling {
    pub(super) before: Before,
    /// The end of the check's output, for a finding.
    pub(super) output: String,
}

impl Judge {
    /// Flags the attempt, in the receipt and in the ledger.
    pub(super) fn flag(&mut self, flag: Flag, message: String) {
        flag::raise(&mut self.flags, flag);
        self.pending.push(Raise { task: Some(self.task.id.clone()), flag, message });
    }

    /// Continues when the flags are durable.
    pub(super) fn go(&mut self, then: Then) -> Step {
        if !self.pending.is_empty() {
            let raise = self.pending.remove(0);
            return self.commit(State::Flagging { then }, Command::Raise(raise));
        }
        match then {
            Then::Check => self.before_check(),
            Then::CheckAgain => self.check(),
            Then::LookAgain => self.start(State::Heading, Effect::Head),
            Then::Settle(settling) => {
                let effect = Effect::Settle { before: settling.before.clone() };
                self.start(State::Settling(Box::new(settling)), effect)
            }
            Then::SetBack { looked, found } => {
                self.start(State::SettingBack { looked, found }, Effect::SetBack)
            }
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

    /// Flags protected files that were touched, or returns the finding that refuses the work.
    pub(super) fn protect(&mut self, files: Vec<String>) -> Option<Finding> {
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
        self.tests = project::tests_among(files);
        let mut protected = self.rules.protected.among(files);
        protected.append(&mut self.sights);
        protected.extend(self.settings(settings));
        let then = self.protect(protected).map_or(Then::Check, Then::Found);
        self.go(then)
    }

    /// Continues after the end of a check.
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
                let then = match (around.before, self.keeper) {
                    // The commit itself was judged, whatever the work tree contains by now.
                    _ if self.rules.clean => self.before_record(),
                    (Some(before), _) => Then::Settle(Settling { before, output }),
                    (None, Keeper::Harness) => Then::Keep(None),
                    (None, Keeper::Worker) => self.before_record(),
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

    /// Continues after a passed check: decides whether it judged the tree that is there now.
    pub(super) fn settled(
        &mut self,
        tree: JudgedTree,
        output: String,
        settings: &[Setting],
    ) -> Step {
        let protected = self.settings(settings);
        if let Some(finding) = self.protect(protected) {
            return self.go(Then::Found(finding));
        }
        let then = match self.keeper {
            Keeper::Harness if tree.moved => {
                self.hidden = tree.hidden;
                self.moved()
            }
            Keeper::Harness | Keeper::Worker => self.compared(tree, output),
        };
        self.go(then)
    }

    fn compared(&mut self, tree: JudgedTree, output: String) -> Then {
        let JudgedTree { before, changed, moved, hidden, .. } = tree;
        self.hidden = hidden;
        let is_stable = changed.is_empty() && !moved;
        let protected = self.rules.protected.among(&changed);
        if !is_stable && !std::mem::replace(&mut self.changed_once, true) {
            let again = if moved { Then::LookAgain } else { Then::CheckAgain };
            return self.protect(protected).map_or(again, Then::Found);
        }
        if !protected.is_empty() {
            let why = format!("it changes protected files: {}", protected.join(", "));
            return Then::Found(Finding::CheckFailed { why, output, clean: false });
        }
        match self.keeper {
            Keeper::Harness if is_stable => Then::Keep(Some(before)),
            Keeper::Harness => Then::PutBack(before),
            Keeper::Worker => {
                // Another worker may use this tree, so nothing in it is put back.
                if !is_stable {
                    let files = protect::named(&changed);
                    let message = format!("files change each time the check runs: {files}");
                    self.flag(Flag::Unstable, message);
                }
                match self.work {
                    ClientWork::Committed => Then::Keep(Some(before)),
                    ClientWork::Left => {
                        self.tree = Some(before);
                        self.before_record()
                    }
                }
            }
        }
    }

    /// Counts a commit of others during the check. The check did not cause it, so the current tree
    /// is judged.
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
        self.committed_by_us = true;
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

    /// Flags a commit that does not contain the work.
    fn before_record(&mut self) -> Then {
        if self.commit.is_some() && self.commit == self.task.started_at_commit {
            match self.keeper {
                Keeper::Harness => {
                    let message = "completed without a change: the commit is the one it began with";
                    self.flag(Flag::NoChange, message.to_owned());
                }
                // Clients complete tasks by the thousand, so only the receipt mentions it and not
                // the log.
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
