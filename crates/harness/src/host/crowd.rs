//! The connections to a host. Their number is limited, and an idle one makes room for a new one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// The limit of connections at the same time.
const CONNECTIONS_MAX: usize = 512;

/// The register of connections. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Crowd(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    count: usize,
    next: u64,
    /// The idle connections, the longest idle first.
    waiting: BTreeMap<u64, CancellationToken>,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Crowd,
    since: Mutex<Option<u64>>,
    taken: CancellationToken,
}

impl Crowd {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` if all connections are being answered.
    pub(super) fn enter(&self) -> Option<Place> {
        let mut inside = self.inside();
        if inside.count >= CONNECTIONS_MAX {
            let (_, idlest) = inside.waiting.pop_first()?;
            idlest.cancel();
        }
        inside.count += 1;
        let taken = CancellationToken::new();
        Some(Place { crowd: self.clone(), since: Mutex::default(), taken })
    }
}

impl Place {
    /// Marks the connection as idle.
    pub(super) fn wait(&self) {
        let mut inside = self.crowd.inside();
        let number = inside.next;
        inside.next += 1;
        inside.waiting.insert(number, self.taken.clone());
        drop(inside);
        *self.since() = Some(number);
    }

    /// Marks the connection as being answered.
    pub(super) fn work(&self) {
        if let Some(number) = self.since().take() {
            self.crowd.inside().waiting.remove(&number);
        }
    }

    /// Completes when another connection needs the place.
    pub(super) async fn taken(&self) {
        self.taken.cancelled().await;
    }

    fn since(&self) -> MutexGuard<'_, Option<u64>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.work();
        let mut inside = self.crowd.inside();
        inside.count = inside.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_idlest_makes_room_and_who_is_answered_stays() {
        let crowd = Crowd::default();
        let places: Vec<_> = (0..CONNECTIONS_MAX).map(|_| crowd.enter().unwrap()).collect();
        assert!(crowd.enter().is_none(), "all are at work");
        places[7].wait();
        places[3].wait();
        places[7].work();
        places[7].wait();
        let _more = crowd.enter().unwrap();
        assert!(places[3].taken.is_cancelled() && !places[7].taken.is_cancelled());
        drop(places);
        assert_eq!(crowd.inside().waiting.len(), 0);
        assert_eq!(crowd.inside().count, 1);
    }
}
