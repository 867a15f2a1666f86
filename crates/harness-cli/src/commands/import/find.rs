//! Finds the source of an import, by its name or by the paths of each kind.

use std::{
    fs,
    path::{Path, PathBuf},
};

use harness_core::{
    import::{ImportChoice, ImportKind, SourceText},
    task::TaskSource,
};
use serde_json::Value;

use super::{github, texts};
use crate::{
    failure::{Failure, Result},
    invocation::{Invocation, working_directory},
    root::StateRoot,
};

/// The prefix of a repository on GitHub.
const GITHUB: &str = "gh:";

/// What the arguments ask for.
pub(super) struct Wanted<'a> {
    pub(super) source: Option<&'a str>,
    pub(super) kind: Option<ImportKind>,
    pub(super) tag: Option<String>,
    pub(super) label: Option<String>,
}

/// The texts of one kind.
pub(super) struct Found {
    pub(super) kind: ImportKind,
    pub(super) texts: Vec<SourceText>,
    pub(super) choice: ImportChoice,
}

impl Found {
    pub(super) fn places(&self) -> Vec<&str> {
        self.texts.iter().map(|text| text.path.as_str()).collect()
    }

    /// Returns whether a task came from here.
    pub(super) fn is_origin_of(&self, source: &TaskSource) -> bool {
        let path = source.path.as_deref().unwrap_or_default();
        let path = path.split_once('#').map_or(path, |(path, _)| path);
        source.kind == self.kind.name() && self.texts.iter().any(|text| text.path == path)
    }
}

pub(super) fn find(
    invocation: &Invocation,
    root: &StateRoot,
    wanted: &Wanted<'_>,
) -> Result<Found> {
    let repository = wanted.source.and_then(|source| source.strip_prefix(GITHUB));
    let (kind, texts) = match (repository, wanted.kind) {
        (Some(name), None | Some(ImportKind::Gh)) => {
            (ImportKind::Gh, vec![github::issues(invocation, root, name, wanted.label.as_deref())?])
        }
        (Some(_), Some(other)) => {
            return Err(Failure::usage(format!("gh:… is of the kind gh, and not {other}")));
        }
        (None, Some(ImportKind::Gh)) => {
            return Err(Failure::usage("the kind gh needs a repository")
                .hint("`harness import gh:OWNER/REPO`"));
        }
        (None, kind) => of_files(invocation, root, wanted.source, kind)?,
    };
    refuse_unused(wanted, kind)?;
    let current_tag = match kind {
        ImportKind::Taskmaster => current_tag(root, &texts),
        _ => None,
    };
    let (tag, label) = (wanted.tag.clone(), wanted.label.clone());
    Ok(Found { kind, texts, choice: ImportChoice { tag, current_tag, label } })
}

fn refuse_unused(wanted: &Wanted<'_>, kind: ImportKind) -> Result<()> {
    if wanted.tag.is_some() && kind != ImportKind::Taskmaster {
        return Err(Failure::usage(format!("--tag is for taskmaster, and this is {kind}")));
    }
    let labelled = matches!(kind, ImportKind::Beads | ImportKind::Gh);
    if wanted.label.is_some() && !labelled {
        return Err(Failure::usage(format!("--label is for beads and gh, and this is {kind}")));
    }
    Ok(())
}

fn of_files(
    invocation: &Invocation,
    root: &StateRoot,
    source: Option<&str>,
    kind: Option<ImportKind>,
) -> Result<(ImportKind, Vec<SourceText>)> {
    let path = match source {
        Some(source) => working_directory()?.join(source),
        None => root.path().to_owned(),
    };
    let Ok(path) = path.canonicalize() else {
        return Err(Failure::error(format!("File not found: {}", source.unwrap_or_default())));
    };
    if path.is_file() {
        let kind = kind.map_or_else(|| kind_of_file(&path), Ok)?;
        return Ok((kind, vec![texts::read(invocation, root, kind, &path)?]));
    }
    let kinds = kind.map_or_else(|| ImportKind::ALL.to_vec(), |kind| vec![kind]);
    let mut found: Vec<(ImportKind, Vec<PathBuf>)> =
        kinds.iter().map(|kind| (*kind, files(*kind, &path))).collect();
    found.retain(|(_, files)| !files.is_empty());
    let several = found.len() > 1;
    let (kind, files) = match found.pop() {
        None => return Err(nothing(&path, kind)),
        Some(_) if several => return Err(ambiguous(&path)),
        Some(only) => only,
    };
    let read = files.iter().map(|file| texts::read(invocation, root, kind, file));
    Ok((kind, read.collect::<Result<_>>()?))
}

fn nothing(path: &Path, kind: Option<ImportKind>) -> Failure {
    let what = kind.map_or("that can be imported".to_owned(), |kind| format!("of {kind}"));
    Failure::error(format!("there is nothing {what} in {}", path.display())).hint(
        "looked for openspec/changes/*/tasks.md, .beads, specs/*/tasks.md, .taskmaster/tasks/tasks.json, \
         tasks/tasks.json, prd.json, scripts/ralph/prd.json, feature_list.json; name a Markdown file \
         to import a plan or a checklist",
    )
}

fn ambiguous(path: &Path) -> Failure {
    let kinds = ImportKind::ALL.iter().filter(|kind| !files(**kind, path).is_empty());
    let kinds: Vec<&str> = kinds.map(|kind| kind.name()).collect();
    let error = format!("{} has tasks of several tools: {}", path.display(), kinds.join(", "));
    Failure::error(error).hint("choose one: `harness import --from KIND`")
}

/// Returns the files of a kind in a project, or in a folder of it that belongs to the kind.
fn files(kind: ImportKind, folder: &Path) -> Vec<PathBuf> {
    let is = |names: &[&str]| {
        let mut parts = folder.iter().rev();
        names.iter().rev().all(|name| parts.next().is_some_and(|part| part == *name))
    };
    let parent_is = |names: &[&str]| {
        let parent = folder.parent().unwrap_or(folder);
        let mut parts = parent.iter().rev();
        names.iter().rev().all(|name| parts.next().is_some_and(|part| part == *name))
    };
    let first = |paths: &[&str]| {
        let mut paths = paths.iter().map(|path| folder.join(path));
        paths.find(|path| path.is_file()).into_iter().collect()
    };
    match kind {
        ImportKind::Openspec if parent_is(&["openspec", "changes"]) => first(&["tasks.md"]),
        ImportKind::Openspec if is(&["openspec", "changes"]) => each(folder, "tasks.md"),
        ImportKind::Openspec if is(&["openspec"]) => each(&folder.join("changes"), "tasks.md"),
        ImportKind::Openspec => each(&folder.join("openspec/changes"), "tasks.md"),
        ImportKind::Speckit if parent_is(&["specs"]) => first(&["tasks.md"]),
        ImportKind::Speckit if is(&["specs"]) => each(folder, "tasks.md"),
        ImportKind::Speckit => each(&folder.join("specs"), "tasks.md"),
        ImportKind::Beads if is(&[".beads"]) => vec![folder.join("issues.jsonl")],
        ImportKind::Beads if folder.join(".beads").is_dir() => {
            vec![folder.join(".beads/issues.jsonl")]
        }
        ImportKind::Beads => Vec::new(),
        ImportKind::Taskmaster => {
            first(&[".taskmaster/tasks/tasks.json", "tasks/tasks.json", "tasks.json"])
        }
        ImportKind::Prd => first(&["prd.json", "scripts/ralph/prd.json"]),
        ImportKind::Features => first(&["feature_list.json"]),
        // Every project has Markdown, so these are named.
        ImportKind::Plan | ImportKind::Checklist | ImportKind::Gh => Vec::new(),
    }
}

/// Returns the files of this name in the folders below `folder`, by their names.
fn each(folder: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_name() != "archive");
    let mut files: Vec<PathBuf> =
        folders.map(|entry| entry.path().join(name)).filter(|file| file.is_file()).collect();
    files.sort();
    files
}

fn kind_of_file(path: &Path) -> Result<ImportKind> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let above = |n: usize| path.iter().rev().nth(n).and_then(|part| part.to_str());
    Ok(match (name, path.extension().and_then(|ending| ending.to_str())) {
        ("tasks.md", _) if above(2) == Some("changes") => ImportKind::Openspec,
        ("tasks.md", _) if above(2) == Some("specs") => ImportKind::Speckit,
        ("tasks.json", _) => ImportKind::Taskmaster,
        ("prd.json", _) => ImportKind::Prd,
        ("feature_list.json", _) => ImportKind::Features,
        (_, Some("jsonl")) => ImportKind::Beads,
        (_, Some("md" | "markdown" | "txt")) => {
            let text = texts::bounded(path)?;
            let is_task = |line: &str| {
                let title = line.trim_start_matches('#').trim_start();
                line.starts_with("##") && title.starts_with("Task ") && title.contains(':')
            };
            match text.lines().any(is_task) {
                true => ImportKind::Plan,
                false => ImportKind::Checklist,
            }
        }
        _ => {
            return Err(Failure::error(format!("{}: the kind is not known", path.display()))
                .hint("`--from KIND` says it; `harness help import` lists the kinds"));
        }
    })
}

/// Returns the tag that Task Master has chosen.
fn current_tag(root: &StateRoot, texts: &[SourceText]) -> Option<String> {
    let file = root.path().join(&texts.first()?.path);
    let folder = file.parent()?.parent()?;
    let state = fs::read(folder.join("state.json")).ok()?;
    let state: Value = serde_json::from_slice(&state).ok()?;
    state["currentTag"].as_str().map(str::to_owned)
}
