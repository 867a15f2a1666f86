//! Performs one attempt. The machine decides which steps are taken, and in which order.

use std::{sync::Arc, time::Duration};

use harness::{
    Branch, Error, Ports, Result,
    agent::Prompt,
    core::{
        Command, Flag, Holder, Task, WorkerId,
        agent::End,
        check::{Found, Verdict},
        command::{Note, Raise},
        line::RENEW_SECONDS,
        machine::attempt::{Attempt, AttemptEnd, Effect, Ended, Entry},
    },
    workspace::{
        RolledBack, Undone, WorkspaceError, own_contents,
        shared::{LANDED_BRANCH, SharedRepository},
    },
};

use super::{
    Bench, Team, backup,
    court::setting,
    cut_off,
    fence::Watch,
    iterate::{Errand, iterate},
    judge::Judge,
    land::Landing,
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
    let watch = bench.own.as_ref().map(|_| {
        let clock = Arc::clone(&bench.tools.ports.clock);
        Watch::new(&task, &holder, bench.tools.lease_seconds, clock)
    });
    let watched = match &watch {
        Some(watch) => bench.clone().watched_by(watch),
        None => bench.clone(),
    };
    let mut protected = bench.tools.judging.rules.protected.clone().of_task(&task);
    if entry == Entry::Fresh {
        record_settings(&watched, &task).await?;
        let root = bench.tools.root.clone();
        protected = protected.holding(bench.tools.blocking(move || Ok(own_contents(&root))).await?);
    }
    let (ended, held) = (task.clone(), holder.clone());
    let mut machine = Attempt::new(task.clone(), holder.clone(), bench.tools.lease_seconds, entry)
        .judged_by(bench.tools.judging.rules.clone());
    let mut landing = None;
    if let Some(place) = bench.own.clone() {
        machine = machine.landing_among(place.shared.preparing);
        let (bench, task, holder) = (watched.clone(), task.clone(), holder.clone());
        landing = Some(Landing { bench, place, task, holder, protected: protected.clone() });
    }
    let judge = Judge::new(watched.clone(), task.clone(), holder.clone(), protected);
    let doing = Doing { bench: watched, task, holder, judge, landing };
    let outcome = match watch {
        None => doing.drive(cx, &doing.ports(), machine).await?,
        Some(watch) => match doing.drive_fenced(cx, machine, &watch).await {
            Ok(AttemptEnd::Left(_)) if watch.has_fired() => {
                cut_off::look_at_claim(bench, &doing.task, &watch).await?
            }
            Err(why) if watch.has_fired() && why.is_unreachable() => {
                cut_off::look_at_claim(bench, &doing.task, &watch).await?
            }
            end => end?,
        },
    };
    let over = match outcome {
        AttemptEnd::Completed { .. } | AttemptEnd::Failed { .. } => true,
        // An attempt that changed nothing has given its claim back. Any other one is recovered.
        AttemptEnd::Left(_) | AttemptEnd::Paused => !is_held(bench, &held).await?,
        AttemptEnd::Lost => {
            // What the attempt left is saved by now.
            end_branch(bench, &ended).await?;
            false
        }
    };
    backup::log_warnings(bench, &ended.id).await?;
    if over {
        let epoch = ended.epoch.unwrap_or_default();
        end_branch(bench, &ended).await?;
        bench.git(move |git| git.forget_settings(&ended.id, epoch)).await??;
    }
    Ok(outcome)
}

/// Returns whether the claim is still open.
async fn is_held(bench: &Bench, holder: &Holder) -> Result<bool> {
    let ledger = bench.tools.read_ledger().await?;
    Ok(ledger.task(&holder.task).is_some_and(|task| holder.holds(task)))
}

/// Deletes the branch of an attempt that has ended in a tree of its own.
pub(super) async fn end_branch(bench: &Bench, task: &Task) -> Result<()> {
    let Some(place) = &bench.own else { return Ok(()) };
    let (id, epoch) = (task.id.clone(), task.epoch.unwrap_or_default());
    let ledger = bench.tools.read_ledger().await?;
    let target = ledger.head().session_config.landing_branch().unwrap_or(LANDED_BRANCH).to_owned();
    let end = move |git: &dyn SharedRepository, worker: &WorkerId| {
        git.end_branch(worker, &id, epoch, &target)
    };
    place.repository(end).await??;
    Ok(())
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
    landing: Option<Landing>,
}

impl Doing {
    fn ports(&self) -> Ports {
        with_tree::ports(&self.bench.tools.ports, Arc::clone(&self.bench.workspace))
    }

    async fn drive<A>(
        &self,
        cx: &Branch<Team<A>>,
        ports: &Ports,
        machine: Attempt,
    ) -> Result<AttemptEnd>
    where
        A: harness::Agent<Input = Prompt, Output = End>,
    {
        cx.drive(ports, machine, |branch, effect| {
            let doing = self.clone();
            async move { doing.perform(branch, effect).await }
        })
        .await
    }

    /// Drives the attempt of one of several workers, whose agent is stopped if the claim cannot be
    /// renewed in time.
    async fn drive_fenced<A>(
        &self,
        cx: &Branch<Team<A>>,
        machine: Attempt,
        watch: &Watch,
    ) -> Result<AttemptEnd>
    where
        A: harness::Agent<Input = Prompt, Output = End>,
    {
        let tools = &self.bench.tools;
        let often = Duration::from_secs(RENEW_SECONDS).min(tools.ports.tick);
        let rare = tools.ports.tick.as_secs() / often.as_secs().max(1);
        let machine = machine.renewing_every(u32::try_from(rare).unwrap_or(1));
        let ports = Ports { tick: often, ..self.ports() };
        let branch = cx.apart();
        tokio::select! {
            biased;
            end = self.drive(&branch, &ports, machine) => end,
            () = watch.guard(&branch, &*ports.commit) => {
                Err(Error::message("the watch over a claim does not end"))
            }
        }
    }

    async fn perform<A>(self, branch: Branch<Team<A>>, effect: Effect) -> Result<Ended>
    where
        A: harness::Agent<Input = Prompt, Output = End>,
    {
        let Self { bench, task, holder, judge, landing } = &self;
        match effect {
            Effect::Work { after_step } => {
                let tree = || Arc::clone(&bench.workspace);
                let _at_work =
                    branch.told().map(|told| bench.tools.desk.sit_in(tree(), holder.clone(), told));
                let (task, holder) = (Box::new(task.clone()), holder.clone());
                let errand = Errand::Task { task, holder, after_step };
                let work = Box::pin(iterate(&branch, bench, errand));
                Ok(Ended::Worked(backup::beside(bench, &self.task, work).await?))
            }
            Effect::Baseline => judge.baseline(&branch).await,
            Effect::Judge(effect) => Ok(Ended::Judged(judge.perform(&branch, effect).await?)),
            Effect::Cleanup { command } => {
                let ran = bench.clean_up(&branch, &command, task, holder).await?;
                Ok(Ended::CleanedUp(Verdict::of(Found::Yes, ran.exit).complaint()))
            }
            Effect::Land(effect) => match landing {
                Some(landing) => {
                    Ok(Ended::Landing(Box::new(landing.perform(&branch, *effect).await?)))
                }
                None => Err(Error::message("an attempt in the main tree does not land")),
            },
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
        cut_off::rescue(&self.bench, &self.task).await?;
        Ok(Ended::Rescued)
    }
}
