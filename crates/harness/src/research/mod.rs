//! The research inbox: takes the sources out of what search tools answered, for one task.
//!
//! What a source is, and what the page about them says, is decided in [`harness_core::research`].
//! Here is the order of the steps: first the sources are durable, then the page is made of them,
//! and only then the answers are moved away. A process that dies in between has lost nothing, and doing it
//! again adds nothing twice, because a source and an answer that are known are not new.

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

/// A larger answer is not read.
const ANSWER_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// All sources of a task; more of them are no longer a summary of anything.
const KEPT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// In one go; the rest is for the next.
const ANSWERS_MAX: usize = 10_000;
/// Another one at work is done by then.
const WAIT: Duration = Duration::from_secs(10);

/// Why the inbox could not be finalized.
#[derive(Debug, thiserror::Error)]
pub enum ResearchError {
    /// The sources that were kept before cannot be read, so they must not be replaced.
    #[error("{file}: {why}")]
    Kept {
        /// From the root.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody else does the same here.
    #[error("another `harness research finalize` is running in {root}")]
    Busy {
        /// The state root.
        root: String,
    },
    /// A file or a folder.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What came of it. All paths are relative to the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finalized {
    /// Whose folder the sources are in.
    pub task_id: TaskId,
    /// New sources.
    pub added: usize,
    /// All that are kept now.
    pub sources: usize,
    /// The page about them; `None` if there are none.
    pub overview: Option<String>,
    /// Answers that yielded something.
    pub moved: Vec<Moved>,
    /// What is still in the inbox, and why.
    pub stayed: Vec<Stayed>,
}

/// An answer that is done with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Where it was.
    pub file: String,
    /// Where it is.
    pub to: String,
    /// How many sources it names, known ones too.
    pub entries: usize,
}

/// A file that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stayed {
    /// Where it is.
    pub file: String,
    /// A fragment.
    pub why: String,
}

/// An answer with something in it.
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
    // Before anything is kept: what is in the way there is better heard of now.
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

/// What earlier calls kept. A file that is not as we write it is a person's to look at: to go on
/// without it would lose what it holds.
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

/// The answers in the inbox that hold a source, by name.
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
            // Somebody took it away meanwhile.
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

/// Makes the sources durable, and then the page about them, each only if it is not so already.
/// The page is made anew also if nothing was added: a process that was killed after the sources were kept
/// owes it.
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
    // A tool may have written it anew since; what is in it now was not read.
    if inbox.identity(&answer.name)? != Some(answer.identity) {
        stayed.push(Stayed { file, why: "changed while it was read".to_owned() });
        return Ok(());
    }
    if let Some(name) = inbox.hand_over(&answer.name, processed)? {
        moved.push(Moved { file, to: processed.shown(&name), entries: answer.entries.len() });
    }
    Ok(())
}
