//! The statements that write one change, or the renewals of one batch.

use harness_core::{
    Ledger, TaskId,
    format::{
        Document,
        journal::{self, Receipts, Touched},
    },
    task::RenewedLease,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{
    known::Known,
    rows::{column, text},
    wire::{By, Step},
};

/// A change that is ready to be written.
pub struct WrittenChange {
    /// The id of the batch.
    pub operation: Uuid,
    /// The answers, for people.
    pub replies: String,
    /// The version that it leads to.
    pub version: i64,
    /// The time.
    pub at: i64,
    /// The hash of the change before it.
    pub previous: String,
    /// Its hash.
    pub hash: String,
    /// The digest of the version.
    pub state: String,
    /// The root object.
    pub head: String,
    /// The line of the journal.
    pub entry: String,
    /// The size of all log lines.
    pub log_bytes: i64,
    /// The tasks that were removed, whether or not they were added again.
    pub dropped: Vec<String>,
    /// All tasks that it concerns.
    pub touched: Vec<String>,
    /// The rows of the tasks that it put.
    pub tasks: WrittenTasks,
    /// Its log lines.
    pub lines: Vec<String>,
    /// The names of receipts, and the receipts.
    pub receipts: (Vec<String>, Vec<String>),
}

/// The rows of tasks, column by column.
#[derive(Default)]
pub struct WrittenTasks {
    /// The ids, in the order of the tasks.
    pub ids: Vec<String>,
    pub(super) titles: Vec<String>,
    pub(super) statuses: Vec<String>,
    pub(super) attempts: Vec<i32>,
    pub(super) epochs: Vec<Option<i64>>,
    pub(super) workers: Vec<Option<String>>,
    /// The texts.
    pub entries: Vec<String>,
}

/// The parts of a change that a store knows.
pub(super) struct Parts {
    pub(super) operation: Uuid,
    pub(super) replies: String,
    pub(super) now: i64,
    pub(super) touched: Touched,
    pub(super) receipts: Receipts,
    pub(super) lines: Vec<String>,
}

impl WrittenChange {
    /// Brings the text in memory to the next version and returns the statements' values.
    pub(super) fn of(known: &mut Known, parts: Parts) -> Self {
        let Parts { operation, replies, now, touched, receipts, lines } = parts;
        let before = known.ending();
        known.ledger.set_log_tail(lines.clone(), known.log_bytes);
        let state = known.document.settle(&known.ledger, known.version + 1, None);
        let entry = journal::change(&mut known.document, &touched, &receipts, &before, known.base);
        let entry = entry.trim_end_matches('\n').to_owned();
        let previous = known.hash;
        known.hash = previous.then(&entry);
        known.version += 1;
        known.at = now;
        let size = |line: &String| line.len() as u64 + 1;
        known.log_bytes += lines.iter().map(size).sum::<u64>();
        let (dropped, put) = touched.result(&known.document);
        let names =
            |ids: &[TaskId]| ids.iter().map(|id| id.as_str().to_owned()).collect::<Vec<_>>();
        let mut all: Vec<TaskId> = dropped.clone();
        all.extend(put.iter().map(|(id, _)| id.clone()));
        all.iter().for_each(|id| _ = known.leases.remove(id));
        Self {
            operation,
            replies,
            version: column(known.version),
            at: now,
            previous: previous.to_string(),
            hash: known.hash.to_string(),
            state: state.to_string(),
            head: known.document.root(),
            entry,
            log_bytes: column(known.log_bytes),
            dropped: names(&dropped),
            touched: names(&all),
            tasks: WrittenTasks::of(&known.ledger, put),
            lines: lines.iter().map(|line| text(line)).collect(),
            receipts: receipts.into_iter().unzip(),
        }
    }

    /// Returns the statements in their order, without the commit.
    pub(super) fn steps<'a>(&'a self, ledger: &'a i64) -> Vec<Step<'a>> {
        let mut steps = Vec::with_capacity(3);
        if !self.dropped.is_empty() {
            // It comes first, because a task may be removed and added again in one change.
            steps.push(Step::With(
                "DELETE FROM harness.task WHERE ledger = $1 AND id = ANY ($2)",
                vec![(ledger, Type::INT8), (&self.dropped, Type::TEXT_ARRAY)],
            ));
        }
        steps.push(self.together(ledger));
        steps.extend(receipts(ledger, &self.receipts));
        steps
    }
}

/// Returns the statement that stores receipts, if there are any.
pub(super) fn receipts<'a>(
    ledger: &'a i64,
    (names, entries): &'a (Vec<String>, Vec<String>),
) -> Option<Step<'a>> {
    let sql = "INSERT INTO harness.receipt (ledger, name, entry) \
               SELECT $1, name, entry FROM unnest($2::text[], $3::text[]) AS u (name, entry) \
               ON CONFLICT (ledger, name) DO UPDATE SET entry = excluded.entry";
    (!names.is_empty()).then(|| {
        let by: By<'_> =
            vec![(ledger, Type::INT8), (names, Type::TEXT_ARRAY), (entries, Type::TEXT_ARRAY)];
        Step::With(sql, by)
    })
}

/// Returns the statement that stores what took effect.
pub(super) fn operation<'a>(
    ledger: &'a i64,
    id: &'a Uuid,
    version: &'a i64,
    replies: &'a String,
) -> Step<'a> {
    Step::With(
        "INSERT INTO harness.operation (ledger, id, version, replies) VALUES ($1, $2, $3, $4)",
        vec![(ledger, Type::INT8), (id, Type::UUID), (version, Type::INT8), (replies, Type::TEXT)],
    )
}

/// Returns the rows of all tasks.
pub(super) fn seeded(ledger: &Ledger, document: &Document) -> WrittenTasks {
    let texts = ledger.tasks().filter_map(|task| {
        let text = document.task(&task.id)?;
        Some((task.id.clone(), journal::receipt_line(text.as_bytes())?))
    });
    WrittenTasks::of(ledger, texts.collect())
}

impl WrittenTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn of(ledger: &Ledger, put: Vec<(TaskId, String)>) -> Self {
        let mut tasks = Self::default();
        for (id, entry) in put {
            let Some(task) = ledger.task(&id) else { continue };
            tasks.ids.push(id.as_str().to_owned());
            tasks.titles.push(text(&task.title));
            tasks.statuses.push(task.status().name().to_owned());
            tasks.attempts.push(i32::try_from(task.attempts).unwrap_or(i32::MAX));
            tasks.epochs.push(task.epoch.map(|epoch| column(epoch.0)));
            tasks.workers.push(task.claimed_by().map(|worker| text(worker.as_str())));
            tasks.entries.push(entry);
        }
        tasks
    }

    /// A task that exists keeps its place.
    pub(super) fn step<'a>(&'a self, ledger: &'a i64, version: &'a i64) -> Step<'a> {
        Step::With(
            "INSERT INTO harness.task (ledger, id, added_version, added_index, title, status, \
             attempts, epoch, claimed_by, entry) \
             SELECT $1, id, $2, n, title, status, attempts, epoch, claimed_by, entry \
             FROM unnest($3::text[], $4::text[], $5::text[], $6::integer[], $7::bigint[], $8::text[], \
             $9::text[]) WITH ORDINALITY AS u (id, title, status, attempts, epoch, claimed_by, entry, n) \
             ON CONFLICT (ledger, id) DO UPDATE SET title = excluded.title, status = excluded.status, \
             attempts = excluded.attempts, epoch = excluded.epoch, claimed_by = excluded.claimed_by, \
             entry = excluded.entry",
            vec![
                (ledger, Type::INT8),
                (version, Type::INT8),
                (&self.ids, Type::TEXT_ARRAY),
                (&self.titles, Type::TEXT_ARRAY),
                (&self.statuses, Type::TEXT_ARRAY),
                (&self.attempts, Type::INT4_ARRAY),
                (&self.epochs, Type::INT8_ARRAY),
                (&self.workers, Type::TEXT_ARRAY),
                (&self.entries, Type::TEXT_ARRAY),
            ],
        )
    }
}

/// A second has more numbers for renewals than a server can commit.
const BEATS_BITS: u32 = 20;

/// Renewals that are ready to be written.
pub struct WrittenLeases {
    /// The id of the batch.
    pub operation: Uuid,
    replies: String,
    version: i64,
    /// The number of these renewals.
    pub beat: i64,
    /// The tasks.
    pub tasks: Vec<String>,
    /// The epoch of each claim.
    pub epochs: Vec<i64>,
    /// The end of each lease.
    pub ends: Vec<i64>,
}

impl WrittenLeases {
    pub(super) fn of(known: &mut Known, parts: Parts, renewed: Vec<RenewedLease>) -> Self {
        // Numbers that a takeover has lost are not given again, because time went on meanwhile.
        known.beat = (known.beat + 1).max(parts.now << BEATS_BITS);
        let mut written = Self {
            operation: parts.operation,
            replies: parts.replies,
            version: column(known.version),
            beat: known.beat,
            tasks: Vec::new(),
            epochs: Vec::new(),
            ends: Vec::new(),
        };
        for lease in renewed {
            written.tasks.push(lease.task.as_str().to_owned());
            written.epochs.push(column(lease.epoch.0));
            written.ends.push(lease.expires_at.seconds());
        }
        written
    }

    pub(super) fn steps<'a>(&'a self, ledger: &'a i64) -> Vec<Step<'a>> {
        vec![
            Step::With(
                "INSERT INTO harness.lease (ledger, task, epoch, expires_at, beat) \
                 SELECT $1, task, epoch, to_timestamp(ends), $5 \
                 FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS u (task, epoch, ends) \
                 ON CONFLICT (ledger, task) DO UPDATE SET epoch = excluded.epoch, \
                 expires_at = excluded.expires_at, beat = excluded.beat",
                vec![
                    (ledger, Type::INT8),
                    (&self.tasks, Type::TEXT_ARRAY),
                    (&self.epochs, Type::INT8_ARRAY),
                    (&self.ends, Type::INT8_ARRAY),
                    (&self.beat, Type::INT8),
                ],
            ),
            Step::With(
                "UPDATE harness.ledger SET beat = $2 WHERE id = $1",
                vec![(ledger, Type::INT8), (&self.beat, Type::INT8)],
            ),
            operation(ledger, &self.operation, &self.version, &self.replies),
        ]
    }
}
