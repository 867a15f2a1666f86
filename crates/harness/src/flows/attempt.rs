//! Performs one attempt. The machine decides which steps are taken, and in which order.

use std::sync::Arc;

use harness::{
    Branch, Result,
    agent::Prompt,
    core::{
        Command, Flag, Holder, Task,
        agent::End,
        check::{Found, Verdict},
        command::{Note, Raise},
        machine::attempt::{Attempt, AttemptEnd, Effect, Ended, Entry},
    },
    workspace::{RolledBack, Undone, WorkspaceError, own_contents},
};

use super::{
    Bench, Team,
    court::setting,
    iterate::{Errand, iterate},
    judge::Judge,
    with_tree,
};

/// Takes the attempt at `task` from the step of `entry` to its end.
pub async fn attempt<A>(
    cx: &Branch<Team<A>>,
    bench: &Bench,
    task: Task,
    holder: Holder,
    entry: Entry,
) -> Result<AttemptEnd>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    let mut protected = bench.tools.judging.rules.protected.clone();
    if entry == Entry::Fresh {
        record_settings(bench, &task).await?;
        let root = bench.tools.root.clone();
        protected = protected.holding(bench.tools.blocking(move || Ok(own_contents(&root))).await?);
    }
    let ended = task.clone();
    let machine = Attempt::new(task.clone(), holder.clone(), bench.tools.lease_seconds, entry)
        .judged_by(bench.tools.judging.rules.clone());
    let judge = Judge::new(bench.clone(), task.clone(), holder.clone(), protected);
    let doing = Doing { bench: bench.clone(), task, holder, judge };
    let ports = with_tree::ports(&bench.tools.ports, Arc::clone(&bench.workspace));
    let outcome = cx.drive(&ports, machine, |branch, effect| {
        let doing = doing.clone();
        async move { doing.perform(branch, effect).await }
    });
    let outcome = outcome.await?;
    if matches!(outcome, AttemptEnd::Completed { .. } | AttemptEnd::Failed { .. }) {
        let epoch = ended.epoch.unwrap_or_default();
        bench.git(move |git| git.forget_settings(&ended.id, epoch)).await??;
    }
    Ok(outcome)
}

/// Records git's settings before the work begins. If that fails, the attempt goes on: changed
/// settings are then not noticed, and the log reports that.
async fn record_settings(bench: &Bench, task: &Task) -> Result<()> {
    let (id, epoch) = (task.id.clone(), task.epoch.unwrap_or_default());
    match bench.git(move |git| git.record_settings(&id, epoch)).await? {
        Ok(()) => Ok(()),
        Err(why) => {
            let message = format!("git's settings could not be recorded: {why}");
            let note = Note::Warning { task: Some(task.id.clone()), message };
            bench.tools.commit(Command::Note(note)).await
        }
    }
}

/// Flags the attempt for settings of git that differ from its claim, and sets them back when the
/// flags are durable. Returns whether there were any.
pub(super) async fn set_settings_back(bench: &Bench, task: &Task) -> Result<bool> {
    let Some(epoch) = task.epoch else { return Ok(false) };
    let id = task.id.clone();
    let changes = bench.git(move |git| git.changed_settings(&id, epoch)).await??;
    for change in &changes {
        let (task, message) = (Some(task.id.clone()), setting(change).message);
        bench.tools.commit(Command::Raise(Raise { task, flag: Flag::Config, message })).await?;
    }
    if changes.iter().any(|change| change.set_back) {
        let id = task.id.clone();
        bench.git(move |git| git.restore_settings(&id, epoch)).await??;
    }
    Ok(!changes.is_empty())
}

#[derive(Clone)]
struct Doing {
    bench: Bench,
    task: Task,
    holder: Holder,
    judge: Judge,
}

impl Doing {
    async fn perform<A>(self, branch: Branch<Team<A>>, effect: Effect) -> Result<Ended>
    where
        A: harness::Agent<Input = Prompt, Output = End>,
    {
        let Self { bench, task, holder, judge } = &self;
        match effect {
            Effect::Work { after_step } => {
                let _at_work = branch.told().map(|told| bench.tools.desk.sit(holder.clone(), told));
                let (task, holder) = (Box::new(task.clone()), holder.clone());
                let errand = Errand::Task { task, holder, after_step };
                Ok(Ended::Worked(Box::pin(iterate(&branch, bench, errand)).await?))
            }
            Effect::Baseline => judge.baseline(&branch).await,
            Effect::Judge(effect) => Ok(Ended::Judged(judge.perform(&branch, effect).await?)),
            Effect::Cleanup { command } => {
                let ran = bench.clean_up(&branch, &command, task, holder).await?;
                Ok(Ended::CleanedUp(Verdict::of(Found::Yes, ran.exit).complaint()))
            }
            Effect::Undo => self.undo().await,
            Effect::Look => self.look().await,
            Effect::Rescue => self.rescue().await,
        }
    }

    async fn undo(&self) -> Result<Ended> {
        let Some(base) = self.bench.base(&self.task) else { return Ok(Ended::NoBase) };
        set_settings_back(&self.bench, &self.task).await?;
        let (id, attempt) = (self.task.id.clone(), self.task.attempts + 1);
        let commit = base.commit.clone();
        match self.bench.git(move |git| git.rollback(&id, attempt, &base)).await? {
            Ok(RolledBack { undone, put_back, rescue: _ }) => {
                let (base, remark) = match undone {
                    Undone::Nothing => (None, None),
                    Undone::Reset => (Some(commit), None),
                    Undone::Kept { head, reverts: true } => {
                        let head = head.short();
                        (
                            None,
                            Some(format!(
                                "commits of others stay; the attempt's are reverted by {head}"
                            )),
                        )
                    }
                    Undone::Kept { reverts: false, .. } => {
                        (None, Some("commits of others stay on the branch".to_owned()))
                    }
                };
                Ok(Ended::Undone { base, put_back, remark })
            }
            Err(WorkspaceError::NoSuchCommit { .. }) => Ok(Ended::NoBase),
            Err(WorkspaceError::CannotUndo { what, ways: [undo, keep] }) => {
                Ok(Ended::NotUndone { why: format!("{what}. Either {undo}, or {keep}") })
            }
            Err(other) => Err(other.into()),
        }
    }

    async fn look(&self) -> Result<Ended> {
        let Some(base) = self.bench.base(&self.task) else { return self.look_without_base().await };
        let settings = set_settings_back(&self.bench, &self.task).await?;
        let (id, claimed_at) = (self.task.id.clone(), self.task.claimed_at().unwrap_or_default());
        match self.bench.git(move |git| git.evidence(&id, &base, claimed_at)).await? {
            Ok(evidence) => Ok(Ended::Looked { changed: settings || !evidence.untouched }),
            Err(WorkspaceError::NoSuchCommit { .. }) => self.look_without_base().await,
            // If it is unknown whether files changed, the task is left to recovery.
            Err(_) => Ok(Ended::Looked { changed: true }),
        }
    }

    /// Without a base nothing can be compared. Tracked files without changes need not be put back.
    async fn look_without_base(&self) -> Result<Ended> {
        let status = self.bench.git(|git| git.status()).await?;
        Ok(Ended::Looked { changed: status.map_or(true, |status| !status.changed.is_empty()) })
    }

    async fn rescue(&self) -> Result<Ended> {
        if let Some(base) = self.bench.base(&self.task) {
            let (id, attempt) = (self.task.id.clone(), self.task.attempts + 1);
            self.bench.git(move |git| git.rescue(&id, attempt, &base)).await??;
        }
        Ok(Ended::Rescued)
    }
}
