//! Follows the changes of other hosts, and tells them about ours.
//!
//! A poll each second is enough. A notification makes it faster: it is sent by a timer, a few times a
//! second at most, in a transaction of its own, because PostgreSQL makes transactions that notify wait
//! for one another.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio_postgres::types::Type;

use super::{
    Database, DatabaseError,
    error::Trouble,
    handle::Shared,
    rows::{count, get},
    wire::{Link, bell},
};

/// Nothing polls faster than this without a notification.
const POLL: Duration = Duration::from_secs(1);
/// The least time between two looks, and between two notifications.
const TICK: Duration = Duration::from_millis(250);

/// What nobody needs any more is removed this often.
const TIDY: Duration = Duration::from_secs(3600);

const LOOK: &str = "SELECT version, beat, EXISTS (SELECT 1 FROM harness.message \
     WHERE ledger = $1 AND host = $2 AND taken_at IS NULL) FROM harness.ledger WHERE id = $1";

/// What the last look at a ledger found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetNews {
    /// The version of the ledger.
    pub version: u64,
    /// The number of batches of renewals.
    pub beat: u64,
    /// `true` if messages wait for this host.
    pub messages: bool,
    /// The reason why the database cannot be reached, while it cannot.
    pub cut_off: Option<String>,
}

/// Follows a ledger until it is dropped.
pub struct Follower(Arc<Followed>);

struct Followed {
    news: Mutex<FleetNews>,
    changed: Condvar,
    stopped: AtomicBool,
}

impl Followed {
    fn news(&self) -> MutexGuard<'_, FleetNews> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// Returns what the last look found.
    pub fn news(&self) -> FleetNews {
        self.0.news().clone()
    }

    /// Waits until the ledger has a newer version than `version`, at most for `limit`. Returns that
    /// version, or `None`.
    pub fn wait_newer(&self, version: u64, limit: Duration) -> Option<u64> {
        let news = self.0.news();
        let older = |news: &mut FleetNews| news.version <= version;
        let waited = self.0.changed.wait_timeout_while(news, limit, older);
        let (news, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (news.version > version).then_some(news.version)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // The thread ends at its next tick. It may wait for a server that does not answer.
        self.0.stopped.store(true, Ordering::Relaxed);
    }
}

impl Database {
    /// Follows the ledger over a connection of its own, and notifies other hosts of the changes of this
    /// one. `told` is called with everything that is new.
    pub fn follow(
        &self,
        told: impl Fn(&FleetNews) + Send + 'static,
    ) -> Result<Follower, DatabaseError> {
        let followed = Arc::new(Followed {
            news: Mutex::default(),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
        });
        let (shared, theirs) = (Arc::clone(&self.0), Arc::clone(&followed));
        let thread = thread::Builder::new().name("harness-follow".to_owned());
        let started = thread.spawn(move || follow(&shared, &theirs, &told));
        started.map_err(|why| DatabaseError::Unreachable {
            server: self.0.access.server(),
            why: why.to_string(),
        })?;
        Ok(Follower(followed))
    }
}

fn follow(shared: &Shared, followed: &Followed, told: &dyn Fn(&FleetNews)) {
    let (ring, rung) = bell();
    let mut link = shared.link().notifying(shared.ledger(), ring);
    let (mut looked, mut notified) = (None::<Instant>, shared.written());
    let (mut is_rung, mut is_away, mut tidied) = (false, false, None::<Instant>);
    while !followed.stopped.load(Ordering::Relaxed) {
        let is_time = looked.is_none_or(|at| at.elapsed() >= POLL);
        if is_time && tidied.is_none_or(|at| at.elapsed() >= TIDY) {
            // What stays is removed the next time.
            _ = tidy(shared, &mut link);
            tidied = Some(Instant::now());
        }
        let written = shared.written();
        // A server that is away is not asked more often because there is something to tell.
        let is_asked = is_time || !is_away && (is_rung || written > notified);
        let answered = (is_asked || !is_away) && shared.take_answered();
        if is_asked || answered {
            let news = written > notified || answered;
            let found = look(shared, &mut link, news.then_some(written));
            is_away = found.is_err();
            match &found {
                Ok(_) => notified = written,
                Err(_) if answered => shared.has_answered(),
                Err(_) => {}
            }
            looked = Some(Instant::now());
            is_rung = false;
            publish(shared, followed, found, told);
        }
        thread::sleep(TICK);
        is_rung |= rung.try_recv().is_ok();
    }
}

/// Removes the answers of old operations, old messages, and hosts and workers that are long gone.
fn tidy(shared: &Shared, link: &mut Link) -> Result<(), Trouble> {
    open(link)?;
    let ledger = shared.ledger();
    for sql in [
        "DELETE FROM harness.operation WHERE ledger = $1 AND at < clock_timestamp() - interval '1 day'",
        "DELETE FROM harness.message WHERE ledger = $1 AND sent_at < clock_timestamp() - interval '7 days'",
        "DELETE FROM harness.host WHERE ledger = $1 AND seen_at < clock_timestamp() - interval '1 day'",
        "DELETE FROM harness.worker WHERE ledger = $1 AND seen_at < clock_timestamp() - interval '7 days'",
    ] {
        link.query(sql, vec![(&ledger, Type::INT8)])?;
    }
    Ok(())
}

fn open(link: &mut Link) -> Result<(), Trouble> {
    if !link.is_open() {
        link.query("LISTEN harness", Vec::new())?;
    }
    Ok(())
}

/// Looks at the ledger, and notifies others of the version `written` before.
fn look(shared: &Shared, link: &mut Link, written: Option<u64>) -> Result<FleetNews, Trouble> {
    open(link)?;
    let (ledger, host) = (shared.ledger(), shared.id());
    if let Some(version) = written {
        let said = format!("{ledger}:{version}");
        link.query("SELECT pg_notify('harness', $1)", vec![(&said, Type::TEXT)])?;
    }
    let rows = link.query(LOOK, vec![(&ledger, Type::INT8), (&host, Type::UUID)])?;
    match rows.first() {
        Some(row) => Ok(FleetNews {
            version: count(row, 0)?,
            beat: count(row, 1)?,
            messages: get(row, 2)?,
            cut_off: None,
        }),
        None => {
            shared.find_again(link)?;
            Err(Trouble::Lost("the ledger was replaced".to_owned()))
        }
    }
}

fn publish(
    shared: &Shared,
    followed: &Followed,
    found: Result<FleetNews, Trouble>,
    told: &dyn Fn(&FleetNews),
) {
    let news = followed.news();
    let now = match found {
        Ok(found) => found,
        Err(trouble) => {
            let why = shared.link().given_up(trouble).to_string();
            FleetNews { cut_off: Some(why), ..news.clone() }
        }
    };
    if *news == now {
        return;
    }
    // The receiver of news knows them before the one who waits.
    drop(news);
    told(&now);
    *followed.news() = now;
    followed.changed.notify_all();
}
