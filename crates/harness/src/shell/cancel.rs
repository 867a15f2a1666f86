//! A request to stop that a poll loop can wait for.

use std::{
    io::{self, PipeReader, PipeWriter},
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Mutex, PoisonError},
};

/// A way to stop [`Shell::run_until`](super::Shell::run_until) from another thread. Clones share
/// the same request. It cannot be withdrawn.
#[derive(Debug, Clone)]
pub struct Cancel {
    ends: Arc<Ends>,
}

/// Dropping the writer is the signal: every poll of the reader sees it, any number of times, and
/// none has to read.
#[derive(Debug)]
struct Ends {
    reader: PipeReader,
    writer: Mutex<Option<PipeWriter>>,
}

impl Cancel {
    /// Creates a request that is not made yet. Fails if no pipe can be created.
    pub fn new() -> io::Result<Cancel> {
        let (reader, writer) = io::pipe()?;
        Ok(Cancel { ends: Arc::new(Ends { reader, writer: Mutex::new(Some(writer)) }) })
    }

    /// Requests the stop. It may be called more than once.
    pub fn cancel(&self) {
        self.ends.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns whether the stop was requested.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.ends.writer.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl AsFd for Cancel {
    /// Returns a descriptor that hangs up when cancelled.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ends.reader.as_fd()
    }
}
