//! The observers of a root while a process works on it: one trait and one fan-out.

use std::{cell::RefCell, sync::Arc};

use harness_core::{Fact, Ledger};

use super::Store;
use crate::event::Envelope;

/// Watches changes and events and returns nothing: a screen, telemetry, a dashboard, clients that
/// wait.
///
/// It is called on the thread of the writer or of the hub, which waits for it. It must be quick,
/// and it must not call the writer. It may read the ledger with [`Transaction::look`].
///
/// A closure over a transaction is an observer too.
pub trait Observer: Send + Sync {
    /// A transaction is durable. Its callers have not received an answer yet.
    fn committed(&self, _transaction: &Transaction<'_>) {}

    /// A transaction of another process, which asked this one to make it, is durable. That process
    /// reports it to its own observers, so only what waits for a change needs to know.
    fn relayed(&self, _transaction: &Transaction<'_>) {}

    /// Another machine changed the ledger in a database. Only what waits for a change needs to know.
    fn changed_elsewhere(&self) {}

    /// Something happened in a run.
    fn event(&self, _envelope: &Envelope) {}

    /// Nothing more will come. Pending output must be delivered now, within about a second.
    fn end(&self) {}
}

impl<F: Fn(&Transaction<'_>) + Send + Sync> Observer for F {
    fn committed(&self, transaction: &Transaction<'_>) {
        self(transaction);
    }
}

/// The changes of one transaction of the writer.
pub struct Transaction<'a> {
    /// The facts that became true, in order.
    pub facts: &'a [Fact],
    /// The text that was appended to the log: lines of these facts, after those that an earlier
    /// failure kept from it.
    pub log: &'a str,
    /// Warnings for a person although the change was made.
    pub warnings: &'a [String],
    store: RefCell<&'a mut dyn Store>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(store: &'a mut dyn Store, applied: &'a super::Applied) -> Self {
        Self {
            facts: &applied.facts,
            log: &applied.log,
            warnings: &applied.warnings,
            store: RefCell::new(store),
        }
    }

    /// Reads the ledger of the store. No file is read unless another program wrote one. Returns
    /// `None` if the store fails, or inside of another look.
    pub fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> Option<T> {
        let mut store = self.store.try_borrow_mut().ok()?;
        store.ledger().ok().map(look)
    }
}

/// The observers of a root. Each receives everything, in the order in which they were added.
#[derive(Clone, Default)]
pub struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    /// Adds an observer after the others.
    pub fn add(&mut self, observer: Arc<dyn Observer>) {
        self.0.push(observer);
    }

    /// Adds an observer after the others.
    #[must_use]
    pub fn with(mut self, observer: impl Observer + 'static) -> Self {
        self.add(Arc::new(observer));
        self
    }
}

impl Observer for Observers {
    fn committed(&self, transaction: &Transaction<'_>) {
        self.0.iter().for_each(|observer| observer.committed(transaction));
    }

    fn relayed(&self, transaction: &Transaction<'_>) {
        self.0.iter().for_each(|observer| observer.relayed(transaction));
    }

    fn changed_elsewhere(&self) {
        self.0.iter().for_each(|observer| observer.changed_elsewhere());
    }

    fn event(&self, envelope: &Envelope) {
        self.0.iter().for_each(|observer| observer.event(envelope));
    }

    fn end(&self) {
        self.0.iter().for_each(|observer| observer.end());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::{
        fs,
        sync::{Mutex, mpsc},
        time::Duration,
    };

    use harness_core::{Command, command::Note};

    use super::*;
    use crate::{
        clock::{Clock, SystemClock},
        home::Home,
        store::{FileStore, Locking, Writer, lock::Wait},
    };

    fn warning(message: &str) -> Command {
        Command::Note(Note::Warning { task: None, message: message.to_owned() })
    }

    #[test]
    fn a_transaction_has_the_lines_it_appended_and_those_that_a_crash_kept_from_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let locking = Locking::Each(Wait::For(Duration::from_secs(5)));
            FileStore::open(folder.path(), locking).unwrap()
        };
        _ = open().create(SystemClock.now()).unwrap();
        let log = Home::of(folder.path()).log();
        let before = fs::read_to_string(&log).unwrap();
        _ = open().apply(SystemClock.now(), &[warning("first")]).unwrap();
        fs::write(&log, &before).unwrap();
        let (sender, seen) = mpsc::channel();
        let sender = Mutex::new(sender);
        let observers = Observers::default().with(move |made: &Transaction<'_>| {
            let counted = made.look(|ledger| (ledger.len(), made.look(Ledger::len)));
            sender.lock().unwrap().send((made.log.to_owned(), counted)).unwrap();
        });
        let writer = Writer::start(open(), Arc::new(SystemClock), observers).unwrap();
        writer.apply(warning("second")).unwrap();
        drop(writer);
        let (shown, counted) = seen.try_recv().unwrap();
        assert_eq!(format!("{before}{shown}"), fs::read_to_string(&log).unwrap());
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert!(lines[0].ends_with("first") && lines[1].ends_with("second"), "{shown}");
        assert_eq!(counted, Some((0, None)), "a look inside of a look gives nothing");
        let hash = crate::home::root_hash(&folder.path().canonicalize().unwrap());
        _ = fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"));
    }

    /// The file is removed before the look, so a look that read it would fail.
    #[test]
    fn a_look_of_the_process_that_holds_the_lock_reads_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let lock = crate::store::lock::StateLock::acquire(&root, Wait::No).unwrap().guard;
        let mut store = FileStore::open(&root, Locking::Held(lock)).unwrap();
        _ = store.create(SystemClock.now()).unwrap();
        let (sender, seen) = mpsc::channel();
        let (sender, ledger) = (Mutex::new(sender), root.join(Home::LEDGER));
        let observers = Observers::default().with(move |made: &Transaction<'_>| {
            fs::remove_file(&ledger).unwrap();
            sender.lock().unwrap().send(made.look(Ledger::len)).unwrap();
        });
        let writer = Writer::start(store, Arc::new(SystemClock), observers).unwrap();
        writer.apply(warning("first")).unwrap();
        drop(writer);
        assert_eq!(seen.try_recv().unwrap(), Some(0));
        let hash = crate::home::root_hash(&root);
        _ = fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"));
    }

    #[test]
    fn each_observer_gets_everything_in_the_order_of_their_addition() {
        struct Noted(&'static str, Arc<Mutex<Vec<String>>>);
        impl Observer for Noted {
            fn end(&self) {
                self.1.lock().unwrap().push(self.0.to_owned());
            }
        }
        let ends = Arc::new(Mutex::new(Vec::new()));
        let noted = |name| Noted(name, Arc::clone(&ends));
        Observers::default().with(noted("one")).with(noted("two")).end();
        assert_eq!(*ends.lock().unwrap(), ["one", "two"]);
    }
}
