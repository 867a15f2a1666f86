//! One process that is listened to line by line and spoken to in between.

use harness_core::agent::{AgentEvent, End, StoppedBy};
use tokio::time::Instant;

use super::{FINAL_BYTES, REASON_BYTES, Ran, Tail, not_started};
use crate::{
    agent::{Execution, Prompt},
    error::Result,
    process::{Event, Job, Line, Lines, Redactor, Source, Spec, State, Transcript},
};

/// Lines of a protocol carry whole files and pictures. Longer ones are cut, and no JSON any more.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An adapter's side of the talk.
pub(in crate::agent) trait Talk: Send {
    /// One line of its standard output, its secrets hidden.
    fn heard(&mut self, line: &Line, partner: &mut Partner<'_>);

    /// What asks it to end by itself, so that it can still say what it cost. It has the grace of the
    /// limits for that. `None`: nothing does.
    fn farewell(&mut self) -> Option<Vec<u8>>;
}

/// Who is talked to, and who hears of it.
pub(in crate::agent) struct Partner<'a> {
    job: &'a mut Job,
    execution: &'a Execution,
}

impl Partner<'_> {
    /// Says a line to the agent.
    pub(in crate::agent) fn say(&mut self, bytes: &[u8]) {
        self.job.say(bytes);
    }

    /// Says nothing more: most agents end then.
    pub(in crate::agent) fn hang_up(&mut self) {
        self.job.hang_up();
    }

    /// Tells the run.
    pub(in crate::agent) fn tell(&self, event: AgentEvent) {
        self.execution.tell(event);
    }

    /// Silence means nothing while a tool runs.
    pub(in crate::agent) fn ignore_silence(&mut self) {
        self.job.ignore_silence();
    }

    /// Silence counts.
    pub(in crate::agent) fn mind_silence(&mut self) {
        self.job.mind_silence();
    }
}

/// Runs `spec` to its end, or until the execution is cancelled. `Err` is how it ended before it ran.
pub(in crate::agent) async fn talk(
    spec: Spec,
    prompt: &Prompt,
    execution: &Execution,
    adapter: &mut impl Talk,
) -> Result<std::result::Result<Ran, End>> {
    let redactor = Redactor::from_environment(prompt.environment.iter().cloned());
    let (folder, limit) = (prompt.transcripts(), Transcript::BYTES_MAX);
    let mut transcript = Transcript::create(&folder, &prompt.name, &redactor, limit)?;
    let grace = spec.limits.grace;
    let mut job = match Job::start(spec).await {
        Ok(job) => job,
        Err(error) => return not_started(error).map(Err),
    };
    if let Some(warning) = job.take_warning() {
        tracing::warn!("{warning}");
    }
    let mut stderr = Tail::new(REASON_BYTES);
    let mut lines = Lines::new(LINE_BYTES_MAX);
    let mut asked: Option<StoppedBy> = None;
    let mut patience: Option<Instant> = None;
    loop {
        let event = tokio::select! {
            event = job.next() => event,
            () = execution.cancelled().cancelled(), if asked.is_none() => {
                let by = execution.stopped_by();
                asked = Some(by);
                match adapter.farewell() {
                    Some(words) => {
                        job.say(&words);
                        patience = Some(Instant::now() + grace);
                    }
                    None => job.request_stop(by),
                }
                continue;
            }
            () = until(patience), if patience.is_some() => {
                patience = None;
                job.request_stop(asked.unwrap_or(StoppedBy::User));
                continue;
            }
        };
        match event {
            Some(Event::Output(chunk)) => {
                transcript.write(&chunk)?;
                match chunk.source {
                    Source::Stderr => stderr.push(&chunk.bytes),
                    Source::Stdout => {
                        for line in lines.push(&chunk.bytes) {
                            hear(line, &redactor, adapter, Partner { job: &mut job, execution });
                        }
                    }
                }
            }
            Some(Event::Stalled { silent }) => {
                tracing::warn!(seconds = silent.as_secs(), "the agent gives no sign of life");
            }
            None => break,
        }
    }
    if let Some(line) = lines.finish() {
        hear(line, &redactor, adapter, Partner { job: &mut job, execution });
    }
    transcript.finish()?;
    let State::Finished(mut finished) = job.state().clone() else {
        return Err("a job that has no more events has not finished".into());
    };
    // One that ended by itself because it was asked to was stopped too.
    finished.stopped_by = finished.stopped_by.or(asked);
    Ok(Ok(Ran { finished, stdout: Tail::new(FINAL_BYTES), stderr, redactor }))
}

fn hear(line: Line, redactor: &Redactor, adapter: &mut impl Talk, mut partner: Partner<'_>) {
    let line = Line { bytes: redactor.bytes(&line.bytes), ..line };
    adapter.heard(&line, &mut partner);
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
