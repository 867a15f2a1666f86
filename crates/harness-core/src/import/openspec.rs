//! `openspec/changes/<id>/tasks.md`: groups with numbered items. The tool counts every line with a
//! box, also inside of fences and below other items, so this does too.

use super::{
    Imported, ImportedTask, SourceText,
    lines::{Bullets, backticked, heading, lines, plain, validate_line},
    names::{Names, digest, folder},
    outline::{Items, nest, no_text, paragraphs, parents, reading},
};
use crate::task::TaskSource;

/// Programs that build or test. A text in backticks that begins with one of them is a command.
const PROGRAMS: &[&str] = &[
    "bash", "bazel", "bun", "bundle", "cargo", "cmake", "composer", "ctest", "deno", "dotnet",
    "eslint", "go", "gradle", "jest", "just", "make", "mix", "mvn", "mypy", "node", "npm", "npx",
    "php", "phpunit", "pnpm", "poetry", "pytest", "python", "python3", "rake", "rspec", "ruff",
    "sbt", "sh", "swift", "task", "tox", "tsc", "uv", "vitest", "yarn", "zig",
];
/// Those that prove something without an argument.
const ALONE: &[&str] =
    &["ctest", "jest", "make", "mypy", "phpunit", "pytest", "rspec", "tox", "tsc", "vitest"];
/// Second words of commands that prove nothing.
const NO_PROOF: &[&str] = &[
    "add",
    "create",
    "i",
    "init",
    "install",
    "login",
    "new",
    "publish",
    "remove",
    "uninstall",
    "update",
    "upgrade",
];

struct Group<'a> {
    title: &'a str,
    items: Items<'a>,
}

pub(super) fn read(source: &SourceText) -> Imported {
    let change = folder(&source.path);
    let mut groups = vec![Group { title: "", items: Items::default() }];
    for line in lines(&source.text) {
        if let Some(found) = heading(&line).filter(|found| found.level == 2) {
            groups.push(Group { title: found.text, items: Items::default() });
        } else if let Some(group) = groups.last_mut() {
            if heading(&line).is_some() {
                group.items.close();
            }
            group.items.takes(&line, Bullets::Dashes);
        }
    }
    let mut found = Imported { goal: format!("OpenSpec: {change}"), ..Imported::default() };
    let mut names = Names::default();
    let mut before: Vec<String> = Vec::new();
    let mut empty = 0;
    for group in &groups {
        let (mut tasks, without_text) = tasks(source, change, group, &mut names);
        empty += without_text;
        let indents: Vec<usize> = items(group).map(|item| item.found.indent).collect();
        let top = nest(&mut tasks, &parents(&indents));
        for task in &mut tasks {
            task.depends_on.extend(before.iter().cloned());
        }
        if !tasks.is_empty() {
            before = top.into_iter().map(|n| tasks[n].name.clone()).collect();
        }
        found.tasks.append(&mut tasks);
    }
    if empty > 0 {
        found.notes.push(no_text(source, empty));
    }
    found
}

fn items<'a, 'b>(group: &'b Group<'a>) -> impl Iterator<Item = &'b super::outline::Item<'a>> {
    group.items.list.iter().filter(|item| !item.found.text.is_empty())
}

fn tasks(
    source: &SourceText,
    change: &str,
    group: &Group<'_>,
    names: &mut Names,
) -> (Vec<ImportedTask>, usize) {
    let mut tasks = Vec::new();
    for item in items(group) {
        let text = plain(item.found.text);
        let (number, title) = numbered(&text);
        let wish = match number {
            Some(number) => number.to_owned(),
            None => format!("item-{}", digest(title, 8)),
        };
        let key = names.take(&wish);
        let (details, reading) = (item.details(), reading(&source.beside));
        let group = match group.title {
            "" => String::new(),
            title => format!(", group {title:?}"),
        };
        let origin = format!("Item {key} of the OpenSpec change {change:?}{group}.");
        tasks.push(ImportedTask {
            source: TaskSource {
                kind: "openspec".to_owned(),
                path: Some(source.path.clone()),
                key: key.clone(),
            },
            name: format!("{change}-{key}"),
            title: title.to_owned(),
            instructions: paragraphs([text.as_str(), &details, &origin, &reading]),
            check: validate_line(&details).or_else(|| offered(item.found.text)),
            priority: None,
            depends_on: Vec::new(),
            progress: item.progress(),
            marks: item.marks(),
        });
    }
    let empty = group.items.list.len() - tasks.len();
    (tasks, empty)
}

/// Splits `1.1 text` into number and text.
fn numbered(text: &str) -> (Option<&str>, &str) {
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let rest = text.trim_start_matches(digits);
    let number = text[..text.len() - rest.len()].trim_end_matches('.');
    let rest = rest.strip_prefix(')').unwrap_or(rest);
    let plausible = number.starts_with(|c: char| c.is_ascii_digit()) && !number.contains("..");
    match rest.trim_start() {
        title if plausible && !title.is_empty() && rest.starts_with(char::is_whitespace) => {
            (Some(number), title)
        }
        _ => (None, text),
    }
}

/// Returns the command in backticks that can prove the item, if there is one.
pub(super) fn offered(text: &str) -> Option<String> {
    backticked(text).find(|command| is_command(command)).map(str::to_owned)
}

fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let Some(program) = words.next() else { return false };
    let second = words.next();
    if let Some(script) = program.strip_prefix("./") {
        return !script.is_empty() && (second.is_some() || script.contains('.'));
    }
    PROGRAMS.contains(&program)
        && match second {
            None => ALONE.contains(&program),
            Some(second) => !NO_PROOF.contains(&second),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_from_the_beginning() {
        for (text, expected) in [
            ("1.1 Add it", (Some("1.1"), "Add it")),
            ("2. Add it", (Some("2"), "Add it")),
            ("1.2.3) Add it", (Some("1.2.3"), "Add it")),
            ("Add 1.1", (None, "Add 1.1")),
            ("1.1", (None, "1.1")),
            ("3rd item", (None, "3rd item")),
            (". x", (None, ". x")),
        ] {
            assert_eq!(numbered(text), expected, "{text}");
        }
    }

    #[test]
    fn only_commands_that_can_prove_something_are_offered() {
        for (text, expected) in [
            ("Run full test suite (`pnpm test`) and fix it", Some("pnpm test")),
            ("Add `dependsOn` and run `cargo test graph`", Some("cargo test graph")),
            ("Document `npm install` in `docs/cli.md`", None),
            ("Run `make`", Some("make")),
            ("Add `go`", None),
            ("Run `./scripts/check.sh`", Some("./scripts/check.sh")),
            ("Add `openspec change graph`", None),
        ] {
            assert_eq!(offered(text).as_deref(), expected, "{text}");
        }
    }
}
