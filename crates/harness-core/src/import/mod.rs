//! Tasks of other tools: what a file of one of them holds, as a plan.
//!
//! Each importer is a pure function from texts to tasks or a problem. It keeps the place of each
//! task in its text, so that a completion can be written back there and nowhere else. An importer
//! runs nothing and reads nothing; the caller finds the files.

mod beads;
mod checklist;
mod circles;
mod features;
mod gh;
mod json;
mod lines;
mod markdown_plan;
mod names;
mod openspec;
mod outline;
mod prd;
mod speckit;
mod taskmaster;
mod to_plan;
mod write_back;

use std::ops::Range;

use self::names::Names;
use crate::task::{Priority, TaskSource};

pub use write_back::{WriteBack, write_back};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident: $word:literal;)+) => {
        /// The format of a source.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ImportKind {
            $($(#[doc = $doc])+ $name,)+
        }

        impl ImportKind {
            /// All kinds, in the order in which they are looked for.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the word for the command line and for `source.kind`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

kinds! {
    /// `openspec/changes/<id>/tasks.md`
    Openspec: "openspec";
    /// `bd export`, or `.beads/issues.jsonl`
    Beads: "beads";
    /// `specs/<feature>/tasks.md`
    Speckit: "speckit";
    /// `.taskmaster/tasks/tasks.json`
    Taskmaster: "taskmaster";
    /// `prd.json`
    Prd: "prd";
    /// `feature_list.json`
    Features: "features";
    /// Markdown with `### Task N: title`
    Plan: "plan";
    /// Any Markdown checklist
    Checklist: "checklist";
    /// Issues on GitHub
    Gh: "gh";
}

impl ImportKind {
    /// Returns `None` for a word that is no kind.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == word)
    }
}

impl std::fmt::Display for ImportKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// One text of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceText {
    /// The path from the state root, or the repository on GitHub.
    pub path: String,
    /// Its whole text.
    pub text: String,
    /// The paths of the documents that belong to it, for the instructions.
    pub beside: Vec<String>,
    /// Answers of `gh api` about the relations of issues; empty for the other kinds.
    pub relations: Vec<IssueRelation>,
}

/// The issues that belong to one issue, as the REST interface lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueRelation {
    /// The number of the issue.
    pub issue: u64,
    /// What the others are to it.
    pub kind: IssueRelationKind,
    /// The list of the other issues, as JSON.
    pub text: String,
}

/// What one issue is to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssueRelationKind {
    /// The others are parts of it.
    SubIssues,
    /// The others must be closed first.
    BlockedBy,
}

/// The part of a source that is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportChoice {
    /// The tag of Task Master.
    pub tag: Option<String>,
    /// The tag that Task Master has chosen, which counts if `tag` is missing.
    pub current_tag: Option<String>,
    /// The label that issues must have.
    pub label: Option<String>,
}

/// The tasks of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// What all of them together are for.
    pub goal: String,
    /// The tasks in the order of the source. Their names are distinct.
    pub tasks: Vec<ImportedTask>,
    /// The parts that were left out, each with the reason.
    pub notes: Vec<String>,
}

/// A task of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedTask {
    /// Its place.
    pub source: TaskSource,
    /// The wish for its id, and the name by which others of this source refer to it.
    pub name: String,
    /// The title, which may be too long for one.
    pub title: String,
    /// The text for the agent.
    pub instructions: String,
    /// The command that the source names as the proof.
    pub check: Option<String>,
    /// The priority, if the source has one.
    pub priority: Option<Priority>,
    /// The names of the tasks that must be completed first.
    pub depends_on: Vec<String>,
    /// Whether the source calls it done.
    pub progress: ImportProgress,
    /// The changes of the text that call it done; empty if it has no place for that.
    pub marks: Vec<Mark>,
}

/// Whether a source calls a task done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportProgress {
    /// It is to be done.
    Open,
    /// It is done.
    Done,
}

impl ImportProgress {
    const fn of(done: bool) -> Self {
        if done { Self::Done } else { Self::Open }
    }
}

/// A change of one place in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The bytes that are replaced.
    pub place: Range<usize>,
    /// Their replacement.
    pub with: &'static str,
}

/// The reason why a text cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {problem}", path, line.map(|n| format!(":{n}")).unwrap_or_default())]
pub struct ImportProblem {
    /// The path of the text.
    pub path: String,
    /// The line, from 1, if there is one.
    pub line: Option<usize>,
    /// What is wrong, with the field.
    pub problem: String,
}

/// Returns the tasks of a source.
pub fn read(
    kind: ImportKind,
    texts: &[SourceText],
    choice: &ImportChoice,
) -> Result<Imported, ImportProblem> {
    let mut found = Imported::default();
    let mut names = Names::default();
    for source in texts {
        let part = match kind {
            ImportKind::Openspec => openspec::read(source),
            ImportKind::Beads => beads::read(source, choice)?,
            ImportKind::Speckit => speckit::read(source),
            ImportKind::Taskmaster => taskmaster::read(source, choice)?,
            ImportKind::Prd => prd::read(source)?,
            ImportKind::Features => features::read(source)?,
            ImportKind::Plan => markdown_plan::read(source),
            ImportKind::Checklist => checklist::read(source),
            ImportKind::Gh => gh::read(source, choice)?,
        };
        names.join(&mut found, part);
    }
    Ok(found)
}
