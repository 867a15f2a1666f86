//! The state of the terminal view. It changes only by [`Top::update`] and is drawn by `draw`.

use harness::{protocol::Request, view::Board};
use harness_core::{TaskId, Timestamp};

use super::{
    dialog::Dialog,
    list::{self, Entry, Item},
    pane::{Detail, Tab, Wanted},
    theme::Theme,
};

/// The pane that keys go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Focus {
    List,
    Detail,
}

/// The connection to the host of the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// Nothing answers, and nothing did.
    Nobody,
    /// Events arrive.
    Live,
    /// The host is gone.
    Lost,
}

/// What the keyboard does now.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mode {
    Normal,
    Filter,
    Help,
    Dialog(Dialog),
}

/// A line at the bottom about the last action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    Said(String),
    Failed(String),
}

/// Something that happened.
#[derive(Debug)]
pub(super) enum Input {
    Key(crossterm::event::KeyEvent),
    Tick(Timestamp),
    Board(Box<Board>),
    /// The files cannot be read.
    Problem(Option<String>),
    Detail(Box<Detail>),
    Link(Link),
    Notice(Notice),
}

/// Something that the shell has to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Wish {
    Quit,
    /// Send a request, and say this when it was carried out.
    Ask(Box<Request>, String),
    /// Make a branch that holds a rescue.
    Restore {
        rescue: String,
        branch: String,
    },
}

pub(super) struct Top {
    pub(super) theme: Theme,
    pub(super) now: Timestamp,
    pub(super) board: Option<Box<Board>>,
    pub(super) problem: Option<String>,
    pub(super) link: Link,
    pub(super) entries: Vec<Entry>,
    pub(super) selected: usize,
    /// Whether the person has moved the selection. Until then the first entry is selected.
    pub(super) moved: bool,
    pub(super) focus: Focus,
    /// Whether the detail pane has the whole screen.
    pub(super) zoomed: bool,
    pub(super) tab: Tab,
    /// The attempt that is shown, counted back from the newest one.
    pub(super) attempt: usize,
    /// Whether a diff is shown against the attempt before.
    pub(super) against_previous: bool,
    /// The number of lines that the detail pane is scrolled down; `None` to follow its end.
    pub(super) scroll: Option<usize>,
    pub(super) detail: Detail,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) notice: Option<Notice>,
}

impl Top {
    pub(super) fn new(theme: Theme, now: Timestamp) -> Self {
        Self {
            theme,
            now,
            board: None,
            problem: None,
            link: Link::Nobody,
            entries: Vec::new(),
            selected: 0,
            moved: false,
            focus: Focus::List,
            zoomed: false,
            tab: Tab::Overview,
            attempt: 0,
            against_previous: false,
            scroll: Some(0),
            detail: Detail::default(),
            filter: String::new(),
            mode: Mode::Normal,
            notice: None,
        }
    }

    /// Takes in what happened, and returns what has to be done.
    pub(super) fn update(&mut self, input: Input) -> Vec<Wish> {
        match input {
            Input::Key(key) => return self.key(key),
            Input::Tick(now) => self.now = now,
            Input::Board(board) => {
                self.now = board.time;
                let before = self.item().filter(|_| self.moved).map(|item| item.key());
                self.board = Some(board);
                self.list_again(before);
            }
            Input::Problem(problem) => self.problem = problem,
            Input::Detail(detail) if detail.wanted.task == self.wanted().task => {
                self.detail = *detail;
            }
            // The selection moved on meanwhile.
            Input::Detail(_) => {}
            Input::Link(link) => self.link = link,
            Input::Notice(notice) => self.notice = Some(notice),
        }
        Vec::new()
    }

    /// Returns the selected entry.
    pub(super) fn item(&self) -> Option<Item<'_>> {
        let entry = *self.entries.get(self.selected)?;
        list::item(self.board.as_deref()?, entry)
    }

    /// Lists the entries again, and selects the one with this key if it is still there.
    pub(super) fn list_again(&mut self, key: Option<String>) {
        let Some(board) = self.board.as_deref() else { return };
        self.entries = list::entries(board, &self.filter);
        let found = key.and_then(|key| {
            let is_it = |entry: &Entry| list::item(board, *entry).is_some_and(|i| i.key() == key);
            self.entries.iter().position(is_it)
        });
        let last = self.entries.len().saturating_sub(1);
        self.selected = found.unwrap_or(self.selected).min(last);
    }

    /// Selects the entry that is `by` places below.
    pub(super) fn select(&mut self, by: isize) {
        let last = self.entries.len().saturating_sub(1);
        let before = self.selected;
        self.moved = true;
        self.selected = self.selected.saturating_add_signed(by).min(last);
        if self.selected != before {
            self.attempt = 0;
            self.against_previous = false;
            self.rewind();
        }
    }

    /// Shows the beginning of a page, or the end of a transcript.
    pub(super) fn rewind(&mut self) {
        self.scroll = if self.tab == Tab::Transcript { None } else { Some(0) };
    }

    /// Returns what the detail pane needs.
    pub(super) fn wanted(&self) -> Wanted {
        let Some(item) = self.item() else { return Wanted::default() };
        let task = item.task().and_then(|id| TaskId::parse(id).ok());
        let known = self.detail.wanted.task.is_some() && self.detail.wanted.task == task;
        let attempt = self.detail.attempt(self.attempt).filter(|_| known);
        let of_attempt =
            attempt.and_then(|a| Some(format!("{}.{}", task.as_ref()?, a.summary.epoch?)));
        let transcript = match &task {
            Some(_) => of_attempt,
            None => item.run(),
        };
        let transcript = transcript.filter(|_| matches!(self.tab, Tab::Transcript | Tab::Overview));
        let previous = self.detail.attempt(self.attempt + 1);
        let diff = attempt.filter(|_| self.tab == Tab::Diff).and_then(|attempt| {
            let from = match self.against_previous {
                true => previous.and_then(|attempt| attempt.commit.clone()),
                false => attempt.base.clone(),
            };
            Some((from?, attempt.commit.clone()?))
        });
        Wanted { task, transcript, diff }
    }

    /// Returns the first open question, or the selected one.
    pub(super) fn question(&self) -> Option<&harness::view::QuestionCard> {
        let board = self.board.as_deref()?;
        let selected = match self.item() {
            Some(Item::Need(need)) => board.questions.iter().find(|card| card.next == need.next),
            _ => None,
        };
        selected.or(board.questions.first())
    }
}
