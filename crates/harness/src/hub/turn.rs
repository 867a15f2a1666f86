//! Ensures that one event is delivered at a time. A thread that is already delivering does not wait
//! for itself.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::event::Envelope;

#[derive(Default)]
pub(super) struct Turn {
    one_at_a_time: Mutex<()>,
    /// The delivering thread; zero if there is none.
    holder: AtomicUsize,
    /// Events that listeners emitted while they were called.
    queue: Mutex<VecDeque<Arc<Envelope>>>,
}

pub(super) struct Taken<'a> {
    turn: &'a Turn,
    _held: MutexGuard<'a, ()>,
}

impl Turn {
    /// Waits for the turn; `None` if this thread has it already.
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        let me = this_thread();
        if self.holder.load(Ordering::Relaxed) == me {
            return None;
        }
        let held = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        self.holder.store(me, Ordering::Relaxed);
        Some(Taken { turn: self, _held: held })
    }

    pub(super) fn queue(&self, envelope: Arc<Envelope>) {
        self.lock().push_back(envelope);
    }

    pub(super) fn next(&self) -> Option<Arc<Envelope>> {
        self.lock().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Envelope>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.turn.holder.store(0, Ordering::Relaxed);
    }
}

/// Returns a number that no two live threads share: the address of a thread-local variable.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}
