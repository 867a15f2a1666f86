//! `prd.json`: user stories with acceptance criteria and `passes`.

use super::{
    ImportProblem, ImportProgress, Imported, ImportedTask, Mark, SourceText,
    json::{Object, Text},
    lines::{plain, validate_line},
    names::Names,
    outline::{paragraphs, reading},
};
use crate::task::TaskSource;

/// The field that says whether a story is done.
pub(super) const PASSES: &str = "passes";

pub(super) fn read(source: &SourceText) -> Result<Imported, ImportProblem> {
    let text = Text { path: &source.path, whole: &source.text };
    let document = text.object(text.value()?)?;
    if document.get("userStories").is_none() {
        return Err(document.problem("`userStories` is required, but missing"));
    }
    let mut stories = document.objects("userStories")?;
    // The lowest number is worked on first; the sort keeps the order of equal ones.
    let mut ranked = Vec::with_capacity(stories.len());
    for (n, story) in stories.drain(..).enumerate() {
        ranked.push((rank(&story)?, n, story));
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let goal = [document.text("description")?, document.text("project")?];
    let goal = goal.into_iter().find(|text| !text.trim().is_empty());
    let goal = plain(&goal.unwrap_or_else(|| source.path.clone()));
    let mut found = Imported { goal, ..Imported::default() };
    let mut names = Names::default();
    for (_, _, story) in &ranked {
        found.tasks.push(task(source, story, &mut names)?);
    }
    let branch = document.text("branchName")?;
    if !branch.trim().is_empty() {
        found.notes.push(format!(
            "{}: `branchName` {branch:?} is left out; harness works on the branch that is checked out",
            source.path
        ));
    }
    Ok(found)
}

/// Returns the number of a story among the others. One without a number comes last.
fn rank(story: &Object<'_>) -> Result<f64, ImportProblem> {
    let Some(name) = story.name("priority")? else { return Ok(f64::INFINITY) };
    let number = name.trim().parse().ok().filter(|n: &f64| n.is_finite());
    Ok(number.unwrap_or(f64::INFINITY))
}

fn task(
    source: &SourceText,
    story: &Object<'_>,
    names: &mut Names,
) -> Result<ImportedTask, ImportProblem> {
    let key = names.take(&story.required_name("id")?);
    let (title, description) = (story.required_text("title")?, story.text("description")?);
    let criteria = story.names("acceptanceCriteria")?;
    let listed = criteria.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n");
    let listed = match listed.as_str() {
        "" => String::new(),
        list => format!("Acceptance criteria:\n{list}"),
    };
    let notes = match story.text("notes")?.trim() {
        "" => String::new(),
        notes => format!("Notes: {notes}"),
    };
    let done = story.flag(PASSES)?;
    Ok(ImportedTask {
        source: TaskSource {
            kind: "prd".to_owned(),
            path: Some(source.path.clone()),
            key: key.clone(),
        },
        name: key,
        instructions: paragraphs([
            title.as_str(),
            &description,
            &listed,
            &notes,
            &reading(&source.beside),
        ]),
        title: plain(&title),
        check: validate_line(&criteria.join("\n")).or_else(|| validate_line(&notes)),
        priority: None,
        depends_on: story.names("dependsOn")?,
        progress: ImportProgress::of(done),
        marks: passes(story),
    })
}

/// Returns the change that sets `passes`.
pub(super) fn passes(of: &Object<'_>) -> Vec<Mark> {
    let is_set = of.get(PASSES).is_some_and(|value| value.get() == "true");
    let place = of.place(PASSES).filter(|_| !is_set);
    place.map(|place| Mark { place, with: "true" }).into_iter().collect()
}
