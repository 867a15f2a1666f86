//! A connection whose reader must keep up: bytes that nobody takes for too long end it.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// A stream with a limit for the time that a write waits.
pub(super) struct Patient<T> {
    stream: T,
    patience: Duration,
    /// The end of the patience, while a write waits.
    deadline: Pin<Box<Sleep>>,
    waits: bool,
}

impl<T> Patient<T> {
    pub(super) fn new(stream: T, patience: Duration) -> Self {
        Self { stream, patience, deadline: Box::pin(sleep(patience)), waits: false }
    }

    /// Passes on what a write returned, or ends a wait that took too long.
    fn limited<R>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        if !self.waits {
            self.waits = true;
            self.deadline.as_mut().reset(Instant::now() + self.patience);
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limited(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.limited(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_reader_that_stops_reading_ends_the_connection() {
        let (mut reader, writer) = duplex(4);
        let mut writer = Patient::new(writer, Duration::from_millis(20));
        writer.write_all(b"abcd").await.unwrap();
        let why = writer.write_all(b"e").await.unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
        let mut taken = [0; 4];
        reader.read_exact(&mut taken).await.unwrap();
        writer.write_all(b"efgh").await.unwrap();
    }
}
