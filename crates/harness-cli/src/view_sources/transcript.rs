//! The transcript of an attempt as lines for people.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
};

use crate::{
    transcript_file::{TranscriptFolder, TranscriptLines, Whose},
    transcript_text::TranscriptText,
};

/// The end of a transcript, which is read further when it grows.
pub(crate) struct TranscriptPage {
    root: PathBuf,
    whose: Whose,
    most: usize,
    /// The lines, with text of agents in which control characters are visible.
    pub(crate) lines: VecDeque<String>,
    open: Option<Open>,
}

struct Open {
    name: String,
    lines: TranscriptLines,
    text: TranscriptText,
}

/// Returns the transcript of one loop (`TASK.EPOCH`, or the id of a run), at most its last lines.
pub(crate) fn transcript(root: &Path, of_loop: String, most: usize) -> TranscriptPage {
    let whose = Whose::Loop(of_loop);
    TranscriptPage { root: root.to_owned(), whose, most, lines: VecDeque::new(), open: None }
}

impl TranscriptPage {
    /// Reads what was written since the last time. Returns whether there is something new.
    pub(crate) fn read(&mut self) -> io::Result<bool> {
        let Some(folder) = TranscriptFolder::find(&self.root)? else { return Ok(false) };
        let mut is_new = false;
        for name in folder.names(&self.whose)? {
            let is_later = self.open.as_ref().is_none_or(|open| is_after(&name, &open.name));
            if is_later && let Some(lines) = folder.open(&name)? {
                is_new |= self.more()?;
                self.finish();
                self.open = Some(Open { name, lines, text: TranscriptText::default() });
            }
            is_new |= self.more()?;
        }
        Ok(is_new)
    }

    fn more(&mut self) -> io::Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let mut is_new = false;
        while let Some(line) = open.lines.next()? {
            self.lines.extend(open.text.line(&line));
            is_new = true;
            if self.lines.len() > self.most {
                self.lines.drain(..self.lines.len() - self.most);
            }
        }
        Ok(is_new)
    }

    /// Takes the line that has no end, before the next file begins.
    fn finish(&mut self) {
        if let Some(mut open) = self.open.take() {
            let last = open.lines.rest().map(|line| open.text.line(&line)).unwrap_or_default();
            self.lines.extend(last.into_iter().chain(open.text.rest()));
        }
    }
}

/// Names of one loop are in the order of their numbers.
fn is_after(name: &str, open: &str) -> bool {
    let numbers = |name: &str| -> Vec<u64> {
        name.split('.').rev().skip(1).map_while(|part| part.parse().ok()).collect()
    };
    let (mut a, mut b) = (numbers(name), numbers(open));
    a.reverse();
    b.reverse();
    a > b
}
