//! `feature_list.json`: features in a list, or in an object as `features`. They have no ids, so a
//! feature is recognized by its description.

use super::{
    ImportProblem, ImportProgress, Imported, ImportedTask, SourceText,
    json::{Object, Text},
    lines::{plain, validate_line},
    names::{Names, digest},
    outline::{paragraphs, reading},
    prd::{PASSES, passes},
};
use crate::task::TaskSource;

pub(super) fn read(source: &SourceText) -> Result<Imported, ImportProblem> {
    let text = Text { path: &source.path, whole: &source.text };
    let value = text.value()?;
    let (features, goal) = if value.get().starts_with('[') {
        let list = text.list(value)?.into_iter();
        (list.map(|value| text.object(value)).collect::<Result<Vec<_>, _>>()?, String::new())
    } else {
        let document = text.object(value)?;
        if document.get("features").is_none() {
            return Err(
                document.problem("expected a list of features, or an object with `features`")
            );
        }
        let goal = [document.text("description")?, document.text("project")?];
        let goal = goal.into_iter().find(|text| !text.trim().is_empty());
        (document.objects("features")?, goal.unwrap_or_default())
    };
    let goal = if goal.is_empty() { source.path.clone() } else { plain(&goal) };
    let mut found = Imported { goal, ..Imported::default() };
    let mut keys = Names::default();
    for (n, feature) in features.iter().enumerate() {
        found.tasks.push(task(source, feature, n + 1, &mut keys)?);
    }
    Ok(found)
}

fn task(
    source: &SourceText,
    feature: &Object<'_>,
    number: usize,
    keys: &mut Names,
) -> Result<ImportedTask, ImportProblem> {
    let description = feature.required_text("description")?;
    let steps = feature.names("steps")?;
    let category = match feature.text("category")?.trim() {
        "" => String::new(),
        category => format!("Category: {category}"),
    };
    let list = steps.join("\n");
    let list = if list.is_empty() { list } else { format!("How to verify it:\n{list}") };
    Ok(ImportedTask {
        source: TaskSource {
            kind: "features".to_owned(),
            path: Some(source.path.clone()),
            key: keys.take(&digest(&description, 12)),
        },
        name: format!("feature-{number:03}"),
        instructions: paragraphs([
            description.as_str(),
            &list,
            &category,
            &reading(&source.beside),
        ]),
        title: plain(&description),
        check: validate_line(&steps.join("\n")),
        priority: None,
        depends_on: Vec::new(),
        progress: ImportProgress::of(feature.flag(PASSES)?),
        marks: passes(feature),
    })
}
