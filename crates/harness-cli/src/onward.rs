//! One command to go on with, for a task in whatever state it is.

use harness_core::{
    Standing, Task, Timestamp,
    task::{FailureCause, Status},
};

/// What a person would do next about it.
pub(crate) fn command(task: &Task, standing: &Standing<'_>, now: Timestamp) -> String {
    let id = &task.id;
    match standing {
        Standing::Completed => format!("harness verify {id}"),
        Standing::Failed => match task.failure().map(|failure| &failure.cause) {
            Some(FailureCause::Dependency(before)) => format!("harness why {before}"),
            Some(FailureCause::Graph) => format!("harness task edit {id} --depends-on …"),
            Some(FailureCause::Attempt | FailureCause::Lease) | None => {
                format!("harness task retry {id}")
            }
        },
        Standing::Blocked { by } => format!("harness why {by}"),
        Standing::Dangling { .. } | Standing::Cyclic => {
            format!("harness task edit {id} --depends-on …")
        }
        Standing::Waiting { on } => match on.first() {
            Some(first) => format!("harness why {first}"),
            None => format!("harness task show {id}"),
        },
        Standing::Claimed { .. } if task.lease_ran_out(now) => format!("harness task release {id}"),
        Standing::Claimed { .. } => format!("harness log -f --task {id}"),
        Standing::Phase { .. } => "harness status".to_owned(),
        Standing::Next | Standing::Ready if task.check().is_none() => {
            format!("harness task edit {id} --validate COMMAND")
        }
        Standing::Next | Standing::Ready => "harness run".to_owned(),
    }
}

/// Why only a person can bring it on; `None` where the next session can, or nothing is left to do.
pub(crate) fn waits_for_person(
    task: &Task,
    standing: &Standing<'_>,
    now: Timestamp,
) -> Option<String> {
    match standing {
        Standing::Completed | Standing::Failed | Standing::Waiting { .. } => None,
        Standing::Blocked { .. } | Standing::Dangling { .. } | Standing::Cyclic => {
            Some(standing.to_string())
        }
        Standing::Phase { .. } => Some(standing.to_string()),
        Standing::Claimed { .. } => {
            task.lease_ran_out(now).then(|| format!("{standing}, whose lease ran out"))
        }
        Standing::Next | Standing::Ready => {
            let unchecked = task.check().is_none() && task.status() != Status::Completed;
            unchecked.then(|| "has no validation.command, so it cannot be finished".to_owned())
        }
    }
}
