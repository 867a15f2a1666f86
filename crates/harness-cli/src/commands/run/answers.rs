//! Questions to the people behind a run. Each is shown at once with the command that answers it. A
//! person at the terminal of the run can answer there.

use std::{
    io::BufRead,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use harness::{
    Hub, UserReply,
    event::PromptId,
    host::prompts,
    hub::{Answered, OpenQuestion},
    process::Redactor,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    termios::QueueSelector,
};

use super::view::View;

/// The time within which an answer from elsewhere, or the end of the question, is noticed.
const LOOK: Duration = Duration::from_millis(200);

pub(super) struct Answers {
    shared: Arc<Shared>,
}

struct Shared {
    view: Arc<View>,
    hub: Hub,
    secrets: Redactor,
    /// Whether a thread reads the keyboard.
    reading: Mutex<bool>,
}

impl Answers {
    pub(super) fn new(view: Arc<View>, hub: &Hub, secrets: Redactor) -> Self {
        let (hub, reading) = (hub.clone(), Mutex::new(false));
        Self { shared: Arc::new(Shared { view, hub, secrets, reading }) }
    }

    /// Shows a question that is open from now on.
    pub(super) fn ask(
        &self,
        id: PromptId,
        prompt: &str,
        choices: Option<&[String]>,
        allow_text: Option<bool>,
    ) {
        let Shared { view, secrets, .. } = &*self.shared;
        let (name, choices) = (prompts::name(id), choices.unwrap_or_default());
        let offered = match choices {
            [] => String::new(),
            some => format!(" [{}]", some.join(", ")),
        };
        let question = secrets.text(prompt);
        view.call(&format!("QUESTION {name}: {question}{offered}"));
        let free = choices.is_empty() || allow_text == Some(true);
        let commands = choices.iter().map(|choice| quoted(choice));
        let commands = commands.chain(free.then(|| "'YOUR ANSWER'".to_owned()));
        let mut commands = commands.map(|answer| format!("harness reply {name} {answer}"));
        let first = commands.next().unwrap_or_default();
        view.say(&format!("  answer with: {first}"));
        commands.for_each(|other| view.say(&format!("           or: {other}")));
        if view.can_be_typed_on() {
            self.read_answers();
        }
    }

    /// Reads the keyboard, on a thread that ends when no question is open.
    fn read_answers(&self) {
        let mut reading = self.shared.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reading {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("answers".to_owned());
            *reading = thread.spawn(move || while shared.read_answer() {}).is_ok();
        }
    }
}

impl Shared {
    /// Waits until the oldest question is answered, here or elsewhere. Returns whether to continue.
    fn read_answer(&self) -> bool {
        let question = {
            let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            match self.hub.questions().into_iter().next() {
                Some(question) => question,
                None => {
                    *reading = false;
                    return false;
                }
            }
        };
        let mut is_asked = false;
        while self.is_open(question.id) {
            // In the background the terminal belongs to another process.
            let ours = is_in_foreground();
            if ours && !is_asked {
                // Text that was typed before the question was shown is no answer to it.
                _ = rustix::termios::tcflush(std::io::stdin(), QueueSelector::IFlush);
                is_asked = true;
            }
            self.view.type_on(ours.then(|| prompt_of(&question)).as_deref());
            if !(wait_for_line() && ours && is_in_foreground()) {
                continue;
            }
            let mut line = String::new();
            if std::io::stdin().lock().read_line(&mut line).is_ok_and(|read| read == 0) {
                // The person ended the input. The question stays open for `harness reply`.
                self.view.type_on(None);
                return false;
            }
            self.view.typed();
            if !line.trim().is_empty() {
                self.reply(&question, line.trim());
            }
        }
        self.view.type_on(None);
        true
    }

    fn is_open(&self, id: PromptId) -> bool {
        self.hub.questions().iter().any(|question| question.id == id)
    }

    fn reply(&self, question: &OpenQuestion, line: &str) {
        let mut reply = UserReply::text(line);
        reply.by = Some(format!("operator (pid={})", std::process::id()));
        match self.hub.reply(question.id, reply) {
            Answered::Accepted => {}
            Answered::Unknown => self.view.say("the question is not open any more"),
            Answered::Unfit { why } => self.view.say(&format!("that is no answer: {why}")),
        }
    }
}

fn prompt_of(question: &OpenQuestion) -> String {
    match &question.choices[..] {
        [] => "your answer> ".to_owned(),
        choices if question.allow_text => format!("{} or other text> ", choices.join(", ")),
        choices => format!("{}> ", choices.join(" or ")),
    }
}

/// Returns whether something was typed, within a short time.
fn wait_for_line() -> bool {
    let stdin = std::io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec::try_from(LOOK).ok();
    match rustix::event::poll(&mut polled, time.as_ref()) {
        Ok(count) => count > 0,
        Err(rustix::io::Errno::INTR) => false,
        Err(_) => {
            // Without this pause a broken terminal would keep a processor busy.
            std::thread::sleep(LOOK);
            false
        }
    }
}

/// Returns whether this process is in the foreground. The kernel stops a background process that
/// reads from its terminal.
fn is_in_foreground() -> bool {
    rustix::termios::tcgetpgrp(std::io::stdin())
        .is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    shlex::try_quote(text).map_or_else(|_| "'…'".to_owned(), |word| word.into_owned())
}
