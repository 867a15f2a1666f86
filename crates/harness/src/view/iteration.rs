//! The contexts of a run.

use harness_core::{
    CommitId, Timestamp,
    run::{Ending, Iteration, Run},
};
use serde::Serialize;

use super::{RunHistory, RunSummary};

/// One context of an agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct IterationCard {
    /// Its number, from 1.
    pub number: u32,
    /// Its start.
    pub started_at: Timestamp,
    /// Its end; `None` while it goes on, and after a crash.
    pub ended_at: Option<Timestamp>,
    /// The kind of end.
    pub ending: Option<Ending>,
    /// The reason of a failure, as text.
    pub detail: Option<String>,
    /// The last text of the agent: its summary for people.
    pub final_text: Option<String>,
    /// The transcript, relative to the state root.
    pub transcript: Option<String>,
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The cost; `None` if no agent reported a price.
    pub cost_usd: Option<f64>,
    /// HEAD at the start.
    pub head_before: Option<CommitId>,
    /// HEAD at the end.
    pub head_after: Option<CommitId>,
}

impl From<&Iteration> for IterationCard {
    fn from(of: &Iteration) -> Self {
        Self {
            number: of.number.saturating_add(1),
            started_at: of.started_at,
            ended_at: of.ended_at,
            ending: of.ending,
            detail: of.detail.clone(),
            final_text: of.final_text.clone(),
            transcript: of.transcript.clone(),
            input_tokens: of.usage.input_tokens,
            output_tokens: of.usage.output_tokens,
            cost_usd: of.usage.cost_usd,
            head_before: of.head_before.clone(),
            head_after: of.head_after.clone(),
        }
    }
}

/// A run with its contexts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunStory {
    /// The run.
    #[serde(flatten)]
    pub run: RunSummary,
    /// Its contexts, oldest first.
    pub iterations: Vec<IterationCard>,
}

impl RunStory {
    /// Returns the story of `run`, which is one of `record`.
    pub fn of(run: &Run, record: &RunHistory) -> Self {
        let iterations = record.iterations(&run.id).iter().map(IterationCard::from);
        Self { run: RunSummary::of(run, record), iterations: iterations.collect() }
    }

    /// Returns the stories of all objectives of `record`, newest first.
    pub fn objectives(record: &RunHistory) -> Vec<Self> {
        let objectives = record.tops().filter(|run| run.objective.is_some());
        objectives.map(|run| Self::of(run, record)).collect()
    }
}
