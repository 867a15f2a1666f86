//! Notifications: messages to people, from a durable outbox, through [channels](Recipient).
//!
//! `harness_core::notify` decides what is worth a message and when it is sent. This module watches a
//! run, stores the messages in the record of runs, and sends them from threads of its own, so that
//! no channel delays a run.

mod channel;
#[cfg(feature = "http")]
mod message;
mod notifier;
mod sender;

pub use channel::{Means, Recipient, Secret};
pub use notifier::{Notifier, NotifierTerms, Warn};
pub use sender::{Courier, TRY_WITHIN};
