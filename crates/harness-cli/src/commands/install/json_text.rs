//! JSON as text: a change touches only the bytes that it concerns.
//!
//! Everything that is inserted can be removed again without a trace. The layout alone shows the
//! origin of a bracket. An existing empty one is filled without a blank (`{"a": 1}`). One that was
//! made here is followed by a blank or a new line. So an emptied bracket is removed if it was made
//! here, and stays otherwise.

use std::ops::Range;

use serde::Serialize;
use serde_json::{Value, ser::PrettyFormatter};

/// A document of one value, with the places of its parts.
#[derive(Debug, Clone)]
pub(super) struct JsonText {
    text: String,
    root: Node,
}

/// One step from a value to a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

#[derive(Debug, Clone)]
struct Node {
    span: Range<usize>,
    parts: Vec<Part>,
}

/// A member of an object or an element of an array.
#[derive(Debug, Clone)]
struct Part {
    /// The key of a member.
    key: Option<String>,
    /// The start of the key, or of the element.
    start: usize,
    node: Node,
}

/// Whether anything of the document is left.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Left {
    Something,
    /// All of it was made here.
    Nothing,
}

impl JsonText {
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        // This validates the text, so the reader below need not.
        serde_json::from_str::<Value>(text)?;
        let root = Reader { text, at: 0 }.value();
        Ok(Self { text: text.to_owned(), root })
    }

    /// Creates a new document.
    pub(super) fn made(value: &Value) -> Result<Self, serde_json::Error> {
        Self::parse(&format!("{}\n", laid_out(value, "  ")))
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn get(&self, path: &[Step<'_>]) -> Option<Value> {
        let node = self.find(path)?;
        serde_json::from_str(&self.text[node.span.clone()]).ok()
    }

    /// Adds a member at the end of the object at `path`, if there is one.
    pub(super) fn insert(&mut self, path: &[Step<'_>], key: &str, value: &Value) {
        self.append(path, &format!("{}: ", Value::from(key)), value);
    }

    /// Adds an element at the end of the array at `path`, if there is one.
    pub(super) fn push(&mut self, path: &[Step<'_>], value: &Value) {
        self.append(path, "", value);
    }

    /// Replaces the value at `path`, if there is one, with a string.
    pub(super) fn replace(&mut self, path: &[Step<'_>], value: &str) {
        if let Some(node) = self.find(path) {
            self.splice(node.span.clone(), &Value::from(value).to_string());
        }
    }

    /// Removes the value at `path`, and everything that was made to contain it.
    pub(super) fn remove(&mut self, path: &[Step<'_>]) -> Left {
        let Some((last, above)) = path.split_last() else { return Left::Nothing };
        let Some(holder) = self.find(above) else { return Left::Something };
        let Some(at) = holder.position(*last) else { return Left::Something };
        let inside = holder.span.start + 1;
        if holder.parts.len() == 1 && self.text[inside..].starts_with(char::is_whitespace) {
            return self.remove(above);
        }
        let part = &holder.parts[at];
        let from = match (at, holder.parts.get(at + 1)) {
            (0, None) => inside..part.node.span.end,
            (0, Some(next)) => part.start..next.start,
            _ => holder.parts[at - 1].node.span.end..part.node.span.end,
        };
        self.splice(from, "");
        Left::Something
    }

    fn find(&self, path: &[Step<'_>]) -> Option<&Node> {
        path.iter()
            .try_fold(&self.root, |node, step| node.position(*step).map(|at| &node.parts[at].node))
    }

    fn append(&mut self, path: &[Step<'_>], head: &str, value: &Value) {
        let Some(holder) = self.find(path) else { return };
        let Some(last) = holder.parts.last() else {
            let at = holder.span.start + 1;
            return self.splice(at..at, &format!("{head}{}", on_a_line(value)));
        };
        let before = self.blank_before(last.start);
        let (at, value) = (last.node.span.end, self.laid_out_after(before, value));
        let added = format!(",{}{head}{value}", separator(before));
        self.splice(at..at, &added);
    }

    /// Formats a value in the layout of a neighbour that has this text before it.
    fn laid_out_after(&self, before: &str, value: &Value) -> String {
        match before.rsplit_once('\n') {
            None => on_a_line(value),
            Some((_, indent)) => {
                let value = laid_out(value, self.unit());
                value.replace('\n', &format!("{}{indent}", new_line(before)))
            }
        }
    }

    /// Returns the indentation of a level, as the first one shows it.
    fn unit(&self) -> &str {
        let first = self.root.parts.first().map(|part| self.blank_before(part.start));
        let unit = first.and_then(|before| before.rsplit_once('\n')).map(|(_, unit)| unit);
        unit.filter(|unit| !unit.is_empty()).unwrap_or("  ")
    }

    fn blank_before(&self, at: usize) -> &str {
        let before = &self.text[..at];
        &before[before.trim_end().len()..]
    }

    fn splice(&mut self, span: Range<usize>, with: &str) {
        self.text.replace_range(span, with);
        self.root = Reader { text: &self.text, at: 0 }.value();
    }
}

impl Node {
    /// Of two members with one name the last one counts, as for every reader of JSON.
    fn position(&self, step: Step<'_>) -> Option<usize> {
        match step {
            Step::Key(key) => self.parts.iter().rposition(|part| part.key.as_deref() == Some(key)),
            Step::Index(at) => {
                (at < self.parts.len() && self.parts[at].key.is_none()).then_some(at)
            }
        }
    }
}

/// Returns the separator. A blank line between neighbours is an exception, but a new line is the
/// layout.
fn separator(before: &str) -> String {
    match before.rsplit_once('\n') {
        Some((_, indent)) => format!("{}{indent}", new_line(before)),
        None => before.to_owned(),
    }
}

fn new_line(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn laid_out(value: &Value, unit: &str) -> String {
    let mut bytes = Vec::new();
    let formatter = PrettyFormatter::with_indent(unit.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => on_a_line(value),
    }
}

/// Formats a value with the blanks that show the origin of the brackets.
fn on_a_line(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields: Vec<_> = fields
                .map(|(k, v)| format!("{}: {}", Value::from(k.as_str()), on_a_line(v)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(on_a_line).collect();
            format!("[ {} ]", elements.join(", "))
        }
        other => other.to_string(),
    }
}

/// Finds the places in a text that is known to be valid JSON, which also bounds its depth.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Node {
        self.skip(|byte| byte.is_ascii_whitespace());
        let start = self.at;
        let mut parts = Vec::new();
        match self.peek() {
            Some(b'{' | b'[') => self.parts(&mut parts),
            Some(b'"') => self.string(),
            _ => {
                self.skip(|byte| !matches!(byte, b',' | b']' | b'}') && !byte.is_ascii_whitespace())
            }
        }
        Node { span: start..self.at, parts }
    }

    fn parts(&mut self, parts: &mut Vec<Part>) {
        let is_object = self.peek() == Some(b'{');
        self.at += 1;
        loop {
            self.skip(|byte| byte.is_ascii_whitespace() || byte == b',');
            let start = self.at;
            match self.peek() {
                None => return,
                Some(b'}' | b']') => {
                    self.at += 1;
                    return;
                }
                Some(_) if is_object => {
                    self.string();
                    let key = serde_json::from_str(&self.text[start..self.at]).ok();
                    self.skip(|byte| byte.is_ascii_whitespace() || byte == b':');
                    parts.push(Part { key, start, node: self.value() });
                }
                Some(_) => parts.push(Part { key: None, start, node: self.value() }),
            }
        }
    }

    fn string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return;
            }
        }
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

#[cfg(test)]
pub(super) mod tests;
