//! Writes the events of a run to a file. The text and the thoughts of an agent are not in it, but
//! in its transcript.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsStr,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::{
    define::{Cleanup, cleanup},
    event::{Envelope, Event},
    home::folder::Folder,
    hub::{self, Hub},
    process::Redactor,
    queue::BoundedQueue,
    store::Observer,
};

/// The number of events that wait for the disk before the oldest are dropped.
const WAITING_MAX: usize = 4096;
/// The limit of a record. A longer one indicates an endless loop.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Appends the events of a run to `path`, one JSON object per line as `subscribe` sends it, without
/// `agent:text` and `agent:thinking`, and with secrets replaced. The file is made with the first
/// line, for its owner only.
///
/// The hub never waits for the disk. If the disk is too slow the oldest events are lost, and a line
/// `{"type":"lagged","missed":N}` replaces them. A failing disk ends the record and not the run. It
/// is reported once, as a narrative of importance `warning`.
///
/// This is for a flow of your own; the engine of a run has a [`Recorder`] among its observers.
///
/// ```
/// use harness::{Cx, Harness, Result, process::Redactor, recorder};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("runs/one.jsonl");
/// let flow = Harness::define("recorded")
///     .state(|(): &()| ())
///     .run(async |cx: &mut Cx<'_, (), ()>| cx.task("one", async |_| Ok(())).await);
/// let secrets = Redactor::from_environment(std::env::vars_os());
/// flow.create(()).attach(recorder(&path, secrets)).run().await?;
/// assert_eq!(std::fs::read_to_string(&path)?.lines().count(), 4);
/// # Ok(())
/// # }
/// ```
pub fn recorder(path: &Path, redactor: Redactor) -> impl FnOnce(&Hub) -> Cleanup + use<> {
    let path = path.to_owned();
    move |hub| {
        let recorder = Arc::new(Recorder::start(&path, redactor, hub));
        let seen = Arc::clone(&recorder);
        let subscription = hub.subscribe("*", move |envelope: &Envelope| seen.event(envelope));
        cleanup(move || {
            drop(subscription);
            recorder.end();
        })
    }
}

/// An observer that writes the events of a run to a file, as [`recorder`] does.
pub struct Recorder {
    queue: Arc<Queue>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Recorder {
    /// Starts the thread that writes to `path`. If the disk fails, that is reported to `hub`.
    pub fn start(path: &Path, redactor: Redactor, hub: &Hub) -> Self {
        let queue = Arc::new(Queue::default());
        let record = Record { path: path.to_owned(), redactor, file: None, written_bytes: 0 };
        let (shared, speaker) = (Arc::clone(&queue), hub.clone());
        let started = thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || write_all(record, &shared, &speaker));
        let thread = match started {
            Ok(thread) => Some(thread),
            Err(e) => {
                // Without a thread, nothing would be taken out of the queue.
                queue.end();
                warn(hub, &format!("the events of this run are not recorded: {e}"));
                None
            }
        };
        Self { queue, thread: Mutex::new(thread) }
    }
}

impl Observer for Recorder {
    fn event(&self, envelope: &Envelope) {
        if is_kept(&envelope.event) {
            self.queue.push(envelope);
        }
    }

    /// Returns when everything is written.
    fn end(&self) {
        self.queue.end();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The panic hook has already reported a panic of the thread.
        _ = thread.map(thread::JoinHandle::join);
    }
}

/// The thread also ends if a run is dropped before its end.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.queue.end();
    }
}

fn is_kept(event: &Event) -> bool {
    !matches!(event, Event::AgentText { .. } | Event::AgentThinking { .. })
}

fn warn(hub: &Hub, text: &str) {
    tracing::warn!("{text}");
    let importance = Some("warning".to_owned());
    hub.emit(Event::Narrative { text: text.to_owned(), importance });
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    events: BoundedQueue<Envelope>,
    ended: bool,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { events: BoundedQueue::new(WAITING_MAX), ended: false }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, envelope: &Envelope) {
        let envelope = envelope.clone();
        let mut waiting = self.lock();
        if waiting.ended {
            return;
        }
        waiting.events.push(envelope);
        drop(waiting);
        self.changed.notify_one();
    }

    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    /// Returns all waiting events, and the number that was lost before them; `None` when no more
    /// will come.
    fn take(&self) -> Option<(u64, VecDeque<Envelope>)> {
        let mut waiting = self.lock();
        while waiting.events.is_empty() && !waiting.ended {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.events.is_empty() {
            return None;
        }
        Some((waiting.events.take_lost(), waiting.events.take()))
    }
}

fn write_all(mut record: Record, queue: &Queue, hub: &Hub) {
    while let Some((missed, events)) = queue.take() {
        if let Err(e) = record.append(missed, &events) {
            // From here on the queue accepts nothing, and waiting events are dropped.
            queue.end();
            let path = record.path.display();
            warn(hub, &format!("the events of this run are no longer recorded: {path}: {e}"));
            return;
        }
    }
}

struct Record {
    path: PathBuf,
    redactor: Redactor,
    file: Option<File>,
    written_bytes: u64,
}

impl Record {
    fn append(&mut self, missed: u64, events: &VecDeque<Envelope>) -> io::Result<()> {
        let mut lines = String::new();
        if missed > 0 {
            lines += &format!("{}\n", hub::lagged(Some(missed), &BTreeMap::new()));
        }
        for envelope in events {
            let line = serde_json::to_string(envelope)?;
            lines += &self.redactor.text(&line);
            lines.push('\n');
        }
        if self.file.is_none() {
            let (file, size) = open(&self.path)?;
            (self.file, self.written_bytes) = (Some(file), size);
        }
        self.written_bytes += lines.len() as u64;
        if self.written_bytes > BYTES_MAX {
            return Err(io::Error::other(format!("it has reached {BYTES_MAX} bytes")));
        }
        // The file is not buffered, so written lines survive this process.
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(lines.as_bytes()))
    }
}

/// Opens the file to append at the start of a line. No link is followed.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let (folder, name) =
        path.parent().zip(path.file_name().and_then(OsStr::to_str)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "it is not the path of a file")
        })?;
    let mut file = Folder::ours(folder)?.open_to_append(name)?;
    let found = file.metadata()?;
    // A killed process may have left half a line.
    if found.size() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok((file, found.size()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_disk_that_is_too_slow_loses_the_oldest_and_says_so() {
        let hub = Hub::new("session");
        let queue = Arc::new(Queue::default());
        let shared = Arc::clone(&queue);
        let _subscription = hub.subscribe("*", move |e: &Envelope| shared.push(e));
        for n in 0..WAITING_MAX + 3 {
            hub.emit(Event::TaskStart { task_id: n.to_string(), epoch: None });
        }
        queue.end();
        let (missed, events) = queue.take().unwrap();
        assert_eq!((missed, events.len()), (3, WAITING_MAX));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.jsonl");
        let redactor = Redactor::default();
        let mut record = Record { path: path.clone(), redactor, file: None, written_bytes: 0 };
        record.append(missed, &events).unwrap();
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().next().unwrap(), r#"{"type":"lagged","missed":3}"#);
        assert!(text.lines().nth(1).unwrap().contains(r#""taskId":"3""#));
        assert!(queue.take().is_none());
    }
}
