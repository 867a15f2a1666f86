//! `specs/<feature>/tasks.md`: phases with items `T012 [P] [US1] text`. Items with `[P]` wait only
//! for the last item without it. The phases of stories run side by side, after the phases before
//! them and before those after them.

use std::collections::BTreeSet;

use super::{
    Imported, ImportedTask, SourceText,
    circles::{self, Wait},
    lines::{Bullets, Fence, Line, heading, lines, plain, validate_line},
    names::{Names, folder},
    outline::{Item, Items, paragraphs, reading},
};
use crate::task::TaskSource;

/// A placeholder of the template.
const PLACEHOLDER: &str = "TXXX";

#[derive(Default)]
struct Phase<'a> {
    title: &'a str,
    /// The paragraphs `**Goal**: …` below the heading.
    about: Vec<&'a str>,
    items: Items<'a>,
}

/// The parts of an item.
struct Labels<'a> {
    id: &'a str,
    parallel: bool,
    story: Option<&'a str>,
    text: &'a str,
}

pub(super) fn read(source: &SourceText) -> Imported {
    let feature = folder(&source.path);
    let mut found = Imported { goal: format!("Spec Kit: {feature}"), ..Imported::default() };
    let phases = phases(&source.text, &mut found.goal);
    let mut names = Names::default();
    let mut written = BTreeSet::new();
    // The last tasks of the phases that everything later waits for, and those of stories since.
    let (mut barrier, mut stories): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for phase in &phases {
        let mut part = tasks(source, feature, phase, &mut names, &mut found.notes);
        let is_story = part.is_story || phase.title.to_ascii_lowercase().contains("user story");
        if !is_story && !stories.is_empty() {
            barrier = std::mem::take(&mut stories);
        }
        part.after(&barrier);
        let ends = part.ends();
        if is_story {
            stories.extend(ends);
        } else if !part.tasks.is_empty() {
            barrier = ends;
        }
        found.tasks.append(&mut part.tasks);
        written.append(&mut part.written);
    }
    drop_unknown(&mut found);
    circles::open(&mut found, &written);
    found
}

fn phases<'a>(text: &'a str, goal: &mut String) -> Vec<Phase<'a>> {
    let (mut fence, mut comment) = (Fence::default(), false);
    let mut phases = vec![Phase::default()];
    for line in lines(text) {
        if in_comment(&line, &mut comment) || fence.takes(&line) {
            continue;
        }
        let Some(phase) = phases.last_mut() else { break };
        match heading(&line) {
            Some(found) if found.level == 2 => {
                phases.push(Phase { title: found.text, ..Phase::default() });
            }
            Some(found) => {
                phase.items.close();
                if let Some(name) = found.text.strip_prefix("Tasks:").filter(|_| found.level == 1) {
                    *goal = plain(name);
                }
            }
            None => {
                let is_item = phase.items.takes(&line, Bullets::Dashes);
                let body = line.text.trim();
                if !is_item && phase.items.list.is_empty() && body.starts_with("**") {
                    phase.about.push(body);
                }
            }
        }
    }
    phases
}

/// Returns whether a line is inside of an HTML comment, including its ends.
fn in_comment(line: &Line<'_>, open: &mut bool) -> bool {
    let body = line.text.trim_start();
    let begins = !*open && body.starts_with("<!--");
    let was_open = *open || begins;
    let last = |mark: &str| line.text.rfind(mark);
    match (last("<!--"), last("-->")) {
        (Some(begin), Some(end)) => *open = begin > end,
        (Some(_), None) => *open = true,
        (None, Some(_)) => *open = false,
        (None, None) => {}
    }
    was_open
}

/// The tasks of one phase.
#[derive(Default)]
struct Part {
    tasks: Vec<ImportedTask>,
    is_story: bool,
    /// The number of tasks of the phase that each task waits for by its place.
    waits: Vec<usize>,
    /// The waits that items name.
    written: BTreeSet<Wait>,
}

impl Part {
    /// Lets the tasks that wait for none of the phase wait for `barrier`.
    fn after(&mut self, barrier: &[String]) {
        for (task, waits) in self.tasks.iter_mut().zip(&self.waits) {
            if *waits == 0 {
                task.depends_on.extend(barrier.iter().cloned());
            }
        }
    }

    /// Returns the tasks that no other of the phase waits for.
    fn ends(&self) -> Vec<String> {
        let waited: BTreeSet<&String> =
            self.tasks.iter().flat_map(|task| &task.depends_on).collect();
        let names = self.tasks.iter().map(|task| &task.name);
        names.filter(|name| !waited.contains(name)).cloned().collect()
    }
}

fn tasks(
    source: &SourceText,
    feature: &str,
    phase: &Phase<'_>,
    names: &mut Names,
    notes: &mut Vec<String>,
) -> Part {
    let mut part = Part::default();
    // The last item without `[P]`, and the items with it since.
    let (mut last, mut side): (Option<String>, Vec<String>) = (None, Vec::new());
    for item in &phase.items.list {
        let Some(labels) = labels(item) else {
            let text: String = item.found.text.chars().take(40).collect();
            notes.push(format!("{}: {text:?} has no number and is left out", source.path));
            continue;
        };
        if labels.id == PLACEHOLDER {
            continue;
        }
        let key = names.take(labels.id);
        let name = format!("{feature}-{key}");
        let mut depends_on: Vec<String> = match labels.parallel {
            true => last.iter().cloned().collect(),
            false if side.is_empty() => last.iter().cloned().collect(),
            false => side.clone(),
        };
        part.waits.push(depends_on.len());
        for id in depends_explicitly(labels.text) {
            let waited = format!("{feature}-{id}");
            part.written.insert((name.clone(), waited.clone()));
            if waited != name && !depends_on.contains(&waited) {
                depends_on.push(waited);
            }
        }
        if labels.parallel {
            side.push(name.clone());
        } else {
            last = Some(name.clone());
            side.clear();
        }
        part.is_story |= labels.story.is_some();
        let about = About { source, phase, key: &key, labels: &labels, item };
        part.tasks.push(about.task(name, depends_on));
    }
    part
}

struct About<'a> {
    source: &'a SourceText,
    phase: &'a Phase<'a>,
    key: &'a str,
    labels: &'a Labels<'a>,
    item: &'a Item<'a>,
}

impl About<'_> {
    fn task(&self, name: String, depends_on: Vec<String>) -> ImportedTask {
        let (title, details) = (plain(self.labels.text), self.item.details());
        let story = self.labels.story.map(|story| format!(" ({story})")).unwrap_or_default();
        let phase = match self.phase.title {
            "" => String::new(),
            phase => format!(" of {phase:?}"),
        };
        let origin = format!("Task {}{story}{phase} in {}.", self.key, self.source.path);
        let about = self.phase.about.join("\n");
        let reading = reading(&self.source.beside);
        ImportedTask {
            source: TaskSource {
                kind: "speckit".to_owned(),
                path: Some(self.source.path.clone()),
                key: self.key.to_owned(),
            },
            name,
            instructions: paragraphs([title.as_str(), &details, &origin, &about, &reading]),
            title,
            check: validate_line(&details),
            priority: None,
            depends_on,
            progress: self.item.progress(),
            marks: self.item.marks(),
        }
    }
}

/// Reads `T012 [P] [US1] text`.
fn labels<'a>(item: &Item<'a>) -> Option<Labels<'a>> {
    let text = item.found.text.trim_start_matches('*');
    let (id, mut rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let id = id.trim_end_matches(['*', ':', '.']);
    let number = id.strip_prefix('T')?;
    let plausible = !number.is_empty() && number.bytes().all(|b| b.is_ascii_alphanumeric());
    if !plausible || !(number.as_bytes()[0].is_ascii_digit() || id == PLACEHOLDER) {
        return None;
    }
    let (mut parallel, mut story) = (false, None);
    loop {
        rest = rest.trim_start();
        let Some((label, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) else {
            break;
        };
        if label.eq_ignore_ascii_case("p") {
            parallel = true;
        } else if label.starts_with("US") || label.starts_with("Story") {
            story = Some(label);
        } else {
            break;
        }
        rest = after;
    }
    (!rest.is_empty()).then_some(Labels { id, parallel, story, text: rest })
}

/// Returns the ids in `(depends on T010, T011)`.
fn depends_explicitly(text: &str) -> Vec<String> {
    const PHRASES: [&str; 2] = ["depends on ", "requires "];
    let lower = text.to_ascii_lowercase();
    let mut ids = Vec::new();
    for (at, _) in lower.match_indices('(') {
        let Some(inner) = text.get(at + 1..) else { continue };
        let inner = inner.split(')').next().unwrap_or_default();
        let inside = inner.to_ascii_lowercase();
        let Some(phrase) = PHRASES.iter().find(|phrase| inside.starts_with(**phrase)) else {
            continue;
        };
        let words = inner[phrase.len()..].split(|c: char| !c.is_ascii_alphanumeric());
        let is_id = |word: &&str| {
            let number = word.strip_prefix('T').unwrap_or_default();
            !number.is_empty() && number.bytes().next().is_some_and(|b| b.is_ascii_digit())
        };
        ids.extend(words.filter(is_id).map(str::to_owned));
    }
    ids
}

/// Removes waits for items that are not there, and says so.
fn drop_unknown(found: &mut Imported) {
    let names: BTreeSet<String> = found.tasks.iter().map(|task| task.name.clone()).collect();
    for task in &mut found.tasks {
        for missing in task.depends_on.extract_if(.., |name| !names.contains(name)) {
            let name = &task.name;
            found.notes.push(format!("{name}: it depends on {missing}, which is not there"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_waits_are_read_in_any_case() {
        assert_eq!(depends_explicitly("Add it (depends on T010, T011)"), ["T010", "T011"]);
        assert_eq!(depends_explicitly("Add it (Depends on T1 and T2) (x)"), ["T1", "T2"]);
        assert!(depends_explicitly("Add it (depends on nothing) T1").is_empty());
    }
}
