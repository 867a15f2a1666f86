//! What one of several workers does beside working on its tasks: it waits for others, makes its own
//! tree ready, takes over the tasks of dead workers, and shares the gates.

use super::{
    Abandoned, Found, LandedAlready, Others, State, Step, TakenOver, WhenIdle, Worker,
    WorkerEffect, WorkerStop,
};
use crate::{
    Category, Command, Epoch, Holder, Task, TaskId,
    command::{
        Attempts, Authority, Complete, Fail, Hold, HoldGate, Note, ParallelTerms, Proof, Release,
        Renew, TakeOver, Unchecked, VoidIntent,
    },
    ledger::Phase,
    machine::{Next, attempt, recovery, session::WhenFull},
    run::StopReason,
    stop::Stop,
    task::Intent,
};

impl Worker {
    /// Decides what comes before the next task: a stop of the others, or a task of a dead worker.
    /// Returns `None` if there is nothing.
    pub(super) fn before_next(&mut self, others: &Others) -> Option<Step> {
        if let Some(stop) = &others.stopped {
            return Some(self.stop(stop.clone()));
        }
        others.abandoned.clone().map(|abandoned| self.take_over(abandoned))
    }

    /// Whether one of several workers must not claim any more, because its session is full.
    pub(super) fn full_for_all(&self, others: Option<&Others>) -> bool {
        let once = self.terms.parallel.as_ref().is_some_and(|p| p.when_full == WhenFull::Stop);
        let claims = others.map_or(0, |others| others.session_claims);
        once && self.terms.max_tasks > 0 && claims >= self.terms.max_tasks.unsigned_abs()
    }

    /// Waits if the end of another worker's task may free work, or new tasks are to come.
    pub(super) fn wait_for_others(&mut self, others: &Others) -> Option<Step> {
        let idle = self.terms.parallel.as_ref().map(|parallel| parallel.when_idle);
        let waits = others.at_work.is_some() || idle == Some(WhenIdle::Wait);
        waits.then(|| self.start(State::Awaiting, WorkerEffect::Await))
    }

    pub(super) fn parallel_terms(&self) -> Option<ParallelTerms> {
        self.terms.parallel.as_ref().map(|parallel| ParallelTerms {
            // A full session begins the next one, unless the run ends with it.
            max_tasks: match parallel.when_full {
                WhenFull::Continue => self.terms.max_tasks,
                WhenFull::Stop => 0,
            },
            max_sessions: parallel.max_sessions,
            landed: self.landed,
        })
    }

    pub(super) fn open(&mut self, task: Task) -> Step {
        let task = Box::new(task);
        self.start(State::Opening(task.clone()), WorkerEffect::Open { task })
    }

    pub(super) fn not_opened(&mut self, task: &Task, why: &str) -> Step {
        let words = format!("the work tree for {} cannot be made ready: {why}", task.id);
        let stop = Stop::with_words(StopReason::EnvSetup, words);
        let holder = self.holder(task, task.epoch.unwrap_or_default());
        let reason = "its work tree could not be made ready".to_owned();
        let release = Release { task: task.id.clone(), holder: Some(holder), reason };
        self.commit(State::Returning(stop), Command::Release(release))
    }

    /// Writes the reason to the log after the claim was given back.
    pub(super) fn returned(&mut self, stop: Stop) -> Step {
        let message = stop.words().unwrap_or_default().to_owned();
        let note = Note::Problem { task: None, category: Category::EnvSetup, message };
        self.commit(State::Complaining(stop), Command::Note(note))
    }

    /// Returns the line of the log for a result whose claim another worker took meanwhile.
    pub(super) fn late_result(&self, task: TaskId) -> Command {
        let worker = &self.terms.worker;
        let message =
            format!("late result of {worker} refused; `harness rescue list` shows what was saved");
        Command::Note(Note::Warning { task: Some(task), message })
    }

    pub(super) fn holder(&self, task: &Task, epoch: Epoch) -> Holder {
        Holder { task: task.id.clone(), worker: self.terms.worker.clone(), epoch: Some(epoch) }
    }

    fn take_over(&mut self, abandoned: Abandoned) -> Step {
        let Abandoned { task, gone } = abandoned;
        let command = TakeOver {
            task: task.id.clone(),
            epoch: task.epoch,
            gone,
            worker: self.terms.worker.clone(),
            lease_seconds: self.terms.lease_seconds,
            worktree: self.terms.parallel.as_ref().and_then(|p| p.worktree.clone()),
        };
        self.commit(State::TakingOver(task), Command::TakeOver(command))
    }

    /// The new epoch is durable, so the dead worker is fenced off in the ledger. Its token comes next,
    /// and only then its work.
    pub(super) fn taken_over(&mut self, found: Task, taken: Task, epoch: Epoch) -> Step {
        let holder = self.holder(&taken, epoch);
        let over = Box::new(TakenOver { found, taken, holder });
        match over.found.intent() {
            Some(Intent::Land { .. }) => {
                let task = Box::new(over.found.clone());
                self.start(State::Resolving(over), WorkerEffect::Resolve { task, epoch })
            }
            Some(Intent::Rollback { .. }) | None => self.transplant(over),
        }
    }

    pub(super) fn resolved(&mut self, over: Box<TakenOver>, landed: LandedAlready) -> Step {
        let holder = over.holder.clone();
        match landed {
            LandedAlready::No => {
                let command = Command::VoidIntent(VoidIntent { holder });
                self.commit(State::Voiding(over), command)
            }
            LandedAlready::Yes => {
                let commit = match over.found.intent() {
                    Some(Intent::Land { to, .. }) => Some(to.clone()),
                    Some(Intent::Rollback { .. }) | None => None,
                };
                let check = over.taken.check().map(str::to_owned);
                let complete = Complete {
                    holder,
                    authority: Authority::Holder,
                    proof: check.map_or(Proof::Word, |command| Proof::Passed { command }),
                    unchecked: Unchecked::Forbidden,
                    commit,
                };
                self.commit(State::Settling, Command::Complete(complete))
            }
        }
    }

    pub(super) fn transplant(&mut self, over: Box<TakenOver>) -> Step {
        let (found, taken) = (Box::new(over.found.clone()), Box::new(over.taken.clone()));
        self.start(State::Transplanting(over), WorkerEffect::Transplant { found, taken })
    }

    pub(super) fn transplanted(&mut self, over: TakenOver, found: Option<Found>) -> Step {
        let TakenOver { found: before, mut taken, holder } = over;
        let Some(Found { evidence, remark: _ }) = found else {
            let by = before.claimed_by().map_or("nobody", |worker| worker.as_str());
            let fail = Fail {
                holder,
                category: Category::SessionTimeout,
                message: format!("Lease expired (claimed_by={by})"),
                attempts: Attempts::One,
                rolled_back_to: None,
            };
            return self.commit(State::Settling, Command::Fail(fail));
        };
        // An intent to land was voided by now.
        if let Some(claim) = taken.claim_mut() {
            claim.intent = claim.intent.take().filter(|i| matches!(i, Intent::Rollback { .. }));
        }
        let action = recovery::action(evidence);
        let state = State::Attempting(taken.id.clone());
        let entry = attempt::Entry::Recovered(action);
        self.start(state, WorkerEffect::Attempt { task: Box::new(taken), holder, entry })
    }

    /// Ends the lease of a task that is left, so that others need not wait for it.
    pub(super) fn end_lease(&mut self, task: TaskId, epoch: Option<Epoch>, stop: Stop) -> Step {
        let holder = Holder { task, worker: self.terms.worker.clone(), epoch };
        let renew = Renew::new(holder, 0);
        self.commit(State::EndingLease(stop), Command::Renew(renew))
    }

    pub(super) fn hold_gate(&mut self, phase: Phase) -> Step {
        let command = self.gate_command(&phase.name, Hold::Take);
        self.commit(State::HoldingGate(phase), command)
    }

    pub(super) fn gate_command(&self, phase: &str, hold: Hold) -> Command {
        let worker = self.terms.worker.clone();
        Command::HoldGate(HoldGate { phase: phase.to_owned(), worker, hold })
    }

    /// Renews the hold of the gate that is being tried.
    pub(super) fn renew_gate(&mut self) -> Step {
        match (&self.state, &self.terms.parallel) {
            (State::Gating(phase), Some(_)) => {
                let command = self.gate_command(&phase.clone(), Hold::Take);
                self.aside = true;
                Next::Commit(Box::new(command))
            }
            _ => Next::Wait,
        }
    }

    pub(super) fn session_full(&self) -> Step {
        self.end(WorkerStop::SessionFull)
    }
}
