//! `command`: any program that accepts a prompt and prints a text.

mod events;

use std::{ffi::OsString, path::Path};

use harness_core::{
    agent::{End, FailureKind},
    promise::{Match, is_kept, without_echo},
};

use super::{Agent, Execution, Prompt, supervise::supervise, threshold::Threshold};
use crate::{
    error::Result,
    process::{Allowed, JobExit, Spec, Stdin},
};
use events::{Events, Reason};

/// The placeholder for the file that contains the prompt.
const PROMPT_FILE: &str = "{prompt_file}";

/// A program and its arguments. The prompt comes on standard input, or in a file if a word contains
/// the placeholder.
#[derive(Debug, Clone)]
pub struct CommandAgent {
    words: Vec<String>,
    allowed: Allowed,
    window: Option<u64>,
    threshold: Threshold,
}

/// The reason why a command cannot be an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCommand {
    /// It names no program.
    #[error("the command of an agent is empty")]
    Empty,
    /// A quote does not end. The text is the whole command.
    #[error("the command of an agent has a quote that does not end: {0}")]
    Unbalanced(String),
}

impl CommandAgent {
    /// Creates an agent. Words are split as POSIX does; there is no shell. `allowed` selects the
    /// variables that it receives.
    pub fn new(command: &str, allowed: Allowed) -> std::result::Result<CommandAgent, BadCommand> {
        let (words, threshold) = (split(command)?, Threshold::default());
        Ok(CommandAgent { words, allowed, window: None, threshold })
    }

    fn spec(&self, prompt: &Prompt, file: &Path, events: &Events) -> Spec {
        let wants_file = self.words.iter().any(|word| word.contains(PROMPT_FILE));
        let mut words = self.words.iter().map(|word| with_file(word, file.as_os_str()));
        let mut environment = self.allowed.filter(prompt.environment.iter().cloned());
        environment.push(("HARNESS_PROMPT_FILE".into(), file.into()));
        environment.push(("HARNESS_EVENTS".into(), events.path().into()));
        Spec {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            directory: prompt.work_tree.clone(),
            environment,
            stdin: if wants_file {
                Stdin::Null
            } else {
                Stdin::Bytes(prompt.text.clone().into_bytes())
            },
            limits: prompt.limits.clone(),
            label: prompt.run_id.clone(),
            records: Some(prompt.records()),
        }
    }

    /// Sets the size of its context in tokens, for a program that reports only the used part.
    #[must_use]
    pub fn context_window(mut self, tokens: u64) -> CommandAgent {
        self.window = Some(tokens);
        self
    }

    /// Ends the program when this part of its context is full, if it reports that. A fresh context
    /// follows.
    #[must_use]
    pub fn context_threshold(mut self, part: f64) -> CommandAgent {
        self.threshold = Threshold(Some(part));
        self
    }

    /// Adds words without splitting them.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = String>) -> CommandAgent {
        self.words.extend(args);
        self
    }
}

impl Agent for CommandAgent {
    type Input = Prompt;
    type Output = End;

    fn kind(&self) -> Option<&str> {
        Some("command")
    }

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> Result<End> {
        let mut events = Events::create(&prompt, self.window, self.threshold)?;
        let file = prompt.file("md", &prompt.text)?;
        let spec = self.spec(&prompt, &file, &events);
        let ran = match supervise(spec, &prompt, execution, &mut events).await? {
            Err(end) => return Ok(end),
            Ok(ran) => ran,
        };
        if let Some(by) = ran.finished.stopped_by {
            let is_full = events.is_full() && !execution.cancelled().is_cancelled();
            return Ok(if is_full { End::OutOfContext } else { End::Stopped { by } });
        }
        // Its own report takes precedence over its exit code, which says less.
        if let Some(reason) = events.reason() {
            return Ok(reason.end());
        }
        let (failed, limit) = (ran.finished.exit != JobExit::Code(0), events.limit());
        Ok(match (ran.improper(), limit) {
            (Some(_), Some(until)) if failed => End::Limited { until },
            (Some(end), _) => could_not_run(ran.finished.exit, end),
            (None, _) => {
                // An agent that prints its prompt has not given the promise that the prompt
                // contains.
                let said = ran.final_text();
                let final_text = without_echo(&said, &prompt.text).into_owned();
                match events.last_limit() {
                    // Some agents report success when a limit stops them.
                    Some(until) if !is_kept(&final_text, &prompt.promise, Match::Token) => {
                        End::Limited { until }
                    }
                    _ => End::Finished { final_text, usage: events.usage() },
                }
            }
        })
    }
}

/// Returns the words of a command, of which at least one is the program.
pub(super) fn split(command: &str) -> std::result::Result<Vec<String>, BadCommand> {
    let words = shlex::split(command).ok_or_else(|| BadCommand::Unbalanced(command.to_owned()))?;
    if words.first().is_none_or(String::is_empty) {
        return Err(BadCommand::Empty);
    }
    Ok(words)
}

/// Interprets the exit codes of shells and launchers, so that a missing program does not use up an
/// iteration.
fn could_not_run(exit: JobExit, end: End) -> End {
    let (kind, what) = match exit {
        JobExit::Code(127) => (FailureKind::NotFound, "the program was not found"),
        JobExit::Code(126) => (FailureKind::Config, "the program cannot be run"),
        _ => return end,
    };
    // Its output names the program, after the exit code.
    let End::Failed { detail, .. } = end else { return end };
    End::Failed { kind, detail: format!("{what}: {detail}") }
}

impl Reason {
    fn end(self) -> End {
        let failed = |kind, detail: &str| End::Failed { kind, detail: detail.to_owned() };
        match self {
            Reason::OutOfContext => End::OutOfContext,
            Reason::Refused => End::Refused,
            Reason::Auth => failed(FailureKind::Auth, "the agent reports that it is not signed in"),
            Reason::Network => {
                failed(FailureKind::Network, "the agent reports that it has no network")
            }
        }
    }
}

fn with_file(word: &str, file: &std::ffi::OsStr) -> OsString {
    let mut whole = OsString::new();
    for (n, part) in word.split(PROMPT_FILE).enumerate() {
        if n > 0 {
            whole.push(file);
        }
        whole.push(part);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_filled_in() {
        let agent = CommandAgent::new("prog 'a b' --in={prompt_file}", Allowed::base()).unwrap();
        assert_eq!(agent.words, ["prog", "a b", "--in={prompt_file}"]);
        assert_eq!(with_file("--in={prompt_file}", "/x".as_ref()), "--in=/x");
        assert_eq!(with_file("plain", "/x".as_ref()), "plain");
        for (bad, why) in [
            ("", BadCommand::Empty),
            ("''", BadCommand::Empty),
            ("a 'b", BadCommand::Unbalanced("a 'b".to_owned())),
        ] {
            assert_eq!(CommandAgent::new(bad, Allowed::base()).unwrap_err(), why);
        }
    }
}
