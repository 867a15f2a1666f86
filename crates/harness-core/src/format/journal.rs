//! The journal: every version of a ledger as the change that led to it, one line each.
//!
//! A line is an object. It contains the root object of the file with its seal, the tasks that were
//! put or dropped, in order and as they are written, and the receipts of completions. The log lines
//! of the change are in the root object, as everywhere. A snapshot is a line that depends on no
//! earlier one: it contains all tasks, and the log lines and receipts of earlier lines. The end of
//! every line names the version that it leads to and has a checksum, so that a partial line is
//! recognized.
//!
//! [`replay`] is the only reader. A replay reproduces the file exactly, so the seal shows whether
//! harness wrote the journal.

use std::{borrow::Cow, collections::BTreeMap};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{
    Document, State,
    object::Object,
    pretty::{compact, pretty},
    read::assemble,
    state::hex,
};
use crate::{
    TaskId,
    command::{Change, Row},
    ledger::Ledger,
};

mod follow;

pub use follow::{Followed, follow, rebuild};

/// Older lines of the log are not carried into a snapshot.
const LOG_LINES_MAX: usize = 50_000;
/// The distance from the end of a line within which it names its version.
pub const ENDING_BYTES: u64 = 256;
/// The growth of a journal up to which a snapshot does not pay off.
const GROWTH_BYTES: u64 = 64 * 1024;

/// The tasks that a transaction touched, in order.
#[derive(Debug, Clone, Default)]
pub struct Touched(Vec<Touch>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Touch {
    Put(TaskId),
    Drop(TaskId),
}

impl Touched {
    /// Follows a change that was applied to the ledger.
    pub fn note(&mut self, change: &Change) {
        self.0.extend(change.rows.iter().map(|row| match row {
            Row::Put(task) => Touch::Put(task.id.clone()),
            Row::Drop(id) => Touch::Drop(id.clone()),
        }));
    }

    /// Adds what a later transaction touched.
    pub fn extend(&mut self, later: &Self) {
        self.0.extend(later.0.iter().cloned());
    }

    /// Returns the number of touches.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether nothing was touched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the ids of the tasks that were removed, whether or not they were added again, and the
    /// tasks that are there now, each as JSON on one line and in the order of their last put.
    pub fn result(&self, document: &Document) -> (Vec<TaskId>, Vec<(TaskId, String)>) {
        let mut dropped: IndexMap<&TaskId, ()> = IndexMap::new();
        let mut put: IndexMap<&TaskId, ()> = IndexMap::new();
        for touch in &self.0 {
            match touch {
                Touch::Put(id) => _ = put.insert(id, ()),
                Touch::Drop(id) => {
                    put.shift_remove(id);
                    dropped.insert(id, ());
                }
            }
        }
        let put = put
            .into_keys()
            .filter_map(|id| document.task(id).map(|json| (id.clone(), compact(&json))));
        (dropped.into_keys().cloned().collect(), put.collect())
    }

    /// Returns the rows that lead from the previous version to `document`. A task that was put
    /// several times appears once, at its first put since it was last dropped.
    pub(super) fn rows<'a>(&'a self, document: &'a Document) -> Vec<WrittenRow<'a>> {
        let mut seen: IndexMap<&TaskId, ()> = IndexMap::new();
        let mut rows = Vec::with_capacity(self.0.len());
        for touch in &self.0 {
            match touch {
                Touch::Put(id) => {
                    if seen.insert(id, ()).is_none() {
                        rows.push(touch);
                    }
                }
                Touch::Drop(id) => {
                    seen.shift_remove(id);
                    rows.push(touch);
                }
            }
        }
        let written = |touch: &&'a Touch| match touch {
            Touch::Drop(id) => Some(WrittenRow::Drop(id)),
            // A task that was dropped later is no longer in the document.
            Touch::Put(id) => document.task(id).map(|json| WrittenRow::Put(raw(&compact(&json)))),
        };
        rows.iter().filter_map(written).collect()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WrittenRow<'a> {
    Put(Box<RawValue>),
    Drop(&'a TaskId),
}

/// Receipts by the names of their files, each as JSON on one line.
pub type Receipts = BTreeMap<String, String>;

/// The end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The version that the line leads to.
    pub revision: u64,
    /// The digest of that version.
    pub state: State,
    /// The size of the snapshot at the start of the journal; 0 in the snapshot itself.
    base: u64,
}

impl Ending {
    /// Returns the end of a journal whose version is known, and which starts with a snapshot of `base`
    /// bytes.
    pub const fn new(revision: u64, state: State, base: u64) -> Self {
        Self { revision, state, base }
    }

    /// Reads the end of the last line from at least the last [`ENDING_BYTES`] of a journal.
    pub fn of(tail: &[u8]) -> Option<Self> {
        let line = tail.strip_suffix(b"}\n")?;
        let from = line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = std::str::from_utf8(&line[from..]).ok()?;
        let at = line.rfind(",\"base\":")?;
        #[derive(Deserialize)]
        struct Fields {
            base: u64,
            revision: u64,
            state: String,
            #[expect(dead_code, reason = "that it is there shows that the line is whole")]
            sum: String,
        }
        let fields: Fields = serde_json::from_str(&format!("{{{}}}", &line[at + 1..])).ok()?;
        let state = State::parse(&fields.state)?;
        Some(Self { revision: fields.revision, state, base: fields.base })
    }

    /// Returns whether a journal of this size with this end should be replaced by a snapshot.
    pub fn outgrown(&self, size: u64) -> bool {
        self.base > 0 && size > 2 * self.base + GROWTH_BYTES
    }
}

/// Returns the line of a change. `before` is the end of the journal that it is appended to, which
/// has `size` bytes.
pub fn change(
    document: &mut Document,
    touched: &Touched,
    receipts: &Receipts,
    before: &Ending,
    size: u64,
) -> String {
    let base = if before.base == 0 { size } else { before.base };
    let rows = touched.rows(document);
    let rows = serde_json::to_string(&rows).unwrap_or_default();
    let mut line = format!(r#"{{"kind":"change","head":{},"rows":{rows}"#, document.root());
    push_receipts(&mut line, receipts);
    end(line, document, base)
}

/// Returns the first line of a journal. `log` has all known lines, including those of the last
/// change.
pub fn snapshot(document: &mut Document, log: &[String], receipts: &Receipts) -> String {
    let mut line = format!(r#"{{"kind":"snapshot","head":{},"rows":["#, document.root());
    for (n, (_, json)) in document.rows().enumerate() {
        line.push_str(if n == 0 { r#"{"put":"# } else { r#",{"put":"# });
        line.push_str(&compact(json));
        line.push('}');
    }
    line.push_str(r#"],"log":"#);
    let newest = &log[log.len().saturating_sub(LOG_LINES_MAX)..];
    line.push_str(&serde_json::to_string(newest).unwrap_or_default());
    push_receipts(&mut line, receipts);
    end(line, document, 0)
}

fn push_receipts(line: &mut String, receipts: &Receipts) {
    if receipts.is_empty() {
        return;
    }
    line.push_str(r#","receipts":{"#);
    for (n, (name, json)) in receipts.iter().enumerate() {
        line.push_str(if n == 0 { "" } else { "," });
        line.push_str(&serde_json::Value::from(name.as_str()).to_string());
        line.push(':');
        line.push_str(json);
    }
    line.push('}');
}

fn end(mut line: String, document: &mut Document, base: u64) -> String {
    let (revision, state) = (document.revision(), document.state());
    line.push_str(&format!(r#","base":{base},"revision":{revision},"state":"{state}""#));
    let sum = sum(&line);
    line.push_str(&format!(",\"sum\":\"{sum}\"}}\n"));
    line
}

fn sum(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes())[..8])
}

/// Returns whether a line depends on no earlier one.
pub fn is_snapshot(line: &str) -> bool {
    line.starts_with(r#"{"kind":"snapshot""#)
}

/// Returns a receipt in the form of the journal, if it is JSON.
pub fn receipt_line(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str::<&RawValue>(text).ok().map(|json| compact(json.get()))
}

/// Returns a receipt in the form of its file.
pub fn receipt_file(line: &str) -> String {
    let mut text = String::with_capacity(line.len() * 2);
    pretty(line, 0, &mut text);
    text.push('\n');
    text
}

/// The content of a journal.
#[derive(Debug)]
pub struct Replayed {
    /// The newest version that can be rebuilt from it.
    pub ledger: Ledger,
    /// The text of that version.
    pub document: Document,
    /// The revision of that version.
    pub revision: u64,
    /// The digest of that version.
    pub state: State,
    /// The content of the other files.
    pub kept: Known,
}

/// The content of the other files, as far as a journal has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The lines of the log that harness wrote, oldest first.
    pub log: Vec<String>,
    /// The receipts of completions.
    pub receipts: Receipts,
}

/// Rebuilds the newest version that a journal leads to. Returns `None` if there is none, because
/// the journal is empty or damaged before its first change.
pub fn replay(bytes: &[u8]) -> Option<Replayed> {
    let Fold { fields, rows, log, receipts, ending } = Fold::of(bytes);
    let ending = ending?;
    let texts: Vec<&str> = rows.values().map(|text| &**text).collect();
    let (ledger, mut document) = assemble(fields, &texts).ok()?;
    // The digest covers the text in its written form.
    document.indent_tasks();
    if document.state() != ending.state {
        return None;
    }
    let kept = Known { log, receipts };
    Some(Replayed { ledger, document, revision: ending.revision, state: ending.state, kept })
}

/// Returns the log lines and receipts of a journal, even if no version can be rebuilt from it.
pub fn known(bytes: &[u8]) -> Known {
    let Fold { log, receipts, .. } = Fold::of(bytes);
    Known { log, receipts }
}

/// The version that the lines so far lead to.
#[derive(Default)]
struct Fold<'a> {
    fields: Object,
    rows: IndexMap<TaskId, Cow<'a, str>>,
    log: Vec<String>,
    receipts: Receipts,
    ending: Option<Ending>,
}

#[derive(Deserialize)]
struct Line<'a> {
    kind: Kind,
    head: Object,
    #[serde(borrow)]
    rows: Vec<ReadRow<'a>>,
    log: Option<Vec<String>>,
    #[serde(borrow, default)]
    receipts: BTreeMap<String, &'a RawValue>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Change,
    Snapshot,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReadRow<'a> {
    #[serde(borrow)]
    Put(&'a RawValue),
    Drop(TaskId),
}

#[derive(Deserialize)]
struct OnlyId {
    id: TaskId,
}

impl<'a> Fold<'a> {
    /// A damaged line ends the chain of versions. A snapshot after it starts a new one. Known log
    /// lines and receipts stay.
    fn of(bytes: &'a [u8]) -> Self {
        let mut fold = Self::default();
        let mut whole = true;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let read = read(line);
            let follows = read.as_ref().is_some_and(|(line, ending)| match line.kind {
                Kind::Snapshot => true,
                Kind::Change => {
                    whole && fold.ending.is_some_and(|e| e.revision + 1 == ending.revision)
                }
            });
            match read {
                Some((line, ending)) if follows => whole = fold.put(line, ending),
                Some((line, _)) => {
                    whole = false;
                    fold.keep(&line);
                }
                None => whole = false,
            }
        }
        fold
    }

    /// Applies a line, and returns whether all of it could be applied.
    fn put(&mut self, line: Line<'a>, ending: Ending) -> bool {
        if line.kind == Kind::Snapshot {
            self.rows.clear();
        }
        self.keep(&line);
        for row in line.rows {
            match row {
                ReadRow::Put(raw) => {
                    let Ok(OnlyId { id }) = serde_json::from_str(raw.get()) else { return false };
                    self.rows.insert(id, Cow::Borrowed(raw.get()));
                }
                ReadRow::Drop(id) => {
                    self.rows.shift_remove(&id);
                }
            }
        }
        self.fields = line.head;
        self.ending = Some(ending);
        true
    }

    fn keep(&mut self, line: &Line<'a>) {
        match &line.log {
            Some(all) => self.log.clone_from(all),
            None => self.log.extend(line.head.read::<Vec<String>>("log_tail").unwrap_or_default()),
        }
        let receipts = line.receipts.iter();
        self.receipts.extend(receipts.map(|(name, json)| (name.clone(), json.get().to_owned())));
    }
}

/// Reads a line if it is complete.
fn read(line: &[u8]) -> Option<(Line<'_>, Ending)> {
    let ending = Ending::of(line)?;
    let text = std::str::from_utf8(line).ok()?;
    let (summed, rest) = text.split_at(text.rfind(",\"sum\":\"")?);
    if rest != format!(",\"sum\":\"{}\"}}\n", sum(summed)) {
        return None;
    }
    Some((serde_json::from_str(text).ok()?, ending))
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests;
