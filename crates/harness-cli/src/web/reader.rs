//! The files and the host of the root, as a command of this process would see them.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness::{
    ClientOptions,
    clock::{Clock as _, SystemClock},
    shell::Cancel,
    view::{Board, MoneyView, ProjectReport, RunStory, Spending, TaskStory},
};
use harness_core::{CommitId, Ledger, TaskId, Timestamp, format::task_object};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::feed::Feed;

use crate::{
    environment::Environment,
    failure::{Failure, Result},
    interrupt::Interrupt,
    invocation::Invocation,
    render::{ColorWhen, Out},
    root::StateRoot,
    transcript_file::TranscriptFolder,
    transcript_text::TranscriptText,
    view_sources::{self, BoardSource, all_runs},
};

/// The result of a search.
#[derive(Debug)]
pub(super) enum Sought<T> {
    Found(T),
    Nothing,
}

/// The number of lines of a transcript that are shown, the last ones.
const TRANSCRIPT_LINES: usize = 2000;

#[derive(Clone)]
pub(super) struct Reader {
    env: Environment,
    root: StateRoot,
    /// Keeps what it has read, so that only changes cost something.
    boards: Arc<Mutex<BoardSource>>,
    feed: Arc<Feed>,
}

impl Reader {
    pub(super) fn new(env: Environment, root: StateRoot, feed: Arc<Feed>) -> Self {
        let boards = BoardSource::new(env.clone(), root.clone());
        Self { env, root, boards: Arc::new(Mutex::new(boards)), feed }
    }

    pub(super) fn root(&self) -> &StateRoot {
        &self.root
    }

    /// Returns the context of one request, which `stop` ends early.
    pub(super) fn invocation(&self, stop: Cancel) -> Invocation {
        Invocation {
            // Nothing is written to it.
            out: Out::new(ColorWhen::Never, &self.env),
            env: self.env.clone(),
            plain: true,
            interrupt: Interrupt::Page(stop),
        }
    }

    pub(super) fn client_options(&self) -> Result<ClientOptions> {
        let mut options = self.invocation(Cancel::new()?).client_options(&self.root)?;
        // Looking starts nothing.
        options.launch = None;
        Ok(options)
    }

    /// Returns the name of the project.
    pub(super) fn project(&self) -> String {
        self.root.name().to_owned()
    }

    /// Calls `show` with the whole ledger.
    pub(super) fn ledger<T>(&self, show: impl FnOnce(&Ledger) -> Result<T>) -> Result<T> {
        show(self.boards().ledger()?)
    }

    /// Returns the project at work.
    pub(super) fn board(&self) -> Result<Board> {
        let mut boards = self.boards();
        let activity = self.feed.activity(|| boards.activity());
        boards.board(&activity, SystemClock.now())
    }

    /// Returns what all work has cost.
    pub(super) fn money(&self) -> Result<MoneyView> {
        let mut boards = self.boards();
        Ok(view_sources::money(&self.root, boards.ledger()?, SystemClock.now()))
    }

    /// Returns the objectives with their contexts, newest first.
    pub(super) fn objectives(&self) -> Vec<RunStory> {
        view_sources::objectives(&self.root)
    }

    /// Calls `show` with the history of a task.
    pub(super) fn story<T>(
        &self,
        id: &TaskId,
        show: impl FnOnce(&TaskStory<'_>, Timestamp) -> Result<T>,
    ) -> Result<Sought<T>> {
        let (mut boards, now) = (self.boards(), SystemClock.now());
        let ledger = boards.ledger()?;
        let shown =
            view_sources::story(&self.env, &self.root, ledger, id, now, |story| show(story, now));
        Ok(match shown {
            Some(shown) => Sought::Found(shown?),
            None => Sought::Nothing,
        })
    }

    /// Returns the changes between two commits.
    pub(super) fn diff(&self, from: &CommitId, to: &CommitId) -> Result<String> {
        view_sources::diff(&self.env, &self.root, from, to)
    }

    /// Returns the lines of a transcript that a row names.
    pub(super) fn transcript(&self, path: &str) -> Result<Vec<String>> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let found = TranscriptFolder::find(self.root.path())?;
        let found = found.map(|folder| folder.open(name)).transpose()?.flatten();
        let Some(mut file) = found else { return Err(Failure::error("It is not there any more.")) };
        let (mut text, mut lines) = (TranscriptText::default(), VecDeque::new());
        while let Some(line) = file.next()? {
            lines.extend(text.line(&line));
            let surplus = lines.len().saturating_sub(TRANSCRIPT_LINES);
            lines.drain(..surplus);
        }
        let last = file.rest().map(|line| text.line(&line)).unwrap_or_default();
        lines.extend(last.into_iter().chain(text.rest()));
        Ok(lines.into())
    }

    fn boards(&self) -> MutexGuard<'_, BoardSource> {
        self.boards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `show` with the report.
    pub(super) fn report<T>(
        &self,
        show: impl FnOnce(&ProjectReport<'_>, Timestamp) -> Result<T>,
    ) -> Result<T> {
        let invocation = self.invocation(Cancel::new()?);
        view_sources::report(&invocation, &self.root, self.boards().ledger()?, show)
    }

    /// Returns the cost of all runs.
    pub(super) fn spending(&self) -> Spending {
        all_runs(&self.root).spending()
    }

    /// Returns the document of `harness top --json`.
    pub(super) fn status_json(&self) -> Result<Sought<Vec<u8>>> {
        let mut document = json!({ "version": 1 });
        extend(&mut document, serde_json::to_value(self.board()?)?);
        Ok(Sought::Found(format!("{document}\n").into_bytes()))
    }

    /// Returns a task as the ledger has it, with everything that is known about it.
    pub(super) fn task_json(&self, id: &str) -> Result<Sought<Vec<u8>>> {
        let Ok(id) = TaskId::parse(id) else { return Ok(Sought::Nothing) };
        let text = self.root.snapshot_text()?;
        let raw = raw_task(text.bytes(), &id);
        self.story(&id, |story, _| {
            // The file may have changed since it was read.
            let raw = raw.unwrap_or_else(|| Value::Object(task_object(story.detail.task)));
            let mut all = json!({ "version": 1, "task": raw });
            extend(&mut all, serde_json::to_value(story)?);
            Ok(format!("{all}\n").into_bytes())
        })
    }
}

/// Returns a task with all its fields, also those that this version does not know. The others are not
/// parsed.
fn raw_task(ledger: &[u8], id: &TaskId) -> Option<Value> {
    #[derive(Deserialize)]
    struct Rows<'a> {
        #[serde(borrow)]
        tasks: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    // Some editors begin a file with a byte order mark.
    let ledger = ledger.strip_prefix(b"\xef\xbb\xbf").unwrap_or(ledger);
    let Rows { tasks } = serde_json::from_slice(ledger).ok()?;
    let is_it = |row: &&&RawValue| {
        serde_json::from_str::<Named>(row.get()).is_ok_and(|named| named.id == id.as_str())
    };
    serde_json::from_str(tasks.iter().find(is_it)?.get()).ok()
}

/// Adds fields to a document.
fn extend(document: &mut Value, more: Value) {
    if let (Value::Object(document), Value::Object(more)) = (document, more) {
        document.extend(more);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("root", &self.root).finish_non_exhaustive()
    }
}
