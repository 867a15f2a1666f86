//! Settles which results had landed, after a database has forgotten changes.
//!
//! A forgotten claim may have landed its result. The commit on the branch names the task and the epoch,
//! so that it can be found there. Until that was done, nothing is claimed, taken over or landed:
//! otherwise the same task could land twice.

use serde::{Deserialize, Serialize};

use super::{Change, Refusal, Reply, Row};
use crate::{
    CommitId, Epoch, Flag, TaskId, Timestamp, WorkerId,
    fact::Fact,
    flag,
    ledger::{Alert, Head, KEPT_ALERTS, Ledger, Unsettled},
    task::{Intent, Status, Task, TaskCompletion, TaskState},
};

/// Completes the tasks whose results had landed, and lets work go on. If another worker has settled it
/// meanwhile, nothing changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    /// The epochs for which results were looked for.
    pub of: Unsettled,
    /// The worker that looked.
    pub worker: WorkerId,
    /// The results that were found on the branches on which results land, the newest first. Those that
    /// the ledger knows are passed over.
    pub landed: Vec<LandedResult>,
    /// The tasks among them whose receipt is not at hand. A person must look at them.
    pub unproven: Vec<TaskId>,
}

/// The time by which the clock of a machine that commits may be behind.
const CLOCKS_DIFFER_SECONDS: u64 = 3600;

/// A result on a branch, as its commit names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LandedResult {
    /// The task.
    pub task: TaskId,
    /// The epoch of the claim that landed it.
    pub epoch: Epoch,
    /// The last commit of the result.
    pub commit: CommitId,
}

impl LandedResult {
    /// Returns whether this is the result of a claim that the ledger has forgotten, or of one that it
    /// holds for open. A result of an earlier claim was completed, and it was taken back if the task is
    /// not completed now, or it is of another task that had the same id.
    fn is_news_for(&self, task: &Task, forgotten: Unsettled) -> bool {
        let is_open = task.claim().is_some() && task.epoch == Some(self.epoch);
        task.status() != Status::Completed && (is_open || forgotten.contains(self.epoch))
    }
}

impl Settle {
    /// Returns the landings that the ledger knows and that are not finished, as the task and the result.
    /// They are finished or taken back by the worker that has the claim, and nobody else.
    pub fn known_landings(ledger: &Ledger) -> Vec<(TaskId, CommitId)> {
        let of = |task: &Task| match task.intent() {
            Some(Intent::Land { to, .. }) => Some((task.id.clone(), to.clone())),
            Some(Intent::Rollback { .. }) | None => None,
        };
        ledger.tasks().filter_map(of).collect()
    }

    /// Returns the time since which a commit can be a result of this ledger; `None` if that is not known.
    /// An earlier ledger may have had tasks with the same ids.
    pub fn since(ledger: &Ledger) -> Option<Timestamp> {
        ledger.head().created.map(|created| created.minus(CLOCKS_DIFFER_SECONDS))
    }

    /// Returns the results among `found` that this command would complete.
    pub fn news(ledger: &Ledger, found: Vec<LandedResult>) -> Vec<LandedResult> {
        let Some(forgotten) = ledger.head().unsettled else { return Vec::new() };
        let mut news: Vec<LandedResult> = Vec::new();
        for landed in found {
            let is_news =
                ledger.task(&landed.task).is_some_and(|t| landed.is_news_for(t, forgotten));
            if is_news && !news.iter().any(|other| other.task == landed.task) {
                news.push(landed);
            }
        }
        news
    }

    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Change {
        if ledger.head().unsettled != Some(self.of) {
            return Change::reply(Reply::Noted);
        }
        let mut head = Head { unsettled: None, ..ledger.head().clone() };
        let (mut rows, mut facts) = (Vec::new(), Vec::new());
        for landed in Self::news(ledger, self.landed.clone()) {
            let Some(task) = ledger.task(&landed.task) else { continue };
            head.landing.retain(|entry| entry.task != landed.task);
            rows.push(Row::put(self.completed(task, &landed, now)));
            facts.extend(self.facts(&landed, &mut head, now));
        }
        let message = match rows.len() {
            0 => "no forgotten result is on the target; work goes on".to_owned(),
            1 => "1 forgotten result is on the target; work goes on".to_owned(),
            found => format!("{found} forgotten results are on the target; work goes on"),
        };
        facts.push(Fact::Warned { task: None, message });
        Change { head: Some(head), rows, facts, reply: Reply::Noted }
    }

    fn completed(&self, task: &Task, landed: &LandedResult, now: Timestamp) -> Task {
        let claimed_at = task.claimed_at().or(Some(now));
        let by = task.claimed_by().cloned().or_else(|| Some(self.worker.clone()));
        let mut done = task.clone();
        done.epoch = Some(landed.epoch);
        done.conflicts.clear();
        done.flags.clear();
        if self.unproven.contains(&landed.task) {
            flag::raise(&mut done.flags, Flag::Unproven);
        }
        done.state = TaskState::Completed(TaskCompletion { by, claimed_at, at: Some(now) });
        done.count_attempt();
        done
    }

    fn facts(&self, landed: &LandedResult, head: &mut Head, now: Timestamp) -> Vec<Fact> {
        let LandedResult { task, commit, .. } = landed;
        let mut facts = vec![
            Fact::Recovered {
                task: task.clone(),
                action: "complete".to_owned(),
                reason: format!("it had landed as {commit} before the database forgot it"),
            },
            Fact::Completed {
                task: task.clone(),
                worker: self.worker.clone(),
                commit: Some(commit.clone()),
            },
        ];
        if self.unproven.contains(&landed.task) {
            let message = format!(
                "it landed as {commit}, and its receipt was lost with the database: \
                 look at the commit, or run the check again"
            );
            if head.alerts.len() < KEPT_ALERTS {
                let (task, message) = (Some(task.clone()), message.clone());
                head.alerts.push(Alert { time: now, task, message });
            }
            let (task, flag) = (Some(task.clone()), Flag::Unproven);
            facts.push(Fact::Flagged { task, flag, message });
        }
        facts
    }
}

/// Refuses what must not happen before forgotten results were looked for.
pub(super) fn refuse_unsettled(ledger: &Ledger) -> Result<(), Refusal> {
    match ledger.head().unsettled {
        Some(_) => Err(Refusal::Unsettled),
        None => Ok(()),
    }
}
