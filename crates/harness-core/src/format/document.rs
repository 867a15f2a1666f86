//! The text of the file, kept beside the ledger between two writes.

use std::{borrow::Cow, ops::Range, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    object::Object,
    patch,
    pretty::{compact, pretty},
    row_text::{Indent, RowText},
    state::{self, Digest, Key, Seal, State},
};
use crate::{
    TaskId,
    command::{Change, Row},
    ledger::{Ledger, drops_all},
    task::TaskMap,
};

/// The depth of a task in the file.
const TASK_DEPTH: usize = 2;
/// The number of tasks that share the digest of a block.
const BLOCK: usize = 128;
/// The field of the root object that counts the writes.
const REVISION: &str = "revision";
/// The field of the root object that contains the seal. The seal does not cover itself.
const SEAL: &str = "seal";

/// The field of the root object with the last transaction of each worker process that wrote through
/// a host.
const TRANSACTIONS: &str = "transactions";
/// The number of processes whose last transactions are kept.
const KEPT_TRANSACTIONS: usize = 64;

/// The last transaction of a worker process.
#[derive(Serialize, Deserialize)]
struct MadeTransaction {
    by: String,
    number: u64,
}

/// The text of a ledger, task by task. A write changes only the text of changed tasks and keeps
/// unknown fields.
#[derive(Debug, Clone)]
pub struct Document {
    /// The root object, with a null in the place of the tasks.
    fields: Object,
    /// The file as it was read. The rows that did not change since then are ranges of it.
    source: Arc<String>,
    /// What is known of the rows that are ranges of the source.
    indent: Indent,
    tasks: TaskMap<RowText>,
    /// The known digests of blocks of tasks, in order. A write recomputes only the blocks whose
    /// tasks it changed.
    blocks: Vec<Option<Digest>>,
}

impl Document {
    /// Returns the document of a file that does not exist yet.
    pub fn new(ledger: &Ledger) -> Self {
        let fields = patch::new_root();
        let mut document = Self::read(fields, Arc::default(), std::iter::empty());
        for task in ledger.tasks() {
            let text = render(&patch::task(Object::default(), task));
            document.tasks.insert(task.id.clone(), RowText::written(text));
        }
        document
    }

    /// Returns the document of a file with the text `source`. Each task has its range in it.
    pub(super) fn read(
        fields: Object,
        source: Arc<String>,
        tasks: impl Iterator<Item = (TaskId, Range<usize>)>,
    ) -> Self {
        let tasks = tasks.map(|(id, range)| (id, RowText::read(range))).collect();
        Self { fields, source, indent: Indent::Unknown, tasks, blocks: Vec::new() }
    }

    /// Returns the text that this document was read from. A journal has the rows only.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Follows a change that was applied to the ledger.
    pub fn put_in(&mut self, change: &Change) {
        self.clear_if_dropped(&change.rows);
        for row in &change.rows {
            match row {
                Row::Put(task) => {
                    let before = self.tasks.get(&task.id).map(|row| row.json(&self.source));
                    let fields = before.and_then(|json| serde_json::from_str::<Object>(json).ok());
                    let json = render(&patch::task(fields.unwrap_or_default(), task));
                    let (at, _) = self.tasks.insert_full(task.id.clone(), RowText::written(json));
                    if let Some(block) = self.blocks.get_mut(at / BLOCK) {
                        *block = None;
                    }
                }
                Row::Drop(id) => {
                    if let Some((at, _, _)) = self.tasks.shift_remove_full(id) {
                        // The positions of all later tasks have changed.
                        self.blocks.truncate(at / BLOCK);
                    }
                }
            }
        }
    }

    /// Replaces the root object, which has a null in the place of the tasks.
    pub(super) fn put_root(&mut self, fields: Object) {
        self.fields = fields;
    }

    /// Removes all tasks if the rows drop each of them. One by one, each would cost a walk over the rest.
    pub(super) fn clear_if_dropped(&mut self, rows: &[Row]) {
        if drops_all(rows, &self.tasks) {
            self.tasks.clear();
            self.blocks.clear();
        }
    }

    /// Puts the text of a task in the place of the one with the same id, or at the end.
    pub(super) fn put_text(&mut self, id: TaskId, json: &str) {
        let mut text = String::with_capacity(json.len() * 2);
        pretty(json, TASK_DEPTH, &mut text);
        let (at, _) = self.tasks.insert_full(id, RowText::written(text));
        if let Some(block) = self.blocks.get_mut(at / BLOCK) {
            *block = None;
        }
    }

    /// Removes the text of a task.
    pub(super) fn drop_text(&mut self, id: &TaskId) {
        if let Some((at, _, _)) = self.tasks.shift_remove_full(id) {
            self.blocks.truncate(at / BLOCK);
        }
    }

    /// Returns how many times this ledger was written; 0 if no harness that counts has written it.
    pub fn revision(&self) -> u64 {
        self.fields.read(REVISION).unwrap_or(0)
    }

    /// Sets the revision, to continue the count of another ledger.
    pub fn count_from(&mut self, revision: u64) {
        self.fields.put(REVISION, revision);
    }

    /// Returns the number of the last transaction that the process `by` made; 0 for none.
    pub fn transaction_of(&self, by: &str) -> u64 {
        let known = self.transactions();
        known.iter().find(|made| made.by == by).map_or(0, |made| made.number)
    }

    /// Records the transaction `number` of the process `by` as part of this version. The processes
    /// that have made none for longest are forgotten.
    pub fn record_transaction(&mut self, by: &str, number: u64) {
        let mut known = self.transactions();
        known.retain(|made| made.by != by);
        known.push(MadeTransaction { by: by.to_owned(), number });
        let old = known.len().saturating_sub(KEPT_TRANSACTIONS);
        known.drain(..old);
        self.fields.ours(TRANSACTIONS, Some(known));
    }

    fn transactions(&self) -> Vec<MadeTransaction> {
        self.fields.read(TRANSACTIONS).unwrap_or_default()
    }

    /// Brings the text into the form that a write of `ledger` as version `revision` leaves. It is
    /// sealed if there is a key. Only the head is taken from `ledger`; the tasks are already here.
    pub fn settle(&mut self, ledger: &Ledger, revision: u64, key: Option<&Key>) -> State {
        self.fields.put(REVISION, revision);
        self.indent(ledger);
        let state = self.state();
        self.fields.ours(SEAL, key.map(|key| key.seal(&state)));
        state
    }

    fn indent(&mut self, ledger: &Ledger) {
        debug_assert!(ledger.tasks().map(|t| &t.id).eq(self.tasks.keys()));
        patch::head(&mut self.fields, ledger.head());
        self.indent_tasks();
    }

    /// Indents the tasks that another program wrote.
    pub(super) fn indent_tasks(&mut self) {
        match self.indent {
            Indent::Ours => return,
            Indent::Unknown => self.indent = Indent::Ours,
        }
        for (at, row) in self.tasks.values_mut().enumerate() {
            let Some(indented) = row.indented(&self.source, TASK_DEPTH) else { continue };
            *row = RowText::written(indented);
            if let Some(block) = self.blocks.get_mut(at / BLOCK) {
                *block = None;
            }
        }
    }

    /// Returns the digest of this version with its current text.
    pub fn state(&mut self) -> State {
        let head = self.head();
        self.blocks.resize(self.tasks.len().div_ceil(BLOCK), None);
        let (tasks, source) = (&mut self.tasks, &self.source);
        let blocks = self.blocks.iter_mut().enumerate().map(|(n, block)| {
            *block.get_or_insert_with(|| {
                let end = tasks.len().min((n + 1) * BLOCK);
                let rows = tasks.get_range_mut(n * BLOCK..end);
                let rows = rows.into_iter().flat_map(|rows| rows.values_mut());
                state::block(rows.map(|row| row.digest(source)))
            })
        });
        state::state(&head, blocks)
    }

    /// Returns whether this version was written with `key`.
    pub fn seal(&mut self, key: &Key) -> Seal {
        let Some(found) = self.fields.read::<String>(SEAL) else { return Seal::Missing };
        let state = self.state();
        if key.seal(&state) != found {
            return Seal::Broken;
        }
        // The digest is the one of the text that harness wrote.
        self.indent = Indent::Ours;
        Seal::Fits
    }

    /// Returns the root object without its seal, on one line.
    pub(super) fn head(&self) -> String {
        let mut fields = self.fields.clone();
        fields.remove(SEAL);
        compact(&fields.json())
    }

    /// Returns the root object on one line.
    pub fn root(&self) -> String {
        compact(&self.fields.json())
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&TaskId, &str)> {
        self.tasks.iter().map(|(id, row)| (id, row.json(&self.source)))
    }

    /// Renders the whole file. Only the head is taken from `ledger`; the tasks are already here.
    pub fn render(&mut self, ledger: &Ledger) -> String {
        self.indent(ledger);
        self.text()
    }

    /// Returns the whole file in the form that [`settle`](Self::settle) left.
    pub fn text(&self) -> String {
        self.pieces().concat()
    }

    /// Returns the pieces that make up [`text`](Self::text). The tasks between two changed ones are
    /// one piece of the source, so that a write does not copy the whole file once more.
    pub fn pieces(&self) -> Vec<Cow<'_, str>> {
        let mut pieces = Vec::new();
        let mut head = String::from("{");
        for (n, (key, value)) in self.fields.iter().enumerate() {
            head.push_str(if n == 0 { "\n  " } else { ",\n  " });
            head.push_str(&Value::from(key).to_string());
            head.push_str(": ");
            if key == "tasks" {
                pieces.push(Cow::Owned(std::mem::take(&mut head)));
                self.task_pieces(&mut pieces);
            } else {
                pretty(value, 1, &mut head);
            }
        }
        head.push_str("\n}\n");
        pieces.push(Cow::Owned(head));
        pieces
    }

    /// Returns the text of one task in the file.
    pub fn task(&self, id: &TaskId) -> Option<Cow<'_, str>> {
        self.tasks.get(id).map(|row| Cow::Borrowed(row.json(&self.source)))
    }

    fn task_pieces<'a>(&'a self, pieces: &mut Vec<Cow<'a, str>>) {
        if self.tasks.is_empty() {
            pieces.push("[]".into());
            return;
        }
        pieces.push("[".into());
        let mut whole: Option<Range<usize>> = None;
        for (n, row) in self.tasks.values().enumerate() {
            let lead = if n == 0 { "\n    " } else { ",\n    " };
            if let (Some(whole), Some(range)) = (&mut whole, row.range())
                && self.source.get(whole.end..range.start) == Some(lead)
            {
                whole.end = range.end;
                continue;
            }
            pieces.extend(whole.take().map(|range| Cow::Borrowed(&self.source[range])));
            pieces.push(lead.into());
            match row.range() {
                Some(range) => whole = Some(range),
                None => pieces.push(row.json(&self.source).into()),
            }
        }
        pieces.extend(whole.map(|range| Cow::Borrowed(&self.source[range])));
        pieces.push("\n  ]".into());
    }
}

fn render(task: &Object) -> String {
    let mut out = String::new();
    pretty(&task.json(), TASK_DEPTH, &mut out);
    out
}
