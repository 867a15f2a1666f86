//! The file to which a `command` agent may append JSON lines. It is followed while the agent runs.

use std::{fs::File, io::Read as _, path::Path, time::Duration};

use harness_core::{
    Timestamp,
    agent::{AgentEvent, Usage},
};
use serde::Deserialize;
use tempfile::TempPath;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::{
    agent::{
        Execution, Prompt,
        pace::{CHECKPOINTS_PER_SECOND, Pace},
        supervise::Wake,
        threshold::Threshold,
    },
    error::Result,
    process::{Line, Lines, Redactor},
};

/// The ending of the file name.
const ENDING: &str = "events.jsonl";
/// The interval of looks. There is no portable notice when a file grows.
const LOOK: Duration = Duration::from_millis(200);
/// The limit of a line. Events are short.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The limit of one look, so that a flood of events does not delay anything else.
const LOOK_BYTES_MAX: u64 = 1024 * 1024;
/// The limit of looks after the end, while there is more.
const LAST_LOOKS_MAX: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Told {
    Usage {
        #[serde(default)]
        input_tokens: u64,
        #[serde(default)]
        output_tokens: u64,
        cost_usd: Option<f64>,
        context_tokens: Option<u64>,
        context_window: Option<u64>,
    },
    Checkpoint {
        step: u32,
        total: u32,
        #[serde(default)]
        description: String,
    },
    Text {
        text: String,
    },
    Limit {
        until: Option<Timestamp>,
    },
    End {
        reason: Reason,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    OutOfContext,
    Refused,
    Auth,
    Network,
}

#[derive(Debug)]
pub(super) struct Events {
    path: TempPath,
    file: File,
    lines: Lines,
    look: Interval,
    usage: Usage,
    limit: Option<Option<Timestamp>>,
    /// `true` if nothing was used or written since that limit.
    limit_is_last: bool,
    reason: Option<Reason>,
    /// The size of the context, if it is known.
    window: Option<u64>,
    threshold: Threshold,
    is_full: bool,
    warned: bool,
    pace: Pace,
    /// The last checkpoint that came too soon after the others.
    held_back: Option<AgentEvent>,
    warned_of_flood: bool,
}

impl Events {
    pub(super) fn create(
        prompt: &Prompt,
        window: Option<u64>,
        threshold: Threshold,
    ) -> Result<Events> {
        let path = prompt.file(ENDING, "")?;
        let mut look = tokio::time::interval_at(Instant::now() + LOOK, LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Events {
            file: prompt.open(ENDING)?,
            path,
            lines: Lines::new(LINE_BYTES_MAX),
            look,
            usage: Usage::default(),
            limit: None,
            limit_is_last: false,
            reason: None,
            window,
            threshold,
            is_full: false,
            warned: false,
            pace: Pace::new(CHECKPOINTS_PER_SECOND),
            held_back: None,
            warned_of_flood: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the last reported limit, and its end.
    pub(super) fn limit(&self) -> Option<Option<Timestamp>> {
        self.limit
    }

    /// Returns the same, if the agent did not continue after it.
    pub(super) fn last_limit(&self) -> Option<Option<Timestamp>> {
        self.limit.filter(|_| self.limit_is_last)
    }

    pub(super) fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns whether the program was asked to end because its context is nearly full.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the fill level of the context, once its size is known.
    fn context(&mut self, used: Option<u64>, window: Option<u64>) -> Option<AgentEvent> {
        self.window = window.filter(|size| *size > 0).or(self.window);
        let (used_tokens, window_tokens) = (used?, self.window?);
        self.is_full |= self.threshold.is_reached(used_tokens, window_tokens);
        Some(AgentEvent::Context { used_tokens, window_tokens })
    }

    fn take(&mut self, line: &str, redactor: &Redactor) -> Vec<AgentEvent> {
        let told = match serde_json::from_str(line) {
            Ok(told) => told,
            Err(error) => {
                if !std::mem::replace(&mut self.warned, true) {
                    tracing::warn!(%error, "a line in $HARNESS_EVENTS is not an event; further ones are ignored");
                }
                return Vec::new();
            }
        };
        self.limit_is_last = match told {
            Told::Limit { .. } => true,
            Told::Usage { .. } | Told::Text { .. } => false,
            Told::Checkpoint { .. } | Told::End { .. } => self.limit_is_last,
        };
        vec![match told {
            Told::Usage {
                input_tokens,
                output_tokens,
                cost_usd,
                context_tokens,
                context_window,
            } => {
                let cost_usd = cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
                let usage = Usage { input_tokens, output_tokens, cost_usd };
                self.usage += usage;
                let context = self.context(context_tokens, context_window);
                return [AgentEvent::Usage(usage)].into_iter().chain(context).collect();
            }
            Told::Checkpoint { step, total, description } => {
                let description = redactor.text(&description).into_owned();
                AgentEvent::Checkpoint { step, total, description }
            }
            Told::Text { text } => AgentEvent::Text(redactor.text(&text).into_owned()),
            Told::Limit { until } => {
                self.limit = Some(until);
                AgentEvent::Limit { until }
            }
            Told::End { reason } => {
                self.reason = Some(reason);
                return Vec::new();
            }
        }]
    }
}

impl Wake for &mut Events {
    async fn wait(&mut self) {
        self.look.tick().await;
    }

    fn woken(&mut self, execution: &Execution, redactor: &Redactor) -> Result<()> {
        self.look(execution, redactor).map(|_| ())
    }

    fn wants_end(&self) -> bool {
        self.is_full
    }

    fn ended(&mut self, execution: &Execution, redactor: &Redactor) -> Result<()> {
        let mut looks = 0;
        while looks < LAST_LOOKS_MAX && self.look(execution, redactor)? > 0 {
            looks += 1;
        }
        // The last line may be incomplete.
        let last = std::mem::take(&mut self.lines).finish();
        self.tell(last.as_ref().map(Line::text), execution, redactor);
        // The last checkpoint shows how far it came.
        if let Some(last) = self.held_back.take() {
            execution.tell(last);
        }
        Ok(())
    }
}

impl Events {
    /// Reads the new lines, and returns the number of bytes.
    fn look(&mut self, execution: &Execution, redactor: &Redactor) -> Result<usize> {
        let mut bytes = Vec::new();
        let count = (&self.file).take(LOOK_BYTES_MAX).read_to_end(&mut bytes)?;
        let lines: Vec<String> = self.lines.push(&bytes).map(|line| line.text()).collect();
        self.tell(lines, execution, redactor);
        if let Some(last) = self.held_back.take() {
            self.tell_in_time(last, execution);
        }
        Ok(count)
    }

    /// Reports an event. A checkpoint is stored with the work tree before anything else is done, so
    /// only the last one of a flood matters.
    fn tell_in_time(&mut self, event: AgentEvent, execution: &Execution) {
        let is_checkpoint = matches!(event, AgentEvent::Checkpoint { .. });
        if !is_checkpoint || self.pace.wait(std::time::Instant::now()).is_none() {
            if is_checkpoint {
                self.held_back = None;
            }
            return execution.tell(event);
        }
        if self.held_back.replace(event).is_some()
            && !std::mem::replace(&mut self.warned_of_flood, true)
        {
            tracing::warn!(
                "the agent makes more than {CHECKPOINTS_PER_SECOND} checkpoints a second: only \
                 the last ones are stored"
            );
        }
    }

    fn tell(
        &mut self,
        lines: impl IntoIterator<Item = String>,
        execution: &Execution,
        redactor: &Redactor,
    ) {
        for line in lines.into_iter().filter(|line| !line.trim().is_empty()) {
            for event in self.take(&line, redactor) {
                self.tell_in_time(event, execution);
            }
        }
    }
}
