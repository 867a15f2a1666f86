//! The standing of a task: whether it is next, and if not, what it waits for.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
};

use crate::{
    Ledger, Task, TaskId, WorkerId, line,
    select::Applicant,
    task::{Status, TaskState},
};

/// The standing of a task. Exactly one of these applies to every task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing<'a> {
    /// The next claim of a worker without labels, in any role, gets this task.
    Next,
    /// The task could be claimed now, but others come first.
    Ready,
    /// The task could be claimed now by a worker with these labels.
    Requires {
        /// The labels.
        labels: &'a [String],
    },
    /// A worker holds the task.
    Claimed {
        /// The worker; `None` in a ledger that was edited by hand.
        by: Option<&'a WorkerId>,
        /// The place of its result in the line to land, from 1; `None` while it is not in the line.
        landing: Option<usize>,
    },
    /// The task waits until another one has landed, because both reserve a file after conflicts.
    Reserved {
        /// The task that goes first.
        by: &'a TaskId,
    },
    /// Some dependencies are not completed yet.
    Waiting {
        /// Those dependencies, in the order in which the task names them.
        on: Vec<&'a TaskId>,
    },
    /// The task depends, directly or not, on one that failed for good.
    Blocked {
        /// The task that failed.
        by: &'a TaskId,
    },
    /// The task depends on a task that does not exist.
    Dangling {
        /// The first missing dependency.
        dependency: &'a TaskId,
    },
    /// The task depends on itself.
    Cyclic,
    /// An earlier phase has not passed its gate.
    Phase {
        /// The name of that phase.
        waits_for: &'a str,
    },
    /// The task is done.
    Completed,
    /// The task failed and is not tried again.
    Failed,
}

impl<'a> Standing<'a> {
    /// Returns the standing of `task`, which must be a task of `ledger`.
    pub fn of(ledger: &'a Ledger, task: &'a Task) -> Self {
        match &task.state {
            TaskState::Completed(_) => return Self::Completed,
            TaskState::Claimed(claim) => {
                let place = line::position(
                    &ledger.head().landing,
                    &task.id,
                    task.epoch.unwrap_or_default(),
                );
                return Self::Claimed { by: claim.by.as_ref(), landing: place.map(|at| at + 1) };
            }
            TaskState::Failed(_) if task.failed_for_good() => return Self::Failed,
            TaskState::Pending | TaskState::Failed(_) => {}
        }
        if let Some(dependency) = task.depends_on.iter().find(|d| !ledger.contains(d)) {
            return Self::Dangling { dependency };
        }
        if let Some(by) = failed_for_good_before(ledger, task) {
            return Self::Blocked { by };
        }
        if ledger.selection().cyclic().contains(&task.id) {
            return Self::Cyclic;
        }
        let open =
            |d: &&TaskId| ledger.task(d).is_some_and(|d: &Task| d.status() != Status::Completed);
        let on: Vec<_> = task.depends_on.iter().filter(open).collect();
        if !on.is_empty() {
            return Self::Waiting { on };
        }
        if let Some(waits_for) = ledger.selection().phase_before(task) {
            return Self::Phase { waits_for };
        }
        if let Some(by) = line::waits_for_reservation(ledger, task) {
            return Self::Reserved { by };
        }
        if !task.requires.is_empty() {
            return Self::Requires { labels: &task.requires };
        }
        let next = ledger.selection().next(Applicant::PLAIN) == Some(&task.id);
        if next { Self::Next } else { Self::Ready }
    }

    /// Returns one word for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Ready => "ready",
            Self::Requires { .. } => "requires",
            Self::Claimed { .. } => "claimed",
            Self::Reserved { .. } => "reserved",
            Self::Waiting { .. } => "waiting",
            Self::Blocked { .. } => "blocked",
            Self::Dangling { .. } => "dangling",
            Self::Cyclic => "cyclic",
            Self::Phase { .. } => "phase",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Next => f.write_str("next in line"),
            Self::Ready => f.write_str("ready; other tasks come first"),
            Self::Requires { labels } => {
                write!(f, "ready for a worker with the labels {}", labels.join(", "))
            }
            Self::Claimed { by, landing } => {
                f.write_str("claimed")?;
                by.map_or(Ok(()), |worker| write!(f, " by {worker}"))?;
                landing.map_or(Ok(()), |place| write!(f, ", place {place} in the line to land"))
            }
            Self::Reserved { by } => {
                write!(f, "waits until {by} has landed, which has reserved the same files")
            }
            Self::Waiting { on } => {
                let on: Vec<_> = on.iter().map(|id| id.as_str()).collect();
                write!(f, "waits for {}", on.join(", "))
            }
            Self::Blocked { by } => write!(f, "blocked by failed {by}"),
            Self::Dangling { dependency } => {
                write!(f, "depends on {dependency}, which does not exist")
            }
            Self::Cyclic => f.write_str("depends on itself"),
            Self::Phase { waits_for } => write!(f, "waits for phase {waits_for}"),
            Self::Completed => f.write_str("completed"),
            Self::Failed => f.write_str("failed for good"),
        }
    }
}

/// Returns the nearest dependency, direct or not, that failed for good.
fn failed_for_good_before<'a>(ledger: &'a Ledger, task: &'a Task) -> Option<&'a TaskId> {
    let mut queue: VecDeque<&TaskId> = task.depends_on.iter().collect();
    let mut seen: HashSet<&TaskId> = HashSet::new();
    while let Some(id) = queue.pop_front() {
        let Some(before) = ledger.task(id).filter(|t| t.status() != Status::Completed) else {
            continue;
        };
        if before.failed_for_good() {
            return Some(id);
        }
        if seen.insert(id) {
            queue.extend(&before.depends_on);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Timestamp,
        ledger::{Head, Phase},
        task::{ActiveClaim, Priority},
    };

    fn failed() -> TaskState {
        TaskState::Failed(Default::default())
    }

    fn task(id: &str, depends_on: &[&str]) -> Task {
        let mut task = Task::new(TaskId::parse(id).unwrap(), "");
        task.depends_on = depends_on.iter().map(|d| TaskId::parse(d).unwrap()).collect();
        task
    }

    #[test]
    fn every_task_stands_in_one_place_and_says_why() {
        let mut head = Head::new(Timestamp::default());
        let phase = |name: &str| Phase {
            name: name.into(),
            gate: None,
            approve: true,
            passed_at: None,
            held: None,
        };
        head.phases = vec![phase("one"), phase("two")];
        let tasks = vec![
            task("first", &[]),
            Task { priority: Priority::P2, ..task("second", &[]) },
            task("third", &["first", "second", "done"]),
            Task { state: TaskState::Completed(Default::default()), ..task("done", &[]) },
            Task { state: failed(), attempts: 3, ..task("dead", &[]) },
            Task { state: failed(), attempts: 1, ..task("again", &["done"]) },
            task("late", &["heir"]),
            task("heir", &["dead"]),
            task("lost", &["nobody"]),
            task("snake", &["snake"]),
            Task { phase: Some("two".into()), ..task("gated", &[]) },
            Task { requires: vec!["gpu".into()], priority: Priority::P0, ..task("special", &[]) },
            Task {
                state: TaskState::Claimed(Box::new(ActiveClaim {
                    by: Some(WorkerId::recorded("w")),
                    ..ActiveClaim::default()
                })),
                ..task("held", &[])
            },
        ];
        let ledger = Ledger::new(head, tasks).unwrap();
        let texts: Vec<_> =
            ledger.tasks().map(|t| format!("{} {}", t.id, Standing::of(&ledger, t))).collect();
        assert_eq!(
            texts,
            [
                "first next in line",
                "second ready; other tasks come first",
                "third waits for first, second",
                "done completed",
                "dead failed for good",
                "again ready; other tasks come first",
                "late blocked by failed dead",
                "heir blocked by failed dead",
                "lost depends on nobody, which does not exist",
                "snake depends on itself",
                "gated waits for phase one",
                "special ready for a worker with the labels gpu",
                "held claimed by w",
            ]
        );
        let queue: Vec<_> =
            ledger.selection().queue(Applicant::PLAIN).iter().map(|id| id.as_str()).collect();
        assert_eq!(queue, ["first", "second", "again"]);
        let next = ledger.selection().next(Applicant::PLAIN);
        assert_eq!(next.map(TaskId::as_str), Some("first"));
        let special = ledger.selection().next(Applicant::ANYBODY);
        assert_eq!(special.map(TaskId::as_str), Some("special"));
    }

    #[test]
    fn a_result_in_the_line_and_a_reservation_say_where_they_stand() {
        let mut head = Head::new(Timestamp::default());
        let entry = |task: &str, epoch| crate::ledger::LandingEntry {
            task: TaskId::parse(task).unwrap(),
            epoch: crate::Epoch(epoch),
            onto: None,
            commit: None,
            green: None,
            renewed_at: None,
        };
        head.landing = vec![entry("other", 3), entry("busy", 4)];
        let claimed = |by: &str| {
            TaskState::Claimed(Box::new(ActiveClaim {
                by: Some(WorkerId::recorded(by)),
                ..ActiveClaim::default()
            }))
        };
        let reserves = |id: &str| Task {
            attempts: 2,
            conflicts: vec!["a.txt".into()],
            epoch: Some(crate::Epoch(4)),
            ..task(id, &[])
        };
        let tasks = vec![
            Task { state: claimed("w.2"), ..reserves("busy") },
            Task { state: failed(), ..reserves("held") },
        ];
        let ledger = Ledger::new(head, tasks).unwrap();
        let texts = ledger.tasks().map(|t| Standing::of(&ledger, t).to_string());
        assert_eq!(
            texts.collect::<Vec<_>>(),
            [
                "claimed by w.2, place 2 in the line to land",
                "waits until busy has landed, which has reserved the same files"
            ]
        );
    }
}
