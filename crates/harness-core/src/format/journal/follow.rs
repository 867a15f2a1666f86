//! Follows a journal line by line, for a reader that has the version before.

use super::{Ending, Kind, ReadRow, Receipts, read};
use crate::{
    TaskId,
    format::{
        Document, State,
        object::Object,
        read::{self as file, assemble},
    },
    ledger::{Ledger, Row},
};

/// The content of a line that was followed.
#[derive(Debug)]
pub struct Followed {
    /// The end of the line.
    pub ending: Ending,
    /// The log lines of the change.
    pub log: Vec<String>,
    /// The receipts of the change.
    pub receipts: Receipts,
    /// The tasks that it put or dropped.
    pub touched: Vec<TaskId>,
}

/// Brings a version up to the next one by the line of a change. Returns `None` if the line does not
/// follow this version, or does not lead to the version that it names. The version in memory is then
/// unusable.
pub fn follow(ledger: &mut Ledger, document: &mut Document, line: &str) -> Option<Followed> {
    let (line, ending) = read(line.as_bytes())?;
    if line.kind != Kind::Change || ending.revision != document.revision() + 1 {
        return None;
    }
    // The digest covers the text in its written form.
    document.indent_tasks();
    let head = file::head(&line.head).ok()?;
    let mut rows = Vec::with_capacity(line.rows.len());
    let mut texts = Vec::with_capacity(line.rows.len());
    for row in &line.rows {
        match row {
            ReadRow::Put(raw) => {
                let task = file::one(raw.get()).ok()?;
                rows.push(Row::Put(Box::new(task)));
                texts.push(raw.get());
            }
            ReadRow::Drop(id) => {
                rows.push(Row::Drop(id.clone()));
                texts.push("");
            }
        }
    }
    document.clear_if_dropped(&rows);
    for (row, text) in rows.iter().zip(texts) {
        match row {
            Row::Put(task) => document.put_text(task.id.clone(), text),
            Row::Drop(id) => document.drop_text(id),
        }
    }
    let log = line.head.read::<Vec<String>>("log_tail").unwrap_or_default();
    document.put_root(line.head);
    ledger.put_rows(Some(&head), &rows);
    if document.state() != ending.state {
        return None;
    }
    let touched = rows.into_iter().map(|row| match row {
        Row::Put(task) => task.id,
        Row::Drop(id) => id,
    });
    let receipts = line.receipts.iter().map(|(name, json)| (name.clone(), json.get().to_owned()));
    Some(Followed { ending, log, receipts: receipts.collect(), touched: touched.collect() })
}

/// Builds a version from its root object and the texts of its tasks, in order. Returns `None` if the
/// result is not the version with the digest `state`.
pub fn rebuild(root: &str, rows: &[&str], state: State) -> Option<(Ledger, Document)> {
    let fields: Object = serde_json::from_str(root).ok()?;
    let (ledger, mut document) = assemble(fields, rows).ok()?;
    document.indent_tasks();
    (document.state() == state).then_some((ledger, document))
}
