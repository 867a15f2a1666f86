//! Messages to one execution while it runs.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::sync::Notify;

use crate::{event::Moment, queue::BoundedQueue};

/// The limit of unread messages. Beyond it, the oldest are dropped.
const CAPACITY: usize = 4096;

/// A message to one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The text.
    pub content: String,
    /// The time at which it was sent.
    pub timestamp: Moment,
}

/// The messages to one execution, first in, first out. It exists before `agent:start` is emitted,
/// so no message of a listener is lost. It holds 4096 unread messages. Beyond that, the oldest are
/// dropped with a warning in the log.
#[derive(Debug)]
pub struct Inbox {
    mailbox: Arc<Mailbox>,
}

#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug)]
struct Waiting {
    messages: BoundedQueue<Message>,
    closed: bool,
    /// The agent does not read while it works.
    unread: bool,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { messages: BoundedQueue::new(CAPACITY), closed: false, unread: false }
    }
}

impl Mailbox {
    pub(crate) fn open() -> (Arc<Self>, Inbox) {
        let mailbox = Arc::new(Self::default());
        let inbox = Inbox { mailbox: Arc::clone(&mailbox) };
        (mailbox, inbox)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the agent can read it.
    pub(crate) fn put(&self, message: Message) -> bool {
        let mut waiting = self.lock();
        let is_read = !waiting.closed && !waiting.unread;
        let dropped = waiting.messages.push(message);
        drop(waiting);
        if dropped.is_some() {
            tracing::warn!("an inbox is full: its oldest message is dropped");
        }
        self.changed.notify_waiters();
        is_read
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }
}

impl Inbox {
    /// Has senders know that the agent does not read while it works.
    pub(crate) fn is_never_read(&self) {
        self.mailbox.lock().unread = true;
    }

    /// The next message, as soon as there is one. `None` when the execution is over and nobody can
    /// send any more.
    pub async fn pop(&mut self) -> Option<Message> {
        loop {
            let changed = self.mailbox.changed.notified();
            tokio::pin!(changed);
            // The waiter is registered before the check, so that a message in between wakes it.
            changed.as_mut().enable();
            {
                let mut waiting = self.mailbox.lock();
                if let Some(message) = waiting.messages.pop() {
                    return Some(message);
                }
                if waiting.closed {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Returns all messages that are there now, oldest first, without waiting.
    pub fn drain(&mut self) -> Vec<Message> {
        self.mailbox.lock().messages.take().into()
    }

    /// Returns the messages as a stream, which ends like [`pop`](Inbox::pop).
    pub fn stream(&mut self) -> Messages<'_> {
        Messages(Box::pin(async move {
            let message = self.pop().await;
            (message, self)
        }))
    }
}

type Popping<'a> = Pin<Box<dyn Future<Output = (Option<Message>, &'a mut Inbox)> + Send + 'a>>;

/// See [`Inbox::stream`].
pub struct Messages<'a>(Popping<'a>);

impl Messages<'_> {
    /// Does the same as [`Inbox::pop`], for callers without `StreamExt`.
    pub async fn next(&mut self) -> Option<Message> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Messages<'_> {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        match self.0.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready((message, inbox)) => {
                self.0 = Box::pin(async move {
                    let message = inbox.pop().await;
                    (message, inbox)
                });
                Poll::Ready(message)
            }
        }
    }
}
