//! The move of the target branch: receipt, token, intent, swap. A swap that did not happen is taken
//! back in the opposite order.

use super::{AfterVoid, LOST_SWAPS_MAX, Land, Leaving, Prepared, State, Step};
use crate::{
    Command, Refusal, Stop,
    command::{Divert, Intend, VoidIntent},
    line::LANDED_BRANCH,
    machine::{
        Next, judge,
        land::{LandEffect, LandEnd, LandingBranch, Swapped},
    },
    task::Intent,
};

impl Land {
    /// Makes the receipt durable first: after the swap there may be no time for it.
    pub(super) fn land(&mut self) -> Step {
        let Some(prepared) = self.prepared.clone() else { return self.look() };
        let mut receipt = self.green.1.clone();
        receipt.commit = Some(prepared.commit.clone());
        receipt.base = Some(prepared.onto.clone());
        receipt.time = self.now;
        let effect = judge::Effect::Record(Box::new(receipt));
        self.start(State::Recording, LandEffect::Judge { onto: prepared.onto, effect })
    }

    pub(super) fn recorded(&mut self) -> Step {
        match self.prepared.clone() {
            // A task that changed nothing lands nothing.
            Some(prepared) if prepared.commit == prepared.onto => self.complete(),
            Some(prepared) => {
                self.start(State::Marking, LandEffect::SetToken { to: prepared.commit })
            }
            None => self.look(),
        }
    }

    pub(super) fn intend(&mut self) -> Step {
        let Some(prepared) = self.prepared.clone() else { return self.look() };
        let Prepared { onto: from, commit: to, files, .. } = prepared;
        let intent = Intent::Land { target: self.branch.name.clone(), from, to };
        let holder = self.terms.holder.clone();
        let check = self.green.1.check.as_ref().map(|check| check.command.clone());
        self.commit(State::Intending, Command::Intend(Intend { holder, intent, check, files }))
    }

    pub(super) fn swap(&mut self) -> Step {
        let Some(prepared) = self.prepared.clone() else { return self.look() };
        let (target, from, to) = (self.branch.name.clone(), prepared.onto, prepared.commit);
        self.start(State::Swapping, LandEffect::Swap { target, from, to })
    }

    pub(super) fn swapped(&mut self, swapped: Swapped) -> Step {
        let then = match swapped {
            Swapped::Done => return self.complete(),
            // Another worker has taken the task, which shows in the ledger; or it looked for forgotten
            // results, and then the claim is still there.
            Swapped::Fenced => return self.void_intent(AfterVoid::Look),
            Swapped::TargetMoved => {
                // The next look finds that the branch has moved, and must not count it again.
                self.counted_swap = true;
                self.lost_swap()
            }
            Swapped::TreeInUse { why } if self.branch.name == LANDED_BRANCH => {
                AfterVoid::Stop { why }
            }
            Swapped::TreeInUse { why } => AfterVoid::Divert { why },
        };
        let Some(prepared) = self.prepared.clone() else { return self.look() };
        self.state = State::Voiding { then };
        Next::Start(LandEffect::VoidToken { to: prepared.commit })
    }

    /// Takes the token back after the intent was refused: another task reserved a file since the last
    /// look, or nothing can land.
    pub(super) fn not_intended(&mut self, refusal: &Refusal) -> Step {
        let Some(prepared) = self.prepared.clone() else { return self.look() };
        let then = match refusal {
            Refusal::NotReady { .. } => AfterVoid::HoldBack,
            // The next look settles it.
            Refusal::Unsettled => AfterVoid::Look,
            refusal => AfterVoid::Stop { why: refusal.to_string() },
        };
        self.start(State::Voiding { then }, LandEffect::VoidToken { to: prepared.commit })
    }

    /// Removes the token that was set for a claim which is lost, because nothing else would.
    pub(super) fn take_back_token(&mut self, lost: Refusal) -> Step {
        let Some(prepared) = self.prepared.clone() else {
            return Next::Done(LandEnd::ClaimLost(lost));
        };
        self.lost = Some(lost);
        let state = State::Voiding { then: AfterVoid::Look };
        self.start(state, LandEffect::VoidToken { to: prepared.commit })
    }

    pub(super) fn void_intent(&mut self, then: AfterVoid) -> Step {
        let holder = self.terms.holder.clone();
        let command = Command::VoidIntent(VoidIntent { holder });
        self.commit(State::Voiding { then }, command)
    }

    pub(super) fn voided(&mut self, then: AfterVoid) -> Step {
        match then {
            AfterVoid::Look => self.look(),
            AfterVoid::HoldBack => self.leave(Leaving::HeldBack),
            AfterVoid::Stop { why } => self.leave(Leaving::Stop(Stop::config(why))),
            AfterVoid::Divert { why } => {
                let target = self.branch.name.clone();
                self.start(State::Branching { why }, LandEffect::Branch { target })
            }
        }
    }

    /// Returns whether somebody else moved the branch after this entry, the first in the line, was put
    /// on top of it. Its swap would be lost.
    pub(super) fn is_overtaken(&mut self, found: &LandingBranch) -> bool {
        let counted = std::mem::take(&mut self.counted_swap);
        let was_first = self.prepared.as_ref().is_some_and(|p| p.onto == self.branch.tip);
        !counted && was_first && self.branch.name == found.name && self.branch.tip != found.tip
    }

    /// Counts a swap that would have been lost, and looks again or lets results land elsewhere.
    pub(super) fn overtaken(&mut self) -> Step {
        self.counted_swap = true;
        let then = self.lost_swap();
        self.voided(then)
    }

    /// Counts a lost swap. After some of them in a row, results land on a branch of our own.
    fn lost_swap(&mut self) -> AfterVoid {
        self.lost_swaps += 1;
        match self.lost_swaps {
            lost if lost < LOST_SWAPS_MAX || self.branch.name == LANDED_BRANCH => AfterVoid::Look,
            lost => AfterVoid::Divert {
                why: format!("{} moved {lost} times in a row", self.branch.name),
            },
        }
    }

    pub(super) fn divert(&mut self, to: String, why: String) -> Step {
        self.lost_swaps = 0;
        self.commit(State::Diverting, Command::Divert(Divert { to: Some(to), why }))
    }
}
