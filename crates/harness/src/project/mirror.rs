//! A copy of a ledger in a database, for readers on this machine that cannot reach the database.

use std::{
    io,
    path::Path,
    sync::{Arc, Weak, mpsc},
    thread,
    time::{Duration, Instant},
};

use harness_core::{Ledger, Timestamp, format::Document};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{LedgerText, Project};
use crate::{
    clock::{Clock as _, SystemClock},
    home::{Home, file_name, folder::Folder},
    store::Writer,
};

/// The limit of the file.
const BYTES_MAX: u64 = 1 << 30;
/// The least time between two copies, and as a multiple of the time that one takes.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_FACTOR: u32 = 10;

/// The copy that the host of a root keeps of a ledger in a database.
#[derive(Debug, Clone)]
pub struct LedgerMirror {
    /// The time at which it was made.
    pub written_at: Timestamp,
    /// The ledger at that time.
    pub text: LedgerText,
}

/// The file. The ledger has the form of its own file.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u64,
    written_at: Timestamp,
    ledger: Box<RawValue>,
}

impl Project {
    /// Returns the copy on this machine; `None` if no host has made one.
    pub fn mirror(&self) -> io::Result<Option<LedgerMirror>> {
        let Some(folder) = Folder::find(&self.home().folder())? else { return Ok(None) };
        let bytes = folder.read_small(file_name(Home::MIRROR), BYTES_MAX)?;
        let read = bytes.and_then(|bytes| serde_json::from_slice::<Written>(&bytes).ok());
        Ok(read.filter(|read| read.version == 1).map(|read| LedgerMirror {
            written_at: read.written_at,
            text: LedgerText::of(read.ledger.get().as_bytes().to_vec()),
        }))
    }
}

/// Keeps the copy up to date until the returned sender is dropped. Each message says that the ledger
/// has changed.
pub(super) fn keep(root: &Path, writer: &Arc<Writer>) -> io::Result<mpsc::SyncSender<()>> {
    let (changed, changes) = mpsc::sync_channel(1);
    let (root, writer) = (root.to_owned(), Arc::downgrade(writer));
    let thread = thread::Builder::new().name("harness-mirror".to_owned());
    thread.spawn(move || {
        while changes.recv().is_ok() {
            let began = Instant::now();
            // The next change makes another try.
            _ = copy(&root, &writer);
            thread::sleep(PAUSE.max(began.elapsed() * PAUSE_FACTOR));
        }
    })?;
    Ok(changed)
}

fn copy(root: &Path, writer: &Weak<Writer>) -> io::Result<()> {
    let Some(writer) = writer.upgrade() else { return Ok(()) };
    let text = writer.look(|ledger: &Ledger| {
        let mut document = Document::new(ledger);
        document.settle(ledger, 1, None);
        document.text()
    });
    drop(writer);
    let text = text.map_err(|why| io::Error::other(why.to_string()))?;
    let ledger = RawValue::from_string(text)?;
    let written = Written { version: 1, written_at: SystemClock.now(), ledger };
    let folder = Folder::ours(&Home::of(root).folder())?;
    folder.put(file_name(Home::MIRROR), &serde_json::to_vec(&written)?)
}
