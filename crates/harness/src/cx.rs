//! The context of a flow: its state, its agents, and the scopes of its events.

use std::{ops::Deref, sync::Arc};

use harness_core::{WorkerId, agent::StoppedBy, run::Price};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{Agent, Execution, Named, Stop, Told},
    conversation::Session,
    error::{Error, Result},
    event::{AgentContext, Event, ExecutionId, PhaseContext, Scope},
    hub::Hub,
};

/// The context of a flow. `state` is a plain `&mut`: the borrow checker decides who may change it,
/// so two branches cannot race on it.
///
/// `S` is the state and `A` the agents of the definition. Agents, hub, conversation and helpers are
/// those of [`Branch`], to which a `Cx` derefs.
pub struct Cx<'a, S, A> {
    /// The state of the flow. The caller gets it back in
    /// [`HarnessResult::state`](crate::HarnessResult::state).
    pub state: &'a mut S,
    branch: Branch<A>,
}

/// The context without the state. It can be cloned, so that branches run in parallel.
///
/// Everything that a [`Cx`] can do without its state is here; a `Cx` derefs to it.
pub struct Branch<A> {
    agents: Arc<A>,
    hub: Hub,
    /// Cancels the executions of this branch.
    cancelled: CancellationToken,
    stop: Stop,
    /// The receiver of its agents' events.
    told: Option<Told>,
}

impl<A> Clone for Branch<A> {
    fn clone(&self) -> Self {
        self.with_hub(self.hub.clone())
    }
}

impl<S, A> Deref for Cx<'_, S, A> {
    type Target = Branch<A>;

    fn deref(&self) -> &Branch<A> {
        &self.branch
    }
}

/// The name of a phase, optionally with its number: `"Planning"` or `(1, "Planning")`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseName {
    name: String,
    number: Option<u32>,
}

impl From<&str> for PhaseName {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), number: None }
    }
}

impl From<String> for PhaseName {
    fn from(name: String) -> Self {
        Self { name, number: None }
    }
}

impl<T: Into<String>> From<(u32, T)> for PhaseName {
    fn from((number, name): (u32, T)) -> Self {
        Self { name: name.into(), number: Some(number) }
    }
}

impl PhaseName {
    fn scope(&self) -> Scope {
        let phase = PhaseContext { name: self.name.clone(), number: self.number };
        Scope { phase: Some(phase), ..Scope::default() }
    }

    fn start(&self) -> Event {
        Event::PhaseStart { name: self.name.clone(), phase_number: self.number }
    }

    fn end<T>(self, result: &Result<T>) -> Event {
        match result {
            Ok(_) => Event::PhaseComplete { name: self.name, phase_number: self.number },
            Err(e) => Event::PhaseFailed { name: self.name, error: e.to_string(), stack: None },
        }
    }
}

fn task_end<T: Serialize>(task_id: String, result: &Result<T>) -> Event {
    match result {
        Ok(value) => {
            // There is no result for a task that returns nothing, or nothing that can be
            // serialized.
            let result = serde_json::to_value(value).ok().filter(|v| *v != Value::Null);
            Event::TaskComplete { task_id, result }
        }
        Err(e) => Event::TaskFailed { task_id, error: e.to_string(), stack: None },
    }
}

impl<'a, S, A> Cx<'a, S, A> {
    pub(crate) fn new(state: &'a mut S, agents: Arc<A>, hub: Hub) -> Self {
        let cancelled = hub.cancelled().clone();
        Self { state, branch: Branch { agents, hub, cancelled, stop: Stop::default(), told: None } }
    }

    fn inside(&mut self, scope: Scope) -> Cx<'_, S, A> {
        let branch = self.branch.inside(scope);
        Cx { state: self.state, branch }
    }

    /// Runs a named part of the run. Its start and its end are emitted outside of it. The body gets its
    /// own context, whose events have the phase.
    ///
    /// ```
    /// use harness::{Cx, Harness, Result};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let flow = Harness::define("shopping")
    ///     .state(|list: &Vec<&'static str>| (list.clone(), 0))
    ///     .run(async |cx: &mut Cx<'_, (Vec<&'static str>, u32), ()>| {
    ///         cx.phase((1, "Buying"), async |cx| {
    ///             for item in std::mem::take(&mut cx.state.0) {
    ///                 cx.state.1 += cx.task(item, async |_| Ok(3)).await?;
    ///             }
    ///             Ok(())
    ///         })
    ///         .await
    ///     });
    /// let done = flow.create(vec!["bread", "milk"]).run().await?;
    /// assert_eq!(done.state.1, 6);
    /// let buying = done.events.iter().filter(|e| e.context.phase.is_some());
    /// let kinds: Vec<&str> = buying.map(|e| e.event.kind()).collect();
    /// assert_eq!(kinds, ["task:start", "task:complete", "task:start", "task:complete"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn phase<T>(
        &mut self,
        name: impl Into<PhaseName>,
        body: impl AsyncFnOnce(&mut Cx<'_, S, A>) -> Result<T>,
    ) -> Result<T> {
        let name = name.into();
        self.hub.emit(name.start());
        let result = body(&mut self.inside(name.scope())).await;
        self.hub.emit(name.end(&result));
        result
    }

    /// Runs a unit of work. Its result is part of the event of its completion, so it must be
    /// [`Serialize`]. (This is not a task of the ledger: it lives and ends with the flow.)
    ///
    /// ```
    /// use harness::{Cx, Event, Harness, Result};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let flow = Harness::define("sum")
    ///     .state(|numbers: &Vec<u32>| numbers.clone())
    ///     .run(async |cx: &mut Cx<'_, Vec<u32>, ()>| {
    ///         cx.task("add up", async |cx| Ok(cx.state.iter().sum::<u32>())).await
    ///     });
    /// let done = flow.create(vec![1, 2, 3]).run().await?;
    /// assert_eq!(done.result, 6);
    /// let complete = Event::TaskComplete { task_id: "add up".into(), result: Some(6.into()) };
    /// assert!(done.events.iter().any(|e| e.event == complete));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn task<T: Serialize>(
        &mut self,
        id: impl Into<String>,
        body: impl AsyncFnOnce(&mut Cx<'_, S, A>) -> Result<T>,
    ) -> Result<T> {
        let id = id.into();
        self.hub.emit(Event::TaskStart { task_id: id.clone(), epoch: None });
        let result = body(&mut self.inside(Scope::task(id.clone()))).await;
        self.hub.emit(task_end(id, &result));
        result
    }

    /// Returns a context for a branch that runs beside this one, without the state. It keeps the
    /// current scope and may be sent to another thread.
    pub fn fork(&self) -> Branch<A> {
        self.branch.clone()
    }
}

impl<A> Branch<A> {
    /// Creates a branch outside of any flow, to [drive](Branch::drive) a single machine.
    pub fn alone(agents: A, hub: Hub) -> Self {
        let (agents, cancelled) = (Arc::new(agents), hub.cancelled().clone());
        Self { agents, hub, cancelled, stop: Stop::default(), told: None }
    }

    /// Returns the agents of the definition. Call them with [`execute`](Branch::execute), which
    /// gives each call its events, its inbox and its way to be stopped.
    pub fn agents(&self) -> &A {
        &self.agents
    }

    /// Returns the hub in the current scope.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Emits an event in the current scope.
    pub fn emit(&self, event: Event) {
        self.hub.emit(event);
    }

    /// Returns the conversation with people; `None` without
    /// [`start_session`](crate::Instance::start_session).
    pub fn session(&self) -> Option<Session> {
        self.hub.session_active().then(|| Session { hub: self.hub.clone() })
    }

    /// Executes one of the agents: `cx.execute(|team| &team.planner, input)`.
    ///
    /// It emits `agent:start` before and `agent:complete` after; a failure is also an `agent:failed`.
    /// An error is returned as [`Error::Agent`], with the agent's name.
    ///
    /// ```
    /// use harness::{Agent, Cx, Execution, Harness, Named, Result, named};
    ///
    /// struct Counter;
    ///
    /// impl Agent for Counter {
    ///     type Input = &'static str;
    ///     type Output = usize;
    ///
    ///     async fn execute(&self, text: &'static str, _: &mut Execution) -> Result<usize> {
    ///         if text.is_empty() { Err("nothing to count".into()) } else { Ok(text.len()) }
    ///     }
    /// }
    ///
    /// struct Team {
    ///     counter: Named<Counter>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let flow = Harness::define("count")
    ///     .agents(Team { counter: named("counter", Counter) })
    ///     .state(|(): &()| ())
    ///     .run(async |cx: &mut Cx<'_, (), Team>| {
    ///         let failed = cx.execute(|team| &team.counter, "").await.unwrap_err();
    ///         assert_eq!(failed.to_string(), "agent counter: nothing to count");
    ///         cx.execute(|team| &team.counter, "four").await
    ///     });
    /// assert_eq!(flow.create(()).run().await?.result, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn execute<X: Agent>(
        &self,
        choose: impl for<'b> FnOnce(&'b A) -> &'b Named<X>,
        input: X::Input,
    ) -> Result<X::Output> {
        let Named { name, agent } = choose(&self.agents).clone();
        let kind = agent.kind().map(str::to_owned);
        let context = AgentContext { name: name.to_string(), kind };
        let hub = self.hub.scoped(Scope { agent: Some(context), ..Scope::default() });
        // The inbox exists before the execution is announced.
        let (id, inbox) = self.hub.open_execution(&name);
        let under_way = UnderWay { hub: &self.hub, id };
        let mut execution = Execution {
            id,
            hub,
            inbox,
            cancelled: self.cancelled.child_token(),
            stop: self.stop.clone(),
            told: self.told.clone(),
        };
        let agent_name = name.to_string();
        self.hub.emit(Event::AgentStart { agent_name: agent_name.clone(), run_id: id });
        // Executions that are started together have all started before any of them continues, even
        // if a listener has already put the first message into the inbox.
        tokio::task::yield_now().await;
        let result = agent.execute(input, &mut execution).await;
        drop(under_way);
        let success = result.is_ok();
        let complete = Event::AgentComplete { agent_name: agent_name.clone(), success, run_id: id };
        self.hub.emit(complete);
        result.map_err(|e| {
            let error = e.to_string();
            let failed = Event::AgentFailed { agent_name: agent_name.clone(), run_id: id, error };
            self.hub.emit(failed);
            Error::Agent { agent: agent_name, source: Box::new(e) }
        })
    }

    /// Does the same as [`Cx::phase`], without state.
    pub async fn phase<T>(
        &self,
        name: impl Into<PhaseName>,
        body: impl AsyncFnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let name = name.into();
        self.hub.emit(name.start());
        let result = body(&self.inside(name.scope())).await;
        self.hub.emit(name.end(&result));
        result
    }

    /// Does the same as [`Cx::task`], without state.
    pub async fn task<T: Serialize>(
        &self,
        id: impl Into<String>,
        body: impl AsyncFnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let id = id.into();
        self.hub.emit(Event::TaskStart { task_id: id.clone(), epoch: None });
        let result = body(&self.inside(Scope::task(id.clone()))).await;
        self.hub.emit(task_end(id, &result));
        result
    }

    fn inside(&self, scope: Scope) -> Self {
        self.with_hub(self.hub.scoped(scope))
    }

    fn with_hub(&self, hub: Hub) -> Self {
        Self {
            agents: Arc::clone(&self.agents),
            hub,
            cancelled: self.cancelled.clone(),
            stop: self.stop.clone(),
            told: self.told.clone(),
        }
    }

    /// Returns a branch whose executions can be stopped separately and send their events to `told`.
    pub(crate) fn bound(&self, told: Told) -> Self {
        let mut bound = self.clone();
        bound.cancelled = self.cancelled.child_token();
        bound.stop = self.stop.below();
        bound.told = Some(told);
        bound
    }

    /// Returns a branch that can be [stopped](Self::stop) without stopping this one.
    #[must_use]
    pub fn apart(&self) -> Self {
        let mut apart = self.clone();
        apart.cancelled = self.cancelled.child_token();
        apart.stop = self.stop.below();
        apart
    }

    /// Returns the branch of one of several workers. Events on it name the worker.
    #[must_use]
    pub fn of_worker(&self, worker: &WorkerId) -> Self {
        self.inside(Scope::worker(worker.as_str()))
    }

    /// Returns a branch for a helper of this branch's agent, such as a summarizer. The machine that
    /// [drives](Branch::drive) it receives only the usage there, at this price if no cost is
    /// reported.
    #[must_use]
    pub fn helper(&self, price: Option<Price>) -> Self {
        let mut helper = self.clone();
        helper.told = helper.told.map(|told| told.of_helper(price));
        helper
    }

    /// Returns the connection to the machine that [drives](Branch::drive) this branch, for events
    /// of its agents that do not come through their [`Execution`]; `None` if no machine does.
    pub fn told(&self) -> Option<Told> {
        self.told.clone()
    }

    /// Asks everything on this branch to end. The first cause counts.
    pub fn stop(&self, cause: StoppedBy) {
        self.stop.set(cause);
        self.cancelled.cancel();
    }

    /// Returns a token that is cancelled when everything on this branch must end: the run is over
    /// or was dropped, or the machine that [drives](Branch::drive) it cancelled. It is for work
    /// that is not an agent's; agents have [`Execution::cancelled`].
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }
}

/// Closes the inbox whenever the execution ends, including when its future is dropped.
struct UnderWay<'a> {
    hub: &'a Hub,
    id: ExecutionId,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.hub.close_execution(self.id);
    }
}
