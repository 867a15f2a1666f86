//! Listeners of a hub, and their subscriptions.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{Core, Filter, lock};
use crate::event::Envelope;

pub(super) type Hear = dyn Fn(&Envelope) -> Result<(), String> + Send + Sync;

pub(super) struct Listener {
    pub(super) filter: Filter,
    pub(super) hear: Box<Hear>,
    pub(super) active: AtomicBool,
}

/// The return value of a listener: nothing, or a result whose error is logged.
pub trait Heard {
    /// Returns the error as text.
    fn heard(self) -> Result<(), String>;
}

impl Heard for () {
    fn heard(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: fmt::Display> Heard for Result<(), E> {
    fn heard(self) -> Result<(), String> {
        self.map_err(|e| e.to_string())
    }
}

/// Ends its subscription when it is dropped or [ended](Subscription::end).
#[must_use = "the subscription ends when this is dropped"]
pub struct Subscription {
    pub(super) core: Weak<Core>,
    pub(super) listener: Arc<Listener>,
    pub(super) kept: bool,
}

impl Subscription {
    /// Ends the subscription: the listener is not called any more. It may be called more than once.
    pub fn end(&self) {
        if self.listener.active.swap(false, Ordering::AcqRel)
            && let Some(core) = self.core.upgrade()
        {
            let mut listeners = lock(&core.listeners);
            let left = listeners.iter().filter(|l| !Arc::ptr_eq(l, &self.listener));
            *listeners = Arc::new(left.cloned().collect());
        }
    }

    /// Keeps the subscription for as long as the hub lives.
    pub fn forever(mut self) {
        self.kept = true;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if !self.kept {
            self.end();
        }
    }
}
