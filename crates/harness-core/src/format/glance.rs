//! A ledger for display only: the fields that are shown on a line for each task, most of them
//! borrowed from the file.
//!
//! Building ten thousand [`Task`](crate::Task)s costs more in fresh memory than reading them. They
//! are therefore read one by one, through the same [`DiskTask`] as in
//! [`read_ledger`](super::read_ledger), and fields that are not shown are dropped at once. So both
//! functions accept and refuse the same files, with the same messages.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::{
    FormatError,
    disk::DiskTask,
    error_text, pretty,
    read::{quick, utf8},
};
use crate::{Category, Epoch, Stats, Timestamp, id::IdText, ledger::Head, stats, task::Status};

/// The displayed part of a ledger.
#[derive(Debug)]
pub struct Glance<'a> {
    /// Everything that is not a task.
    pub head: Head,
    /// The tasks in ledger order.
    pub tasks: Vec<TaskGlance<'a>>,
    /// The numbers of [`Stats::of`].
    pub stats: Stats,
    text: &'a str,
}

/// A task on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskGlance<'a> {
    /// The text of a [`TaskId`](crate::TaskId), so nothing in it has to be escaped.
    pub id: Cow<'a, str>,
    /// One line for people.
    pub title: Cow<'a, str>,
    /// The status of the task.
    pub status: Status,
    /// `true` if the task is one of [`stats::blocked`].
    pub blocked: bool,
    /// The number of attempts that ended.
    pub attempts: u32,
    /// The number of attempts after which the task has failed for good.
    pub max_attempts: u32,
    /// `true` if the task has a check.
    pub checked: bool,
    /// The claim of a task in progress. It is boxed because few tasks have one, so that rows stay
    /// small.
    pub claim: Option<Box<ClaimGlance<'a>>>,
}

/// The claim on a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimGlance<'a> {
    /// The worker; `None` in a ledger that another program wrote.
    pub claimed_by: Option<Cow<'a, str>>,
    /// The end of the lease.
    pub lease_expires_at: Option<Timestamp>,
    /// The claim counter when they took it.
    pub epoch: Option<Epoch>,
    /// The time of the claim.
    pub claimed_at: Option<Timestamp>,
    /// The work tree in which the worker works.
    pub worktree: Option<Cow<'a, str>>,
}

/// Reads the displayed part of a ledger. The errors are those of
/// [`read_ledger`](super::read_ledger).
pub fn glance(bytes: &[u8]) -> Result<Glance<'_>, FormatError> {
    let text = utf8(bytes)?;
    let (head, Rows { mut tasks, mut stats, edges, failed, by_id }) = quick(text)?;
    // Most ledgers have no task that failed for good. The edges need no lookup then.
    if !failed.is_empty() {
        let position = |id: &IdText<'_>| {
            let found = by_id.binary_search_by(|at| (*tasks[*at].id).cmp(id.as_str()));
            found.ok().map(|n| by_id[n])
        };
        let edges = edges.iter().filter_map(|(at, before)| Some((position(before)?, *at)));
        let reached = stats::reached(failed, edges, tasks.len(), |at| tasks[at].status);
        stats.blocked = reached.len();
        for at in reached {
            tasks[at].blocked = true;
        }
    }
    Ok(Glance { head, tasks, stats, text })
}

impl Glance<'_> {
    /// The list of tasks without the space between its parts, and the rest of it to the letter. `write`
    /// receives it in pieces; an error of its ends the writing.
    pub fn tasks_json<E>(&self, write: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let rest = match pretty::field_at(self.text, "tasks") {
            Some(at) => &self.text[at..],
            None => self.spelled_with_escapes(),
        };
        pretty::compact_first(rest, write)
    }
}

impl<'a> Glance<'a> {
    /// The tasks of a file that has escapes in the name of the field.
    fn spelled_with_escapes(&self) -> &'a str {
        #[derive(Deserialize)]
        struct File<'a> {
            #[serde(borrow)]
            tasks: &'a RawValue,
        }
        serde_json::from_str::<File<'a>>(self.text).map_or("[]", |file| file.tasks.get())
    }
}

/// The tasks, and the data that concerns them together.
#[derive(Default)]
struct Rows<'a> {
    tasks: Vec<TaskGlance<'a>>,
    stats: Stats,
    /// The position of a task, and the id of one of its dependencies.
    edges: Vec<(usize, IdText<'a>)>,
    /// The positions of the tasks that failed for good.
    failed: Vec<usize>,
    /// All positions, ordered by the text of the ids.
    by_id: Vec<usize>,
}

/// The part of a task that is kept after reading it.
struct Row<'a> {
    task: TaskGlance<'a>,
    depends_on: Option<Vec<IdText<'a>>>,
    failed_for_good: bool,
    checkpoints: usize,
}

impl<'a> From<DiskTask<'a>> for Row<'a> {
    fn from(d: DiskTask<'a>) -> Self {
        let (status, attempts, max_attempts) = (d.status(), d.attempts(), d.max_attempts());
        let dependency = Some(Category::Dependency);
        let mut errors = d.error_log.iter().flatten();
        let mut depends_on_failed = || errors.any(|e| error_text::category(&e.0) == dependency);
        let spent = attempts >= max_attempts;
        let checked = d.has_check();
        Self {
            failed_for_good: status == Status::Failed && (spent || depends_on_failed()),
            checkpoints: d.checkpoints.as_ref().map_or(0, Vec::len),
            depends_on: d.depends_on,
            task: TaskGlance {
                id: d.id.into_text(),
                title: d.title.unwrap_or_default().0,
                status,
                blocked: false,
                attempts,
                max_attempts,
                checked,
                claim: (status == Status::InProgress).then(|| {
                    Box::new(ClaimGlance {
                        claimed_by: d.claimed_by.map(|by| by.0),
                        lease_expires_at: d.lease_expires_at,
                        epoch: d.epoch,
                        claimed_at: d.claimed_at,
                        worktree: d.worktree.map(|path| path.0),
                    })
                }),
            },
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Row<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        DiskTask::deserialize(d).map(Self::from)
    }
}

impl<'a> Rows<'a> {
    fn push(&mut self, row: Row<'a>) {
        let Row { task, depends_on, failed_for_good, checkpoints } = row;
        let at = self.tasks.len();
        if failed_for_good {
            self.failed.push(at);
        }
        self.stats.count(task.status, task.attempts, checkpoints);
        self.edges.extend(depends_on.into_iter().flatten().map(|before| (at, before)));
        self.tasks.push(task);
    }

    /// Sorts the ids. They are mostly in order already, which makes it one walk. Returns an id that
    /// occurs twice.
    fn sort(&mut self) -> Option<&str> {
        let id = |at: usize| &*self.tasks[at].id;
        self.by_id = (0..self.tasks.len()).collect();
        self.by_id.sort_unstable_by(|a, b| id(*a).cmp(id(*b)));
        let twice = self.by_id.windows(2).find(|pair| id(pair[0]) == id(pair[1]));
        twice.map(|pair| id(pair[0]))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Rows<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> de::Visitor<'de> for List {
            type Value = Rows<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Rows<'de>, A::Error> {
                let mut rows = Rows::default();
                while let Some(row) = list.next_element()? {
                    rows.push(row);
                }
                match rows.sort() {
                    Some(id) => Err(de::Error::custom(format_args!("duplicate task id {id}"))),
                    None => Ok(rows),
                }
            }
        }
        d.deserialize_seq(List)
    }
}
