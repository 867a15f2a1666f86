//! Performs the landing of a result. The machine of that name decides which steps are taken, and in
//! which order.

use harness::{
    Branch, Error, Result,
    core::{
        CommitId, Holder, Task,
        command::Evict,
        line,
        machine::land::{LandEffect, LandReport, LandingBranch, Rebased, Swapped},
        protect::Protected,
    },
    workspace::{
        WorkspaceError,
        shared::{self, Landed, Rebase, Swap, Token},
    },
};

use super::{Bench, judge::Judge, settle::settled_ledger, shared::OwnPlace};

/// The landing of one attempt.
#[derive(Clone)]
pub(super) struct Landing {
    pub(super) bench: Bench,
    pub(super) place: OwnPlace,
    pub(super) task: Task,
    pub(super) holder: Holder,
    pub(super) protected: Protected,
}

impl Landing {
    pub(super) async fn perform<A>(
        &self,
        branch: &Branch<A>,
        effect: LandEffect,
    ) -> Result<LandReport> {
        match self.perform_here(branch, effect).await {
            Err(Error::Workspace(why @ WorkspaceError::Unreachable { .. })) => {
                Ok(LandReport::Unreachable { why: why.to_string() })
            }
            performed => performed,
        }
    }

    async fn perform_here<A>(&self, branch: &Branch<A>, effect: LandEffect) -> Result<LandReport> {
        match effect {
            LandEffect::Look { files } => self.look(files).await,
            LandEffect::Await => {
                self.place.wait(branch).await;
                Ok(LandReport::Awaited)
            }
            LandEffect::Rebase { work, onto, placed } => self.rebase(work, onto, placed).await,
            LandEffect::Judge { onto, effect } => {
                let task = Task { started_at_commit: Some(onto), ..self.task.clone() };
                let (holder, protected) = (self.holder.clone(), self.protected.clone());
                let judge = Judge::new(self.bench.clone(), task, holder, protected);
                Ok(LandReport::Judged(judge.perform(branch, effect).await?))
            }
            LandEffect::SetToken { to } => {
                let task = self.task.id.clone();
                self.place.repository(move |git, _| git.set_token(&task, &to)).await??;
                Ok(LandReport::TokenSet)
            }
            LandEffect::Swap { target, from, to } => self.swap(target, from, to).await,
            LandEffect::VoidToken { to } => {
                let task = self.task.id.clone();
                let token = self.place.repository(move |git, _| git.void_token(&task, &to));
                Ok(match token.await?? {
                    Token::Voided => LandReport::TokenVoided,
                    Token::Missing => LandReport::TokenMissing,
                })
            }
            LandEffect::Branch { target } => {
                self.place.repository(move |git, _| git.divert(&target)).await??;
                Ok(LandReport::Branched { branch: shared::LANDED_BRANCH.to_owned() })
            }
        }
    }

    async fn look(&self, files: Vec<String>) -> Result<LandReport> {
        self.place.about_to_look().await;
        let ledger = settled_ledger(&self.bench).await?;
        let config = &ledger.head().session_config;
        let name = config.landing_branch().unwrap_or(shared::LANDED_BRANCH).to_owned();
        let of = name.clone();
        let tip = self.place.repository(move |git, _| git.tip(&of)).await??;
        let Some(tip) = tip else { return Ok(LandReport::NoTarget { branch: name }) };
        let now = self.bench.tools.ports.clock.now();
        Ok(LandReport::Looked {
            branch: LandingBranch { name, tip },
            line: ledger.head().landing.clone(),
            held_back: line::held_back(&ledger, &self.task.id, &files, now).cloned(),
            gone: Evict::first(&ledger, now, |by| (self.place.shared.is_dead)(by)),
        })
    }

    async fn rebase(
        &self,
        work: CommitId,
        onto: CommitId,
        placed: Option<CommitId>,
    ) -> Result<LandReport> {
        let rebase = Rebase {
            task: self.task.id.clone(),
            epoch: self.task.epoch.unwrap_or_default(),
            base: self.task.started_at_commit.clone().unwrap_or_else(|| onto.clone()),
            work,
            onto: onto.clone(),
            placed,
            style: self.place.shared.style,
            message: format!("{}: {}", self.task.id, self.task.title),
        };
        self.bench.workspace.disturbed();
        let rebased = self.place.repository(move |git, worker| {
            Ok(match git.rebase(worker, &rebase)? {
                shared::Rebased::Conflict { files } => Rebased::Conflict { files },
                shared::Rebased::Done { commit, tree } => {
                    let files = git.files_between(&onto, &commit)?;
                    Rebased::Done { commit, tree, files }
                }
            })
        });
        let rebased: Result<_, WorkspaceError> = rebased.await?;
        self.bench.workspace.disturbed();
        Ok(LandReport::Rebased(rebased?))
    }

    async fn swap(&self, target: String, from: CommitId, to: CommitId) -> Result<LandReport> {
        let swap = Swap { task: self.task.id.clone(), target, from, to };
        let landed = self.place.repository(move |git, _| git.land(&swap)).await??;
        Ok(LandReport::Swapped(match landed {
            Landed::Done => Swapped::Done,
            Landed::TargetMoved => Swapped::TargetMoved,
            Landed::Fenced => Swapped::Fenced,
            Landed::TreeInUse { why } => Swapped::TreeInUse { why },
        }))
    }
}
