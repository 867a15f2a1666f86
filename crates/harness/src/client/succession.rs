//! The duty of the host, which passes to a worker when the host is gone.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::host::{
    Server,
    socket::{self, Bound, Places},
};

/// The interval of checks whether the host is gone.
const LOOK: Duration = Duration::from_secs(2);

/// Whether this process is the host of its root, and the news that nobody is.
#[derive(Debug, Clone, Default)]
pub struct HostSeat(Arc<Seat>);

#[derive(Debug, Default)]
struct Seat {
    holder: Mutex<SeatHolder>,
    vacant: Notify,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SeatHolder {
    /// Another process, or nobody.
    #[default]
    Other,
    Us,
}

/// A look at the seat, which does not change hands meanwhile.
pub(super) struct SeatLook<'a>(MutexGuard<'a, SeatHolder>);

impl SeatLook<'_> {
    pub(super) fn is_ours(&self) -> bool {
        *self.0 == SeatHolder::Us
    }
}

impl HostSeat {
    pub(super) fn look(&self) -> SeatLook<'_> {
        SeatLook(self.0.holder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports that no host answers.
    pub(super) fn report_vacancy(&self) {
        self.0.vacant.notify_one();
    }

    /// Takes the seat if it is free. It blocks.
    fn take(&self, root: &Path, places: &Places) -> Option<Bound> {
        let mut seat = self.look();
        if seat.is_ours() {
            return None;
        }
        // Another worker may have been faster, or the host may only have closed a connection.
        let bound = socket::bind(root, places).ok()?;
        *seat.0 = SeatHolder::Us;
        Some(bound)
    }
}

/// Waits for the end of the host, and serves the root then.
pub struct Succession {
    /// `None` for a process that does not wait for it, because it is the host itself.
    seat: Option<HostSeat>,
    root: PathBuf,
    places: Places,
    server: Option<Server>,
}

impl Succession {
    /// Returns the succession of a worker whose store reports to `seat`; without one, it never
    /// becomes the host.
    pub fn new(seat: Option<HostSeat>, root: &Path, places: Places) -> Self {
        Self { seat, root: root.to_owned(), places, server: None }
    }

    /// Performs `work`, and has `serve` serve the root once its host is gone.
    pub async fn beside<T>(
        &mut self,
        work: impl Future<Output = T>,
        serve: impl FnMut(Bound) -> io::Result<Server>,
    ) -> T {
        tokio::select! {
            biased;
            done = work => done,
            never = self.keep(serve) => match never {},
        }
    }

    async fn keep(
        &mut self,
        mut serve: impl FnMut(Bound) -> io::Result<Server>,
    ) -> std::convert::Infallible {
        let Some(seat) = self.seat.clone() else { return std::future::pending().await };
        loop {
            if self.server.is_some() {
                return std::future::pending().await;
            }
            tokio::select! {
                () = seat.0.vacant.notified() => {}
                // A worker whose agent is busy has nothing to ask for a long time.
                () = tokio::time::sleep(LOOK) => {}
            }
            let (taking, root, places) = (seat.clone(), self.root.clone(), self.places.clone());
            let taken = tokio::task::spawn_blocking(move || taking.take(&root, &places)).await;
            let Ok(Some(bound)) = taken else { continue };
            match serve(bound) {
                Ok(server) => self.server = Some(server),
                Err(why) => tracing::warn!(%why, "the root has no host"),
            }
        }
    }

    /// Ends serving, if this process became the host.
    pub async fn end(self) {
        if let Some(server) = self.server {
            server.end().await;
        }
    }
}
