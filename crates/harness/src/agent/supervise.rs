//! The common part of all adapters that run one process for one prompt.

mod converse;
mod speaker;

use std::{collections::VecDeque, time::Duration};

use harness_core::agent::{AgentEvent, End, FailureKind};

use super::{Execution, Prompt};
use crate::{
    error::Result,
    process::{
        Chunk, Finished, Job, JobEvent, JobExit, JobStartError, JobState, OutputSource, Redactor,
        Spec, Transcript,
    },
};

use speaker::Speaker;

pub(super) use converse::{Asked, Dialogue, Standing, Voice, converse};

/// The size of standard output that is kept. The final text is its end.
pub(super) const FINAL_BYTES: usize = 1024 * 1024;
/// The size of standard error that is kept, to explain a failure.
const REASON_BYTES: usize = 2 * 1024;

/// The end of the process, and the end of its output.
pub(super) struct Ran {
    pub(super) finished: Finished,
    /// `true` if it had finished and stayed, so that we ended it and its exit has no meaning.
    was_seen_off: bool,
    stdout: Tail,
    stderr: Tail,
    pub(super) redactor: Redactor,
}

/// Runs `spec` to its end, or until the execution is cancelled. `Err` is an end before it ran.
pub(super) async fn supervise(
    spec: Spec,
    prompt: &Prompt,
    execution: &mut Execution,
    mut wake: impl Wake,
) -> Result<std::result::Result<Ran, End>> {
    let (mut job, mut transcript, redactor) = match start(spec, prompt).await? {
        Ok(Started { job, transcript, redactor }) => (job, transcript, redactor),
        Err(end) => return Ok(Err(end)),
    };
    let mut speaker = Speaker::new(&redactor);
    let (mut stdout, mut stderr) = (Tail::new(FINAL_BYTES), Tail::new(REASON_BYTES));
    let mut is_asked = false;
    execution.inbox.is_never_read();
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
                if wake.wants_end() && !is_asked {
                    is_asked = true;
                    job.request_stop(execution.stopped_by());
                }
                continue;
            }
        };
        match event {
            Some(JobEvent::Output(chunk)) => {
                transcript.write(&chunk)?;
                if chunk.source == OutputSource::Stdout {
                    let pieces = speaker.push(&chunk.bytes).into_iter();
                    pieces.for_each(|piece| execution.tell(AgentEvent::Text(piece)));
                }
                keep(chunk, &mut stdout, &mut stderr);
            }
            // A program that reads only its prompt cannot be asked.
            Some(JobEvent::Stalled { silent }) => {
                say_silent(silent);
            }
            None => break,
        }
    }
    speaker.finish().into_iter().for_each(|piece| execution.tell(AgentEvent::Text(piece)));
    wake.ended(execution, &redactor)?;
    transcript.finish()?;
    let JobState::Finished(finished) = job.state().clone() else {
        return Err("a job that has no more events has not finished".into());
    };
    Ok(Ok(Ran { finished, was_seen_off: false, stdout, stderr, redactor }))
}

/// A program that runs, and the file that gets its output.
struct Started {
    job: Job,
    transcript: Transcript,
    redactor: Redactor,
}

/// Starts `spec` with a transcript. `Err` is an end before it ran.
async fn start(spec: Spec, prompt: &Prompt) -> Result<std::result::Result<Started, End>> {
    let known = prompt.environment.iter().chain(&spec.environment).cloned();
    let redactor = Redactor::from_environment(known);
    let (folder, limit) = (prompt.transcripts(), Transcript::BYTES_MAX);
    let transcript = Transcript::create(&folder, &prompt.name, &redactor, limit)?;
    let mut job = match Job::start(spec).await {
        Ok(job) => job,
        Err(error) => return not_started(error).map(Err),
    };
    if let Some(warning) = job.take_warning() {
        tracing::warn!("{warning}");
    }
    Ok(Ok(Started { job, transcript, redactor }))
}

/// Warns that a message was not delivered. It stays among the events of the run.
fn say_unheard() {
    tracing::warn!("a message did not reach the agent, which takes no messages while it works");
}

fn say_silent(silent: Duration) {
    tracing::warn!(seconds = silent.as_secs(), "the agent has been silent for too long");
}

/// Work of an adapter at intervals beside the process.
pub(super) trait Wake: Send {
    /// Waits for the next time. It can be cancelled at any time.
    fn wait(&mut self) -> impl Future<Output = ()> + Send;
    fn woken(&mut self, execution: &Execution, redactor: &Redactor) -> Result<()>;
    /// Returns whether the process should end. It gets the usual time to do so.
    fn wants_end(&self) -> bool {
        false
    }
    /// Called when nothing of the process is left.
    fn ended(&mut self, execution: &Execution, redactor: &Redactor) -> Result<()>;
}

/// An adapter without such work.
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
    /// Returns the end, if it was not a regular one.
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

    /// Returns the end of its output.
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

/// Keeps the last `most` bytes.
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
