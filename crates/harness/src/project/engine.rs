//! A process at work in a root: its parts, and the order in which they begin and end.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use harness_core::Ledger;

#[cfg(feature = "postgres")]
use super::following::{Following, Mail};
use crate::{
    agent::Desk,
    clock::Clock,
    error::{Error, Result},
    event::Envelope,
    hub::{Hub, Subscription},
    process::Redactor,
    store::{Commit, Observer as _, Observers, Runs, StoreError, Stores, Writer, WriterError},
};

/// The owner of a root's store for an engine. The real one is the [`Writer`].
pub trait Keeper: Send + Sync + 'static {
    /// Returns the port through which decisions become durable: those about tasks, and with `runs`
    /// those about runs.
    fn commit(self: Arc<Self>, runs: Arc<dyn Runs>, clock: Arc<dyn Clock>) -> Arc<dyn Commit>;

    /// Returns the ledger as the keeper knows it. Blocks.
    fn snapshot(&self) -> Result<Ledger>;

    /// Judges the edits that others made to the files. Blocks.
    fn settle(&self) -> Result<()>;
}

impl Keeper for Writer {
    fn commit(self: Arc<Self>, runs: Arc<dyn Runs>, clock: Arc<dyn Clock>) -> Arc<dyn Commit> {
        Arc::new(Stores { ledger: self, runs, clock })
    }

    fn snapshot(&self) -> Result<Ledger> {
        self.look(Clone::clone).map_err(|why| match why {
            WriterError::Store(why) => Error::Commit(why),
            why => Error::from(why.to_string()),
        })
    }

    fn settle(&self) -> Result<()> {
        Writer::settle(self).map_err(|why| Error::from(why.to_string()))
    }
}

/// The parts of an engine.
pub struct Parts<K> {
    /// The state root.
    pub root: PathBuf,
    /// The owner of the store. Its observers are chosen when it is created.
    pub keeper: Arc<K>,
    /// The hub on which a run reports its events.
    pub hub: Hub,
    /// The observers, which receive the events of the hub, and its end.
    pub observers: Observers,
    /// The time of decisions.
    pub clock: Arc<dyn Clock>,
    /// The secrets that must not appear in any text.
    pub secrets: Redactor,
    /// Whether others may write too.
    pub tenure: Tenure,
}

/// Whether a process has a root for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenure {
    /// It holds the lock for its whole life.
    Sole,
    /// It takes the lock for each transaction.
    Shared,
}

/// A process at work in a root, over real ports or over simulated ones.
///
/// [`Project::engine`](super::Project::engine) starts it. It [works](Engine::work) on the ledger,
/// [pursues](Engine::pursue) an objective, or serves others. Call [`end`](Engine::end) when no
/// request can reach it any more, that is after the runtime on which it worked was dropped.
pub struct Engine<K> {
    pub(super) root: PathBuf,
    pub(super) keeper: Arc<K>,
    pub(super) hub: Hub,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) secrets: Redactor,
    pub(super) desk: Desk,
    observers: Observers,
    watching: Subscription,
    tenure: Tenure,
    #[cfg(feature = "postgres")]
    following: Option<Following>,
    place: LedgerPlace,
}

/// Where the ledger of an engine is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LedgerPlace {
    /// In files, or wherever the store says.
    Here,
    /// In a database, directly or through the host of the root.
    Database,
}

impl<K: Keeper> Engine<K> {
    /// Creates an engine of these parts.
    pub fn of(parts: Parts<K>) -> Self {
        let Parts { root, keeper, hub, observers, clock, secrets, tenure } = parts;
        let seen = observers.clone();
        let watching = hub.subscribe("*", move |envelope: &Envelope| seen.event(envelope));
        Self {
            root,
            keeper,
            hub,
            clock,
            secrets,
            desk: Desk::default(),
            observers,
            watching,
            tenure,
            #[cfg(feature = "postgres")]
            following: None,
            place: LedgerPlace::Here,
        }
    }

    /// Sets how it follows other machines once it is the host.
    #[cfg(feature = "postgres")]
    pub(super) fn following(self, following: Following) -> Self {
        Self { following: Some(following), ..self }
    }

    /// Follows other machines from now on until it ends, if its ledger is in a database.
    pub(super) fn follow_others(&self) -> Result<(), StoreError> {
        #[cfg(feature = "postgres")]
        self.mail()?;
        Ok(())
    }

    /// Returns the messages of other machines, which are followed from now on; `None` if the ledger is in
    /// files.
    #[cfg(feature = "postgres")]
    pub(crate) fn mail(&self) -> Result<Option<Mail>, StoreError> {
        match &self.following {
            Some(following) => following.start(),
            None => Ok(None),
        }
    }

    /// Sets where the ledger is kept.
    pub(super) fn keeping(self, place: LedgerPlace) -> Self {
        Self { place, ..self }
    }

    pub(super) fn place(&self) -> LedgerPlace {
        self.place
    }

    /// Returns the state root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the owner of the store.
    pub fn keeper(&self) -> &Arc<K> {
        &self.keeper
    }

    /// Returns the hub on which it reports its events.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns the desk of the agents at work.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Returns the secrets that are removed from every text.
    pub fn secrets(&self) -> &Redactor {
        &self.secrets
    }

    /// Ends the engine. Waiting decisions are written, then the edits that others made to the files
    /// are judged if this process held them alone, and only then the observers end. The error
    /// concerns that judgement.
    pub fn end(self) -> Result<()> {
        #[cfg(feature = "postgres")]
        drop(self.following);
        let Self { keeper, observers, watching, tenure, .. } = self;
        let settled = match tenure {
            Tenure::Sole => keeper.settle(),
            Tenure::Shared => Ok(()),
        };
        drop(keeper);
        drop(watching);
        observers.end();
        settled
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Mutex;

    use harness_core::{Command, command::Note};

    use super::*;
    use crate::{
        event::Event,
        project::Project,
        store::{Locking, Observer, Transaction, lock::Wait},
    };

    #[derive(Default)]
    struct Diary(Mutex<Vec<String>>);

    impl Diary {
        fn note(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }
    }

    impl Observer for Diary {
        fn committed(&self, transaction: &Transaction<'_>) {
            self.note(format!("committed {}", transaction.facts.len()));
        }

        fn event(&self, envelope: &Envelope) {
            self.note(envelope.event.kind().to_owned());
        }

        fn end(&self) {
            self.note("end".to_owned());
        }
    }

    /// Decisions that are still in the queue of the writer when the engine ends are committed
    /// before the end.
    #[tokio::test]
    async fn what_waits_is_written_before_the_observers_end() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::open(folder.path()).unwrap();
        let mut store = project.file_store(Locking::Each(Wait::No)).unwrap();
        _ = store.create(project.clock().now()).unwrap();
        let diary = Arc::new(Diary::default());
        let mut observers = Observers::default();
        observers.add(diary.clone());
        let lock = project.hold().unwrap().guard;
        let engine = project.engine(Locking::Held(lock), Hub::new("test"), observers).unwrap();
        engine.hub().emit(Event::HarnessStart { name: "one".to_owned() });
        let note = Note::Warning { task: None, message: "two".to_owned() };
        let keeper = Arc::clone(engine.keeper());
        let mut asked = Box::pin(async move { keeper.apply_async(Command::Note(note)).await });
        // The first poll puts it into the queue. Nothing waits for the answer.
        tokio::select! {
            biased;
            _ = &mut asked => {}
            () = std::future::ready(()) => {}
        }
        drop(asked);
        engine.end().unwrap();
        let noted = diary.0.lock().unwrap().clone();
        assert_eq!(noted.first().unwrap(), "harness:start", "{noted:?}");
        assert!(noted.contains(&"committed 1".to_owned()), "{noted:?}");
        assert_eq!(noted.last().unwrap(), "end", "{noted:?}");
        let hash = crate::home::root_hash(project.root());
        _ = std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"));
    }
}
