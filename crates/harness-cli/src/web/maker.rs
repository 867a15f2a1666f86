//! The thread that makes pages: one for all clients.
//!
//! Pages are made one after the other. What a ledger needs of memory is then needed once, in one
//! place, however many clients ask. Clients that wait for the same page share it.

use std::{
    collections::HashMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Instant,
};

use axum::{body::Bytes, http::StatusCode};
use tokio::sync::oneshot;

use super::reader::Reader;
use crate::failure::{Failure, Result};

/// The number of pages that are kept while clients wait.
const KEPT_MAX: usize = 16;

/// A page as it is sent.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) status: StatusCode,
    pub(super) text: Bytes,
}

type Job = Box<dyn FnOnce(&Reader, &mut Shelf) + Send>;

/// Passes work to the thread. It ends with this value, after the page that it makes.
#[derive(Debug)]
pub(super) struct Maker {
    jobs: Mutex<mpsc::Sender<Job>>,
}

impl Maker {
    pub(super) fn start(reader: Reader) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        thread::Builder::new().name("web-pages".to_owned()).spawn(move || {
            let mut shelf = Shelf::default();
            while let Ok(job) = waiting.recv() {
                for job in std::iter::once(job).chain(waiting.try_iter()) {
                    // The client of a page that failed gets no answer from here, and learns it so.
                    _ = catch_unwind(AssertUnwindSafe(|| job(&reader, &mut shelf)));
                }
                // Nobody waits.
                shelf = Shelf::default();
            }
        })?;
        Ok(Self { jobs: Mutex::new(jobs) })
    }

    /// Makes something from the files.
    pub(super) async fn make<T: Send + 'static>(
        &self,
        make: impl FnOnce(&Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.pass(|_, reader| make(reader)).await?
    }

    /// Makes a page, or takes the one with the same address that was begun after this request came.
    pub(super) async fn page(
        &self,
        address: String,
        make: impl FnOnce(&Reader) -> Made + Send + 'static,
    ) -> Result<Made> {
        let asked = Instant::now();
        self.pass(move |shelf, reader| shelf.page(address, asked, || make(reader))).await
    }

    async fn pass<T: Send + 'static>(
        &self,
        make: impl FnOnce(&mut Shelf, &Reader) -> T + Send + 'static,
    ) -> Result<T> {
        let failed = || Failure::error("the page could not be made");
        let (sender, made) = oneshot::channel();
        let job: Job = Box::new(move |reader, shelf| {
            // A client that has left needs nothing.
            if !sender.is_closed() {
                _ = sender.send(make(shelf, reader));
            }
        });
        let sent = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        sent.map_err(|_| failed())?;
        made.await.map_err(|_| failed())
    }
}

/// The pages that were made while clients waited, with the time at which each was begun.
#[derive(Debug, Default)]
struct Shelf(HashMap<String, (Instant, Made)>);

impl Shelf {
    fn page(&mut self, address: String, asked: Instant, make: impl FnOnce() -> Made) -> Made {
        if let Some((_, made)) = self.0.get(&address).filter(|(begun, _)| *begun >= asked) {
            return made.clone();
        }
        let begun = Instant::now();
        let made = make();
        if self.0.len() >= KEPT_MAX {
            self.0.clear();
        }
        self.0.insert(address, (begun, made.clone()));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_shared_by_those_who_asked_before_it_was_begun() {
        let mut shelf = Shelf::default();
        let mut count = 0;
        let mut page = |shelf: &mut Shelf, address: &str, asked| {
            let make = || {
                count += 1;
                Made { status: StatusCode::OK, text: Bytes::from(count.to_string()) }
            };
            shelf.page(address.to_owned(), asked, make).text
        };
        let (first, second) = (Instant::now(), Instant::now());
        assert_eq!(page(&mut shelf, "/", first), "1");
        assert_eq!(page(&mut shelf, "/", second), "1", "both came before it was begun");
        assert_eq!(page(&mut shelf, "/log", second), "2");
        assert_eq!(page(&mut shelf, "/", Instant::now()), "3", "what happened since is shown");
        for n in 0..2 * KEPT_MAX {
            _ = page(&mut shelf, &format!("/{n}"), Instant::now());
        }
        assert!(shelf.0.len() <= KEPT_MAX);
    }
}
