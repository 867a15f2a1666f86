//! News of a ledger in a database, whose changes touch no file of this machine.

use std::sync::Mutex;

use harness::store::postgres::Follower;

use crate::root::StateRoot;

/// Follows a ledger in a database, until it is dropped.
pub(crate) struct Elsewhere(Follower);

/// A state of a ledger: its version, and the number of its last renewals.
pub(crate) type Seen = (u64, u64);

impl Elsewhere {
    /// Follows the ledger of `root`. `wake` is called after each change. Returns `None` if the ledger is
    /// in files, or its database may not be used: whatever reads it says why.
    pub(crate) fn follow(root: &StateRoot, wake: impl Fn() + Send + 'static) -> Option<Self> {
        let database = root.backing().open().ok().flatten()?;
        let last = Mutex::new(Seen::default());
        let followed = database.follow(move |news| {
            let seen = (news.version, news.beat);
            let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if std::mem::replace(&mut *last, seen) != seen {
                wake();
            }
        });
        followed.ok().map(Self)
    }

    /// Returns the state as last seen.
    pub(crate) fn seen(&self) -> Seen {
        let news = self.0.news();
        (news.version, news.beat)
    }
}
