//! Splits chunks into lines, in bounded memory.

/// One line without its end (`\n` or `\r\n`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The bytes, cut at the limit.
    pub bytes: Vec<u8>,
    /// The number of missing bytes.
    pub cut_bytes: u64,
}

impl Line {
    /// Returns the line as text. Invalid UTF-8 is replaced, and a cut is mentioned.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        if self.cut_bytes > 0 {
            text.push_str(&format!("[harness: {} bytes cut]", self.cut_bytes));
        }
        text
    }
}

/// Splits one stream into lines.
#[derive(Debug)]
pub struct Lines {
    line_bytes_max: usize,
    unfinished: Line,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines::new(Lines::LINE_BYTES_MAX)
    }
}

impl Lines {
    /// The limit of [`Lines::default`]: 1 MiB.
    pub const LINE_BYTES_MAX: usize = 1024 * 1024;

    /// Sets the limit. A line is cut after `line_bytes_max` bytes, not counting its end.
    #[must_use]
    pub fn new(line_bytes_max: usize) -> Lines {
        Lines { line_bytes_max, unfinished: Line::default() }
    }

    /// Returns the lines that end in this chunk, one at a time. Lines that are not taken are lost.
    pub fn push<'a>(&'a mut self, chunk: &'a [u8]) -> impl Iterator<Item = Line> + 'a {
        let mut rest = chunk;
        std::iter::from_fn(move || {
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.take(rest);
                rest = &[];
                return None;
            };
            self.take(&rest[..end]);
            rest = &rest[end + 1..];
            Some(self.complete())
        })
    }

    /// Returns the last line, if it has no end.
    pub fn finish(mut self) -> Option<Line> {
        let is_empty = self.unfinished == Line::default();
        (!is_empty).then(|| self.complete())
    }

    fn take(&mut self, part: &[u8]) {
        let room = self.line_bytes_max.saturating_sub(self.unfinished.bytes.len());
        let (kept, cut) = part.split_at(room.min(part.len()));
        self.unfinished.bytes.extend_from_slice(kept);
        self.unfinished.cut_bytes += cut.len() as u64;
    }

    fn complete(&mut self) -> Line {
        let mut line = std::mem::take(&mut self.unfinished);
        if line.cut_bytes == 0 && line.bytes.ends_with(b"\r") {
            line.bytes.pop();
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(chunks: &[&[u8]], max: usize) -> Vec<String> {
        let mut lines = Lines::new(max);
        let mut all = Vec::new();
        for chunk in chunks {
            all.extend(lines.push(chunk).map(|line| line.text()));
        }
        all.extend(lines.finish().map(|line| line.text()));
        all
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let all = b"one\n\ntwo\r\nthr\xffee\nlast";
        let expected = ["one", "", "two", "thr\u{fffd}ee", "last"];
        for cut in 0..all.len() {
            assert_eq!(texts(&[&all[..cut], &all[cut..]], 100), expected, "{cut}");
        }
        assert_eq!(texts(&[b"x\n"], 100), ["x"]);
        assert!(texts(&[b""], 100).is_empty());
    }

    #[test]
    fn a_long_line_is_cut_and_says_so() {
        assert_eq!(texts(&[b"1234", b"56\r\nnext\n"], 4), ["1234[harness: 3 bytes cut]", "next"]);
        assert_eq!(texts(&[b"1234\n"], 4), ["1234"]);
    }
}
