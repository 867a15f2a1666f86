//! Lines of a connection, with a bound on their length.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::wire::LINE_BYTES_MAX;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Line(Vec<u8>),
    /// It was dropped up to its newline.
    TooLong,
    /// Nothing more comes.
    End,
}

/// Whoever stops waiting for the next one loses nothing.
pub(super) struct Frames<R> {
    reader: R,
    line: Vec<u8>,
    dropping: bool,
}

impl<R: AsyncBufRead + Unpin> Frames<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), dropping: false }
    }

    pub(super) async fn next(&mut self) -> io::Result<Frame> {
        loop {
            let buffer = self.reader.fill_buf().await?;
            if buffer.is_empty() {
                // A last line without newline counts.
                return Ok(if self.dropping || !self.line.is_empty() {
                    self.take()
                } else {
                    Frame::End
                });
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            if self.dropping || self.line.len() + part.len() > LINE_BYTES_MAX {
                self.dropping = true;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                return Ok(self.take());
            }
        }
    }

    fn take(&mut self) -> Frame {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.dropping) { Frame::TooLong } else { Frame::Line(line) }
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
        let mut frames = Frames::new(tokio::io::BufReader::new(&bytes[..]));
        assert_eq!(frames.next().await.unwrap(), Frame::Line(b"one".to_vec()));
        assert_eq!(frames.next().await.unwrap(), Frame::Line(Vec::new()));
        assert!(
            matches!(frames.next().await.unwrap(), Frame::Line(l) if l.len() == LINE_BYTES_MAX)
        );
        assert_eq!(frames.next().await.unwrap(), Frame::TooLong);
        assert_eq!(frames.next().await.unwrap(), Frame::Line(b"last".to_vec()));
        assert_eq!(frames.next().await.unwrap(), Frame::End);
    }
}
