//! The shapes on disk, separate from the domain types, and their conversion into them.
//!
//! The shapes of a task borrow their texts from the file. A reader that keeps the task copies them,
//! and one that only displays it does not.

mod head;

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned},
};
use serde_json::{Value, value::RawValue};

pub(super) use head::{DiskHead, DiskLanding};

use super::error_text;
use crate::{
    Category, CommitId, Epoch, Flag, Timestamp, TreeId, WorkerId, flag,
    id::{IdText, Text},
    protect::problem_of_glob,
    task::{
        ActiveClaim, CHECK_TIMEOUT_SECONDS, Checkpoint, ErrorEntry, Intent, MAX_ATTEMPTS, Priority,
        Status, Task, TaskCompletion, TaskFailure, TaskSource, TaskState, Validation, Via,
    },
};

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct DiskTask<'a> {
    #[serde(borrow)]
    pub(super) id: IdText<'a>,
    #[serde(borrow)]
    pub(super) title: Option<Text<'a>>,
    status: Option<DiskStatus>,
    #[serde(borrow)]
    priority: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) depends_on: Option<Vec<IdText<'a>>>,
    #[serde(default)]
    attempts: Count,
    #[serde(default)]
    max_attempts: Count,
    started_at_commit: Option<CommitId>,
    #[serde(borrow)]
    validation: Option<DiskValidation<'a>>,
    #[serde(borrow)]
    on_failure: Option<DiskOnFailure<'a>>,
    #[serde(borrow)]
    pub(super) error_log: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    pub(super) checkpoints: Option<Vec<DiskCheckpoint<'a>>>,
    completed_at: Option<Timestamp>,
    failed_at: Option<Timestamp>,
    #[serde(borrow)]
    pub(super) claimed_by: Option<Text<'a>>,
    pub(super) claimed_at: Option<Timestamp>,
    pub(super) lease_expires_at: Option<Timestamp>,
    pub(super) epoch: Option<Epoch>,
    via: Option<DiskVia>,
    #[serde(borrow)]
    pub(super) worktree: Option<Text<'a>>,
    #[serde(borrow)]
    branch: Option<Text<'a>>,
    #[serde(default, deserialize_with = "tree_or_empty_list")]
    base_untracked: Option<TreeId>,
    intent: Option<DiskIntent>,
    #[serde(borrow)]
    instructions: Option<Text<'a>>,
    #[serde(default, deserialize_with = "globs")]
    protected: Vec<String>,
    #[serde(default, deserialize_with = "if_it_fits")]
    requires: Option<Vec<String>>,
    #[serde(default, deserialize_with = "if_it_fits")]
    conflicts: Option<Vec<String>>,
    #[serde(default, deserialize_with = "if_it_fits")]
    source: Option<DiskSource>,
    #[serde(borrow)]
    role: Option<Text<'a>>,
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    timeout_seconds: Option<u64>,
    order: Option<u64>,
    #[serde(default, deserialize_with = "flag::list")]
    flags: Vec<Flag>,
    added_by: Option<Text<'a>>,
}

/// The defaults for missing fields.
impl DiskTask<'_> {
    pub(super) fn status(&self) -> Status {
        self.status.map_or(Status::Pending, Into::into)
    }

    pub(super) fn attempts(&self) -> u32 {
        self.attempts.0.unwrap_or(0)
    }

    /// Returns whether the task has a check; see [`Task::check`].
    pub(super) fn has_check(&self) -> bool {
        let command = self.validation.as_ref().and_then(|validation| validation.command.as_ref());
        command.is_some_and(|command| !command.0.trim().is_empty())
    }

    pub(super) fn max_attempts(&self) -> u32 {
        self.max_attempts.0.unwrap_or(MAX_ATTEMPTS)
    }
}

impl From<DiskTask<'_>> for Task {
    fn from(d: DiskTask<'_>) -> Self {
        let (status, attempts, max_attempts) = (d.status(), d.attempts(), d.max_attempts());
        let error_log: Vec<ErrorEntry> =
            d.error_log.iter().flatten().map(|text| error_text::entry(&text.0)).collect();
        let by = d.claimed_by.map(|by| WorkerId::recorded(&by.0));
        // Fields of another state are ignored here. A write that leaves the state unchanged keeps
        // them.
        let state = match status {
            Status::Pending => TaskState::Pending,
            Status::InProgress => TaskState::Claimed(Box::new(ActiveClaim {
                by,
                at: d.claimed_at,
                lease_expires_at: d.lease_expires_at,
                via: d.via.map(Into::into),
                worktree: d.worktree.map(Into::into),
                branch: d.branch.map(Into::into),
                base_untracked: d.base_untracked,
                intent: d.intent.map(Into::into),
            })),
            Status::Completed => TaskState::Completed(TaskCompletion {
                by,
                claimed_at: d.claimed_at,
                at: d.completed_at,
            }),
            Status::Failed => TaskState::Failed(TaskFailure::of(d.failed_at, &error_log)),
        };
        Self {
            id: d.id.into(),
            title: d.title.unwrap_or_default().into(),
            state,
            priority: d.priority.map_or(Priority::P1, priority),
            depends_on: all(d.depends_on),
            attempts,
            max_attempts,
            epoch: d.epoch,
            started_at_commit: d.started_at_commit,
            validation: d.validation.unwrap_or_default().into(),
            cleanup: d.on_failure.and_then(|f| f.cleanup).map(Into::into),
            error_log,
            checkpoints: all(d.checkpoints),
            instructions: d.instructions.map(Into::into),
            protected: d.protected,
            requires: d.requires.unwrap_or_default(),
            conflicts: d.conflicts.unwrap_or_default(),
            source: d.source.map(|source| Box::new(source.into())),
            role: d.role.map(Into::into),
            phase: d.phase.map(Into::into),
            timeout_seconds: d.timeout_seconds,
            order: d.order,
            flags: d.flags,
            added_by: d.added_by.map(Into::into),
        }
    }
}

fn priority(Text(text): Text<'_>) -> Priority {
    Priority::known(&text).unwrap_or_else(|| Priority::Unknown(text.into_owned()))
}

fn all<T, U: From<T>>(list: Option<Vec<T>>) -> Vec<U> {
    list.unwrap_or_default().into_iter().map(Into::into).collect()
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum DiskStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl From<DiskStatus> for Status {
    fn from(d: DiskStatus) -> Self {
        match d {
            DiskStatus::Pending => Self::Pending,
            DiskStatus::InProgress => Self::InProgress,
            DiskStatus::Completed => Self::Completed,
            DiskStatus::Failed => Self::Failed,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(expecting = "an object")]
struct DiskValidation<'a> {
    #[serde(borrow)]
    command: Option<Text<'a>>,
    timeout_seconds: Option<u64>,
    clean: Option<bool>,
    baseline: Option<bool>,
}

impl From<DiskValidation<'_>> for Validation {
    fn from(d: DiskValidation<'_>) -> Self {
        Self {
            command: d.command.map(Into::into),
            timeout_seconds: d.timeout_seconds.unwrap_or(CHECK_TIMEOUT_SECONDS),
            clean: d.clean,
            baseline: d.baseline,
        }
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct DiskOnFailure<'a> {
    #[serde(borrow)]
    cleanup: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct DiskCheckpoint<'a> {
    #[serde(default)]
    step: Count,
    #[serde(default)]
    total: Count,
    #[serde(borrow)]
    description: Option<Text<'a>>,
    timestamp: Option<Timestamp>,
    tree: Option<TreeId>,
}

impl From<DiskCheckpoint<'_>> for Checkpoint {
    fn from(d: DiskCheckpoint<'_>) -> Self {
        Self {
            step: d.step.0.unwrap_or(0),
            total: d.total.0.unwrap_or(0),
            description: d.description.unwrap_or_default().into(),
            timestamp: d.timestamp,
            tree: d.tree,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum DiskVia {
    Run,
    Client,
}

impl From<DiskVia> for Via {
    fn from(d: DiskVia) -> Self {
        match d {
            DiskVia::Run => Self::Run,
            DiskVia::Client => Self::Client,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DiskIntent {
    Rollback { category: Category, message: String },
    Land { target: String, from: CommitId, to: CommitId },
}

impl From<DiskIntent> for Intent {
    fn from(d: DiskIntent) -> Self {
        match d {
            DiskIntent::Rollback { category, message } => Self::Rollback { category, message },
            DiskIntent::Land { target, from, to } => Self::Land { target, from, to },
        }
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct DiskSource {
    kind: String,
    path: Option<String>,
    key: String,
}

impl From<DiskSource> for TaskSource {
    fn from(d: DiskSource) -> Self {
        Self { kind: d.kind, path: d.path, key: d.key }
    }
}

/// A count that a person may have mistyped. Any other value is treated as missing.
#[derive(Default, Clone, Copy)]
struct Count(Option<u32>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Tolerant;
        impl<'de> de::Visitor<'de> for Tolerant {
            type Value = Count;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a count")
            }
            fn visit_u64<E>(self, n: u64) -> Result<Count, E> {
                Ok(Count(u32::try_from(n).ok()))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_f64<E>(self, n: f64) -> Result<Count, E> {
                let whole = n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&n);
                Ok(Count(whole.then_some(n as u32)))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_str<E>(self, _: &str) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
                while seq.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
        }
        d.deserialize_any(Tolerant)
    }
}

/// Reads a field whose name other programs may have used before it was ours. A value of another
/// shape counts as missing, and a write leaves it unchanged.
fn if_it_fits<'de, D: Deserializer<'de>, T: DeserializeOwned>(d: D) -> Result<Option<T>, D::Error> {
    let raw = <&RawValue>::deserialize(d)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

/// Reads a list of globs. An invalid one is an error, because the files that somebody meant to
/// protect would not be protected. Other programs may have used the name for something else.
fn globs<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let globs: Vec<String> = if_it_fits(d)?.unwrap_or_default();
    match globs.iter().find_map(|glob| problem_of_glob(glob)) {
        None => Ok(globs),
        Some(bad) => Err(de::Error::custom(format_args!("{:?}: {}", bad.glob, bad.why))),
    }
}

/// `base_untracked` was once a list of paths. Of those, only the empty list still occurs.
fn tree_or_empty_list<'de, D: Deserializer<'de>>(d: D) -> Result<Option<TreeId>, D::Error> {
    match Value::deserialize(d)? {
        Value::Null => Ok(None),
        Value::Array(list) if list.is_empty() => Ok(None),
        Value::String(text) => TreeId::parse(&text).map(Some).map_err(de::Error::custom),
        _ => Err(de::Error::custom("must be a tree id, null or []")),
    }
}
