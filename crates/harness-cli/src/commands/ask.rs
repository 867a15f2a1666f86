//! `harness ask`

use serde_json::{Value, json};

use super::Invocation;
use crate::{
    config::Duration,
    exit::ExitCode,
    failure::{Failure, Result},
};

/// Ask the people behind the run, and wait for the answer
///
/// For agents. The question is shown by `harness questions` and answered by `harness reply`; the
/// answer is printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness ask 'Which database?'
  harness ask 'Drop the table?' --choices yes,no --timeout 30m")]
pub(crate) struct Args {
    /// The question
    question: String,
    /// The answers to choose from
    #[arg(long, value_name = "CHOICES", value_delimiter = ',')]
    choices: Vec<String>,
    /// Take other answers than the choices too
    #[arg(long, requires = "choices")]
    allow_text: bool,
    /// Give up after this long, such as 30s or 10m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

fn duration(text: &str) -> std::result::Result<Duration, String> {
    Duration::parse(text).ok_or_else(|| "a length of time is like 90s, 30m or 1h30m".to_owned())
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let question = Question {
        question: args.question,
        choices: args.choices,
        allow_text: args.allow_text,
        timeout_seconds: args.timeout.map(|timeout| timeout.0.as_secs()),
    };
    let data = ask(invocation, question)?;
    match data["content"].as_str() {
        Some(content) => invocation.out.line(content)?,
        None => return Err(Failure::error(format!("unexpected answer: {data}"))),
    }
    Ok(ExitCode::Done)
}

pub(crate) struct Question {
    pub(crate) question: String,
    pub(crate) choices: Vec<String>,
    pub(crate) allow_text: bool,
    pub(crate) timeout_seconds: Option<u64>,
}

/// The answer, as `content`.
pub(crate) fn ask(invocation: &Invocation, question: Question) -> Result<Value> {
    let Question { question, choices, allow_text, timeout_seconds } = question;
    let root = invocation.root()?;
    let request = json!({ "command": "ask", "question": question, "choices": choices,
        "allow_text": allow_text, "timeout": timeout_seconds });
    invocation.ask_running(&root, request, None)
}
