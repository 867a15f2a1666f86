//! Sends one message through one channel.

use std::{path::PathBuf, time::Duration};

use harness_core::{
    Timestamp,
    notify::{Notice, SendFailure},
    variables::Variables,
};

use super::{Means, Recipient};
use crate::{
    process::program::find_program,
    shell::{Exit, Script, SystemShell},
};

/// The longest time of one try over HTTP.
pub const TRY_WITHIN: Duration = Duration::from_secs(10);
/// The longest time of a command.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);
const DESKTOP: &str = "notify-send";

/// Sends messages for a project.
#[derive(Debug, Clone)]
pub struct Courier {
    root: PathBuf,
    #[cfg(feature = "http")]
    client: std::sync::Arc<std::sync::OnceLock<crate::http::HttpClient>>,
}

impl Courier {
    /// Creates a courier for the state root `root`, in which commands run.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            #[cfg(feature = "http")]
            client: std::sync::Arc::default(),
        }
    }

    /// Sends a message and waits for the answer of the channel. The error contains no secret.
    pub fn send(
        &self,
        channel: &Recipient,
        notice: &Notice,
        now: Timestamp,
    ) -> Result<(), SendFailure> {
        match &channel.means {
            Means::Command { command } => {
                let command = format!("exec >/dev/null\n{command}");
                let document = serde_json::to_string(notice).map_err(|why| failed(&why))?;
                self.run(command, &format!("{document}\n"))
            }
            Means::Desktop => self.run(desktop(notice)?, ""),
            Means::Webhook { .. }
            | Means::Ntfy { .. }
            | Means::Slack { .. }
            | Means::Discord { .. }
            | Means::Telegram { .. } => self.post(&channel.means, notice, now),
        }
    }

    fn run(&self, command: String, input: &str) -> Result<(), SendFailure> {
        let script = Script {
            command,
            directory: self.root.clone(),
            timeout: COMMAND_WITHIN,
            environment: Variables::of_root(self.root.display()).list(),
        };
        let ran = SystemShell::default().run_with_input(&script, input.as_bytes());
        match ran.map_err(|why| failed(&why))?.exit {
            Exit::Code(0) => Ok(()),
            Exit::Code(code) => Err(failed(&format!("it ended with exit code {code}"))),
            Exit::Signal(signal) => Err(failed(&format!("it was killed by signal {signal}"))),
            Exit::TimedOut | Exit::Cancelled => {
                Err(failed(&format!("it took more than {} s", COMMAND_WITHIN.as_secs())))
            }
        }
    }

    #[cfg(feature = "http")]
    fn post(&self, means: &Means, notice: &Notice, now: Timestamp) -> Result<(), SendFailure> {
        let Some(request) = super::message::request(means, notice, now) else { return Ok(()) };
        let client = self.client.get_or_init(|| crate::http::HttpClient::new(TRY_WITHIN));
        let answer = client.post(&request).map_err(|why| failed(&why))?;
        if answer.is_success() {
            return Ok(());
        }
        Err(SendFailure {
            pause_seconds: answer.retry_after_seconds,
            // The receiver says that it will never exist again.
            is_final: answer.status == 410,
            ..failed(&format!("HTTP {}", answer.status))
        })
    }

    #[cfg(not(feature = "http"))]
    fn post(&self, _: &Means, _: &Notice, _: Timestamp) -> Result<(), SendFailure> {
        let error = "this program was built without HTTP";
        Err(SendFailure { is_final: true, ..failed(&error) })
    }
}

/// Returns the command line for a message on the screen. Without the program, no try can succeed.
fn desktop(notice: &Notice) -> Result<String, SendFailure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if find_program(DESKTOP, &path).is_none() {
        let error = format!("{DESKTOP} is not installed");
        return Err(SendFailure { is_final: true, ..failed(&error) });
    }
    let text = format!("{}\n{}", notice.text, notice.command);
    let words = [DESKTOP, "--app-name=harness", "--", &notice.title, &text];
    shlex::try_join(words).map_err(|why| SendFailure { is_final: true, ..failed(&why) })
}

fn failed(why: &impl ToString) -> SendFailure {
    SendFailure { error: why.to_string(), pause_seconds: None, is_final: false }
}
