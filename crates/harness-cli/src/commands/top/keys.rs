//! What the keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use harness::{
    protocol::{Request, TaskReason},
    view::{BudgetCard, NeedKind},
};
use harness_core::TaskId;

use super::{
    dialog::{Dialog, Purpose},
    list::Item,
    pane::Tab,
    state::{Focus, Mode, Notice, Top, Wish},
};
use crate::task_line::Span;

/// The keys with their help, in the order of the help page.
pub(super) const KEYS: [(&str, &str); 20] = [
    ("j k ↓ ↑", "move, or scroll the detail"),
    ("g G", "to the beginning, to the end"),
    ("enter", "the detail on the whole screen, and back"),
    ("tab", "the other pane"),
    ("h l ← →", "the page of the detail (or 1 to 5)"),
    (", .", "the attempt before, the attempt after"),
    ("d", "a diff against the attempt before"),
    ("/", "filter the list; esc removes the filter"),
    ("", ""),
    ("a", "answer a question, or approve"),
    ("s", "send a message to the agents"),
    ("w", "wake a run that waits for a usage limit"),
    ("r", "retry a failed task"),
    ("R", "restore saved work to a branch"),
    ("b", "change the budget"),
    ("p", "pause claiming, or go on"),
    ("x", "abort the run (asks first)"),
    ("", ""),
    ("?", "this help"),
    ("q", "quit; the run goes on"),
];

impl Top {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Wish> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return vec![Wish::Quit];
        }
        self.notice = None;
        match &self.mode {
            Mode::Normal => self.normal(key.code),
            Mode::Help => {
                self.mode = Mode::Normal;
                Vec::new()
            }
            Mode::Filter => self.filtering(key.code),
            Mode::Dialog(_) => self.typing(key.code),
        }
    }

    fn normal(&mut self, code: KeyCode) -> Vec<Wish> {
        match code {
            KeyCode::Char('q') => return vec![Wish::Quit],
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('j') | KeyCode::Down => self.go(1),
            KeyCode::Char('k') | KeyCode::Up => self.go(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.go(10),
            KeyCode::PageUp => self.go(-10),
            KeyCode::Char('g') | KeyCode::Home => self.go_far(isize::MIN),
            KeyCode::Char('G') | KeyCode::End => self.go_far(isize::MAX),
            KeyCode::Tab | KeyCode::BackTab => {
                self.focus = match self.focus {
                    Focus::List => Focus::Detail,
                    Focus::Detail => Focus::List,
                }
            }
            KeyCode::Enter => {
                self.zoomed = !self.zoomed;
                self.focus = if self.zoomed { Focus::Detail } else { Focus::List };
            }
            KeyCode::Esc => self.step_back(),
            KeyCode::Char('h') | KeyCode::Left => self.turn_to(self.tab.moved(-1)),
            KeyCode::Char('l') | KeyCode::Right => self.turn_to(self.tab.moved(1)),
            KeyCode::Char(digit @ '1'..='5') => {
                let at = digit.to_digit(10).map_or(0, |n| n as usize - 1);
                self.turn_to(Tab::ALL[at]);
            }
            KeyCode::Char(',') if self.detail.attempt(self.attempt + 1).is_some() => {
                self.attempt += 1;
                self.rewind();
            }
            KeyCode::Char('.') => {
                self.attempt = self.attempt.saturating_sub(1);
                self.rewind();
            }
            KeyCode::Char('d') => {
                self.turn_to(Tab::Diff);
                self.against_previous = !self.against_previous;
            }
            KeyCode::Char(other) => return self.act(other),
            _ => {}
        }
        Vec::new()
    }

    fn go(&mut self, by: isize) {
        match self.focus {
            Focus::List => self.select(by),
            Focus::Detail => {
                let from = self.scroll.unwrap_or(usize::MAX / 2);
                self.scroll = Some(from.saturating_add_signed(by));
            }
        }
    }

    fn go_far(&mut self, by: isize) {
        match (self.focus, by) {
            (Focus::List, by) => self.select(by),
            (Focus::Detail, isize::MAX) => self.scroll = None,
            (Focus::Detail, _) => self.scroll = Some(0),
        }
    }

    fn turn_to(&mut self, tab: Tab) {
        self.tab = tab;
        self.rewind();
    }

    fn step_back(&mut self) {
        if self.zoomed {
            (self.zoomed, self.focus) = (false, Focus::List);
        } else if !self.filter.is_empty() {
            let key = self.item().map(|item| item.key());
            self.filter.clear();
            self.list_again(key);
        } else {
            self.focus = Focus::List;
        }
    }

    /// The keys that change something. Each is a verb of the protocol, and a command.
    fn act(&mut self, key: char) -> Vec<Wish> {
        let done = match key {
            'a' => self.answer(),
            's' => Ok(self.open(Purpose::Send)),
            'w' => Ok(vec![Wish::Ask(Box::new(Request::Kick), "the wait has ended".to_owned())]),
            'r' => self.retry(),
            'R' => self.restore(),
            'b' => self.raise(),
            'p' => Ok(self.pause()),
            'x' => Ok(self.open(Purpose::Abort)),
            _ => return Vec::new(),
        };
        done.unwrap_or_else(|why| {
            self.notice = Some(Notice::Failed(why.to_owned()));
            Vec::new()
        })
    }

    fn open(&mut self, purpose: Purpose) -> Vec<Wish> {
        self.mode = Mode::Dialog(Dialog::new(purpose));
        Vec::new()
    }

    fn answer(&mut self) -> Result<Vec<Wish>, &'static str> {
        let card = self.question().ok_or("no question is open")?;
        let question = &card.question;
        let purpose = Purpose::Answer {
            prompt_id: question.prompt_id.clone(),
            question: question.question.clone(),
            choices: question.choices.clone(),
            allow_text: question.allow_text || question.choices.is_empty(),
        };
        Ok(self.open(purpose))
    }

    fn retry(&mut self) -> Result<Vec<Wish>, &'static str> {
        let is_failed = match self.item() {
            Some(Item::Need(need)) => need.kind == NeedKind::Failed,
            Some(Item::Waiting(_)) => {
                self.detail.task.as_ref().is_some_and(|t| t.status == "failed")
            }
            _ => false,
        };
        let task = self.item().and_then(|item| TaskId::parse(item.task()?).ok());
        let task = task.filter(|_| is_failed).ok_or("the selected entry is no failed task")?;
        let said = format!("{task} gets new attempts");
        let request = Request::TaskRetry(TaskReason { task_id: task, reason: None });
        Ok(vec![Wish::Ask(Box::new(request), said)])
    }

    fn restore(&mut self) -> Result<Vec<Wish>, &'static str> {
        let shown = self.detail.attempt(self.attempt).and_then(|attempt| attempt.rescue.as_ref());
        let attempts = self.detail.task.iter().flat_map(|task| task.attempts.iter().rev());
        let found = shown.or_else(|| attempts.filter_map(|a| a.rescue.as_ref()).next());
        let rescue = found.ok_or("no rollback saved work of this task")?.name.clone();
        Ok(self.open(Purpose::Restore { rescue }))
    }

    fn raise(&mut self) -> Result<Vec<Wish>, &'static str> {
        let budget = self.board.as_deref().and_then(|board| board.budget.as_ref());
        let now = spent(budget.ok_or("there is no run with a budget")?);
        Ok(self.open(Purpose::Budget { now }))
    }

    fn pause(&mut self) -> Vec<Wish> {
        let is_paused = self.board.as_deref().is_some_and(|board| board.paused_at.is_some());
        vec![match is_paused {
            true => Wish::Ask(Box::new(Request::Resume), "claiming goes on".to_owned()),
            false => Wish::Ask(Box::new(Request::Pause), "claiming is paused".to_owned()),
        }]
    }

    fn filtering(&mut self, code: KeyCode) -> Vec<Wish> {
        let key = self.item().map(|item| item.key());
        match code {
            KeyCode::Enter => self.mode = Mode::Normal,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Normal;
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Down => self.select(1),
            KeyCode::Up => self.select(-1),
            _ => {}
        }
        if !matches!(code, KeyCode::Down | KeyCode::Up) {
            self.list_again(key);
        }
        Vec::new()
    }

    fn typing(&mut self, code: KeyCode) -> Vec<Wish> {
        let Mode::Dialog(dialog) = &mut self.mode else { return Vec::new() };
        let confirms = dialog.purpose == Purpose::Abort;
        let is_done = match code {
            KeyCode::Char('y' | 'Y') if confirms => true,
            _ if confirms => {
                self.mode = Mode::Normal;
                return Vec::new();
            }
            KeyCode::Esc => {
                self.mode = Mode::Normal;
                return Vec::new();
            }
            KeyCode::Enter => true,
            KeyCode::Backspace => {
                dialog.typed.pop();
                false
            }
            KeyCode::Char(c) => {
                dialog.typed.push(c);
                false
            }
            _ => false,
        };
        if !is_done {
            return Vec::new();
        }
        match dialog.done() {
            Ok(wish) => {
                self.mode = Mode::Normal;
                vec![wish]
            }
            // The text stays, so that it can be corrected.
            Err(why) => {
                self.notice = Some(Notice::Failed(why));
                Vec::new()
            }
        }
    }
}

/// Returns what a run has used of each limit.
pub(super) fn spent(budget: &BudgetCard) -> String {
    let of = |most: Option<String>| most.map_or_else(String::new, |most| format!(" of {most}"));
    let cost = budget.cost_usd.map_or_else(|| "$0.00".to_owned(), |cost| format!("${cost:.2}"));
    let cost = cost + &of(budget.max_cost_usd.map(|most| format!("${most:.2}")));
    let tokens = budget.tokens.to_string() + &of(budget.max_tokens.map(|most| most.to_string()));
    let time =
        Span(budget.seconds).to_string() + &of(budget.max_seconds.map(|s| Span(s).to_string()));
    format!("{cost}, {tokens} tokens, {time}")
}
