//! `harness ask`

use harness::protocol::{Inquiry, QuestionAnswer};
use harness_core::TaskId;

use crate::{
    config::Duration, environment::Environment, exit::ExitCode, failure::Result,
    invocation::Invocation,
};

/// Ask the user a question, and wait for the answer
///
/// For agents. `harness questions` shows the question and `harness reply` answers it. The answer is
/// printed.
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
    /// Also accept answers that are not among the choices
    #[arg(long, requires = "choices")]
    allow_text: bool,
    /// Give up after this long, such as 30s or 10m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

fn duration(text: &str) -> std::result::Result<Duration, String> {
    Duration::parse(text).ok_or_else(|| {
        "expected a duration such as 90s, 30m or 1h30m, or a number of seconds".to_owned()
    })
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let inquiry = Inquiry {
        question: args.question,
        choices: args.choices,
        allow_text: args.allow_text,
        timeout_seconds: args.timeout.map(|timeout| timeout.0.as_secs()),
        task_id: asking_task(&invocation.env),
    };
    invocation.out.line(ask(invocation, inquiry)?.content)?;
    Ok(ExitCode::Done)
}

/// Returns the task whose agent this process belongs to.
pub(crate) fn asking_task(env: &Environment) -> Option<TaskId> {
    TaskId::parse(env.get("HARNESS_TASK_ID")?.to_str()?).ok()
}

/// Waits for the answer of a person.
pub(crate) fn ask(invocation: &Invocation, inquiry: Inquiry) -> Result<QuestionAnswer> {
    let root = invocation.root()?;
    invocation.with_client(&root, |client| client.inquire(inquiry))
}
