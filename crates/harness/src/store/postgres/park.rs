//! Futures for callers that block.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Parks this thread until the future is done. Returns `None` at the end of the time. Another thread
/// must drive whatever the future waits for.
pub(super) fn wait<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
        match until {
            None => thread::park(),
            Some(until) => match until.checked_duration_since(Instant::now()) {
                Some(left) => thread::park_timeout(left),
                None => return None,
            },
        }
    }
}
