//! The output of a program as text for people while it works: without secrets, in whole characters,
//! and limited to a readable amount. The transcript has everything.

use std::time::{Duration, Instant};

use crate::process::{RedactedStream, Redactor};

/// The limit of bytes that are reported within a second.
const BYTES_MAX: usize = 64 * 1024;
/// The limit of one piece, because events are stored by their number, not by their size.
const PIECE_BYTES: usize = 4 * 1024;
const WINDOW: Duration = Duration::from_secs(1);
/// The text that replaces the omitted part.
const LEFT_OUT: &str = "\n[more is in the transcript]\n";

pub(super) struct Speaker {
    stream: RedactedStream,
    /// The beginning of a character.
    half: Vec<u8>,
    window: Instant,
    told_bytes: usize,
}

impl Speaker {
    pub(super) fn new(redactor: &Redactor) -> Self {
        let (stream, window) = (redactor.stream(), Instant::now());
        Self { stream, half: Vec::new(), window, told_bytes: 0 }
    }

    /// Returns the pieces of these bytes that are reported.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.half.extend(self.stream.push(bytes));
        let end = whole(&self.half);
        let text = String::from_utf8_lossy(&self.half[..end]).into_owned();
        self.half.drain(..end);
        self.bounded(&text)
    }

    fn bounded(&mut self, text: &str) -> Vec<String> {
        if self.window.elapsed() >= WINDOW {
            (self.window, self.told_bytes) = (Instant::now(), 0);
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() && self.told_bytes < BYTES_MAX {
            let (piece, more) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            self.told_bytes += piece.len();
            pieces.push(piece.to_owned());
            rest = more;
        }
        // The note appears once in a window.
        if !rest.is_empty() && self.told_bytes < 2 * BYTES_MAX {
            self.told_bytes = 2 * BYTES_MAX;
            pieces.push(LEFT_OUT.to_owned());
        }
        pieces
    }
}

/// Returns the end of the last whole character. Invalid bytes are not waited for.
fn whole(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(why) if why.error_len().is_none() => why.valid_up_to(),
        Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_whole_without_secrets_and_bounded() {
        let redactor = Redactor::from_environment([("A_KEY".into(), "0123456789".into())]);
        let mut speaker = Speaker::new(&redactor);
        let euro = "€".as_bytes();
        assert_eq!(speaker.push(&euro[..1]).concat(), "");
        assert_eq!(speaker.push(&euro[1..]).concat(), "€");
        let said = [&b"key 01234"[..], b"56789 ok\n"].map(|part| speaker.push(part).concat());
        assert_eq!(said.concat(), "key [redacted:A_KEY] ok\n");
        assert_eq!(speaker.push(b"\xff\n").concat(), "\u{fffd}\n");
        let flood = speaker.push(&vec![b'x'; 1024 * 1024]);
        assert!(flood.iter().all(|piece| piece.len() <= PIECE_BYTES));
        assert!(flood.concat().len() < 2 * BYTES_MAX && flood.concat().ends_with(LEFT_OUT));
        assert!(speaker.push(b"more").is_empty());
    }
}
