//! The journal: every version of a ledger as the change that led to it, one line each.
//!
//! A line is an object. It holds the root object of the file with its seal, the tasks that
//! were put or dropped, in order and as they are written, and the receipts of completions; the log
//! lines of the change are in the root object, as everywhere. A snapshot is a line that begins with
//! nothing: it holds all tasks, and what earlier lines had of the log and of receipts. The end of
//! every line says which version it leads to and has a checksum, so that half a line is recognised.
//!
//! [`replay`] is the only reader. Replaying gives the file to the letter, so that the seal tells whether
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

/// Older lines of the log are not carried into a snapshot.
const LOG_LINES_MAX: usize = 50_000;
/// How far from its end a line says which version it leads to.
pub const ENDING_BYTES: u64 = 256;
/// A journal may grow by so much before a snapshot is worth its while.
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
    /// Follows a change that was put into the ledger.
    pub fn note(&mut self, change: &Change) {
        self.0.extend(change.rows.iter().map(|row| match row {
            Row::Put(task) => Touch::Put(task.id.clone()),
            Row::Drop(id) => Touch::Drop(id.clone()),
        }));
    }

    /// What leads from the version before to `document`: a task that was put several times once, at
    /// its first time since it was last dropped.
    fn rows<'a>(&'a self, document: &'a Document) -> Vec<WrittenRow<'a>> {
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
            // One that was dropped later is not there any more.
            Touch::Put(id) => document.task(id).map(|json| WrittenRow::Put(raw(&compact(&json)))),
        };
        rows.iter().filter_map(written).collect()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum WrittenRow<'a> {
    Put(Box<RawValue>),
    Drop(&'a TaskId),
}

/// Receipts by the name of their file, each JSON on one line.
pub type Receipts = BTreeMap<String, String>;

/// The end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The version that it leads to.
    pub revision: u64,
    /// The digest of that version.
    pub state: State,
    /// The size of the snapshot that the journal begins with; 0 in that itself.
    base: u64,
}

impl Ending {
    /// Reads the end of the last line from the last [`ENDING_BYTES`] of a journal, or from more.
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

    /// Whether a journal of this size, which ends so, should be replaced by a snapshot.
    pub fn outgrown(&self, size: u64) -> bool {
        self.base > 0 && size > 2 * self.base + GROWTH_BYTES
    }
}

/// The line of a change. `before` is the end of the journal that it is appended to, of `size` bytes.
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

/// The line that a journal begins with. `log` has all lines that are known, those of the last
/// change too.
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

/// A receipt as the journal keeps it, if it is JSON.
pub fn receipt_line(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str::<&RawValue>(text).ok().map(|json| compact(json.get()))
}

/// A receipt as its file has it.
pub fn receipt_file(line: &str) -> String {
    let mut text = String::with_capacity(line.len() * 2);
    pretty(line, 0, &mut text);
    text.push('\n');
    text
}

/// What a journal knows.
#[derive(Debug)]
pub struct Replayed {
    /// The newest version that can be made from it.
    pub ledger: Ledger,
    /// Its text.
    pub document: Document,
    /// Which version that is.
    pub revision: u64,
    /// Its digest.
    pub state: State,
    /// What it knows besides.
    pub kept: Known,
}

/// What a journal knows of the other files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The lines of the log that harness wrote, oldest first.
    pub log: Vec<String>,
    /// The receipts of completions.
    pub receipts: Receipts,
}

/// The newest version that a journal leads to. `None` where it has none: it is empty, or damaged
/// before its first change.
pub fn replay(bytes: &[u8]) -> Option<Replayed> {
    let Fold { fields, rows, log, receipts, ending } = Fold::of(bytes);
    let ending = ending?;
    let texts: Vec<&str> = rows.values().map(|text| &**text).collect();
    let (ledger, mut document) = assemble(fields, &texts).ok()?;
    // The digest is of the text as it was written.
    document.indent_tasks();
    if document.state() != ending.state {
        return None;
    }
    let kept = Known { log, receipts };
    Some(Replayed { ledger, document, revision: ending.revision, state: ending.state, kept })
}

/// What a journal knows of the log and of receipts, also where no version can be made from it.
pub fn known(bytes: &[u8]) -> Known {
    let Fold { log, receipts, .. } = Fold::of(bytes);
    Known { log, receipts }
}

/// The version that the lines so far led to.
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
    /// A line that is damaged ends the versions that follow from each other; a snapshot after it
    /// begins anew. What is known of log and receipts stays.
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

    /// Whether all of it could be put.
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

/// A line that is all there.
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
