//! Reads boards and details, as often as something changed and never so often that it costs much.

use std::{
    io,
    sync::{
        PoisonError,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use harness::clock::{Clock as _, SystemClock};

use super::Common;
use crate::{
    commands::top::{
        pane::{Detail, TaskPane, Wanted},
        state::Input,
    },
    view_sources::{BoardSource, TranscriptPage, diff, story, transcript},
};

/// A reason to read.
pub(super) enum Asked {
    /// The files changed.
    Board,
    /// An agent did something.
    Activity,
    /// The detail pane shows something else.
    Detail(Wanted),
}

/// The shortest time between two boards.
const SOONEST: Duration = Duration::from_millis(400);
/// A board is followed by a pause of so many times its own cost, so that reading stays below a
/// twentieth of one processor.
const PAUSE: u32 = 20;
/// The longest time without a look at the files.
const LATEST: Duration = Duration::from_secs(1);
/// The time after which a board is read again although no file changed.
const STALE: Duration = Duration::from_secs(5);
/// The number of lines of a transcript that are kept.
const LINES: usize = 2000;

pub(super) fn start(common: Common, questions: Receiver<Asked>) -> io::Result<()> {
    thread::Builder::new().name("reader".to_owned()).spawn(move || {
        let source = BoardSource::new(common.env.clone(), common.root.clone());
        let now = Instant::now();
        let mut reader = Reader {
            common,
            source,
            wanted: Wanted::default(),
            page: None,
            detail: None,
            read_at: None,
            not_before: now,
            changed: Changed::Files,
        };
        *reader.common.activity.lock().unwrap_or_else(PoisonError::into_inner) =
            reader.source.activity();
        reader.run(&questions);
    })?;
    Ok(())
}

/// What changed since the last board.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Changed {
    Nothing,
    Activity,
    Files,
}

struct Reader {
    common: Common,
    source: BoardSource,
    wanted: Wanted,
    page: Option<(String, TranscriptPage)>,
    /// The detail that was sent last.
    detail: Option<Detail>,
    read_at: Option<Instant>,
    not_before: Instant,
    changed: Changed,
}

impl Reader {
    fn run(&mut self, questions: &Receiver<Asked>) {
        while !self.common.ends() {
            let now = Instant::now();
            let stale = self.read_at.is_none_or(|at| at.elapsed() >= STALE);
            if now >= self.not_before && (self.changed != Changed::Nothing || stale) {
                self.board();
            }
            let pause = match self.changed {
                Changed::Nothing => LATEST,
                _ => self.not_before.saturating_duration_since(Instant::now()).min(LATEST),
            };
            match questions.recv_timeout(pause) {
                Ok(asked) => {
                    self.take(asked);
                    // Everything that waits is one reason to read.
                    questions.try_iter().for_each(|asked| self.take(asked));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.source.has_changed() {
                        self.changed = Changed::Files;
                    }
                    self.transcript();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, asked: Asked) {
        match asked {
            Asked::Board => self.changed = Changed::Files,
            Asked::Activity => self.changed = self.changed.max(Changed::Activity),
            Asked::Detail(wanted) => {
                self.wanted = wanted;
                self.read_detail();
            }
        }
    }

    fn board(&mut self) {
        let begun = Instant::now();
        let files = self.changed == Changed::Files;
        self.changed = Changed::Nothing;
        // What is noted after this asks for another board.
        self.common.activity_asked.store(false, Ordering::Release);
        let activity = self.common.activity.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match self.source.board(&activity, SystemClock.now()) {
            Ok(board) => {
                self.common.tell(Input::Board(Box::new(board)));
                self.common.tell(Input::Problem(self.source.problem().map(ToOwned::to_owned)));
            }
            Err(failure) => self.common.tell(Input::Problem(Some(failure.error))),
        }
        match files {
            true => self.read_detail(),
            false => self.transcript(),
        }
        let cost = begun.elapsed();
        self.read_at = Some(Instant::now());
        self.not_before = Instant::now() + SOONEST.max(cost * PAUSE);
    }

    /// Reads everything that the detail pane wants.
    fn read_detail(&mut self) {
        let Self { common, source, wanted, .. } = self;
        let mut detail = Detail { wanted: wanted.clone(), ..Detail::default() };
        if let Some(task) = &wanted.task
            && let Ok(ledger) = source.ledger()
        {
            let now = SystemClock.now();
            let told = |told: &harness::view::TaskStory<'_>| TaskPane::from(told);
            detail.task = story(&common.env, &common.root, ledger, task, now, told);
        }
        detail.diff = wanted.diff.as_ref().map(|(from, to)| {
            let known = self.detail.as_ref().filter(|known| known.wanted.diff == wanted.diff);
            match known.and_then(|known| known.diff.clone()) {
                // A diff between two commits never changes.
                Some(known) => known,
                None => diff(&common.env, &common.root, from, to).map_err(|failure| failure.error),
            }
        });
        self.turn_page();
        if let Some((_, page)) = &self.page {
            detail.transcript = page.lines.iter().cloned().collect();
        }
        self.send(detail);
    }

    /// Opens the transcript that is wanted, and reads it.
    fn turn_page(&mut self) -> bool {
        let is_open =
            |page: &(String, TranscriptPage)| Some(&page.0) == self.wanted.transcript.as_ref();
        if !self.page.as_ref().is_some_and(is_open) {
            let root = self.common.root.path();
            let open = |name: &String| (name.clone(), transcript(root, name.clone(), LINES));
            self.page = self.wanted.transcript.as_ref().map(open);
        }
        // A transcript that cannot be read is shown as far as it was read.
        self.page.as_mut().is_some_and(|(_, page)| page.read().unwrap_or(false))
    }

    /// Reads what was written to the transcript since the last time.
    fn transcript(&mut self) {
        if self.wanted.transcript.is_none() || !self.turn_page() {
            return;
        }
        if let (Some(mut detail), Some((_, page))) = (self.detail.clone(), &self.page) {
            detail.transcript = page.lines.iter().cloned().collect();
            self.send(detail);
        }
    }

    fn send(&mut self, detail: Detail) {
        if self.detail.as_ref() != Some(&detail) {
            self.common.tell(Input::Detail(Box::new(detail.clone())));
            self.detail = Some(detail);
        }
    }
}
