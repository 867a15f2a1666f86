//! The lines below the log on a terminal. They are drawn again when something changed and each
//! second, cleared before anything is printed above them, and removed at the end.

use std::{
    io::Write,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use harness::clock::{Clock as _, SystemClock};

use super::progress::{Piece, Progress};
use crate::paint::Paint;

/// Short enough to show that the run is alive.
const TICK: Duration = Duration::from_millis(250);
/// The width if the terminal does not report it.
const COLUMNS: usize = 80;

/// The footer. It ends its thread when it is dropped.
pub(super) struct Footer {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    board: Mutex<Board>,
    ended: Condvar,
    paint: Paint,
}

struct Board {
    progress: Progress,
    /// The widths of the lines that are on the screen; the cursor is at the end of the last one.
    drawn: Vec<usize>,
    /// The text of these lines.
    painted: String,
    shown: Shown,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begun,
    Over,
}

/// The content below the log.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    Progress,
    /// A line on which a person types. It is not drawn again while nothing is printed above it,
    /// because that would remove the typed text.
    Typing(String),
    Nothing,
}

impl Footer {
    /// Creates a footer that shows nothing before [`begin`](Self::begin), because others may write
    /// to standard error until then.
    pub(super) fn new(progress: Progress, paint: Paint) -> Self {
        let (drawn, painted, shown) = (Vec::new(), String::new(), Shown::Nothing);
        let board = Board { progress, drawn, painted, shown, stage: Stage::Begun };
        let shared = Arc::new(Shared { board: Mutex::new(board), ended: Condvar::new(), paint });
        let ticking = Arc::clone(&shared);
        let ticker = std::thread::Builder::new().name("footer".to_owned());
        // Without the thread it is drawn only when something happens.
        let ticker = ticker.spawn(move || ticking.tick()).ok();
        Self { shared, ticker }
    }

    pub(super) fn begin(&self) {
        let mut board = self.shared.lock();
        if board.stage == Stage::Begun {
            board.shown = Shown::Progress;
        }
    }

    /// Prints lines above it.
    pub(super) fn print<T: AsRef<str>>(&self, lines: &[T]) {
        let mut board = self.shared.lock();
        self.shared.draw(&mut board, lines);
    }

    /// Changes its content, which is drawn with the next tick.
    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.shared.lock().progress);
    }

    /// Shows a line to type on instead, or the progress again.
    pub(super) fn type_on(&self, prompt: Option<&str>) {
        let mut board = self.shared.lock();
        let shown = prompt.map_or(Shown::Progress, |text| Shown::Typing(text.to_owned()));
        if board.stage == Stage::Begun && board.shown != shown {
            board.shown = shown;
            self.shared.draw::<&str>(&mut board, &[]);
        }
    }

    /// Records that the person has ended the line, so that the cursor is on an empty one.
    pub(super) fn typed(&self) {
        self.shared.lock().drawn.clear();
    }

    /// Clears it for good. Later output stands alone.
    pub(super) fn end(&self) {
        let mut board = self.shared.lock();
        (board.shown, board.stage) = (Shown::Nothing, Stage::Over);
        self.shared.draw::<&str>(&mut board, &[]);
        self.shared.ended.notify_all();
    }
}

impl Drop for Footer {
    fn drop(&mut self) {
        self.end();
        if let Some(ticker) = self.ticker.take() {
            _ = ticker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) {
        let mut board = self.lock();
        while board.stage == Stage::Begun {
            if board.shown == Shown::Progress {
                self.draw::<&str>(&mut board, &[]);
            }
            let waited = self.ended.wait_timeout(board, TICK);
            board = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Clears the lines, prints `lines`, and draws below them.
    fn draw<T: AsRef<str>>(&self, board: &mut Board, lines: &[T]) {
        let columns = columns();
        let shown = match &board.shown {
            Shown::Progress => board.progress.lines(Instant::now(), SystemClock.now()),
            Shown::Typing(prompt) => {
                let style = clap::builder::styling::Style::new().bold();
                vec![vec![Piece { style, text: prompt.clone() }]]
            }
            Shown::Nothing => Vec::new(),
        };
        let fitting = shown.iter().map(|line| fit(line, columns.saturating_sub(1), self.paint));
        let (painted, widths): (Vec<_>, Vec<_>) = fitting.unzip();
        let painted = painted.join("\n");
        if lines.is_empty() && painted == board.painted && widths == board.drawn {
            return;
        }
        let mut text = clear(&board.drawn, columns);
        for line in lines {
            text += line.as_ref();
            text.push('\n');
        }
        text += &painted;
        (board.painted, board.drawn) = (painted, widths);
        // If this fails, there is no place left to report it.
        let mut stderr = std::io::stderr().lock();
        _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

/// Moves to the first of the lines on the screen and clears everything from there. A terminal that
/// became narrower has wrapped them.
fn clear(drawn: &[usize], columns: usize) -> String {
    if drawn.is_empty() {
        return String::new();
    }
    let rows: usize = drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
    match rows {
        1 => "\r\x1b[J".to_owned(),
        more => format!("\r\x1b[{}A\x1b[J", more - 1),
    }
}

/// Returns the painted line in at most so many columns, and its width.
fn fit(line: &[Piece], columns: usize, paint: Paint) -> (String, usize) {
    let (mut text, mut width) = (String::new(), 0);
    for piece in line {
        let mut fits = String::new();
        for c in piece.text.chars() {
            let wide = char_width(c);
            if width + wide > columns {
                break;
            }
            width += wide;
            fits.push(c);
        }
        text += &paint.style(piece.style, &fits).to_string();
    }
    (text, width)
}

/// Returns at least the width on a terminal. Everything from the first wide script on counts twice,
/// except for the punctuation and the lines that we draw ourselves.
fn char_width(c: char) -> usize {
    let narrow = c < '\u{1100}' || ('\u{2010}'..'\u{2600}').contains(&c);
    if narrow { 1 } else { 2 }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(COLUMNS)
}

#[cfg(test)]
mod tests {
    use clap::builder::styling::Style;

    use super::*;

    fn piece(text: &str) -> Piece {
        Piece { style: Style::new(), text: text.to_owned() }
    }

    #[test]
    fn a_line_never_wraps() {
        let line = [piece("abc"), piece("日本語")];
        assert_eq!(fit(&line, 6, Paint::Plain), ("abc日".to_owned(), 5));
        assert_eq!(fit(&line, 2, Paint::Plain), ("ab".to_owned(), 2));
        assert_eq!(fit(&[piece("━─…")], 9, Paint::Plain).1, 3);
    }

    #[test]
    fn what_was_drawn_is_cleared_also_when_the_terminal_became_narrower() {
        assert_eq!(clear(&[], 80), "");
        assert_eq!(clear(&[10], 80), "\r\x1b[J");
        assert_eq!(clear(&[10, 0], 80), "\r\x1b[1A\x1b[J");
        assert_eq!(clear(&[70, 30], 40), "\r\x1b[2A\x1b[J");
    }
}
