//! Marks tasks in a file.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Component, Path},
};

use harness_core::import::{ImportChoice, ImportKind, SourceText, write_back};

use super::{Proven, Synced};
use crate::{
    commands::import::texts,
    failure::{Failure, Result},
    root::StateRoot,
};

/// Returns the keys that the file calls done now and did not before.
pub(super) fn mark(
    root: &StateRoot,
    kind: ImportKind,
    place: &str,
    proven: &[Proven],
    synced: &mut Synced,
) -> Result<Vec<String>> {
    let (path, tag) = match (kind, place.split_once('#')) {
        (ImportKind::Taskmaster, Some((path, tag))) => (path, Some(tag.to_owned())),
        _ => (place, None),
    };
    let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_inside {
        return Err(Failure::error("it is outside of the project, so it is not changed"));
    }
    let file = root.path().join(path);
    let found = fs::symlink_metadata(&file).map_err(|why| Failure::file("read", &file, &why))?;
    if !found.is_file() {
        return Err(Failure::error("it is not a file, so it is not changed"));
    }
    let text = texts::bounded(&file)?;
    let source = SourceText { path: path.to_owned(), text, ..SourceText::default() };
    let keys: BTreeSet<String> = proven.iter().map(|proven| proven.key.clone()).collect();
    let is_master = tag.is_none() && kind == ImportKind::Taskmaster;
    let choice = ImportChoice {
        // The path of the first tag has no name, and the current tag may be another one.
        current_tag: is_master.then(|| "master".to_owned()),
        tag,
        ..ImportChoice::default()
    };
    let result = write_back(kind, &source, &choice, &keys)
        .map_err(|problem| Failure::error(problem.to_string()))?;
    for key in &result.without_place {
        synced.problems.push(format!("{path}: {key} is not there, or cannot be marked as done"));
    }
    if let Some(text) = &result.text {
        replace(&file, &source.text, text, found.permissions())?;
        synced.files.push(path.to_owned());
    }
    Ok(result.marked)
}

/// Replaces the file at once, unless somebody has changed it since it was read.
fn replace(file: &Path, before: &str, after: &str, mode: fs::Permissions) -> Result<()> {
    let unwritable = |why| Failure::file("write", file, &why);
    let folder = file.parent().unwrap_or(file);
    let mut made = tempfile::NamedTempFile::new_in(folder).map_err(unwritable)?;
    made.write_all(after.as_bytes()).map_err(unwritable)?;
    made.as_file().set_permissions(mode).map_err(unwritable)?;
    made.as_file().sync_all().map_err(unwritable)?;
    if fs::read(file).map_err(unwritable)? != before.as_bytes() {
        return Err(Failure::error("it was changed meanwhile, so it was not written"));
    }
    made.persist(file).map_err(|failed| unwritable(failed.error))?;
    Ok(())
}
