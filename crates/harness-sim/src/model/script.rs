//! The answers of a scripted model. The dialects translate them into the format of an API.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;

/// The answers in order. Requests whose body contains the words of a lane take its steps, and all
/// others take the main ones.
#[derive(Debug, Clone, Default)]
pub struct Script {
    main: VecDeque<Step>,
    lanes: Vec<(String, VecDeque<Step>)>,
    /// `true` if the last step of a lane is repeated.
    repeats: bool,
}

/// One answer.
#[derive(Debug, Clone)]
pub enum Step {
    /// A message of the model.
    Say(Say),
    /// An error of the API.
    Status { status: u16, message: String, headers: Vec<(&'static str, String)> },
    /// The request is too long for the model.
    TooLong,
    /// The answer begins, and the connection breaks.
    Cut(Say),
    /// The request is accepted and never answered.
    Hang,
}

/// A message of the model.
#[derive(Debug, Clone, Default)]
pub struct Say {
    pub text: String,
    pub calls: Vec<Call>,
    pub tokens: Tokens,
    /// The stop reason in the words of the dialect; the usual one if it is not set.
    pub stop_reason: Option<&'static str>,
}

/// A tool that the model wants to use.
#[derive(Debug, Clone)]
pub enum Call {
    /// A command, by the agent's own shell tool.
    Shell(String),
    /// A new file, by the agent's own tool.
    Write { path: String, content: String },
    /// A tool with exactly this name.
    Named { name: String, input: Value },
}

/// The tokens of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}

impl Tokens {
    pub(super) const NONE: Tokens = Tokens { input: 0, cached: 0, output: 0 };
}

impl Default for Tokens {
    fn default() -> Tokens {
        Tokens { input: 1000, cached: 0, output: 50 }
    }
}

/// The answers so far.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// The input tokens, cached ones included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The bodies of the requests that took a step of the script.
    pub bodies: Vec<String>,
}

impl Script {
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Script {
        Script { main: steps.into_iter().collect(), ..Script::default() }
    }

    /// Adds steps for requests that contain these words. The first matching lane is used.
    #[must_use]
    pub fn when(mut self, words: &str, steps: impl IntoIterator<Item = Step>) -> Script {
        self.lanes.push((words.to_owned(), steps.into_iter().collect()));
        self
    }

    #[must_use]
    pub fn repeating(mut self) -> Script {
        self.repeats = true;
        self
    }

    fn next(&mut self, body: &str) -> Option<Step> {
        let lane = self.lanes.iter_mut().find(|(words, _)| body.contains(words.as_str()));
        let steps = lane.map_or(&mut self.main, |(_, steps)| steps);
        if self.repeats && steps.len() == 1 { steps.front().cloned() } else { steps.pop_front() }
    }
}

impl Step {
    pub fn text(text: &str) -> Step {
        Step::Say(Say { text: text.to_owned(), ..Say::default() })
    }

    pub fn shell(command: &str) -> Step {
        Step::call(Call::Shell(command.to_owned()))
    }

    pub fn call(call: Call) -> Step {
        Step::Say(Say { calls: vec![call], ..Say::default() })
    }

    pub fn cut(text: &str) -> Step {
        Step::Cut(Say { text: text.to_owned(), ..Say::default() })
    }

    pub fn status(status: u16, message: &str) -> Step {
        Step::Status { status, message: message.to_owned(), headers: Vec::new() }
    }
}

/// A script that many requests play at the same time.
#[derive(Debug)]
pub(super) struct Stage {
    state: Mutex<(Script, Served)>,
    played: Condvar,
}

impl Stage {
    pub(super) fn new(script: Script) -> Stage {
        Stage { state: Mutex::new((script, Served::default())), played: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, (Script, Served)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answer to this request. After the last step, it is an error that no agent
    /// retries.
    pub(super) fn next(&self, body: &str) -> Step {
        let mut state = self.state();
        state.1.bodies.push(body.to_owned());
        let step = state.0.next(body);
        self.played.notify_all();
        step.unwrap_or_else(|| Step::status(400, "the script has no more steps"))
    }

    pub(super) fn serve(&self, tokens: Tokens) {
        let served = &mut self.state().1;
        served.input_tokens += tokens.input + tokens.cached;
        served.output_tokens += tokens.output;
    }

    pub(super) fn served(&self) -> Served {
        self.state().1.clone()
    }

    pub(super) fn wait_for(&self, steps: usize, patience: Duration) -> bool {
        let waits = |state: &mut (Script, Served)| state.1.bodies.len() < steps;
        let waited = self.played.wait_timeout_while(self.state(), patience, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}
