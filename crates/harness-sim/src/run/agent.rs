//! An agent of many characters: it works in the tree and reports about it, truthfully or not.

use std::{sync::Arc, time::Duration};

use harness::{
    Agent, Commit, Execution, Result, agent::Prompt, clock::Clock as _, store::Runs as _,
};
use harness_core::{
    Epoch, Flag, RunId, TaskId,
    agent::{AgentEvent, End, FailureKind, StoppedBy},
};

use super::{
    Flaw,
    acts::{choose, perform},
    books::For,
    character::{Character, Says, says, tells},
    lies::{self, Asked, Deed, Teller},
    shell::TAR_PIT,
    stage::{Moment, Stage, gone},
};

/// One of the agents of a process, by its number.
pub(super) struct RunAgent {
    pub(super) stage: Stage,
    pub(super) number: usize,
    /// The host that decides its requests.
    pub(super) host: Arc<dyn Commit>,
}

/// The subject of an execution.
struct About {
    of: For,
    /// The task; `None` for an objective.
    task: Option<TaskId>,
    epoch: Epoch,
    /// The committer name of its commits.
    committer: String,
    limit: Option<Duration>,
}

impl RunAgent {
    fn about(&self, prompt: &Prompt) -> Result<About> {
        let variable = |wanted: &str| {
            let found = prompt.environment.iter().rev().find(|(name, _)| name == wanted);
            found.and_then(|(_, value)| value.to_str())
        };
        let task = variable("HARNESS_TASK_ID").map(TaskId::parse).transpose();
        let task = task.map_err(harness::Error::other)?;
        let number = |name: &str| variable(name).and_then(|value| value.parse::<u64>().ok());
        let epoch = Epoch(number("HARNESS_EPOCH").unwrap_or_default());
        let runs = self.stage.state().runs.clone();
        let attempt = task.as_ref().map(|task| runs.attempt(task, epoch)).transpose()?.flatten();
        // The objective has the first id of its world, like the parent of attempts.
        let run = attempt.map_or_else(|| RunId::of_bits(0), |run| run.id);
        let iteration = number("HARNESS_ITERATION").unwrap_or(u64::from(u32::MAX));
        let iteration = u32::try_from(iteration).unwrap_or(u32::MAX);
        let of = For { run, iteration, agent: self.number };
        // A limit further away is never reached.
        let limit = prompt.limits.timeout.filter(|limit| *limit < Duration::from_secs(86_400));
        let committer = variable("GIT_COMMITTER_NAME").unwrap_or("User").to_owned();
        Ok(About { of, task, epoch, committer, limit })
    }

    /// Returns the events of the action, if the agent is not killed meanwhile.
    fn act(&self, about: &About, turn: usize) -> Result<Vec<AgentEvent>> {
        let mut state = self.stage.state();
        state.moment(Moment::Effect)?;
        let character = state.character;
        let act = choose(&mut state, character);
        let wanted = match (&about.task, character) {
            (Some(task), _) => task.clone(),
            (None, Character::Honest) => state.wants[turn % state.wants.len()].clone(),
            (None, _) => {
                let count = state.wants.len();
                let at = state.random.below(count);
                state.wants[at].clone()
            }
        };
        if character == Character::Honest {
            state.git.remove(TAR_PIT);
        }
        state.story.tell(|| format!("      {wanted}'s agent: {act:?}"));
        let told = perform(&mut state, act, &wanted, &about.committer)?;
        if let Some(task) = &about.task {
            state.messed(task);
        }
        let more = tells(&mut state);
        let told: Vec<_> = told.into_iter().chain(more).collect();
        for event in &told {
            state.story.tell(|| format!("      it tells {event:?}"));
            state.agent_tells(&about.of, event);
        }
        Ok(told)
    }

    /// Returns the events of a lie, if the agent is not killed meanwhile. `None` if it acts without
    /// a lie.
    async fn lie(&self, about: &About) -> Result<Option<Vec<AgentEvent>>> {
        let Some(task) = &about.task else { return Ok(None) };
        let asked = {
            let mut state = self.stage.state();
            let chance = state.lies.of_a_hundred();
            if !state.lies.on || !state.random.percent(chance) {
                return Ok(None);
            }
            state.moment(Moment::Effect)?;
            let deed = lies::choose(&mut state);
            state.story.tell(|| format!("      {task}'s agent: {deed:?}"));
            let (epoch, run, committer) = (about.epoch, &about.of.run, &*about.committer);
            let teller = Teller { task, epoch, run, committer };
            lies::tell(&mut state, deed, &teller)?;
            if state.dead {
                return Err(gone().into());
            }
            match deed {
                Deed::Verb => lies::answer(&mut state, &teller),
                Deed::Pretends => {
                    let description = "nothing yet".to_owned();
                    return Ok(Some(vec![AgentEvent::Checkpoint {
                        step: 1,
                        total: 9,
                        description,
                    }]));
                }
                _ => {
                    state.messed(task);
                    return Ok(Some(Vec::new()));
                }
            }
        };
        match asked {
            Asked::Done(command) => {
                // An agent continues after a refusal.
                let committed = self.host.commit(*command).await;
                _ = committed.map_err(harness::Error::Commit)?;
                Ok(Some(Vec::new()))
            }
            Asked::Refused(recorded) => {
                let committed = self.host.commit(*recorded).await;
                _ = committed.map_err(harness::Error::Commit)?;
                self.stage.state().lies.expect(task, about.epoch, Flag::Verb);
                Ok(Some(Vec::new()))
            }
            Asked::Told(event) => {
                self.stage.state().agent_tells(&about.of, &event);
                Ok(Some(vec![event]))
            }
            Asked::RefusedAgain => Ok(Some(Vec::new())),
        }
    }

    fn is_deaf_to(&self, cause: StoppedBy) -> bool {
        cause == StoppedBy::Budget && self.stage.state().flaw == Flaw::SpendsOn
    }

    async fn turn(&self, about: &About, execution: &Execution) -> Result<End> {
        let acts = {
            let mut state = self.stage.state();
            match state.character {
                Character::Honest => state.wants.len() + 1,
                _ if state.lies.on => 1 + state.random.below(7),
                Character::Idle => state.random.below(2),
                _ => state.random.below(6),
            }
        };
        for turn in 0..acts {
            let told = match self.lie(about).await? {
                Some(told) => told,
                None => self.act(about, turn)?,
            };
            told.into_iter().for_each(|event| execution.tell(event));
            tokio::time::sleep(Duration::from_secs(20)).await;
            if execution.cancelled().is_cancelled() && !self.is_deaf_to(execution.stopped_by()) {
                return Ok(self.stopped(execution).await);
            }
        }
        let end = {
            let mut state = self.stage.state();
            state.moment(Moment::Effect)?;
            says(&mut state, about.limit)
        };
        match end {
            Says::Now(end) => Ok(end),
            Says::Nothing => self.hang(about.limit, execution).await,
        }
    }
}

impl Agent for RunAgent {
    type Input = Prompt;
    type Output = End;

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> Result<End> {
        let about = self.about(&prompt)?;
        let cancelled = execution.cancelled().is_cancelled();
        {
            let mut state = self.stage.state();
            let (of, task) = (&about.of, &about.task);
            state.story.tell(|| format!("      agent of {task:?} starts: {of:?}"));
            state.agent_starts(of, cancelled);
            if let Some(task) = task {
                state.finds_its_own_handoff(task);
            }
        }
        let end = if cancelled {
            self.stopped(execution).await
        } else {
            let forever = Duration::from_secs(10 * 365 * 86_400);
            tokio::select! {
                biased;
                end = self.turn(&about, execution) => end?,
                () = tokio::time::sleep(about.limit.unwrap_or(forever)) => {
                    End::Stopped { by: StoppedBy::Timeout }
                }
            }
        };
        let mut state = self.stage.state();
        state.story.tell(|| format!("      the agent ends: {end:?}"));
        state.agent_ends(&about.of, &end);
        let soon = Some(state.clock.now().plus(1));
        Ok(match (state.flaw, end) {
            (Flaw::BurnsLimits, End::Limited { .. }) => {
                End::Failed { kind: FailureKind::Network, detail: "limited".into() }
            }
            (Flaw::HastyLimits, End::Limited { .. }) => End::Limited { until: soon },
            (Flaw::NudgesForEver, End::Finished { final_text, .. })
                if final_text.trim().is_empty() =>
            {
                End::Limited { until: soon }
            }
            (Flaw::AnyTextWillDo, End::Finished { final_text, usage }) => {
                End::Finished { final_text: format!("{final_text} TASK_COMPLETE"), usage }
            }
            (_, end) => end,
        })
    }
}

impl RunAgent {
    async fn hang(&self, limit: Option<Duration>, execution: &Execution) -> Result<End> {
        self.stage.state().story.tell(|| "      the agent hangs".into());
        let up = limit.unwrap_or(Duration::from_secs(7200));
        tokio::select! {
            biased;
            () = execution.cancelled().cancelled() => return Ok(self.stopped(execution).await),
            () = tokio::time::sleep(up) => {}
        }
        if limit.is_some() {
            return Ok(End::Stopped { by: StoppedBy::Timeout });
        }
        self.stage.state().interrupt();
        execution.cancelled().cancelled().await;
        Ok(self.stopped(execution).await)
    }

    async fn stopped(&self, execution: &Execution) -> End {
        let by = execution.stopped_by();
        self.stage.state().story.tell(|| format!("      the agent is stopped: {by:?}"));
        if by == StoppedBy::User && self.stage.state().fate.impatient {
            self.stage.state().interrupt();
            tokio::task::yield_now().await;
        }
        End::Stopped { by }
    }
}
