//! Plans and checklists.

use super::{Contents, check, is_done, validate};
use crate::Task;

pub(super) fn plan(contents: &Contents<'_>) -> String {
    let mut text = format!("# {}\n", contents.goal.replace(['\n', '\r'], " "));
    for (n, task) in contents.tasks.iter().enumerate() {
        text += &format!("\n### Task {}: {}\n", n + 1, title(task));
        if let Some(instructions) = &task.instructions {
            text += &format!("\n{}", quote(instructions, ""));
        }
        text += &format!("\n- [{}] {}\n", tick(task), title(task));
        if let Some(command) = check(task) {
            text += &format!("\nRun: `{command}`\nExpected: PASS\n");
        }
    }
    text
}

pub(super) fn checklist(contents: &Contents<'_>) -> String {
    let mut text = format!("# {}\n\n", contents.goal.replace(['\n', '\r'], " "));
    for task in &contents.tasks {
        text += &format!("- [{}] {}\n", tick(task), title(task));
        if let Some(instructions) = &task.instructions {
            text += &quote(instructions, "  ");
        }
        if let Some(line) = validate(task) {
            text += &format!("  {line}\n");
        }
    }
    text
}

fn tick(task: &Task) -> char {
    if is_done(task) { 'x' } else { ' ' }
}

fn title(task: &Task) -> String {
    let title = task.title.replace(['\n', '\r'], " ");
    match title.trim() {
        "" => task.id.to_string(),
        title => title.to_owned(),
    }
}

/// Quotes a text, so that its headings and boxes are not taken for those around it.
fn quote(text: &str, indent: &str) -> String {
    let line = |line: &str| format!("{indent}> {line}").trim_end().to_owned() + "\n";
    text.trim_end().lines().map(line).collect()
}
