//! `tasks.json` of Task Master: tasks with subtasks, below tags or alone.

use std::collections::BTreeSet;

use super::{
    ImportChoice, ImportProblem, ImportProgress, Imported, ImportedTask, Mark, SourceText,
    circles::{self, Wait},
    json::{Object, Text},
    lines::{plain, validate_line},
    names::Names,
    outline::{paragraphs, reading},
};
use crate::task::{Priority, TaskSource};

/// The tag of files that have one tag only.
const MASTER: &str = "master";
const STATUS: &str = "status";

pub(super) fn read(source: &SourceText, choice: &ImportChoice) -> Result<Imported, ImportProblem> {
    let text = Text { path: &source.path, whole: &source.text };
    let document = text.object(text.value()?)?;
    let (tag, of) = tagged(text, document, choice)?;
    let mut found = Imported { goal: format!("Task Master: {tag}"), ..Imported::default() };
    let mut importer = Importer {
        source,
        tag: &tag,
        found: &mut found,
        keys: Names::default(),
        left_out: BTreeSet::new(),
        written: BTreeSet::new(),
    };
    for task in of.objects("tasks")? {
        importer.top_level(&task)?;
    }
    let Importer { left_out, written, .. } = importer;
    forget(&mut found, &left_out);
    circles::open(&mut found, &written);
    Ok(found)
}

/// Returns the object with `tasks`, and its tag.
fn tagged<'a>(
    text: Text<'a>,
    document: Object<'a>,
    choice: &ImportChoice,
) -> Result<(String, Object<'a>), ImportProblem> {
    let is_list = |of: &Object<'_>| of.get("tasks").is_some_and(|v| v.get().starts_with('['));
    if is_list(&document) {
        return match choice.tag.as_deref() {
            None | Some(MASTER) => Ok((MASTER.to_owned(), document)),
            Some(tag) => Err(document.problem(format!("the file has no tags, and so no {tag:?}"))),
        };
    }
    let mut tags = Vec::new();
    for (tag, value) in document.keys() {
        if let Ok(of) = text.object(value)
            && is_list(&of)
        {
            tags.push((tag.to_owned(), of));
        }
    }
    let names: Vec<String> = tags.iter().map(|(tag, _)| tag.clone()).collect();
    let current = choice.current_tag.as_deref().filter(|tag| names.iter().any(|name| name == tag));
    let wanted = choice.tag.as_deref().or(current).unwrap_or(MASTER);
    let only = names.len() == 1 && choice.tag.is_none();
    let chosen = tags.into_iter().find(|(tag, _)| only || tag == wanted);
    chosen.ok_or_else(|| match names.is_empty() {
        true => document.problem("expected `tasks`, or tags with `tasks`"),
        false => document.problem(format!("no tag {wanted:?}; the tags are {}", names.join(", "))),
    })
}

struct Importer<'a> {
    source: &'a SourceText,
    tag: &'a str,
    found: &'a mut Imported,
    /// The ids so far, because a file may have one twice.
    keys: Names,
    /// The names of tasks that are not imported.
    left_out: BTreeSet<String>,
    /// The waits that tasks and subtasks name themselves.
    written: BTreeSet<Wait>,
}

/// The meaning of a status.
enum Standing {
    Of(ImportProgress),
    NotWanted,
}

impl Importer<'_> {
    fn name(&self, id: &str) -> String {
        let prefix = if self.tag == MASTER { "tm" } else { self.tag };
        format!("{prefix}-{id}")
    }

    fn write(&mut self, key: &str, waits: &[String]) {
        let name = self.name(key);
        self.written.extend(waits.iter().map(|other| (name.clone(), other.clone())));
    }

    fn top_level(&mut self, task: &Object<'_>) -> Result<(), ImportProblem> {
        let id = task.required_name("id")?;
        let depends_on: Vec<String> =
            task.names("dependencies")?.iter().map(|id| self.name(id)).collect();
        self.write(&id, &depends_on);
        let subtasks = task.objects("subtasks")?;
        let Some(mut parent) = self.task(task, id.clone(), depends_on.clone(), None)? else {
            for subtask in &subtasks {
                let number = subtask.required_name("id")?;
                let own = self.name(&format!("{id}.{number}"));
                self.left_out.insert(own);
            }
            return Ok(());
        };
        for subtask in &subtasks {
            let number = subtask.required_name("id")?;
            let own = if number.contains('.') { number } else { format!("{id}.{number}") };
            let relative = |other: &String| {
                if other.contains('.') { other.clone() } else { format!("{id}.{other}") }
            };
            let waits = subtask.names("dependencies")?;
            let mut waits: Vec<String> = waits.iter().map(|o| self.name(&relative(o))).collect();
            self.write(&own, &waits);
            waits.extend(depends_on.iter().cloned());
            if let Some(of) = self.task(subtask, own, waits, Some(&parent))? {
                parent.depends_on.push(of.name.clone());
                self.found.tasks.push(of);
            }
        }
        self.found.tasks.push(parent);
        Ok(())
    }

    fn task(
        &mut self,
        of: &Object<'_>,
        id: String,
        depends_on: Vec<String>,
        parent: Option<&ImportedTask>,
    ) -> Result<Option<ImportedTask>, ImportProblem> {
        let key = self.keys.take(&id);
        let name = self.name(&key);
        if key != id {
            self.found.notes.push(format!("{name}: the id {id} is there more than once"));
        }
        let status = of.text(STATUS)?;
        let progress = match self.standing(&key, &status) {
            Standing::Of(progress) => progress,
            Standing::NotWanted => {
                self.found.notes.push(format!("{name}: it is {status}, so it is not imported"));
                self.left_out.insert(name);
                return Ok(None);
            }
        };
        let title = of.required_text("title")?;
        let [description, details, test] =
            [of.text("description")?, of.text("details")?, of.text("testStrategy")?];
        let check = validate_line(&test).or_else(|| validate_line(&details));
        let test = if test.trim().is_empty() { test } else { format!("How to test it: {test}") };
        let part = parent.map(|of| format!("It is a part of: {}", of.title)).unwrap_or_default();
        let priority = priority(&of.text("priority")?);
        let texts =
            [title.as_str(), &description, &details, &test, &part, &reading(&self.source.beside)];
        let is_open = progress == ImportProgress::Open;
        let place = of.place(STATUS).filter(|_| is_open);
        let path = match self.tag {
            MASTER => self.source.path.clone(),
            tag => format!("{}#{tag}", self.source.path),
        };
        Ok(Some(ImportedTask {
            source: TaskSource { kind: "taskmaster".to_owned(), path: Some(path), key },
            name,
            instructions: paragraphs(texts),
            title: plain(&title),
            check,
            priority: priority.or_else(|| parent?.priority.clone()),
            depends_on,
            progress,
            marks: place.map(|place| Mark { place, with: "\"done\"" }).into_iter().collect(),
        }))
    }

    fn standing(&mut self, key: &str, status: &str) -> Standing {
        match status {
            "done" | "completed" => Standing::Of(ImportProgress::Done),
            "cancelled" | "canceled" | "deferred" => Standing::NotWanted,
            "" | "pending" | "in-progress" | "in_progress" | "review" | "blocked" => {
                Standing::Of(ImportProgress::Open)
            }
            other => {
                let name = self.name(key);
                self.found.notes.push(format!("{name}: unknown status {other:?}, read as pending"));
                Standing::Of(ImportProgress::Open)
            }
        }
    }
}

fn priority(word: &str) -> Option<Priority> {
    match word {
        "critical" | "high" => Some(Priority::P0),
        "medium" => Some(Priority::P1),
        "low" => Some(Priority::P2),
        _ => None,
    }
}

/// Removes waits for tasks that were left out on purpose.
fn forget(found: &mut Imported, left_out: &BTreeSet<String>) {
    for task in &mut found.tasks {
        task.depends_on.retain(|name| !left_out.contains(name));
    }
}
