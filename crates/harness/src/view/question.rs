//! A question to a person, with the command that answers it.

use serde::Serialize;

use super::NextStep;
use crate::{flows::gate::APPROVE, protocol::QuestionView};

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QuestionCard {
    /// The question as the host describes it.
    #[serde(flatten)]
    pub question: QuestionView,
    /// The command that answers it.
    pub next: NextStep,
}

impl From<&QuestionView> for QuestionCard {
    fn from(question: &QuestionView) -> Self {
        let answer = question.phase.as_ref().map(|_| APPROVE);
        let next = NextStep::Reply { prompt_id: question.prompt_id.clone(), answer };
        Self { question: question.clone(), next }
    }
}
