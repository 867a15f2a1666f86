//! The common part of the adapters of programs that use lines of JSON. Some only send; some need
//! answers.

use std::time::Duration;

use harness_core::agent::{AgentEvent, End, StoppedBy};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{REASON_BYTES, Ran, Started, Tail, say_silent, say_unheard, start};
use crate::{
    agent::{Execution, Prompt},
    error::Result,
    hub::Message,
    process::{Chunk, Job, JobEvent, JobState, Lines, OutputSource, Redactor, Spec},
};

/// The limit of a line, which may contain the whole output of a tool. A longer line is cut, and is
/// no longer JSON.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The time that a program which may give another answer can take to begin with it.
const ANOTHER_ANSWER: Duration = Duration::from_secs(60);

/// One side of a conversation with a program, without the program: lines in, lines out.
pub(in crate::agent) trait Dialogue: Send {
    /// Takes one line of standard output, whatever it contains.
    fn hear(&mut self, line: &str, voice: &mut Voice<'_>);

    /// Called for a line that was longer than a message can be, and is lost.
    fn miss(&mut self) {}

    /// Returns whether a tool is known to run, so that silence does not count.
    fn is_busy(&self) -> bool;

    /// Returns the state of the conversation. A program that has finished may end. If it stays, it
    /// is ended after a while.
    fn standing(&self) -> Standing;

    /// Passes on a message to the program while it works. Returns `false` if it does not accept
    /// messages.
    fn told(&mut self, _words: &str, _: &mut Voice<'_>) -> bool {
        false
    }

    /// Asks the program to stop, if there is a way to. It gets some time to do so.
    fn ask_to_stop(&mut self, _: &mut Voice<'_>) -> Asked {
        Asked::NoWay
    }

    /// Called when the program is gone.
    fn ended(&mut self, _: &mut Voice<'_>) {}
}

/// The state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::agent) enum Standing {
    Open,
    /// It reported its end, but a message to it may still get its own answer.
    Answered,
    /// Everything is finished.
    Over,
}

/// Whether a program was asked to stop by its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::agent) enum Asked {
    InWords,
    NoWay,
}

/// The actions of one side of a conversation.
pub(in crate::agent) struct Voice<'a> {
    execution: &'a Execution,
    pub(in crate::agent) redactor: &'a Redactor,
    said: Vec<u8>,
    hangs_up: bool,
}

impl<'a> Voice<'a> {
    fn new(execution: &'a Execution, redactor: &'a Redactor) -> Voice<'a> {
        Voice { execution, redactor, said: Vec::new(), hangs_up: false }
    }

    /// Sends everything that was meant for the program.
    fn speak(self, job: &mut Job) {
        job.say(&self.said);
        if self.hangs_up {
            job.hang_up();
        }
    }

    /// Reports an event to the run. The caller must hide the secrets in it.
    pub(in crate::agent) fn tell(&self, event: AgentEvent) {
        self.execution.tell(event);
    }

    pub(in crate::agent) fn text(&self, text: &str) -> String {
        self.redactor.text(text).into_owned()
    }

    /// Returns a value without the secrets in its strings.
    pub(in crate::agent) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (self.text(key), self.value(value)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Returns an event without the secrets in its texts.
    pub(in crate::agent) fn event(&self, event: AgentEvent) -> AgentEvent {
        match event {
            AgentEvent::Text(text) => AgentEvent::Text(self.text(&text)),
            AgentEvent::Thinking(text) => AgentEvent::Thinking(self.text(&text)),
            AgentEvent::ToolStart { name, input } => {
                let input = input.map(|input| self.value(&input));
                AgentEvent::ToolStart { name: self.text(&name), input }
            }
            AgentEvent::ToolEnd { name, result, is_error } => {
                let result = result.map(|result| self.value(&result));
                AgentEvent::ToolEnd { name: self.text(&name), result, is_error }
            }
            other => other,
        }
    }

    /// Writes a line to the program's standard input.
    pub(in crate::agent) fn say(&mut self, message: &Value) {
        self.said.extend_from_slice(message.to_string().as_bytes());
        self.said.push(b'\n');
    }

    /// Ends the input. Most programs end then, when they are done.
    pub(in crate::agent) fn hang_up(&mut self) {
        self.hangs_up = true;
    }
}

/// Runs `spec` and talks with it until it is gone. `Err` is an end before it ran.
pub(in crate::agent) async fn converse(
    spec: Spec,
    prompt: &Prompt,
    execution: &mut Execution,
    dialogue: &mut impl Dialogue,
) -> Result<std::result::Result<Ran, End>> {
    let grace = spec.limits.grace;
    let (mut job, mut transcript, redactor) = match start(spec, prompt).await? {
        Ok(Started { job, transcript, redactor }) => (job, transcript, redactor),
        Err(end) => return Ok(Err(end)),
    };
    let mut talk = Talk::new(&redactor, grace);
    loop {
        let event = tokio::select! {
            // Messages of people take precedence over the next output of the program.
            biased;
            Some(message) = execution.inbox.pop() => {
                talk.pass_on(&message, &mut job, execution, dialogue);
                continue;
            }
            () = execution.cancelled.cancelled(), if !talk.is_asked => {
                talk.stop(&mut job, execution, dialogue);
                continue;
            }
            () = at(talk.leave_at) => {
                talk.leave_at = None;
                job.request_stop(talk.stopped_by(execution));
                continue;
            }
            event = job.next() => event,
        };
        match event {
            Some(JobEvent::Output(chunk)) => {
                transcript.write(&chunk)?;
                talk.take(&chunk, &mut job, execution, dialogue);
            }
            Some(JobEvent::Stalled { silent }) => {
                say_silent(silent);
                talk.stalled(&mut job, execution, dialogue);
            }
            None => break,
        }
    }
    transcript.finish()?;
    let asked = talk.asked(execution);
    let Talk { lines, stderr, is_closed, .. } = talk;
    let mut voice = Voice::new(execution, &redactor);
    hear_last(lines, dialogue, &mut voice);
    dialogue.ended(&mut voice);
    let JobState::Finished(mut finished) = job.state().clone() else {
        return Err("a job that has no more events has not finished".into());
    };
    // A program that left because it was asked to was stopped too. One that had finished and had to
    // be ended was not.
    let was_seen_off = is_closed && finished.stopped_by.is_some();
    finished.stopped_by = if is_closed { asked } else { finished.stopped_by.or(asked) };
    // The dialogue has its output.
    Ok(Ok(Ran { finished, was_seen_off, stdout: Tail::new(0), stderr, redactor }))
}

/// Passes on a last line without its end.
fn hear_last(lines: Lines, dialogue: &mut impl Dialogue, voice: &mut Voice<'_>) {
    match lines.finish() {
        Some(last) if last.cut_bytes > 0 => dialogue.miss(),
        Some(last) => dialogue.hear(&last.text(), voice),
        None => {}
    }
}

/// The state of a conversation.
struct Talk<'a> {
    redactor: &'a Redactor,
    grace: Duration,
    lines: Lines,
    stderr: Tail,
    /// `true` if the execution was cancelled and the program was asked to stop.
    is_asked: bool,
    /// `true` if it was silent for too long and was asked to stop for that.
    is_stalled: bool,
    is_busy: bool,
    /// `true` if it reported its end, and only has to exit.
    is_closed: bool,
    standing: Standing,
    /// The time at which a program that should exit is ended.
    leave_at: Option<Instant>,
}

impl<'a> Talk<'a> {
    fn new(redactor: &'a Redactor, grace: Duration) -> Talk<'a> {
        Talk {
            redactor,
            grace,
            lines: Lines::new(LINE_BYTES_MAX),
            stderr: Tail::new(REASON_BYTES),
            is_asked: false,
            is_stalled: false,
            is_busy: false,
            is_closed: false,
            standing: Standing::Open,
            leave_at: None,
        }
    }

    fn take(
        &mut self,
        chunk: &Chunk,
        job: &mut Job,
        execution: &Execution,
        dialogue: &mut impl Dialogue,
    ) {
        if chunk.source == OutputSource::Stderr {
            return self.stderr.push(&chunk.bytes);
        }
        let mut voice = Voice::new(execution, self.redactor);
        for line in self.lines.push(&chunk.bytes) {
            // A line that was cut is not a message, whatever its start.
            match line.cut_bytes {
                0 => dialogue.hear(&String::from_utf8_lossy(&line.bytes), &mut voice),
                _ => dialogue.miss(),
            }
        }
        voice.speak(job);
        self.follow(job, dialogue);
    }

    fn pass_on(
        &self,
        message: &Message,
        job: &mut Job,
        execution: &Execution,
        dialogue: &mut impl Dialogue,
    ) {
        let mut voice = Voice::new(execution, self.redactor);
        if self.is_closed || self.is_asked || !dialogue.told(&message.content, &mut voice) {
            return say_unheard();
        }
        voice.speak(job);
    }

    /// Updates the timers. Silence counts while no tool runs, and a program that has finished is
    /// ended.
    fn follow(&mut self, job: &mut Job, dialogue: &impl Dialogue) {
        if self.is_busy != dialogue.is_busy() {
            self.is_busy = dialogue.is_busy();
            if self.is_busy { job.ignore_silence() } else { job.mind_silence() }
        }
        let before = std::mem::replace(&mut self.standing, dialogue.standing());
        if self.standing == before {
            return;
        }
        self.is_closed = self.standing != Standing::Open;
        let patience = match self.standing {
            // It has begun with another answer.
            Standing::Open => None,
            Standing::Answered => Some(self.grace.max(ANOTHER_ANSWER)),
            Standing::Over => Some(self.grace),
        };
        if let Some(patience) = patience {
            job.hang_up();
            self.leave_at = Instant::now().checked_add(patience);
        } else if !self.is_asked && !self.is_stalled {
            self.leave_at = None;
        }
    }

    /// Returns the reason of the stop, if it was asked to.
    fn asked(&self, execution: &Execution) -> Option<StoppedBy> {
        match (self.is_asked, self.is_stalled) {
            (true, _) => Some(execution.stopped_by()),
            (false, true) => Some(StoppedBy::Stall),
            (false, false) => None,
        }
    }

    fn stopped_by(&self, execution: &Execution) -> StoppedBy {
        self.asked(execution).unwrap_or_else(|| execution.stopped_by())
    }

    /// Asks a silent program to stop, so that it can still report its usage. Its job ends one that
    /// cannot be asked, if it stays silent.
    fn stalled(&mut self, job: &mut Job, execution: &Execution, dialogue: &mut impl Dialogue) {
        if self.is_closed {
            self.leave_at = Some(Instant::now());
            return;
        }
        if self.is_asked || self.is_stalled {
            return;
        }
        let mut voice = Voice::new(execution, self.redactor);
        if dialogue.ask_to_stop(&mut voice) == Asked::InWords {
            self.is_stalled = true;
            voice.speak(job);
            job.ignore_silence();
            self.leave_at = Instant::now().checked_add(self.grace);
        }
    }

    fn stop(&mut self, job: &mut Job, execution: &Execution, dialogue: &mut impl Dialogue) {
        self.is_asked = true;
        let mut voice = Voice::new(execution, self.redactor);
        match dialogue.ask_to_stop(&mut voice) {
            Asked::NoWay => job.request_stop(execution.stopped_by()),
            Asked::InWords => {
                voice.speak(job);
                self.leave_at = Instant::now().checked_add(self.grace);
            }
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
