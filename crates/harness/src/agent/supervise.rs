//! What all adapters that run one process for one prompt have in common.

mod converse;

use std::collections::VecDeque;

use harness_core::agent::{End, FailureKind};

use super::{Execution, Prompt};
use crate::{
    error::Result,
    process::{
        Chunk, Finished, Job, JobEvent, JobExit, JobStartError, JobState, OutputSource, Redactor,
        Spec, Transcript,
    },
};

pub(super) use converse::{Asked, Dialogue, Standing, Voice, converse};

/// What is kept of standard output: the final text is its end.
pub(super) const FINAL_BYTES: usize = 1024 * 1024;
/// What is kept of standard error, to say why it failed.
const REASON_BYTES: usize = 2 * 1024;

/// How the process ended and the end of what it wrote.
pub(super) struct Ran {
    pub(super) finished: Finished,
    /// It had said all and stayed: its exit is our doing and says nothing.
    was_seen_off: bool,
    stdout: Tail,
    stderr: Tail,
    pub(super) redactor: Redactor,
}

/// Runs `spec` to its end, or until the execution is cancelled. `Err` is how it ended before it ran.
pub(super) async fn supervise(
    spec: Spec,
    prompt: &Prompt,
    execution: &mut Execution,
    mut wake: impl Wake,
) -> Result<std::result::Result<Ran, End>> {
    let known = prompt.environment.iter().chain(&spec.environment).cloned();
    let redactor = Redactor::from_environment(known);
    let (folder, limit) = (prompt.transcripts(), Transcript::BYTES_MAX);
    let mut transcript = Transcript::create(&folder, &prompt.name, &redactor, limit)?;
    let mut job = match Job::start(spec).await {
        Ok(job) => job,
        Err(error) => return not_started(error).map(Err),
    };
    if let Some(warning) = job.take_warning() {
        tracing::warn!("{warning}");
    }
    let (mut stdout, mut stderr) = (Tail::new(FINAL_BYTES), Tail::new(REASON_BYTES));
    let mut is_asked = false;
    loop {
        let event = tokio::select! {
            event = job.next() => event,
            () = execution.cancelled.cancelled(), if !is_asked => {
                is_asked = true;
                job.request_stop(execution.stopped_by());
                continue;
            }
            Some(_) = execution.inbox.pop() => {
                say_unheard();
                continue;
            }
            () = wake.wait() => {
                wake.woken(execution, &redactor)?;
                continue;
            }
        };
        match event {
            Some(JobEvent::Output(chunk)) => {
                transcript.write(&chunk)?;
                keep(chunk, &mut stdout, &mut stderr);
            }
            // There is nobody to ask in a program that reads nothing but its prompt.
            Some(JobEvent::Stalled { silent }) => {
                tracing::warn!(
                    seconds = silent.as_secs(),
                    "the agent has been silent for too long"
                );
            }
            None => break,
        }
    }
    wake.ended(execution, &redactor)?;
    transcript.finish()?;
    let JobState::Finished(finished) = job.state().clone() else {
        return Err("a job that has no more events has not finished".into());
    };
    Ok(Ok(Ran { finished, was_seen_off: false, stdout, stderr, redactor }))
}

/// Nothing that people say is lost without a word: it stays among the events of the run.
fn say_unheard() {
    tracing::warn!("a message did not reach the agent, which takes no messages while it works");
}

/// Something that an adapter does now and then beside the process.
pub(super) trait Wake: Send {
    /// Can be given up at any time.
    fn wait(&mut self) -> impl Future<Output = ()> + Send;
    fn woken(&mut self, execution: &Execution, redactor: &Redactor) -> Result<()>;
    /// Nothing of the process is left.
    fn ended(&mut self, execution: &Execution, redactor: &Redactor) -> Result<()>;
}

/// Nothing.
pub(super) struct Asleep;

impl Wake for Asleep {
    async fn wait(&mut self) {
        std::future::pending().await
    }

    fn woken(&mut self, _: &Execution, _: &Redactor) -> Result<()> {
        Ok(())
    }

    fn ended(&mut self, _: &Execution, _: &Redactor) -> Result<()> {
        Ok(())
    }
}

impl Ran {
    /// The end, if it did not end properly.
    pub(super) fn improper(&self) -> Option<End> {
        if let Some(by) = self.finished.stopped_by {
            return Some(End::Stopped { by });
        }
        if self.was_seen_off {
            return None;
        }
        let how = match self.finished.exit {
            JobExit::Code(0) => return None,
            JobExit::Code(code) => format!("exit code {code}"),
            JobExit::Signal(signal) => format!("killed by signal {signal}"),
            JobExit::Unknown => "its guard was killed".to_owned(),
        };
        let reason = self.stderr.text(&self.redactor);
        let reason = reason.trim();
        let detail = if reason.is_empty() { how } else { format!("{how}: {reason}") };
        Some(End::Failed { kind: FailureKind::Crashed, detail })
    }

    /// The end of what it said.
    pub(super) fn final_text(&self) -> String {
        self.stdout.text(&self.redactor)
    }
}

fn not_started(error: JobStartError) -> Result<End> {
    let kind = match &error {
        JobStartError::NotFound { .. } => FailureKind::NotFound,
        JobStartError::Program { .. } | JobStartError::Directory { .. } => FailureKind::Config,
        JobStartError::Record(_) | JobStartError::Guard(_) | JobStartError::Io(_) => {
            return Err(crate::Error::other(error));
        }
    };
    Ok(End::Failed { kind, detail: error.to_string() })
}

fn keep(chunk: Chunk, stdout: &mut Tail, stderr: &mut Tail) {
    match chunk.source {
        OutputSource::Stdout => stdout.push(&chunk.bytes),
        OutputSource::Stderr => stderr.push(&chunk.bytes),
    }
}

/// The last so many bytes.
struct Tail {
    bytes: VecDeque<u8>,
    most: usize,
}

impl Tail {
    fn new(most: usize) -> Tail {
        Tail { bytes: VecDeque::new(), most }
    }

    fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.most)..];
        let surplus = (self.bytes.len() + bytes.len()).saturating_sub(self.most);
        self.bytes.drain(..surplus);
        self.bytes.extend(bytes);
    }

    fn text(&self, redactor: &Redactor) -> String {
        let (front, back) = self.bytes.as_slices();
        String::from_utf8_lossy(&redactor.bytes(&[front, back].concat())).into_owned()
    }
}
