//! Collects the text of an agent, which comes in pieces, into lines.

/// The limit of a line. A longer one is returned in parts.
const LINE_BYTES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Speech {
    begun: String,
}

impl Speech {
    /// Takes a piece of text and returns the lines that it ends. Blank ones are left out.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for part in piece.split_inclusive('\n') {
            self.begun += part.trim_end_matches(['\n', '\r']);
            if part.ends_with('\n') || self.begun.len() > LINE_BYTES_MAX {
                lines.extend(self.flush());
            }
        }
        lines
    }

    /// Returns the line that has no end yet, and starts a new one.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.begun);
        if line.trim().is_empty() { None } else { Some(line) }
    }

    /// Returns the newest text: the line that has no end yet.
    pub(crate) fn last(&self) -> Option<&str> {
        Some(self.begun.trim()).filter(|line| !line.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_lines() {
        let mut speech = Speech::default();
        assert!(speech.push("I will ").is_empty());
        assert_eq!(speech.last(), Some("I will"));
        assert_eq!(speech.push("do it\r\n\n  \nand").as_slice(), ["I will do it"]);
        assert_eq!(speech.flush().as_deref(), Some("and"));
        assert_eq!((speech.flush(), speech.last()), (None, None));
        let long = speech.push(&"x".repeat(5000));
        assert_eq!(long.len(), 1);
    }
}
