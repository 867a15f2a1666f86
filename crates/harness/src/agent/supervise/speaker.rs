//! The output of a program as text for people while it works: whole lines, without secrets, and
//! limited to a readable amount. The transcript has everything.

use std::time::{Duration, Instant};

use crate::process::Redactor;

/// The limit of bytes that are reported within a second.
const BYTES_MAX: usize = 64 * 1024;
/// A longer line is left out: cut in two, a secret in it would not be recognised.
const LINE_BYTES_MAX: usize = 4 * 1024;
const WINDOW: Duration = Duration::from_secs(1);
/// The text that replaces the omitted part.
const LEFT_OUT: &str = "[more is in the transcript]\n";

pub(super) struct Speaker {
    redactor: Redactor,
    /// A line without its end.
    line: Vec<u8>,
    window: Instant,
    told_bytes: usize,
    left_out: LeftOut,
}

/// Whether this window already has the note about an omitted part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    Nothing,
    Told,
}

impl Speaker {
    pub(super) fn new(redactor: &Redactor) -> Self {
        Self {
            redactor: redactor.clone(),
            line: Vec::new(),
            window: Instant::now(),
            told_bytes: 0,
            left_out: LeftOut::Nothing,
        }
    }

    /// Returns the lines that these bytes end and that are reported.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut told = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // One byte more than a line may have shows that it is too long.
            let room = (LINE_BYTES_MAX + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                told.extend(self.finish());
            }
        }
        told
    }

    /// Returns the last line, which has no end.
    pub(super) fn finish(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return None;
        }
        if self.window.elapsed() >= WINDOW {
            (self.window, self.told_bytes, self.left_out) = (Instant::now(), 0, LeftOut::Nothing);
        }
        if line.len() > LINE_BYTES_MAX || self.told_bytes >= BYTES_MAX {
            let before = std::mem::replace(&mut self.left_out, LeftOut::Told);
            return (before == LeftOut::Nothing).then(|| LEFT_OUT.to_owned());
        }
        self.told_bytes += line.len();
        Some(String::from_utf8_lossy(&self.redactor.bytes(&line)).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_without_secrets_and_bounded() {
        let redactor = Redactor::from_environment([("A_KEY".into(), "0123456789".into())]);
        let mut speaker = Speaker::new(&redactor);
        assert!(speaker.push(b"key 01234").is_empty());
        assert_eq!(speaker.push(b"56789 ok\nnext").concat(), "key [redacted:A_KEY] ok\n");
        assert_eq!(speaker.finish().as_deref(), Some("next"));
        let euro = "€\n".as_bytes();
        assert!(speaker.push(&euro[..1]).is_empty());
        assert_eq!(speaker.push(&euro[1..]).concat(), "€\n");
        assert_eq!(speaker.push(b"\xff\n").concat(), "\u{fffd}\n");
        let long = [vec![b'x'; 100_000], b"\nshort\n".to_vec()].concat();
        assert_eq!(speaker.push(&long).concat(), format!("{LEFT_OUT}short\n"));
        let flood = speaker.push(&b"words\n".repeat(1_000_000));
        assert!(flood.concat().len() < 2 * BYTES_MAX, "{}", flood.len());
    }
}
