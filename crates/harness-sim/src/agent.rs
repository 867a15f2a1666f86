//! A scripted agent. It can keep its promise, lie, crash or hang.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use harness::{Agent, Execution, Result};
use harness_core::agent::{AgentEvent, End, StoppedBy};

/// The script of one execution.
#[derive(Debug, Clone)]
pub struct Turn {
    pub tells: Vec<AgentEvent>,
    pub ends: Ends,
}

#[derive(Debug, Clone)]
pub enum Ends {
    With(End),
    /// The execution ends only when it is stopped.
    Never,
}

/// Plays its turns in order. After the last one it hangs, so that a loop that continues too long is
/// noticed.
#[derive(Debug, Default)]
pub struct SimAgent(Mutex<VecDeque<Turn>>);

impl SimAgent {
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self(Mutex::new(turns.into_iter().collect()))
    }
}

impl Agent for SimAgent {
    /// The prompt as text.
    type Input = String;
    type Output = End;

    fn kind(&self) -> Option<&str> {
        Some("simulated")
    }

    async fn execute(&self, _: String, execution: &mut Execution) -> Result<End> {
        let turn = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let turn = turn.unwrap_or(Turn { tells: Vec::new(), ends: Ends::Never });
        for event in turn.tells {
            execution.tell(event);
            tokio::task::yield_now().await;
        }
        match turn.ends {
            Ends::With(end) => Ok(end),
            Ends::Never => {
                execution.cancelled().cancelled().await;
                let by: StoppedBy = execution.stopped_by();
                Ok(End::Stopped { by })
            }
        }
    }
}
