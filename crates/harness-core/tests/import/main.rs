//! Importers: golden files in the shapes of the real tools, properties, and the decision that brings
//! tasks into a ledger.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod beads;
mod circles;
mod fuzz;
mod golden;
mod places;
mod update;

use harness_core::import::{self, ImportChoice, ImportKind, ImportProblem, Imported, SourceText};

fn source(path: &str, text: &str) -> SourceText {
    SourceText { path: path.to_owned(), text: text.to_owned(), ..SourceText::default() }
}

fn read(kind: ImportKind, path: &str, text: &str) -> Result<Imported, ImportProblem> {
    import::read(kind, &[source(path, text)], &ImportChoice::default())
}
