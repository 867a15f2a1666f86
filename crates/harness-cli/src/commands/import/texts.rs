//! Reads the texts of a source.

use std::{fs::File, io::Read, path::Path};

use harness_core::import::{ImportKind, SourceText};

use super::program;
use crate::{
    commands::doctor::find_program,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::warn,
    root::StateRoot,
};

/// A larger file holds something else than tasks.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Documents that belong to the tasks beside them.
const OPENSPEC: [&str; 3] = ["proposal.md", "design.md", "specs"];
const SPECKIT: [&str; 6] =
    ["spec.md", "plan.md", "research.md", "data-model.md", "quickstart.md", "contracts"];

pub(super) fn read(
    invocation: &Invocation,
    root: &StateRoot,
    kind: ImportKind,
    file: &Path,
) -> Result<SourceText> {
    let documents: &[&str] = match kind {
        ImportKind::Openspec => &OPENSPEC,
        ImportKind::Speckit => &SPECKIT,
        ImportKind::Beads
        | ImportKind::Taskmaster
        | ImportKind::Prd
        | ImportKind::Features
        | ImportKind::Plan
        | ImportKind::Checklist
        | ImportKind::Gh => &[],
    };
    let text = match kind {
        ImportKind::Beads => beads(invocation, root, file)?,
        _ => bounded(file)?,
    };
    let folder = file.parent().unwrap_or(file);
    let beside = documents.iter().map(|name| folder.join(name)).filter(|path| path.exists());
    let beside = beside.map(|path| named(root, &path)).collect();
    Ok(SourceText { path: named(root, file), text, beside, ..SourceText::default() })
}

/// Returns a path from the root, if it is below it.
fn named(root: &StateRoot, path: &Path) -> String {
    let path = path.strip_prefix(root.path()).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

/// Returns the text of a file, which must be UTF-8.
pub(super) fn bounded(file: &Path) -> Result<String> {
    let unreadable = |why| Failure::file("read", file, &why);
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(unreadable)?;
    opened.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > BYTES_MAX {
        let error = format!("{} has more than {BYTES_MAX} bytes", file.display());
        return Err(Failure::error(error).hint("import a smaller part of it"));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::error(format!("{} is not UTF-8 text", file.display())))
}

/// Asks `bd` for the issues, because the file may be older than its database. Without `bd`, or if it
/// fails, the file counts.
fn beads(invocation: &Invocation, root: &StateRoot, file: &Path) -> Result<String> {
    let is_usual = file.parent().and_then(Path::file_name).is_some_and(|name| name == ".beads");
    let Some(bd) = find_program(&invocation.env, "bd").filter(|_| is_usual) else {
        return bounded(file);
    };
    let directory = file.parent().and_then(Path::parent).unwrap_or(root.path());
    match program::output(&bd, &["export"], directory) {
        Ok(text) => Ok(text),
        Err(failure) if file.is_file() => {
            warn(&format!("{}; {} is read instead", failure.error, named(root, file)));
            bounded(file)
        }
        Err(failure) => Err(failure),
    }
}
