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
    if !path.is_dir() {
        return Err(Failure::error(format!("{} is neither a file nor a folder", path.display())));
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
    let error = Failure::error(format!("there is nothing {what} in {}", path.display()));
    let kinds = kind.map_or_else(|| ImportKind::ALL.to_vec(), |kind| vec![kind]);
    let places: Vec<&str> = kinds.iter().flat_map(|kind| places(*kind)).copied().collect();
    match places.is_empty() {
        true => error.hint("name the file: `harness import FILE`"),
        false => error.hint(format!(
            "looked for {}; name a Markdown file to import a plan or a checklist",
            places.join(", ")
        )),
    }
}

/// Returns where the files of a kind are in a project. Every project has Markdown, so plans and
/// checklists are named.
const fn places(kind: ImportKind) -> &'static [&'static str] {
    match kind {
        ImportKind::Openspec => &["openspec/changes/*/tasks.md"],
        ImportKind::Beads => &[".beads"],
        ImportKind::Speckit => &["specs/*/tasks.md"],
        ImportKind::Taskmaster => {
            &[".taskmaster/tasks/tasks.json", "tasks/tasks.json", "tasks.json"]
        }
        ImportKind::Prd => &["prd.json", "scripts/ralph/prd.json"],
        ImportKind::Features => &["feature_list.json"],
        ImportKind::Plan | ImportKind::Checklist | ImportKind::Gh => &[],
    }
}

fn ambiguous(path: &Path) -> Failure {
    let kinds = ImportKind::ALL.iter().filter(|kind| !files(**kind, path).is_empty());
    let kinds: Vec<&str> = kinds.map(|kind| kind.name()).collect();
    let error = format!("{} has tasks of several tools: {}", path.display(), kinds.join(", "));
    Failure::error(error).hint("choose one: `harness import --from KIND`")
}

/// Returns the files of a kind in a project, or else in a folder of it that belongs to the kind.
fn files(kind: ImportKind, folder: &Path) -> Vec<PathBuf> {
    // A project may have the name of such a folder, so its layout comes first.
    let found = files_of_project(kind, folder);
    if found.is_empty() { files_of_folder(kind, folder) } else { found }
}

fn files_of_project(kind: ImportKind, project: &Path) -> Vec<PathBuf> {
    match kind {
        ImportKind::Openspec => each(&project.join("openspec/changes"), "tasks.md"),
        ImportKind::Speckit => each(&project.join("specs"), "tasks.md"),
        // The issues may be in the database of `bd` only.
        ImportKind::Beads => {
            let folder = project.join(".beads");
            folder.is_dir().then(|| folder.join("issues.jsonl")).into_iter().collect()
        }
        ImportKind::Taskmaster
        | ImportKind::Prd
        | ImportKind::Features
        | ImportKind::Plan
        | ImportKind::Checklist
        | ImportKind::Gh => {
            let mut paths = places(kind).iter().map(|path| project.join(path));
            paths.find(|path| path.is_file()).into_iter().collect()
        }
    }
}

/// Returns the files of a kind in a folder such as `openspec`, or in one of a single change.
fn files_of_folder(kind: ImportKind, folder: &Path) -> Vec<PathBuf> {
    let parent = folder.parent().unwrap_or(folder);
    let only = || {
        let file = folder.join("tasks.md");
        file.is_file().then_some(file).into_iter().collect()
    };
    match kind {
        ImportKind::Openspec if parent.ends_with("openspec/changes") => only(),
        ImportKind::Openspec if folder.ends_with("openspec/changes") => each(folder, "tasks.md"),
        ImportKind::Openspec if folder.ends_with("openspec") => {
            each(&folder.join("changes"), "tasks.md")
        }
        ImportKind::Speckit if parent.ends_with("specs") => only(),
        ImportKind::Speckit if folder.ends_with("specs") => each(folder, "tasks.md"),
        ImportKind::Beads if folder.ends_with(".beads") => vec![folder.join("issues.jsonl")],
        _ => Vec::new(),
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
            let error = format!("the name of {} does not show which tool it is of", path.display());
            return Err(Failure::error(error)
                .hint("name the kind with `--from KIND`; `harness help import` lists them"));
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
