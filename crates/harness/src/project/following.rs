//! Follows the other machines of a ledger in a database: their changes, and their messages to this host.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

use super::{Backing, mirror};
use crate::store::{
    Observer as _, Observers, StoreError, Writer,
    postgres::{Database, Follower},
};

/// Follows other machines from [`start`](Following::start) until it is dropped. A process that works
/// beside the host of its root has none of its own connections for that until it becomes the host.
pub(super) struct Following {
    root: PathBuf,
    backing: Backing,
    writer: Weak<Writer>,
    observers: Observers,
    started: Mutex<Option<Mail>>,
}

/// The messages of other machines, for the host of a root. Clones share one follower.
#[derive(Clone)]
pub(crate) struct Mail {
    database: Database,
    follower: Arc<Follower>,
    arrived: Arc<Notify>,
}

impl Following {
    /// Returns what `writer` and `observers` need to follow other machines.
    pub(super) fn of(
        root: &Path,
        backing: &Backing,
        writer: &Arc<Writer>,
        observers: Observers,
    ) -> Self {
        let (root, backing, writer) = (root.to_owned(), backing.clone(), Arc::downgrade(writer));
        Self { root, backing, writer, observers, started: Mutex::default() }
    }

    /// Starts to follow other machines, unless that was done: wakes what waits for a change, and keeps
    /// the copy of the ledger on this machine. Returns `None` for files.
    pub(super) fn start(&self) -> Result<Option<Mail>, StoreError> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if started.is_some() {
            return Ok(started.clone());
        }
        let Some(database) = self.backing.open()? else { return Ok(None) };
        let Some(writer) = self.writer.upgrade() else { return Ok(None) };
        let mirror = mirror::keep(&self.root, &writer)?;
        let (known, observers) = (AtomicU64::new(0), self.observers.clone());
        let arrived = Arc::new(Notify::new());
        let bell = Arc::clone(&arrived);
        let follower = database.follow(move |news| {
            if known.swap(news.version, Ordering::Relaxed) != news.version {
                observers.changed_elsewhere();
                // A full channel means that a copy is about to be made.
                _ = mirror.try_send(());
            }
            if news.messages {
                bell.notify_one();
            }
        })?;
        let mail = Mail { database, follower: Arc::new(follower), arrived };
        *started = Some(mail.clone());
        Ok(Some(mail))
    }
}

impl Mail {
    /// Returns the database, with this process as a host of its ledger.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Returns whether messages waited at the last look.
    pub(crate) fn is_waiting(&self) -> bool {
        self.follower.news().messages
    }

    /// Completes when a message has arrived.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
