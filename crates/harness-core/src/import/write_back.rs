//! Completions, written back into the text that the tasks came from.

use std::collections::BTreeSet;

use super::{ImportChoice, ImportKind, ImportProblem, ImportProgress, Mark, SourceText, read};

/// The result of [`write_back`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteBack {
    /// The new text; `None` if nothing has to change.
    pub text: Option<String>,
    /// The keys that the text calls done now and did not before.
    pub marked: Vec<String>,
    /// The keys that the text already called done.
    pub already: Vec<String>,
    /// The keys that the text does not have, or that have no place for it.
    pub without_place: Vec<String>,
}

/// Returns `source` with the tasks of these keys called done. Only the places of these tasks change,
/// and every other byte stays as it is.
pub fn write_back(
    kind: ImportKind,
    source: &SourceText,
    choice: &ImportChoice,
    keys: &BTreeSet<String>,
) -> Result<WriteBack, ImportProblem> {
    let found = read(kind, std::slice::from_ref(source), choice)?;
    let mut result = WriteBack {
        text: None,
        marked: Vec::new(),
        already: Vec::new(),
        without_place: Vec::new(),
    };
    let mut marks: Vec<Mark> = Vec::new();
    for key in keys {
        match found.tasks.iter().find(|task| task.source.key == *key) {
            Some(task) if task.progress == ImportProgress::Done => result.already.push(key.clone()),
            Some(task) if !task.marks.is_empty() => {
                marks.extend(task.marks.iter().cloned());
                result.marked.push(key.clone());
            }
            Some(_) | None => result.without_place.push(key.clone()),
        }
    }
    if !marks.is_empty() {
        result.text = Some(apply(&source.text, marks));
    }
    Ok(result)
}

/// Makes the changes from the last to the first, so that the places before stay valid.
fn apply(text: &str, mut marks: Vec<Mark>) -> String {
    marks.sort_by_key(|mark| mark.place.start);
    let mut changed = text.to_owned();
    for mark in marks.into_iter().rev() {
        if changed.get(mark.place.clone()).is_some() {
            changed.replace_range(mark.place, mark.with);
        }
    }
    changed
}
