//! What somebody says to one execution while it runs.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::sync::Notify;

use crate::{event::Moment, queue::BoundedQueue};

/// Messages that an execution has not read yet; the oldest go when there are more.
const CAPACITY: usize = 4096;

/// Something that was said to one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What was said.
    pub content: String,
    /// When it was sent.
    pub timestamp: Moment,
}

/// The messages to one execution, first in, first out. It is there before `agent:start` is told,
/// so nothing that a listener sends is lost. It holds 4096 unread messages; beyond that the oldest
/// go, with a warning in the log.
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
}

impl Default for Waiting {
    fn default() -> Self {
        Self { messages: BoundedQueue::new(CAPACITY), closed: false }
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

    pub(crate) fn put(&self, message: Message) {
        let mut waiting = self.lock();
        let dropped = waiting.messages.push(message);
        drop(waiting);
        if dropped.is_some() {
            tracing::warn!("an inbox is full: its oldest message is dropped");
        }
        self.changed.notify_waiters();
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }
}

impl Inbox {
    /// The next message, as soon as there is one. `None` when the execution is over and nobody can
    /// send any more.
    pub async fn pop(&mut self) -> Option<Message> {
        loop {
            let changed = self.mailbox.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a message in between is not slept over.
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

    /// All that is there now, oldest first; does not wait.
    pub fn drain(&mut self) -> Vec<Message> {
        self.mailbox.lock().messages.take().into()
    }

    /// The messages as a stream, which ends as [`pop`](Inbox::pop) does.
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
    /// As [`Inbox::pop`], for those who have no `StreamExt` at hand.
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
