//! A request to stop that a poll loop can wait for.

use std::{
    io::{self, PipeReader, PipeWriter},
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Mutex, PoisonError},
};

/// A way to stop [`Shell::run_until`](super::Shell::run_until) from another thread. Clones are one
/// and the same request. Once made it stays.
#[derive(Debug, Clone)]
pub struct Cancel {
    ends: Arc<Ends>,
}

/// The writer going away is the signal: every poll of the reader sees it, however often, and none
/// has to read.
#[derive(Debug)]
struct Ends {
    reader: PipeReader,
    writer: Mutex<Option<PipeWriter>>,
}

impl Cancel {
    /// Not yet asked for. Fails where no pipe can be had.
    pub fn new() -> io::Result<Cancel> {
        let (reader, writer) = io::pipe()?;
        Ok(Cancel { ends: Arc::new(Ends { reader, writer: Mutex::new(Some(writer)) }) })
    }

    /// Asks for the stop. Fine more than once.
    pub fn cancel(&self) {
        self.ends.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Whether it was asked for.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.ends.writer.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl AsFd for Cancel {
    /// Hangs up when cancelled.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ends.reader.as_fd()
    }
}
