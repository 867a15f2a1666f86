//! Distinct names for the tasks of an import.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::Imported;
use crate::TaskId;

/// The longest id of a task.
const ID_BYTES_MAX: usize = 64;
/// The length of the digest that makes a shortened name distinct.
const DIGEST_CHARS: usize = 6;

/// The names that are in use.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// Returns `wish`, or the first of `wish-2`, `wish-3` … that is free.
    pub(super) fn take(&mut self, wish: &str) -> String {
        let mut name = wish.to_owned();
        let mut n = 2_usize;
        while !self.0.insert(name.clone()) {
            name = format!("{wish}-{n}");
            n += 1;
        }
        name
    }

    /// Appends the tasks of one more text, whose names may be in use already.
    pub(super) fn join(&mut self, found: &mut Imported, mut part: Imported) {
        let mut renamed = BTreeMap::new();
        for task in &mut part.tasks {
            let name = self.take(&task.name);
            if name != task.name {
                renamed.insert(std::mem::replace(&mut task.name, name.clone()), name);
            }
        }
        for task in &mut part.tasks {
            for waited in &mut task.depends_on {
                if let Some(name) = renamed.get(waited) {
                    waited.clone_from(name);
                }
            }
        }
        if found.goal.is_empty() {
            found.goal = part.goal;
        } else if !part.goal.is_empty() && !found.goal.contains(&part.goal) {
            found.goal = format!("{}; {}", found.goal, part.goal);
        }
        found.tasks.append(&mut part.tasks);
        found.notes.append(&mut part.notes);
    }
}

/// Returns the id that is nearest to `wish`.
pub(super) fn task_id(wish: &str) -> TaskId {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let mut text: String = wish.chars().map(plain).collect();
    while text.contains("..") {
        text = text.replace("..", ".");
    }
    while text.contains("--") {
        text = text.replace("--", "-");
    }
    let trimmed = text.trim_start_matches(['.', '_', '-']).trim_end_matches(['.', '-']);
    let mut text = trimmed.strip_suffix(".lock").unwrap_or(trimmed).to_owned();
    if text.len() > ID_BYTES_MAX {
        text.truncate(ID_BYTES_MAX - DIGEST_CHARS - 1);
        let kept = text.trim_end_matches(['.', '-', '_']).len();
        text.truncate(kept);
        text = format!("{text}-{}", digest(wish, DIGEST_CHARS));
    }
    TaskId::parse(&text)
        .or_else(|_| TaskId::parse(&format!("t-{}", digest(wish, 12))))
        .unwrap_or_else(|_| TaskId::numbered(0))
}

/// Returns the first digits of a digest of `text`. White space at its ends, and the amount of it
/// between words, do not count.
pub(super) fn digest(text: &str, digits: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let hash = Sha256::digest(words.join(" ").as_bytes());
    let mut text: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    text
}

/// Returns the last part of a path without its ending.
pub(super) fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

/// Returns the name of the folder that holds the file at `path`.
pub(super) fn folder(path: &str) -> &str {
    let mut parts = path.rsplit('/');
    parts.next();
    parts.next().unwrap_or("tasks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_an_id() {
        let long = "a-very-long-name-of-a-change-that-nobody-would-type/and-more-of-it-1.1";
        for (wish, id) in [
            ("add-x-1.1", "add-x-1.1"),
            ("bd-a3f8.1", "bd-a3f8.1"),
            ("a b/c", "a-b-c"),
            ("..x..y.", "x.y"),
            ("x.lock", "x"),
            ("日本", "t-4e5c5ec1f3ba"),
        ] {
            let made = task_id(wish);
            if wish.is_ascii() {
                assert_eq!(made.as_str(), id);
            } else {
                assert!(made.as_str().starts_with("t-"), "{made}");
            }
        }
        let made = task_id(long);
        assert!(made.as_str().len() <= ID_BYTES_MAX, "{made}");
        assert_ne!(made, task_id(&long.replace("1.1", "1.2")));
    }

    #[test]
    fn a_name_is_given_once() {
        let mut names = Names::default();
        assert_eq!(names.take("a"), "a");
        assert_eq!(names.take("a"), "a-2");
        assert_eq!(names.take("a"), "a-3");
    }
}
