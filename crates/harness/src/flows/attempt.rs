//! Performs one attempt. What to do and in which order is the machine's.

use harness::{
    Branch, Result,
    agent::Prompt,
    core::{
        Holder, Task,
        agent::End,
        check::Verdict,
        machine::attempt::{Attempt, Effect, Ended, Entry, Outcome},
    },
    shell::Ran,
    workspace::WorkspaceError,
};

use super::{Team, Tools};

/// How much of the last line of a check's output is told.
const LAST_LINE: usize = 200;

/// Takes the attempt at `task` from where `entry` says to its end.
pub async fn attempt<A>(
    cx: &Branch<Team<A>>,
    tools: &Tools,
    task: Task,
    holder: Holder,
    entry: Entry,
) -> Result<Outcome>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    let machine = Attempt::new(task.clone(), holder.clone(), tools.lease_seconds, entry);
    let doing = Doing { tools: tools.clone(), task, holder };
    cx.drive(&tools.ports, machine, |branch, effect| {
        let doing = doing.clone();
        async move { doing.perform(branch, effect).await }
    })
    .await
}

#[derive(Clone)]
struct Doing {
    tools: Tools,
    task: Task,
    holder: Holder,
}

impl Doing {
    async fn perform<A>(self, branch: Branch<Team<A>>, effect: Effect) -> Result<Ended>
    where
        A: harness::Agent<Input = Prompt, Output = End>,
    {
        let Self { tools, task, holder } = &self;
        match effect {
            Effect::Work { after_step } => {
                let prompt = tools.prompt(task, holder, after_step);
                Ok(Ended::Worked(branch.execute(|team| &team.worker, prompt).await?))
            }
            Effect::Check => {
                let (verdict, ran) = tools.check(&branch, task, holder).await?;
                Ok(Ended::Checked { verdict, last_line: last_line(&ran) })
            }
            Effect::Prepare => {
                // Whether it helped is what the check says next.
                tools.prepare(&branch).await?;
                Ok(Ended::Prepared)
            }
            Effect::Cleanup { command } => {
                let ran = tools.clean_up(&branch, &command, task, holder).await?;
                if Verdict::of(harness::core::check::Found::Yes, ran.exit) != Verdict::Passed {
                    tracing::warn!(task = %task.id, exit = ?ran.exit, "the cleanup failed");
                }
                Ok(Ended::CleanedUp)
            }
            Effect::Keep => self.keep().await,
            Effect::Undo => self.undo().await,
            Effect::Look => self.look().await,
            Effect::Rescue => self.rescue().await,
        }
    }

    async fn keep(&self) -> Result<Ended> {
        let Some(base) = self.tools.base(&self.task) else {
            return Ok(Ended::NotKept { why: "The claim recorded no base commit".into() });
        };
        let message = format!("{}: {}", self.task.id, self.task.title);
        match self.tools.git(move |git| git.commit(&base, &message)).await? {
            Ok(commit) => Ok(Ended::Kept(commit)),
            Err(why @ (WorkspaceError::NotDescendant { .. } | WorkspaceError::Unsafe { .. })) => {
                Ok(Ended::NotKept { why: why.to_string() })
            }
            Err(other) => Err(other.into()),
        }
    }

    async fn undo(&self) -> Result<Ended> {
        let Some(base) = self.tools.base(&self.task) else { return Ok(Ended::NoBase) };
        let (id, attempt) = (self.task.id.clone(), self.task.attempts + 1);
        let commit = base.commit.clone();
        match self.tools.git(move |git| git.rollback(&id, attempt, &base)).await? {
            Ok(rolled_back) => {
                for file in &rolled_back.put_back {
                    tracing::warn!(
                        file,
                        "a file from before the claim was changed; it is put back"
                    );
                }
                Ok(Ended::Undone { base: commit })
            }
            Err(WorkspaceError::NoSuchCommit { .. }) => Ok(Ended::NoBase),
            Err(other) => Err(other.into()),
        }
    }

    async fn look(&self) -> Result<Ended> {
        let Some(base) = self.tools.base(&self.task) else {
            return Ok(Ended::Looked { changed: true });
        };
        let (id, claimed_at) = (self.task.id.clone(), self.task.claimed_at.unwrap_or_default());
        let evidence = self.tools.git(move |git| git.evidence(&id, &base, claimed_at)).await?;
        // Where that can not be told, the task is left to recovery.
        let changed = evidence.map_or(true, |e| !e.untouched);
        Ok(Ended::Looked { changed })
    }

    async fn rescue(&self) -> Result<Ended> {
        if let Some(base) = self.tools.base(&self.task) {
            let (id, attempt) = (self.task.id.clone(), self.task.attempts + 1);
            self.tools.git(move |git| git.rescue(&id, attempt, &base)).await??;
        }
        Ok(Ended::Rescued)
    }
}

fn last_line(ran: &Ran) -> Option<String> {
    let text = String::from_utf8_lossy(&ran.tail);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(LAST_LINE).collect())
}
