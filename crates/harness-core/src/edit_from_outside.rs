//! Decides which changes are accepted from a ledger that another program or a person wrote.
//!
//! A ledger that nobody holds may be edited freely, and this module is not asked. It judges edits
//! while a run holds the ledger, and edits of rows that workers hold through a host. Such an edit
//! may add tasks and describe tasks that have not begun. It may not change what was judged, how it
//! is judged, or what counts.

use std::{collections::BTreeSet, fmt};

use crate::{
    TaskId,
    ledger::{ConcurrencyMode, Head, Ledger},
    task::{ActiveClaim, Status, Task, TaskCompletion, TaskState, Via},
};

/// The holder of the ledger that was edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// A run holds the whole ledger.
    Run,
    /// Workers hold these rows through a host.
    Claims(BTreeSet<TaskId>),
}

/// The decision about an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// The found ledger is valid from now on.
    Taken {
        /// The accepted changes, for the log.
        what: Vec<Difference>,
        /// Completions that appeared while several workers were at work. Nobody saw their checks
        /// pass.
        unproven: Vec<TaskId>,
    },
    /// The known ledger stays valid.
    Refused {
        /// The changes that are not allowed.
        what: Vec<Difference>,
    },
}

/// The differences of one task, or of the root of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The task; `None` for the root of the ledger.
    pub task: Option<TaskId>,
    /// The fields with the names that the ledger uses, or `added` or `removed`.
    pub fields: Vec<&'static str>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.task {
            Some(task) => write!(f, "{task}: {}", self.fields.join(", ")),
            None => write!(f, "{}", self.fields.join(", ")),
        }
    }
}

/// Formats the differences as one text of bounded length.
pub fn describe(what: &[Difference]) -> String {
    const SHOWN_MAX: usize = 10;
    let shown: Vec<String> = what.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let more = what.len().saturating_sub(SHOWN_MAX);
    match (shown.is_empty(), more) {
        (true, _) => "only the layout, or fields unknown to harness".to_owned(),
        (false, 0) => shown.join("; "),
        (false, more) => format!("{}; and {more} more", shown.join("; ")),
    }
}

/// Decides about `found`, which was written in the place of `known`.
pub fn judge_edit(known: &Ledger, found: &Ledger, held: &Held) -> Judged {
    let mut refused = Vec::new();
    let mut taken = Vec::new();
    let (bad, fine) = of_head(known.head(), found.head(), held);
    push(&mut refused, None, bad);
    push(&mut taken, None, fine);
    for before in known.tasks() {
        let (bad, fine) = match found.task(&before.id) {
            Some(after) => of_task(before, after, held),
            None if protects(held, &before.id) => (vec!["removed"], Vec::new()),
            None => (Vec::new(), vec!["removed"]),
        };
        push(&mut refused, Some(&before.id), bad);
        push(&mut taken, Some(&before.id), fine);
    }
    for added in found.tasks().filter(|task| !known.contains(&task.id)) {
        let (list, fields) = match (held, touched(added)) {
            (Held::Run, fields) if !fields.is_empty() => (&mut refused, fields),
            (Held::Run | Held::Claims(_), _) => (&mut taken, vec!["added"]),
        };
        push(list, Some(&added.id), fields);
    }
    if !refused.is_empty() {
        return Judged::Refused { what: refused };
    }
    let several = known.head().session_config.concurrency_mode == ConcurrencyMode::Concurrent;
    let completed = |task: &&Task| {
        task.status() == Status::Completed
            && known.task(&task.id).is_none_or(|before| before.status() != Status::Completed)
    };
    let unproven = found.tasks().filter(|task| several && completed(task));
    Judged::Taken { unproven: unproven.map(|task| task.id.clone()).collect(), what: taken }
}

/// Returns whether a run holds this ledger, that is, whether it has a claim that has not ended. The
/// run itself may be dead.
pub fn held_by_a_run(ledger: &Ledger) -> bool {
    ledger.tasks().filter_map(Task::claim).any(|claim| claim.via == Some(Via::Run))
}

fn push(list: &mut Vec<Difference>, task: Option<&TaskId>, fields: Vec<&'static str>) {
    if !fields.is_empty() {
        list.push(Difference { task: task.cloned(), fields });
    }
}

fn protects(held: &Held, task: &TaskId) -> bool {
    match held {
        Held::Run => true,
        Held::Claims(rows) => rows.contains(task),
    }
}

type Fields = Vec<&'static str>;

/// Returns the fields of the root that may not change, and those that may. `log_tail` and `log_at`
/// belong to harness, and an edit may remove them.
fn of_head(known: &Head, found: &Head, held: &Held) -> (Fields, Fields) {
    let mut changed = Vec::new();
    let mut note = |differs: bool, field| {
        if differs {
            changed.push(field);
        }
    };
    note(known.created != found.created, "created");
    note(known.session_config != found.session_config, "session_config");
    note(known.session_count != found.session_count, "session_count");
    note(known.session_claims != found.session_claims, "session_claims");
    note(known.last_session != found.last_session, "last_session");
    note(known.paused_at != found.paused_at, "paused_at");
    note(known.goal != found.goal, "goal");
    note(known.phases != found.phases, "phases");
    note(known.needs != found.needs, "needs");
    note(known.landing != found.landing, "landing");
    note(known.alerts != found.alerts, "alerts");
    note(known.epoch != found.epoch, "epoch");
    note(known.unsettled != found.unsettled, "unsettled");
    match held {
        Held::Run => (changed, Vec::new()),
        // An epoch that is assigned twice would make two claims look like one.
        Held::Claims(_) => changed.into_iter().partition(|_| found.epoch < known.epoch),
    }
}

fn of_task(before: &Task, after: &Task, held: &Held) -> (Fields, Fields) {
    let changed = changed(before, after);
    if !protects(held, &before.id) {
        return (Vec::new(), changed);
    }
    let begun = before.status() != Status::Pending || before.attempts > 0;
    let more = before.depends_on.iter().all(|id| after.depends_on.contains(id));
    changed.into_iter().partition(|field| match *field {
        "title" | "instructions" | "priority" => begun,
        "depends_on" => begun || !more,
        _ => true,
    })
}

/// Returns the differing fields, with the names that the ledger uses.
fn changed(before: &Task, after: &Task) -> Fields {
    // The destructuring makes the compiler point here when a field is added to `Task`.
    let Task {
        id: _,
        title,
        state,
        priority,
        depends_on,
        attempts,
        max_attempts,
        epoch,
        started_at_commit,
        validation,
        cleanup,
        error_log,
        checkpoints,
        instructions,
        protected,
        requires,
        conflicts,
        source,
        role,
        phase,
        timeout_seconds,
        order,
        flags,
        added_by,
    } = before;
    let fields = [
        (*title != after.title, "title"),
        (state.status() != after.status(), "status"),
        (*priority != after.priority, "priority"),
        (*depends_on != after.depends_on, "depends_on"),
        (*attempts != after.attempts, "attempts"),
        (*max_attempts != after.max_attempts, "max_attempts"),
        (*started_at_commit != after.started_at_commit, "started_at_commit"),
        (*validation != after.validation, "validation"),
        (*cleanup != after.cleanup, "on_failure"),
        (*error_log != after.error_log, "error_log"),
        (*checkpoints != after.checkpoints, "checkpoints"),
        (*epoch != after.epoch, "epoch"),
        (*instructions != after.instructions, "instructions"),
        (*protected != after.protected, "protected"),
        (*requires != after.requires, "requires"),
        (*conflicts != after.conflicts, "conflicts"),
        (*source != after.source, "source"),
        (*role != after.role, "role"),
        (*phase != after.phase, "phase"),
        (*timeout_seconds != after.timeout_seconds, "timeout_seconds"),
        (*order != after.order, "order"),
        (*flags != after.flags, "flags"),
        (*added_by != after.added_by, "added_by"),
    ];
    let differing = |(differs, field): (bool, &'static str)| differs.then_some(field);
    let mut fields: Fields = fields.into_iter().filter_map(differing).collect();
    fields.extend(changed_state(state, &after.state));
    fields
}

/// Returns the differing fields of two states of the same kind.
fn changed_state(before: &TaskState, after: &TaskState) -> Fields {
    let fields: Vec<(bool, &'static str)> = match (before, after) {
        (TaskState::Claimed(before), TaskState::Claimed(after)) => {
            let ActiveClaim {
                by,
                at,
                lease_expires_at,
                via,
                worktree,
                branch,
                base_untracked,
                intent,
            } = &**before;
            vec![
                (*by != after.by, "claimed_by"),
                (*at != after.at, "claimed_at"),
                (*lease_expires_at != after.lease_expires_at, "lease_expires_at"),
                (*via != after.via, "via"),
                (*worktree != after.worktree, "worktree"),
                (*branch != after.branch, "branch"),
                (*base_untracked != after.base_untracked, "base_untracked"),
                (*intent != after.intent, "intent"),
            ]
        }
        (TaskState::Completed(before), TaskState::Completed(after)) => {
            let TaskCompletion { by, claimed_at, at } = before;
            vec![
                (*at != after.at, "completed_at"),
                (*by != after.by, "claimed_by"),
                (*claimed_at != after.claimed_at, "claimed_at"),
            ]
        }
        // The rest of a failure is derived from the error log.
        (TaskState::Failed(before), TaskState::Failed(after)) => {
            vec![(before.at != after.at, "failed_at")]
        }
        (
            TaskState::Pending
            | TaskState::Claimed(_)
            | TaskState::Completed(_)
            | TaskState::Failed(_),
            _,
        ) => Vec::new(),
    };
    fields.into_iter().filter_map(|(differs, field)| differs.then_some(field)).collect()
}

/// Returns the fields of a new task that only work on it could have set.
fn touched(task: &Task) -> Fields {
    let untouched = Task {
        title: task.title.clone(),
        priority: task.priority.clone(),
        depends_on: task.depends_on.clone(),
        max_attempts: task.max_attempts,
        validation: task.validation.clone(),
        cleanup: task.cleanup.clone(),
        instructions: task.instructions.clone(),
        protected: task.protected.clone(),
        requires: task.requires.clone(),
        source: task.source.clone(),
        role: task.role.clone(),
        phase: task.phase.clone(),
        timeout_seconds: task.timeout_seconds,
        order: task.order,
        added_by: task.added_by.clone(),
        ..Task::new(task.id.clone(), "")
    };
    changed(&untouched, task)
}
