//! Issues of beads, one JSON object per line. Epics are groups: their children get their text and
//! wait for what they wait for.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ImportChoice, ImportProblem, ImportProgress, Imported, ImportedTask, SourceText, circles,
    json::{Object, Text},
    lines::{lines, plain, validate_line},
    outline::{paragraphs, reading},
};
use crate::task::{Priority, TaskSource};

/// The priority of an issue that names none.
const MEDIUM: u64 = 2;
const CLOSED: &str = "closed";
/// The status of a deleted issue.
const TOMBSTONE: &str = "tombstone";

/// One issue, as far as it is of interest.
struct Issue {
    id: String,
    title: String,
    texts: Vec<String>,
    status: String,
    priority: u64,
    is_epic: bool,
    labels: Vec<String>,
    /// The issue that it is a child of.
    parent: Option<String>,
    waits_for: Vec<String>,
    /// Why it is not wanted.
    left_out: Option<&'static str>,
}

pub(super) fn read(source: &SourceText, choice: &ImportChoice) -> Result<Imported, ImportProblem> {
    let mut found = Imported { goal: "Issues of beads".to_owned(), ..Imported::default() };
    let issues = issues(source, &mut found.notes)?;
    let epics: BTreeMap<&str, &Issue> = issues
        .iter()
        .filter(|issue| issue.is_epic)
        .map(|issue| (issue.id.as_str(), issue))
        .collect();
    let wanted = |issue: &Issue| {
        let labelled = choice.label.as_ref().is_none_or(|label| issue.labels.contains(label));
        !issue.is_epic && issue.left_out.is_none() && labelled
    };
    let kept: BTreeSet<&str> =
        issues.iter().filter(|issue| wanted(issue)).map(|issue| issue.id.as_str()).collect();
    for issue in &issues {
        if let Some(why) = issue.left_out {
            found.notes.push(format!("{}: {why}, so it is not imported", issue.id));
        }
    }
    let by_id = issues.iter().map(|issue| (issue.id.as_str(), issue)).collect();
    let graph = Graph { issues: &issues, by_id: &by_id, epics: &epics, kept: &kept };
    for issue in issues.iter().filter(|issue| kept.contains(issue.id.as_str())) {
        let lost = graph.lost(issue);
        found.notes.extend(lost);
        found.tasks.push(task(source, issue, &graph));
    }
    let written = issues
        .iter()
        .flat_map(|issue| issue.waits_for.iter().map(|other| (issue.id.clone(), other.clone())));
    circles::open(&mut found, &written.collect());
    if !epics.is_empty() {
        let names: Vec<&str> = epics.keys().copied().collect();
        found.notes.push(format!("epics are groups and no tasks: {}", names.join(", ")));
    }
    Ok(found)
}

fn issues(source: &SourceText, notes: &mut Vec<String>) -> Result<Vec<Issue>, ImportProblem> {
    let text = Text { path: &source.path, whole: &source.text };
    let mut issues: Vec<Issue> = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(&source.text).filter(|line| !line.is_blank()) {
        let object = text.object(text.parse(line.text)?)?;
        if !matches!(object.text("_type")?.as_str(), "" | "issue") {
            continue;
        }
        let issue = issue(&object, notes)?;
        match seen.get(&issue.id) {
            // The file is a log of states: the last one counts.
            Some(at) => issues[*at] = issue,
            None => {
                seen.insert(issue.id.clone(), issues.len());
                issues.push(issue);
            }
        }
    }
    Ok(issues)
}

fn issue(of: &Object<'_>, notes: &mut Vec<String>) -> Result<Issue, ImportProblem> {
    let id = of.required_name("id")?;
    let status = of.text("status")?;
    let left_out = left_out(of, &status)?;
    if !matches!(
        status.as_str(),
        "" | "open"
            | "in_progress"
            | "blocked"
            | CLOSED
            | "hooked"
            | TOMBSTONE
            | "deferred"
            | "pinned"
    ) {
        notes.push(format!("{id}: unknown status {status:?}, read as open"));
    }
    let title = match left_out {
        Some(_) => of.text("title")?,
        None => of.required_text("title")?,
    };
    let (mut waits_for, mut parent) = (Vec::new(), of.name("parent")?);
    for dependency in of.objects("dependencies")? {
        // The issue is named in the dependency too; the wrong one would turn the arrow around.
        if dependency.name("issue_id")?.is_some_and(|own| own != id) {
            continue;
        }
        let other = dependency.required_name("depends_on_id")?;
        match dependency.text("type")?.as_str() {
            "" | "blocks" | "waits-for" | "waits_for" if waits_for.contains(&other) => {}
            "" | "blocks" | "waits-for" | "waits_for" => waits_for.push(other),
            "parent-child" | "parent_child" => parent = Some(other),
            "conditional-blocks" | "conditional_blocks" => notes.push(format!(
                "{id}: it runs only if {other} fails (conditional-blocks), which is left out"
            )),
            _ => {}
        }
    }
    let heading = |title: &str, text: String| {
        if text.trim().is_empty() { text } else { format!("{title}:\n{text}") }
    };
    let texts = vec![
        of.text("description")?,
        heading("Design", of.text("design")?),
        heading("Acceptance criteria", of.text("acceptance_criteria")?),
        heading("Notes", of.text("notes")?),
    ];
    let priority = of.name("priority")?.and_then(|n| n.parse().ok()).unwrap_or(MEDIUM);
    let is_epic = of.text("issue_type")? == "epic";
    let labels = of.names("labels")?;
    Ok(Issue { id, title, texts, status, priority, is_epic, labels, parent, waits_for, left_out })
}

/// Returns why an issue is no task.
fn left_out(of: &Object<'_>, status: &str) -> Result<Option<&'static str>, ImportProblem> {
    Ok(match (status, of.text("issue_type")?.as_str()) {
        (TOMBSTONE, _) => Some("it was deleted (tombstone)"),
        ("deferred", _) => Some("it is deferred"),
        ("pinned", _) => Some("it is pinned and not work"),
        (_, "message" | "event") => Some("it is a message"),
        (_, "gate") => Some("it is a gate that only beads can open"),
        _ if of.flag("pinned")? => Some("it is pinned and not work"),
        _ if of.flag("is_template")? => Some("it is a template"),
        _ if of.flag("ephemeral")? => Some("it is ephemeral"),
        _ => None,
    })
}

/// The issues, to follow their relations.
struct Graph<'a> {
    issues: &'a [Issue],
    by_id: &'a BTreeMap<&'a str, &'a Issue>,
    epics: &'a BTreeMap<&'a str, &'a Issue>,
    kept: &'a BTreeSet<&'a str>,
}

impl<'a> Graph<'a> {
    /// Returns the epics above an issue, the nearest one first.
    fn epics_above(&self, issue: &'a Issue) -> Vec<&'a Issue> {
        let mut above: Vec<&Issue> = Vec::new();
        let mut parent = issue.parent.as_deref();
        while let Some(epic) = parent.and_then(|id| self.epics.get(id)) {
            // Parents that are parents of each other end here.
            if above.iter().any(|known| known.id == epic.id) {
                break;
            }
            above.push(epic);
            parent = epic.parent.as_deref();
        }
        above
    }

    /// Returns the tasks that `name` stands for: itself, or everything below it if it is an epic.
    fn tasks_of(&self, name: &str) -> Vec<String> {
        if self.kept.contains(name) {
            return vec![name.to_owned()];
        }
        if !self.epics.contains_key(name) {
            return Vec::new();
        }
        let below = |issue: &&Issue| {
            self.kept.contains(issue.id.as_str())
                && self.epics_above(issue).iter().any(|epic| epic.id == name)
        };
        self.issues.iter().filter(below).map(|issue| issue.id.clone()).collect()
    }

    fn is_below(&self, name: &str, epic: &Issue) -> bool {
        let issue = self.by_id.get(name);
        issue.is_some_and(|issue| self.epics_above(issue).iter().any(|above| above.id == epic.id))
    }

    /// Names the open issues that an issue waits for and that are not imported.
    fn lost(&self, issue: &Issue) -> Vec<String> {
        let is_lost = |name: &&String| match self.by_id.get(name.as_str()) {
            None => true,
            Some(other) => {
                let is_open = !matches!(other.status.as_str(), CLOSED | TOMBSTONE);
                is_open && !other.is_epic && !self.kept.contains(other.id.as_str())
            }
        };
        let lost = issue.waits_for.iter().filter(is_lost);
        lost.map(|name| format!("{}: it waits for {name}, which is not imported", issue.id))
            .collect()
    }

    fn waits_for(&self, issue: &'a Issue) -> Vec<String> {
        let mut names: Vec<String> =
            issue.waits_for.iter().flat_map(|name| self.tasks_of(name)).collect();
        for epic in self.epics_above(issue) {
            let waits = epic.waits_for.iter().flat_map(|name| self.tasks_of(name));
            // Children of an epic that waits for all of them do not wait for each other.
            names.extend(waits.filter(|name| !self.is_below(name, epic)));
        }
        // A parent that is no epic blocks its children.
        let parent = issue.parent.as_deref().filter(|parent| !self.epics.contains_key(parent));
        names.extend(parent.into_iter().flat_map(|name| self.tasks_of(name)));
        let mut waits: Vec<String> = Vec::new();
        for name in names {
            if name != issue.id && !waits.contains(&name) {
                waits.push(name);
            }
        }
        waits
    }
}

fn task(source: &SourceText, issue: &Issue, graph: &Graph<'_>) -> ImportedTask {
    let above = graph.epics_above(issue);
    let epics = above.iter().map(|epic| {
        let about = epic.texts.first().map(String::as_str).unwrap_or_default();
        paragraphs([format!("It belongs to the epic {}: {}", epic.id, epic.title).as_str(), about])
    });
    let epics: Vec<String> = epics.collect();
    let labels = match issue.labels.is_empty() {
        true => String::new(),
        false => format!("Labels: {}", issue.labels.join(", ")),
    };
    let reading = reading(&source.beside);
    let texts = std::iter::once(issue.title.as_str())
        .chain(issue.texts.iter().map(String::as_str))
        .chain(epics.iter().map(String::as_str))
        .chain([labels.as_str(), reading.as_str()]);
    ImportedTask {
        source: TaskSource {
            kind: "beads".to_owned(),
            path: Some(source.path.clone()),
            key: issue.id.clone(),
        },
        name: issue.id.clone(),
        title: plain(&issue.title),
        instructions: paragraphs(texts),
        check: issue.texts.iter().find_map(|text| validate_line(text)),
        priority: Some(match issue.priority {
            0 | 1 => Priority::P0,
            MEDIUM => Priority::P1,
            _ => Priority::P2,
        }),
        depends_on: graph.waits_for(issue),
        progress: ImportProgress::of(issue.status == CLOSED),
        // `bd close` keeps its own records, so the file itself is never edited.
        marks: Vec::new(),
    }
}
