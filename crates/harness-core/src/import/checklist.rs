//! Any Markdown list with boxes: the items in their order, and those below an item as its parts.

use super::{
    Imported, ImportedTask, SourceText,
    lines::{Bullets, Fence, heading, lines, plain, validate_line},
    names::{Names, digest, stem},
    outline::{Items, nest, no_text, paragraphs, parents, reading},
};
use crate::task::TaskSource;

pub(super) fn read(source: &SourceText) -> Imported {
    let mut fence = Fence::default();
    let mut items = Items::default();
    let mut sections: Vec<&str> = Vec::new();
    let (mut goal, mut section) = ("", "");
    for line in lines(&source.text) {
        if fence.takes(&line) {
            continue;
        }
        if let Some(found) = heading(&line) {
            items.close();
            section = found.text;
            if goal.is_empty() && found.level == 1 {
                (goal, section) = (found.text, "");
            }
        } else if items.takes(&line, Bullets::All) {
            sections.push(section);
        }
    }
    let goal = if goal.is_empty() { source.path.as_str() } else { goal };
    let mut found = Imported { goal: plain(goal), ..Imported::default() };
    let (mut keys, mut indents, mut empty) = (Names::default(), Vec::new(), 0);
    for (n, (item, section)) in items.list.iter().zip(&sections).enumerate() {
        let title = plain(item.found.text);
        if title.is_empty() {
            empty += 1;
            continue;
        }
        let details = item.details();
        let origin = match *section {
            "" => String::new(),
            section => format!("It stands below {section:?} in {}.", source.path),
        };
        indents.push(item.found.indent);
        found.tasks.push(ImportedTask {
            source: TaskSource {
                kind: "checklist".to_owned(),
                path: Some(source.path.clone()),
                key: keys.take(&digest(&title, 12)),
            },
            name: format!("{}-{}", stem(&source.path), n + 1),
            instructions: paragraphs([title.as_str(), &details, &origin, &reading(&source.beside)]),
            title,
            check: validate_line(&details),
            priority: None,
            depends_on: Vec::new(),
            progress: item.progress(),
            marks: item.marks(),
        });
    }
    if empty > 0 {
        found.notes.push(no_text(source, empty));
    }
    nest(&mut found.tasks, &parents(&indents));
    found
}
