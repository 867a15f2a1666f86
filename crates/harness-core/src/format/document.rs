//! The text of the file, kept beside the ledger between two writes.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde_json::Value;

use super::{
    object::Object,
    patch,
    pretty::{compact, pretty},
    state::{self, Digest, Key, Seal, State},
};
use crate::{
    TaskId,
    command::{Change, Row},
    ledger::Ledger,
};

/// The depth of a task in the file.
const TASK_DEPTH: usize = 2;
/// The number of tasks that share the digest of a block.
const BLOCK: usize = 128;
/// The field of the root object that counts the writes.
const REVISION: &str = "revision";
/// The field of the root object that contains the seal. The seal does not cover itself.
const SEAL: &str = "seal";

/// The text of a ledger, task by task. A write changes only the text of changed tasks and keeps
/// unknown fields.
#[derive(Debug, Clone)]
pub struct Document {
    /// The root object, with a null in the place of the tasks.
    fields: Object,
    tasks: IndexMap<TaskId, Kept>,
    /// The known digests of blocks of tasks, in order. A write recomputes only the blocks whose
    /// tasks it changed.
    blocks: Vec<Option<Digest>>,
}

/// One task: its text, and the digest of the text once it was needed.
#[derive(Debug, Clone)]
struct Kept {
    text: Text,
    digest: Option<Digest>,
}

#[derive(Debug, Clone)]
enum Text {
    /// The text as it was read.
    Read(Box<str>),
    /// The text with our indentation.
    Written(Box<str>),
}

impl Text {
    fn json(&self) -> &str {
        match self {
            Self::Read(json) | Self::Written(json) => json,
        }
    }
}

impl Kept {
    fn written(json: String) -> Self {
        Self { text: Text::Written(json.into()), digest: None }
    }

    fn digest(&mut self) -> Digest {
        *self.digest.get_or_insert_with(|| state::digest(self.text.json()))
    }

    /// Indents text that another program wrote, and returns whether that changed it. A file of our
    /// own is indented already.
    fn settle(&mut self) -> bool {
        let Text::Read(json) = &mut self.text else { return false };
        let mut indented = String::with_capacity(json.len());
        pretty(json, TASK_DEPTH, &mut indented);
        let changed = indented != **json;
        if changed {
            *self = Self::written(indented);
        } else {
            self.text = Text::Written(std::mem::take(json));
        }
        changed
    }
}

impl Document {
    /// Returns the document of a file that does not exist yet.
    pub fn new(ledger: &Ledger) -> Self {
        let fields = patch::new_root();
        let mut document = Self { fields, tasks: IndexMap::new(), blocks: Vec::new() };
        for task in ledger.tasks() {
            let text = render(&patch::task(Object::default(), task));
            document.tasks.insert(task.id.clone(), Kept::written(text));
        }
        document
    }

    pub(super) fn read<'a>(fields: Object, tasks: impl Iterator<Item = (TaskId, &'a str)>) -> Self {
        let kept = |text: &str| Kept { text: Text::Read(text.into()), digest: None };
        let tasks = tasks.map(|(id, text)| (id, kept(text))).collect();
        Self { fields, tasks, blocks: Vec::new() }
    }

    /// Follows a change that was applied to the ledger.
    pub fn put_in(&mut self, change: &Change) {
        let dropped = change.rows.iter().filter(|r| matches!(r, Row::Drop(_))).count();
        if dropped > 0 && dropped == self.tasks.len() {
            self.tasks.clear();
            self.blocks.clear();
        }
        for row in &change.rows {
            match row {
                Row::Put(task) => {
                    let before = self.tasks.get(&task.id).map(|kept| kept.text.json());
                    let fields = before.and_then(|json| serde_json::from_str::<Object>(json).ok());
                    let json = render(&patch::task(fields.unwrap_or_default(), task));
                    let (at, _) = self.tasks.insert_full(task.id.clone(), Kept::written(json));
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

    /// Returns how many times this ledger was written; 0 if no harness that counts has written it.
    pub fn revision(&self) -> u64 {
        self.fields.read(REVISION).unwrap_or(0)
    }

    /// Sets the revision, to continue the count of another ledger.
    pub fn count_from(&mut self, revision: u64) {
        self.fields.put(REVISION, revision);
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

    pub(super) fn indent_tasks(&mut self) {
        for (at, kept) in self.tasks.values_mut().enumerate() {
            if kept.settle()
                && let Some(block) = self.blocks.get_mut(at / BLOCK)
            {
                *block = None;
            }
        }
    }

    /// Returns the digest of this version with its current text.
    pub fn state(&mut self) -> State {
        let head = self.head();
        self.blocks.resize(self.tasks.len().div_ceil(BLOCK), None);
        let tasks = &mut self.tasks;
        let blocks = self.blocks.iter_mut().enumerate().map(|(n, block)| {
            *block.get_or_insert_with(|| {
                let end = tasks.len().min((n + 1) * BLOCK);
                let rows = tasks.get_range_mut(n * BLOCK..end);
                state::block(rows.into_iter().flat_map(|rows| rows.values_mut()).map(Kept::digest))
            })
        });
        state::state(&head, blocks)
    }

    /// Returns whether this version was written with `key`.
    pub fn seal(&mut self, key: &Key) -> Seal {
        let Some(found) = self.fields.read::<String>(SEAL) else { return Seal::Missing };
        let state = self.state();
        if key.seal(&state) == found { Seal::Fits } else { Seal::Broken }
    }

    /// Returns the root object without its seal, on one line.
    pub(super) fn head(&self) -> String {
        let mut fields = self.fields.clone();
        fields.remove(SEAL);
        compact(&fields.json())
    }

    /// Returns the root object on one line.
    pub(super) fn root(&self) -> String {
        compact(&self.fields.json())
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&TaskId, &str)> {
        self.tasks.iter().map(|(id, kept)| (id, kept.text.json()))
    }

    /// Renders the whole file. Only the head is taken from `ledger`; the tasks are already here.
    pub fn render(&mut self, ledger: &Ledger) -> String {
        self.indent(ledger);
        self.text()
    }

    /// Returns the whole file in the form that [`settle`](Self::settle) left.
    pub fn text(&self) -> String {
        let size: usize = self.tasks.values().map(|t| t.text.json().len() + 8).sum();
        let mut out = String::with_capacity(size + 4096);
        out.push('{');
        for (n, (key, value)) in self.fields.iter().enumerate() {
            out.push_str(if n == 0 { "\n  " } else { ",\n  " });
            out.push_str(&Value::from(key).to_string());
            out.push_str(": ");
            if key == "tasks" {
                self.render_tasks(&mut out);
            } else {
                pretty(value, 1, &mut out);
            }
        }
        out.push_str("\n}\n");
        out
    }

    /// Returns the text of one task in the file.
    pub fn task(&self, id: &TaskId) -> Option<Cow<'_, str>> {
        self.tasks.get(id).map(|t| Cow::Borrowed(t.text.json()))
    }

    fn render_tasks(&self, out: &mut String) {
        if self.tasks.is_empty() {
            out.push_str("[]");
            return;
        }
        out.push('[');
        for (n, kept) in self.tasks.values().enumerate() {
            out.push_str(if n == 0 { "\n    " } else { ",\n    " });
            out.push_str(kept.text.json());
        }
        out.push_str("\n  ]");
    }
}

fn render(task: &Object) -> String {
    let mut out = String::new();
    pretty(&task.json(), TASK_DEPTH, &mut out);
    out
}
