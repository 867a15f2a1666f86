//! Lines of a connection. Their length, their duration, and the memory of incomplete lines of all
//! connections are bounded.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _},
    time::timeout,
};

use crate::protocol::LINE_BYTES_MAX;

/// The time that a connection may be idle.
const IDLE: Duration = Duration::from_secs(600);
/// The time limit of a line from its first byte to its end.
const LINE_WITHIN: Duration = Duration::from_secs(30);
/// The part of a line that every connection may keep. Anything beyond it counts for all together.
const FREE_BYTES: usize = 64 * 1024;
/// The limit of incomplete lines beyond that, for all together.
const HALF_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Line(Vec<u8>),
    /// The line was too long, and dropped up to its newline.
    TooLong,
    /// The line was dropped up to its newline, because others have begun too much already.
    Crowded,
    /// The line did not end in time.
    Late,
    /// Nothing more comes.
    End,
}

/// The memory of incomplete lines. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Halves(Arc<AtomicUsize>);

impl Halves {
    fn reserve(&self, bytes: usize) -> bool {
        let add = |all: usize| all.checked_add(bytes).filter(|all| *all <= HALF_BYTES_MAX);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn free(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Reads lines. If a caller stops waiting for the next one, nothing is lost.
pub(super) struct Frames<R> {
    reader: R,
    line: Vec<u8>,
    /// The reason why the current line is dropped.
    dropping: Option<Frame>,
    halves: Halves,
    reserved: usize,
}

impl<R> Drop for Frames<R> {
    fn drop(&mut self) {
        self.halves.free(self.reserved);
    }
}

impl<R: AsyncBufRead + Unpin> Frames<R> {
    pub(super) fn new(reader: R, halves: Halves) -> Self {
        Self { reader, line: Vec::new(), dropping: None, halves, reserved: 0 }
    }

    pub(super) async fn next(&mut self) -> io::Result<Frame> {
        if self.line.is_empty() && self.dropping.is_none() {
            self.release();
            match timeout(IDLE, self.reader.fill_buf()).await {
                Ok(begun) => _ = begun?,
                Err(_) => return Ok(Frame::End),
            }
        }
        match timeout(LINE_WITHIN, self.whole()).await {
            Ok(frame) => frame,
            Err(_) => Ok(Frame::Late),
        }
    }

    async fn whole(&mut self) -> io::Result<Frame> {
        loop {
            let buffer = self.reader.fill_buf().await?;
            if buffer.is_empty() {
                // A last line without newline counts.
                return Ok(if self.dropping.is_some() || !self.line.is_empty() {
                    self.take()
                } else {
                    Frame::End
                });
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let length = self.line.len() + part.len();
            let more = length.saturating_sub(FREE_BYTES + self.reserved);
            if self.dropping.is_none() {
                if length > LINE_BYTES_MAX {
                    self.dropping = Some(Frame::TooLong);
                } else if more > 0 && !self.halves.reserve(more) {
                    self.dropping = Some(Frame::Crowded);
                } else {
                    self.reserved += more;
                    self.line.extend_from_slice(part);
                }
            }
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if self.dropping.is_some() {
                self.line = Vec::new();
                self.release();
            }
            if end.is_some() {
                return Ok(self.take());
            }
        }
    }

    /// Releases the reserved memory of a line after it was answered.
    fn release(&mut self) {
        self.halves.free(std::mem::take(&mut self.reserved));
    }

    fn take(&mut self) -> Frame {
        let line = std::mem::take(&mut self.line);
        self.dropping.take().unwrap_or(Frame::Line(line))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn lines_are_bounded_and_the_last_needs_no_newline() {
        let mut bytes = b"one\n\n".to_vec();
        bytes.extend(vec![b'x'; LINE_BYTES_MAX]);
        bytes.push(b'\n');
        bytes.extend(vec![b'x'; LINE_BYTES_MAX + 1]);
        bytes.extend(b"\nlast");
        let mut frames = Frames::new(tokio::io::BufReader::new(&bytes[..]), Halves::default());
        assert_eq!(frames.next().await.unwrap(), Frame::Line(b"one".to_vec()));
        assert_eq!(frames.next().await.unwrap(), Frame::Line(Vec::new()));
        assert!(
            matches!(frames.next().await.unwrap(), Frame::Line(l) if l.len() == LINE_BYTES_MAX)
        );
        assert_eq!(frames.next().await.unwrap(), Frame::TooLong);
        assert_eq!(frames.next().await.unwrap(), Frame::Line(b"last".to_vec()));
        assert_eq!(frames.next().await.unwrap(), Frame::End);
    }

    #[tokio::test]
    async fn what_all_have_begun_is_bounded_together() {
        let halves = Halves::default();
        let begin = |bytes: usize| {
            let (mut write, read) = tokio::io::duplex(bytes + 64);
            let frames = Frames::new(tokio::io::BufReader::new(read), halves.clone());
            let half = vec![b'x'; bytes];
            async move {
                use tokio::io::AsyncWriteExt as _;
                write.write_all(&half).await.unwrap();
                (write, frames)
            }
        };
        let mut kept = Vec::new();
        for _ in 0..HALF_BYTES_MAX / (LINE_BYTES_MAX - FREE_BYTES) {
            let (write, mut frames) = begin(LINE_BYTES_MAX).await;
            // The line is incomplete.
            let next = tokio::task::unconstrained(frames.next());
            assert!(futures_util::FutureExt::now_or_never(next).is_none());
            kept.push((write, frames));
        }
        let (mut write, mut frames) = begin(LINE_BYTES_MAX).await;
        tokio::io::AsyncWriteExt::write_all(&mut write, b"\nsmall\n").await.unwrap();
        assert_eq!(frames.next().await.unwrap(), Frame::Crowded);
        assert_eq!(frames.next().await.unwrap(), Frame::Line(b"small".to_vec()));
        drop(kept);
        let all = halves.0.load(Ordering::Relaxed);
        assert_eq!(all, 0, "what is gone counts no longer");
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_or_half_a_line_is_not_waited_for() {
        let (mut write, read) = tokio::io::duplex(64);
        let mut frames = Frames::new(tokio::io::BufReader::new(read), Halves::default());
        assert_eq!(frames.next().await.unwrap(), Frame::End);
        tokio::io::AsyncWriteExt::write_all(&mut write, b"half").await.unwrap();
        assert_eq!(frames.next().await.unwrap(), Frame::Late);
    }
}
