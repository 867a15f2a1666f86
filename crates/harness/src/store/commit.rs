//! Makes decisions durable, for a caller that awaits the result.

use std::{future::Future, io, pin::Pin, sync::Arc};

use harness_core::{Command, Refusal, Reply};

use super::{StoreError, Writer, WriterError};

type Committed<'a> = Pin<Box<dyn Future<Output = Committing> + Send + 'a>>;
/// The result of [`Commit::flush`], once it is there.
pub type Flushed<'a> = Pin<Box<dyn Future<Output = Result<(), Arc<StoreError>>> + Send + 'a>>;
/// The result of a commit: durable, refused, or an error of the store.
pub type Committing = std::result::Result<std::result::Result<Reply, Refusal>, Arc<StoreError>>;

/// Makes commands durable.
pub trait Commit: Send + Sync {
    /// Completes when `command` is durable, and not before. There is one exception: the end of an
    /// iteration becomes durable with the next commit or the next [`flush`](Self::flush).
    fn commit(&self, command: Command) -> Committed<'_>;

    /// Completes when all earlier commands are durable. A drive calls this before each effect and
    /// before it returns.
    fn flush(&self) -> Flushed<'_> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Commit for Writer {
    fn commit(&self, command: Command) -> Committed<'_> {
        Box::pin(async move {
            match self.apply_async(command).await {
                Ok(reply) => Ok(Ok(reply)),
                Err(WriterError::Refused(refusal)) => Ok(Err(refusal)),
                Err(WriterError::Store(error)) => Err(error),
                Err(WriterError::Ended) => {
                    Err(Arc::new(StoreError::Io(io::Error::other("the writer has ended"))))
                }
            }
        })
    }
}
