//! Lands the result of an attempt: it waits in the line, is put on top of what lands before it, is
//! judged there, and becomes part of the target branch.
//!
//! ```text
//! join → look → rebase → announce → judge → … → receipt → token → Intend(land) → swap → Complete
//!         ↑______________________________|   |
//!         |__________________________________| the swap was lost
//! ```
//!
//! The token is set before the intent, so that a recovery that finds the intent can void the landing
//! in git itself. Nothing counts as an attempt but a conflict or a failed check on top of what really
//! landed.

mod judgement;
mod swap;
mod terms;

pub use terms::{LandEffect, LandEnd, LandReport, LandTerms, LandingBranch, Rebased, Swapped};

use super::{Input, Machine, Next, judge::Judge};
use crate::{
    Category, Command, CommitId, Receipt, Refusal, Reply, Stop, TaskId, Timestamp, TreeId,
    agent::StoppedBy,
    command::{
        Attempts, Authority, Complete, Evict, Landing, LandingStep, Proof, Renew, Unchecked,
    },
    ledger::LandingEntry,
    line::{self, Below, Turn},
    run::StopReason,
};

/// After this many lost swaps in a row results land on a branch of our own.
const LOST_SWAPS_MAX: u32 = 5;

#[derive(Debug, Clone, PartialEq)]
enum State {
    Begun,
    Joining,
    Looking,
    /// The entry of a worker that is gone is removed from the line.
    Evicting,
    Waiting,
    Rebasing {
        onto: CommitId,
        below: Below,
    },
    Announcing,
    Judging,
    Delivering,
    /// The work returns to its own base, so that the failure is undone from there.
    Returning(Refused),
    Leaving(Leaving),
    Recording,
    Marking,
    Intending,
    Swapping,
    Voiding {
        then: AfterVoid,
    },
    Branching {
        why: String,
    },
    Diverting,
    Completing,
}

/// The reason for leaving the line.
#[derive(Debug, Clone, PartialEq)]
enum Leaving {
    Refused(Refused),
    Stop(Stop),
    /// Another task reserves a file; the result waits outside of the line.
    HeldBack,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused {
    category: Category,
    message: String,
    conflicts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AfterVoid {
    Look,
    /// Another task reserves a file.
    HoldBack,
    Divert {
        why: String,
    },
    /// Nothing can land.
    Stop {
        why: String,
    },
}

/// The result in its current form.
#[derive(Debug, Clone, PartialEq)]
struct Prepared {
    onto: CommitId,
    commit: CommitId,
    /// Its tree; `None` after a conflict.
    tree: Option<TreeId>,
    files: Vec<String>,
    /// The conflicts on top of `onto`, or the failed check.
    refused: Option<Refused>,
}

/// The machine that lands the result of one attempt.
pub struct Land {
    terms: LandTerms,
    state: State,
    /// The last commit of the work on its own base.
    work: CommitId,
    /// The receipt of the last judgement, with the commit below the judged tree.
    green: (CommitId, Receipt),
    prepared: Option<Prepared>,
    /// The commit on which the last rebase left the work tree.
    placed: Option<CommitId>,
    judging: Option<Judge>,
    /// The branch and its commit at the last look.
    branch: LandingBranch,
    /// The entry that was evicted last.
    evicted: Option<Evict>,
    lost_swaps: u32,
    /// `true` if the last swap was lost, and counted.
    counted_swap: bool,
    /// `true` while a renewal is on its way to the store, beside the effect.
    aside: bool,
    interrupts: u32,
    lost: Option<Refusal>,
    now: Timestamp,
}

type Step = Next<LandEffect, LandEnd>;

impl Land {
    /// Creates the machine for work that passed its check on its own base.
    pub fn new(terms: LandTerms, receipt: Receipt) -> Self {
        let work = receipt.commit.clone().unwrap_or_else(|| terms.base.clone());
        let green = (terms.base.clone(), receipt);
        let branch = LandingBranch { name: String::new(), tip: terms.base.clone() };
        Self {
            terms,
            state: State::Begun,
            work,
            green,
            prepared: None,
            placed: None,
            judging: None,
            branch,
            evicted: None,
            lost_swaps: 0,
            counted_swap: false,
            aside: false,
            interrupts: 0,
            lost: None,
            now: Timestamp::default(),
        }
    }

    fn start(&mut self, state: State, effect: LandEffect) -> Step {
        self.state = state;
        Next::Start(effect)
    }

    fn commit(&mut self, state: State, command: Command) -> Step {
        self.state = state;
        Next::Commit(Box::new(command))
    }

    fn step_in_line(&mut self, state: State, step: LandingStep) -> Step {
        let (holder, lease_seconds) = (self.terms.holder.clone(), self.terms.lease_seconds);
        self.commit(state, Command::Landing(Landing { holder, step, lease_seconds }))
    }

    fn join(&mut self) -> Step {
        self.step_in_line(State::Joining, LandingStep::Join)
    }

    fn look(&mut self) -> Step {
        let files = self.prepared.as_ref().map(|p| p.files.clone()).unwrap_or_default();
        self.start(State::Looking, LandEffect::Look { files })
    }

    fn wait(&mut self) -> Step {
        self.start(State::Waiting, LandEffect::Await)
    }

    fn looked(
        &mut self,
        branch: LandingBranch,
        entries: &[LandingEntry],
        held_back: Option<TaskId>,
        gone: Option<Evict>,
    ) -> Step {
        let overtaken = self.is_overtaken(&branch);
        self.branch = branch;
        if self.interrupts > 0 {
            return self.leave(Leaving::Stop(Stop::interrupted()));
        }
        // An entry that is still there after it was evicted is one that the store does not see as gone.
        if let Some(gone) = gone.filter(|gone| self.evicted.as_ref() != Some(gone)) {
            self.evicted = Some(gone.clone());
            return self.commit(State::Evicting, Command::Evict(gone));
        }
        let (task, epoch) = (&self.terms.holder.task, self.terms.holder.epoch.unwrap_or_default());
        let turn = line::turn(entries, task, epoch, &self.branch.tip, self.terms.preparing);
        match turn {
            Turn::Out if held_back.is_some() => self.wait(),
            Turn::Out => self.join(),
            Turn::Wait => self.wait(),
            Turn::Prepare { .. } if overtaken => self.overtaken(),
            Turn::Prepare { onto, below } => self.rebase(onto, below),
            // The entry is of an earlier machine of the same claim.
            Turn::Judge { .. } | Turn::Land | Turn::Refused if self.prepared.is_none() => {
                self.leave(Leaving::HeldBack)
            }
            Turn::Land if held_back.is_some() => self.leave(Leaving::HeldBack),
            Turn::Land => self.land(),
            Turn::Refused => self.refuse(),
            Turn::Judge { .. } => self.judge(),
        }
    }

    fn rebase(&mut self, onto: CommitId, below: Below) -> Step {
        let effect = self.put_on(onto.clone());
        self.start(State::Rebasing { onto, below }, effect)
    }

    fn put_on(&self, onto: CommitId) -> LandEffect {
        LandEffect::Rebase { work: self.work.clone(), onto, placed: self.placed.clone() }
    }

    fn rebased(&mut self, onto: CommitId, below: Below, rebased: Rebased) -> Step {
        let (commit, tree, files, refused) = match rebased {
            Rebased::Done { commit, tree, files } => {
                self.placed = Some(commit.clone());
                (commit, Some(tree), files, None)
            }
            Rebased::Conflict { files } => {
                let message = format!("Conflict with {} in {}", self.branch.name, files.join(", "));
                let category = Category::TaskExec;
                let refused = Refused { category, message, conflicts: files.clone() };
                let step = LandingStep::Announce { onto: onto.clone(), commit: None };
                let (commit, refused) = (onto.clone(), Some(refused));
                self.prepared = Some(Prepared { onto, commit, tree: None, files, refused });
                // Below what has not landed it is no verdict.
                return match below {
                    Below::Landed => self.refuse(),
                    Below::Announced => self.step_in_line(State::Announcing, step),
                };
            }
        };
        let step = LandingStep::Announce { onto: onto.clone(), commit: Some(commit.clone()) };
        self.prepared = Some(Prepared { onto, commit, tree, files, refused });
        self.step_in_line(State::Announcing, step)
    }

    /// Fails the attempt, after its work is back on its own base.
    fn refuse(&mut self) -> Step {
        let Some(prepared) = &self.prepared else { return self.look() };
        let Some(refused) = prepared.refused.clone() else { return self.look() };
        let effect = self.put_on(self.terms.base.clone());
        self.start(State::Returning(refused), effect)
    }

    fn leave(&mut self, leaving: Leaving) -> Step {
        let conflicts = match &leaving {
            Leaving::Refused(refused) => {
                line::conflicts_after(&self.terms.task, &refused.conflicts)
            }
            Leaving::Stop(_) | Leaving::HeldBack => self.terms.task.conflicts.clone(),
        };
        self.step_in_line(State::Leaving(leaving), LandingStep::Leave { conflicts })
    }

    fn left(&mut self, leaving: Leaving) -> Step {
        match leaving {
            Leaving::Refused(Refused { category, message, conflicts }) => {
                let attempts = match line::is_spared(&self.terms.task, &conflicts) {
                    true => Attempts::None,
                    false => Attempts::One,
                };
                Next::Done(LandEnd::Refused { category, message, attempts })
            }
            Leaving::Stop(stop) => Next::Done(LandEnd::Left(stop)),
            Leaving::HeldBack => self.wait(),
        }
    }

    fn complete(&mut self) -> Step {
        let Some(prepared) = &self.prepared else { return self.look() };
        let command = self.green.1.check.as_ref().map(|check| check.command.clone());
        let command = Command::Complete(Complete {
            holder: self.terms.holder.clone(),
            authority: Authority::Holder,
            proof: command.map_or(Proof::Word, |command| Proof::Passed { command }),
            unchecked: Unchecked::Forbidden,
            commit: Some(prepared.commit.clone()),
        });
        self.commit(State::Completing, command)
    }

    fn ended(&mut self, report: LandReport) -> Step {
        if let Some(refusal) = self.lost.take() {
            return match self.state {
                State::Marking => self.take_back_token(refusal),
                _ => Next::Done(LandEnd::ClaimLost(refusal)),
            };
        }
        match (self.state.clone(), report) {
            // As after a crash at this point: the next worker finds what is left to do.
            (_, LandReport::Unreachable { why }) => {
                Next::Done(LandEnd::Left(Stop::with_words(StopReason::EnvSetup, why)))
            }
            (State::Looking, LandReport::Looked { branch, line, held_back, gone }) => {
                self.looked(branch, &line, held_back, gone)
            }
            (State::Looking, LandReport::NoTarget { branch }) => {
                let why = format!("the target branch {branch} is gone");
                self.leave(Leaving::Stop(Stop::config(why)))
            }
            (State::Waiting, LandReport::Awaited) if self.interrupts > 0 => {
                self.leave(Leaving::Stop(Stop::interrupted()))
            }
            (State::Waiting, LandReport::Awaited) => self.look(),
            (State::Rebasing { onto, below }, LandReport::Rebased(rebased)) => {
                self.rebased(onto, below, rebased)
            }
            (State::Returning(refused), LandReport::Rebased(_)) => {
                self.leave(Leaving::Refused(refused))
            }
            (State::Judging, LandReport::Judged(ended)) => self.through(Input::Ended(ended)),
            (State::Recording, LandReport::Judged(_)) => self.recorded(),
            (State::Marking, LandReport::TokenSet) => self.intend(),
            (State::Swapping, LandReport::Swapped(swapped)) => self.swapped(swapped),
            (State::Voiding { then }, LandReport::TokenVoided) => self.void_intent(then),
            // Another worker voided the landing. The ledger shows whether it has recovered the task.
            (State::Voiding { .. }, LandReport::TokenMissing) => self.void_intent(AfterVoid::Look),
            (State::Branching { why }, LandReport::Branched { branch }) => self.divert(branch, why),
            (state, report) => unreachable!("{report:?} cannot be the end of {state:?}"),
        }
    }

    fn committed(&mut self, reply: Reply) -> Step {
        if std::mem::take(&mut self.aside) {
            return Next::Wait;
        }
        match self.state.clone() {
            State::Joining
            | State::Evicting
            | State::Announcing
            | State::Delivering
            | State::Diverting => self.look(),
            State::Leaving(leaving) => self.left(leaving),
            State::Intending => self.swap(),
            State::Voiding { then } => self.voided(then),
            State::Judging => self.through(Input::Committed(reply)),
            State::Completing => {
                let commit = self.prepared.as_ref().map(|prepared| prepared.commit.clone());
                Next::Done(LandEnd::Landed { commit })
            }
            state => unreachable!("{state:?} waits for no commit"),
        }
    }

    fn refused(&mut self, refusal: Refusal) -> Step {
        if std::mem::take(&mut self.aside) {
            if refusal.ends_a_claim() {
                self.lost = Some(refusal);
                return Next::Cancel(StoppedBy::Fenced);
            }
            // Outside of the line there is only the claim to renew.
            if matches!(refusal, Refusal::NotInLine { .. }) {
                self.aside = true;
                let (holder, lease_seconds) = (self.terms.holder.clone(), self.terms.lease_seconds);
                return Next::Commit(Box::new(Command::Renew(Renew::new(holder, lease_seconds))));
            }
            return Next::Wait;
        }
        match (&self.state, refusal) {
            (State::Judging, refusal) => self.through(Input::Refused(refusal)),
            (State::Intending, refusal) if refusal.ends_a_claim() => self.take_back_token(refusal),
            (State::Intending, refusal) => self.not_intended(&refusal),
            (_, refusal) if refusal.ends_a_claim() => Next::Done(LandEnd::ClaimLost(refusal)),
            // The entry was silent for too long and has lost its place.
            (_, Refusal::NotInLine { .. }) => self.join(),
            (_, refusal) => Next::Done(LandEnd::Left(Stop::config(refusal.to_string()))),
        }
    }

    fn tick(&mut self) -> Step {
        if self.lost.is_some() || self.aside {
            return Next::Wait;
        }
        self.aside = true;
        let (holder, lease_seconds) = (self.terms.holder.clone(), self.terms.lease_seconds);
        let in_line = self.prepared.is_some() || self.state == State::Waiting;
        Next::Commit(Box::new(match in_line {
            true => Command::Landing(Landing { holder, step: LandingStep::Renew, lease_seconds }),
            false => Command::Renew(Renew::new(holder, lease_seconds)),
        }))
    }

    fn interrupted(&mut self) -> Step {
        self.interrupts += 1;
        match self.state {
            _ if self.interrupts > 1 => Next::Done(LandEnd::Left(Stop::interrupted())),
            State::Judging => self.through(Input::Interrupt),
            State::Waiting => Next::Cancel(StoppedBy::User),
            // An operation of git is short, so it is finished.
            _ => Next::Wait,
        }
    }
}

impl Machine for Land {
    type Effect = LandEffect;
    type Ended = LandReport;
    type Outcome = LandEnd;

    fn step(&mut self, now: Timestamp, input: Input<LandReport>) -> Step {
        self.now = now;
        match input {
            Input::Begin => self.join(),
            Input::Ended(report) => self.ended(report),
            Input::Committed(reply) => self.committed(reply),
            Input::Refused(refusal) => self.refused(refusal),
            Input::Tick => self.tick(),
            Input::Interrupt => self.interrupted(),
            Input::Told(_) | Input::Allowed(_) => Next::Wait,
        }
    }
}
