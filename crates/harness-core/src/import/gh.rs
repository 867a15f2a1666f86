//! Issues on GitHub, as `gh issue list --json` or the REST interface writes them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::{
    ImportChoice, ImportProblem, ImportProgress, Imported, ImportedTask, IssueRelationKind,
    SourceText, circles,
    json::{Object, Text},
    lines::{Fence, lines, plain, validate_line},
    outline::paragraphs,
};
use crate::task::{Priority, TaskSource};

struct Issue {
    number: u64,
    title: String,
    body: String,
    labels: Vec<String>,
    done: bool,
    parent: Option<u64>,
    parts: Vec<u64>,
    blocked_by: Vec<u64>,
}

pub(super) fn read(source: &SourceText, choice: &ImportChoice) -> Result<Imported, ImportProblem> {
    let text = Text { path: &source.path, whole: &source.text };
    let mut found = Imported { goal: format!("Issues of {}", source.path), ..Imported::default() };
    let mut issues: BTreeMap<u64, Issue> = BTreeMap::new();
    let mut pull_requests = 0_usize;
    for value in text.list(text.value()?)? {
        let object = text.object(value)?;
        if object.get("pull_request").is_some() {
            pull_requests += 1;
            continue;
        }
        let issue = issue(&object)?;
        issues.insert(issue.number, issue);
    }
    relate(source, &mut issues)?;
    let mut kept: BTreeSet<u64> = issues.keys().copied().collect();
    if let Some(label) = &choice.label {
        kept.retain(|number| issues[number].labels.contains(label));
    }
    let waits = waits(&issues);
    for number in &kept {
        let waits = waits.get(number).into_iter().flatten();
        let (waits, lost): (Vec<u64>, Vec<u64>) = waits.partition(|other| kept.contains(other));
        // An issue that was not listed is closed, or belongs to another repository.
        for other in lost.iter().filter(|other| issues.contains_key(other)) {
            found.notes.push(format!("gh-{number}: it waits for #{other}, which is not imported"));
        }
        let waits = waits.iter().map(|other| format!("gh-{other}")).collect();
        found.tasks.push(task(source, &issues[number], &issues, waits));
    }
    let written = issues.values().flat_map(|issue| {
        let waits = |other: &u64| (format!("gh-{}", issue.number), format!("gh-{other}"));
        issue.blocked_by.iter().map(waits)
    });
    circles::open(&mut found, &written.collect());
    if pull_requests > 0 {
        let plural = if pull_requests == 1 { "" } else { "s" };
        found.notes.push(format!("left out {pull_requests} pull request{plural}"));
    }
    Ok(found)
}

fn issue(of: &Object<'_>) -> Result<Issue, ImportProblem> {
    let mut labels = Vec::new();
    for label in of.objects("labels").or_else(|_| Ok::<_, ImportProblem>(Vec::new()))? {
        labels.push(label.required_text("name")?);
    }
    Ok(Issue {
        number: number(of)?,
        title: of.required_text("title")?,
        body: of.text("body")?.replace("\r\n", "\n"),
        labels,
        done: of.text("state")?.eq_ignore_ascii_case("closed"),
        parent: match of.get("parent") {
            Some(parent) => Some(number(&of.object(parent)?)?),
            None => of.text("parent_issue_url")?.rsplit('/').next().and_then(|n| n.parse().ok()),
        },
        parts: numbers(of, "subIssues")?,
        blocked_by: numbers(of, "blockedBy")?,
    })
}

fn number(of: &Object<'_>) -> Result<u64, ImportProblem> {
    let name = of.required_name("number")?;
    name.parse()
        .map_err(|_| of.problem(format!("`number`: {name:?} is not the number of an issue")))
}

/// Returns the numbers of issues in a list, or in the `nodes` of an object.
fn numbers(of: &Object<'_>, key: &str) -> Result<Vec<u64>, ImportProblem> {
    let Some(value) = of.get(key) else { return Ok(Vec::new()) };
    let nodes = match value.get().starts_with('[') {
        true => of.objects(key)?,
        false => of.object(value)?.objects("nodes")?,
    };
    nodes.iter().map(number).collect()
}

/// Adds the relations that were asked for one by one.
fn relate(source: &SourceText, issues: &mut BTreeMap<u64, Issue>) -> Result<(), ImportProblem> {
    for relation in &source.relations {
        let path = format!("{} (issue {})", source.path, relation.issue);
        let text = Text { path: &path, whole: &relation.text };
        let list: Vec<&RawValue> = text.list(text.value()?)?;
        let others: Vec<u64> =
            list.into_iter().map(|value| number(&text.object(value)?)).collect::<Result<_, _>>()?;
        let Some(issue) = issues.get_mut(&relation.issue) else { continue };
        match relation.kind {
            IssueRelationKind::SubIssues => issue.parts.extend(others),
            IssueRelationKind::BlockedBy => issue.blocked_by.extend(others),
        }
    }
    Ok(())
}

/// Returns what each issue waits for: those that block it, and its parts.
fn waits(issues: &BTreeMap<u64, Issue>) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut waits: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for issue in issues.values() {
        let own = waits.entry(issue.number).or_default();
        own.extend(issue.blocked_by.iter().chain(&issue.parts).copied());
        own.remove(&issue.number);
        if let Some(parent) = issue.parent.filter(|parent| *parent != issue.number) {
            waits.entry(parent).or_default().insert(issue.number);
        }
    }
    waits
}

fn task(
    source: &SourceText,
    issue: &Issue,
    issues: &BTreeMap<u64, Issue>,
    depends_on: Vec<String>,
) -> ImportedTask {
    let number = issue.number;
    let origin = format!("It is issue #{number} of {}.", source.path);
    let parent = issue.parent.and_then(|parent| issues.get(&parent));
    let parent = parent.map(|of| format!("It is a part of #{}: {}", of.number, of.title));
    let labels = match issue.labels.is_empty() {
        true => String::new(),
        false => format!("Labels: {}", issue.labels.join(", ")),
    };
    let parent = parent.unwrap_or_default();
    ImportedTask {
        source: TaskSource {
            kind: "gh".to_owned(),
            path: Some(source.path.clone()),
            key: number.to_string(),
        },
        name: format!("gh-{number}"),
        title: plain(&issue.title),
        instructions: paragraphs(
            [&issue.title, &issue.body, &parent, &labels, &origin].map(String::as_str),
        ),
        check: block(&issue.body).or_else(|| validate_line(&issue.body)),
        priority: issue.labels.iter().find_map(|label| priority(label)),
        depends_on,
        progress: ImportProgress::of(issue.done),
        // The service is asked to close it.
        marks: Vec::new(),
    }
}

fn priority(label: &str) -> Option<Priority> {
    match label.to_ascii_lowercase().as_str() {
        "p0" | "priority: critical" | "priority: high" => Some(Priority::P0),
        "p1" | "priority: medium" => Some(Priority::P1),
        "p2" | "priority: low" => Some(Priority::P2),
        _ => None,
    }
}

/// Returns the text of the first fenced block whose language is `harness`.
fn block(body: &str) -> Option<String> {
    let mut fence = Fence::default();
    let mut text: Option<Vec<&str>> = None;
    let mut was_inside = false;
    for line in lines(body) {
        let inside = fence.takes(&line);
        let begins = inside && !was_inside;
        let language = line.text.trim().trim_start_matches(['`', '~']).trim();
        match &mut text {
            None if begins && language == "harness" => text = Some(Vec::new()),
            None => {}
            Some(found) if inside && !fence.is_open() => {
                let command = found.join("\n").trim().to_owned();
                return (!command.is_empty()).then_some(command);
            }
            Some(found) => found.push(line.text),
        }
        was_inside = inside && fence.is_open();
    }
    None
}
