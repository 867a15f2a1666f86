//! The research inbox: takes the sources out of the answers of search tools, for one task.
//!
//! [`harness_core::research`] decides what a source is, and renders the page about them. This
//! module owns the order of the steps. First the sources are made durable, then the page is
//! rendered, and only then the answers are moved away. A process that dies in between loses
//! nothing. A repetition adds nothing twice, because known sources and answers are not new.

use std::{io, path::Path, time::Duration};

use harness_core::{
    TaskId,
    research::{self, Entry, INBOX, Kept, OVERVIEW, PROCESSED, SOURCES},
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::home::{
    FileStamp,
    folder::{Folder, Found},
};

/// The limit of an answer. A larger one is not read.
const ANSWER_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// The limit of all sources of a task.
const KEPT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The limit of answers in one call. The rest is left for the next.
const ANSWERS_MAX: usize = 10_000;
/// The longest wait for another process that does the same.
const WAIT: Duration = Duration::from_secs(10);

/// The reason why the inbox could not be finalized.
#[derive(Debug, thiserror::Error)]
pub enum ResearchError {
    /// The stored sources cannot be read, so they must not be replaced.
    #[error("{file}: {why}")]
    Kept {
        /// The path relative to the root.
        file: String,
        /// A description of the problem.
        why: String,
    },
    /// Another process does the same here.
    #[error("another `harness research finalize` is running in {root}")]
    Busy {
        /// The state root.
        root: String,
    },
    /// An operation on a file or a folder failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The result of finalizing. All paths are relative to the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finalized {
    /// The task whose folder contains the sources.
    pub task_id: TaskId,
    /// The number of new sources.
    pub added: usize,
    /// The number of all stored sources.
    pub sources: usize,
    /// The page about them; `None` if there are none.
    pub overview: Option<String>,
    /// The answers that contained sources.
    pub moved: Vec<Moved>,
    /// The files that are still in the inbox, and the reasons.
    pub stayed: Vec<Stayed>,
}

/// An answer that was processed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The earlier path.
    pub file: String,
    /// The new path.
    pub to: String,
    /// The number of sources in it, including known ones.
    pub entries: usize,
}

/// A file that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stayed {
    /// Its path.
    pub file: String,
    /// The reason, as a fragment.
    pub why: String,
}

/// An answer that contains sources.
struct Answer {
    name: String,
    identity: FileStamp,
    sha256: String,
    entries: Vec<Entry>,
}

/// Takes the sources of all answers in `search_results/` below `root` into `tasks/<task>/`.
///
/// `root` is the state root, or the work tree of a worker.
pub fn finalize(root: &Path, task: &TaskId) -> Result<Finalized, ResearchError> {
    let top = Folder::open(root)?;
    let _alone =
        top.lock(WAIT)?.ok_or_else(|| ResearchError::Busy { root: root.display().to_string() })?;
    let mut kept = kept(&top, task)?;
    let inbox = top.child(INBOX)?;
    let mut stayed = Vec::new();
    let answers = match &inbox {
        Some(inbox) => read(inbox, &mut stayed)?,
        None => Vec::new(),
    };
    // This is done before anything is stored, so that an obstacle is reported early.
    let processed = match &inbox {
        Some(inbox) if !answers.is_empty() => Some(inbox.make(PROCESSED)?),
        _ => None,
    };
    let before = kept.render();
    let mut added = 0;
    for answer in &answers {
        added += kept.take(&answer.name, &answer.sha256, answer.entries.clone());
    }
    let overview = keep(&top, task, &kept, &before)?;
    let mut moved = Vec::new();
    if let (Some(inbox), Some(processed)) = (&inbox, &processed) {
        for answer in answers {
            put_away(inbox, processed, &answer, &mut moved, &mut stayed)?;
        }
        inbox.sync()?;
        processed.sync()?;
    }
    let sources = kept.sources().len();
    Ok(Finalized { task_id: task.clone(), added, sources, overview, moved, stayed })
}

/// Returns the sources of earlier calls. A person must look at a file that has another form,
/// because continuing without it would lose its content.
fn kept(top: &Folder, task: &TaskId) -> Result<Kept, ResearchError> {
    let Some(folder) = top.child(research::FOLDER)? else { return Ok(Kept::default()) };
    let Some(folder) = folder.child(task.as_str())? else { return Ok(Kept::default()) };
    let bad = |why: String| ResearchError::Kept { file: folder.shown(SOURCES), why };
    match folder.read(SOURCES, KEPT_BYTES_MAX)? {
        Found::Nothing => Ok(Kept::default()),
        Found::File(bytes, _) => Kept::read(&bytes).map_err(bad),
        Found::TooLarge => Err(bad(format!("has more than {KEPT_BYTES_MAX} bytes"))),
        Found::Other(what) => Err(bad(format!("is {what}"))),
    }
}

/// Returns the answers in the inbox that contain a source, by name.
fn read(inbox: &Folder, stayed: &mut Vec<Stayed>) -> io::Result<Vec<Answer>> {
    let mut names = inbox.names()?;
    names.retain(|name| name.ends_with(".json") && !name.starts_with('.'));
    names.sort_unstable();
    if names.len() > ANSWERS_MAX {
        let why = format!("{} more files are left for the next call", names.len() - ANSWERS_MAX);
        stayed.push(Stayed { file: INBOX.to_owned(), why });
        names.truncate(ANSWERS_MAX);
    }
    let mut answers = Vec::new();
    for name in names {
        let found = match inbox.read(&name, ANSWER_BYTES_MAX)? {
            Found::File(bytes, identity) => entries(&bytes).map(|entries| Answer {
                sha256: hex(&Sha256::digest(&bytes)),
                name: name.clone(),
                identity,
                entries,
            }),
            Found::TooLarge => Err(format!("has more than {ANSWER_BYTES_MAX} bytes")),
            Found::Other(what) => Err(format!("is {what}")),
            // Another program removed it meanwhile.
            Found::Nothing => continue,
        };
        match found {
            Ok(answer) => answers.push(answer),
            Err(why) => stayed.push(Stayed { file: inbox.shown(&name), why }),
        }
    }
    Ok(answers)
}

fn entries(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let entries = research::extract(text).map_err(|why| format!("is not JSON: {why}"))?;
    if entries.is_empty() { Err("has no source".to_owned()) } else { Ok(entries) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the sources durable, and then the page about them, each only if it changed. The page is
/// rendered even if nothing was added, because an earlier process may have been killed after it
/// stored the sources.
fn keep(top: &Folder, task: &TaskId, kept: &Kept, before: &str) -> io::Result<Option<String>> {
    if kept.sources().is_empty() {
        return Ok(None);
    }
    let folder = top.make(research::FOLDER)?.make(task.as_str())?;
    let sources = kept.render();
    if sources != before {
        folder.replace(SOURCES, sources.as_bytes())?;
    }
    let overview = kept.overview(task);
    let limit = overview.len() as u64;
    match folder.read(OVERVIEW, limit)? {
        Found::File(bytes, _) if bytes == overview.as_bytes() => {}
        Found::File(..) | Found::TooLarge | Found::Other(_) | Found::Nothing => {
            folder.replace(OVERVIEW, overview.as_bytes())?;
        }
    }
    Ok(Some(folder.shown(OVERVIEW)))
}

fn put_away(
    inbox: &Folder,
    processed: &Folder,
    answer: &Answer,
    moved: &mut Vec<Moved>,
    stayed: &mut Vec<Stayed>,
) -> io::Result<()> {
    let file = inbox.shown(&answer.name);
    // A tool may have rewritten it since. Its current content was not read.
    if inbox.identity(&answer.name)? != Some(answer.identity) {
        stayed.push(Stayed { file, why: "changed while it was read".to_owned() });
        return Ok(());
    }
    if let Some(name) = inbox.hand_over(&answer.name, processed)? {
        moved.push(Moved { file, to: processed.shown(&name), entries: answer.entries.len() });
    }
    Ok(())
}
