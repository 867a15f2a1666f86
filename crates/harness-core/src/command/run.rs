//! Changes of a run. The rows are not in the ledger. In one transaction, a store of runs reads the
//! rows that a command names, asks this module, and writes the result.

use super::{Command, Refusal, Reply};
use crate::{
    CommitId, Timestamp,
    agent::Usage,
    run::{
        Allowance, Budget, Ending, Iteration, Owner, Run, RunId, RunLease, RunLimits, RunStatus,
        StopReason,
    },
};

/// A command about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct OfRun {
    /// The run.
    pub run: RunId,
    /// The process that asks. A leased run accepts commands only from its owner.
    pub by: Option<Owner>,
    /// The change.
    pub step: RunStep,
}

/// A change of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStep {
    /// A process takes up the run, for the first time or again.
    Take(Take),
    /// An iteration begins, or begins again under its number. This is durable before its agent
    /// starts.
    Begin {
        /// The number of restarts before it.
        number: u32,
        /// The current HEAD.
        head: Option<CommitId>,
        /// A fingerprint of the current work.
        mark: Option<String>,
        /// The path of the transcript, relative to the state root.
        transcript: Option<String>,
    },
    /// Adds usage to the run, to the open iteration and to the run's parent. It is an increment.
    Spend(Usage),
    /// The open iteration ended.
    End {
        /// The kind of end.
        ending: Ending,
        /// The reason of a failure, as text.
        detail: Option<String>,
        /// The last text of the agent.
        final_text: Option<String>,
        /// The current HEAD.
        head: Option<CommitId>,
        /// A fingerprint of the current work.
        mark: Option<String>,
    },
    /// The run waits until a usage limit ends; `None` if it no longer waits.
    WaitUntil(Option<Timestamp>),
    /// `true` if the run waits for a person, `false` if it no longer does.
    AskHuman(bool),
    /// The agent's own name for its context.
    Session(String),
    /// The owner is alive.
    Beat {
        /// The duration of the renewed lease.
        lease_seconds: u64,
    },
    /// A person changes the budget of the run.
    Allow(Budget),
    /// The run is over.
    Stop(StopReason),
}

/// The data for taking up a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Take {
    /// The owner; `None` for an attempt, which the ledger fences.
    pub owner: Option<Owner>,
    /// The duration of the lease without a sign of life.
    pub lease_seconds: u64,
    /// `true` if the previous owner was checked and is dead.
    pub owner_is_gone: bool,
    /// The settings that replace the stored ones.
    pub anew: Anew,
}

/// The settings that a resume replaces. `None` keeps the stored value.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "as in `Run` and `RunLimits`")]
pub struct Anew {
    pub agent: Option<String>,
    pub agent_command: Option<Option<String>>,
    pub verify: Option<String>,
    pub completion_promise: Option<String>,
    pub max_iterations: Option<u32>,
    pub max_cost_usd: Option<f64>,
    pub max_tokens: Option<u64>,
    pub max_duration_seconds: Option<u64>,
    /// The new parent. An attempt that a crash left is paid for by the run that continues it.
    pub parent: Option<RunId>,
}

/// The rows that a decision about a run needs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    /// The run that the decision is about.
    pub run: Run,
    /// Its last iteration.
    pub last: Option<Iteration>,
    /// The run whose budget it spends.
    pub parent: Option<Run>,
}

/// The rows after a decision.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct RunChange {
    /// The row of the run.
    pub run: Run,
    /// The iteration that changed or is new.
    pub iteration: Option<Iteration>,
    /// The row of the parent, if it changed.
    pub parent: Option<Run>,
    /// The answer for the caller.
    pub reply: Reply,
}

impl RunStep {
    /// Returns whether this step requires a run that is not over. Usage must be recorded in any
    /// case, and the other exceptions change nothing then.
    fn needs_a_run_under_way(&self) -> bool {
        match self {
            Self::Begin { .. }
            | Self::End { .. }
            | Self::WaitUntil(_)
            | Self::AskHuman(_)
            | Self::Stop(_) => true,
            Self::Take(_)
            | Self::Spend(_)
            | Self::Session(_)
            | Self::Beat { .. }
            | Self::Allow(_) => false,
        }
    }
}

impl OfRun {
    /// Returns the change, or the reason why there is none.
    pub fn decide(&self, view: &RunView, now: Timestamp) -> Result<RunChange, Refusal> {
        if !matches!(self.step, RunStep::Take(_))
            && let Some(lease) = &view.run.lease
            && self.by.as_ref() != Some(&lease.owner)
        {
            return Err(self.taken(&lease.owner));
        }
        // A process that slept while another took the run and ended it may change nothing any more.
        if view.run.status.is_over() && self.step.needs_a_run_under_way() {
            let over = format!("run {} is over ({})", self.run, view.run.status);
            return Err(Refusal::BadValue(over));
        }
        let run = Run { updated_at: now, ..view.run.clone() };
        let mut change = RunChange { run, iteration: None, parent: None, reply: Reply::Noted };
        match &self.step {
            RunStep::Take(take) => self.take(take, now, &mut change.run)?,
            RunStep::Begin { number, head, mark, transcript } => {
                let mut iteration = begin(*number, view, now)?;
                iteration.transcript = transcript.clone().or(iteration.transcript);
                // The starting point is that of the first start, even after a crash.
                iteration.head_before = iteration.head_before.or_else(|| head.clone());
                iteration.mark_before = iteration.mark_before.or_else(|| mark.clone());
                change.iteration = Some(iteration);
                change.run.iteration_count = *number;
            }
            RunStep::Spend(usage) => spend(*usage, view, now, &mut change),
            RunStep::End { ending, detail, final_text, head, mark } => {
                let Some(last) = view.last.as_ref().filter(|i| i.ended_at.is_none()) else {
                    return Err(Refusal::BadValue(format!("run {}: no open iteration", self.run)));
                };
                change.iteration = Some(Iteration {
                    ended_at: Some(now),
                    ending: Some(*ending),
                    detail: detail.clone(),
                    final_text: final_text.clone(),
                    head_after: head.clone(),
                    mark_after: mark.clone(),
                    ..last.clone()
                });
            }
            RunStep::WaitUntil(until) => change.run.wake_at = *until,
            RunStep::AskHuman(asked) => {
                let status = if *asked { RunStatus::WaitingForHuman } else { RunStatus::Running };
                change.run.status = status;
            }
            RunStep::Session(id) => change.run.provider_session_id = Some(id.clone()),
            RunStep::Beat { lease_seconds } => {
                if let Some(lease) = &mut change.run.lease {
                    lease.expires_at = now.plus(*lease_seconds);
                }
            }
            RunStep::Allow(budget) => self.allow(budget, now, &mut change.run)?,
            RunStep::Stop(reason) => stop(*reason, view, &mut change),
        }
        Ok(change)
    }

    /// Returns the answer to a command that was carried out before, from the rows as they are now.
    pub fn answer_again(&self, view: &RunView) -> Reply {
        match &self.step {
            RunStep::Spend(_) => Reply::Spent(view.parent.as_ref().unwrap_or(&view.run).usage),
            RunStep::Take(_)
            | RunStep::Begin { .. }
            | RunStep::End { .. }
            | RunStep::WaitUntil(_)
            | RunStep::AskHuman(_)
            | RunStep::Session(_)
            | RunStep::Beat { .. }
            | RunStep::Allow(_)
            | RunStep::Stop(_) => Reply::Noted,
        }
    }

    fn allow(&self, budget: &Budget, now: Timestamp, run: &mut Run) -> Result<(), Refusal> {
        if let Some(parent) = &run.parent {
            let why = format!("run {} is an attempt of {parent}, which has the budget", self.run);
            return Err(Refusal::BadValue(why));
        }
        if run.status == RunStatus::Succeeded {
            return Err(Refusal::RunFinished { run: self.run.clone() });
        }
        if budget.max_cost_usd.is_some_and(|cost| !cost.is_finite() || cost <= 0.0) {
            return Err(Refusal::BadValue("max_cost must be more than 0".to_owned()));
        }
        if budget.max_tokens == Some(0) || budget.max_duration_seconds == Some(0) {
            return Err(Refusal::BadValue("a limit must be more than 0".to_owned()));
        }
        let over = run.status.is_over();
        let Allowance { limits, deadline } = budget.applied(run.allowance(), now);
        run.limits = limits;
        // The time of a run that is over begins with its resume.
        run.deadline = if over { run.deadline } else { deadline };
        Ok(())
    }

    fn taken(&self, owner: &Owner) -> Refusal {
        Refusal::RunTaken { run: self.run.clone(), host: owner.host.clone(), pid: owner.pid }
    }

    fn take(&self, take: &Take, now: Timestamp, run: &mut Run) -> Result<(), Refusal> {
        // The ledger judges an attempt, so the result of its loop is not final.
        if run.status == RunStatus::Succeeded && run.task.is_none() {
            return Err(Refusal::RunFinished { run: self.run.clone() });
        }
        if let Some(lease) = &run.lease {
            let mine = take.owner.as_ref() == Some(&lease.owner);
            let over = take.owner_is_gone || lease.expires_at <= now;
            if !mine && !over {
                return Err(self.taken(&lease.owner));
            }
        }
        let Anew { agent, agent_command, verify, completion_promise, .. } = take.anew.clone();
        run.agent = agent.unwrap_or_else(|| std::mem::take(&mut run.agent));
        run.agent_command = agent_command.unwrap_or_else(|| run.agent_command.take());
        run.parent = take.anew.parent.clone().or_else(|| run.parent.take());
        run.verify = verify.or_else(|| run.verify.take());
        run.completion_promise =
            completion_promise.unwrap_or_else(|| std::mem::take(&mut run.completion_promise));
        run.limits = RunLimits {
            max_iterations: take.anew.max_iterations.unwrap_or(run.limits.max_iterations),
            max_cost_usd: take.anew.max_cost_usd.or(run.limits.max_cost_usd),
            max_tokens: take.anew.max_tokens.or(run.limits.max_tokens),
            max_duration_seconds: take
                .anew
                .max_duration_seconds
                .or(run.limits.max_duration_seconds),
        };
        run.deadline = run.limits.max_duration_seconds.map(|seconds| now.plus(seconds));
        run.status = RunStatus::Running;
        run.stop_reason = None;
        run.lease = take.owner.clone().map(|owner| {
            let expires_at = now.plus(take.lease_seconds);
            RunLease { owner, expires_at }
        });
        Ok(())
    }
}

impl From<OfRun> for Command {
    fn from(of_run: OfRun) -> Self {
        Self::Run(Box::new(of_run))
    }
}

/// Accepts only the open iteration or the next number, so that an iteration is neither skipped nor
/// counted twice.
fn begin(number: u32, view: &RunView, now: Timestamp) -> Result<Iteration, Refusal> {
    let bad = |why: &str| {
        Err(Refusal::BadValue(format!("run {}: iteration {number} {why}", view.run.id)))
    };
    match &view.last {
        Some(last) if last.number == number && last.ended_at.is_some() => bad("has ended"),
        Some(last) if last.number == number => {
            let starts = last.starts.saturating_add(1);
            Ok(Iteration { started_at: now, starts, ..last.clone() })
        }
        Some(last) if last.ended_at.is_none() => bad("would leave an open one behind"),
        last if number != last.as_ref().map_or(0, |l| l.number.saturating_add(1)) => {
            bad("is not the next one")
        }
        _ => Ok(Iteration::begun(number, now)),
    }
}

fn stop(reason: StopReason, view: &RunView, change: &mut RunChange) {
    // A start that harness itself ended, for example because of the budget, does not count against
    // the agent. A cancelled one does, because an agent can send its supervisor a signal.
    let open = view.last.as_ref().filter(|last| last.ended_at.is_none());
    if let Some(open) = open.filter(|_| reason != StopReason::Cancelled) {
        let starts = open.starts.saturating_sub(1);
        change.iteration = Some(Iteration { starts, ..open.clone() });
    }
    change.run.status = reason.status();
    change.run.stop_reason = Some(reason);
    change.run.lease = None;
    change.run.wake_at = None;
}

fn spend(mut usage: Usage, view: &RunView, now: Timestamp, change: &mut RunChange) {
    // The value comes from an agent. An invalid cost would spoil the sum, and with it the budget.
    usage.cost_usd = usage.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
    change.run.usage += usage;
    if let Some(last) = view.last.clone().filter(|i| i.ended_at.is_none()) {
        let mut iteration = last;
        iteration.spend(&view.run.agent, usage);
        change.iteration = Some(iteration);
    }
    change.parent = view.parent.clone().map(|mut parent| {
        parent.usage += usage;
        parent.updated_at = now;
        parent
    });
    change.reply = Reply::Spent(change.parent.as_ref().unwrap_or(&change.run).usage);
}
