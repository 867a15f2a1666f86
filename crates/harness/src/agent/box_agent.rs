//! Agents of different types behind one type.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use super::{Agent, Execution};
use crate::error::Result;

/// Any agent with this input and this output. [`Agent`] itself cannot be a trait object, because its
/// future has a type of its own; this is the companion that can stand in a `Vec` or in a team.
///
/// Clones are the same agent.
///
/// ```
/// use harness::{
///     Agent, BoxAgent, Execution, Result,
///     agent::{Prompt, ShellAgent},
///     boxed,
///     core::agent::{End, Usage},
///     flows::Team,
///     named,
/// };
///
/// /// An adapter of your own.
/// struct Echo;
///
/// impl Agent for Echo {
///     type Input = Prompt;
///     type Output = End;
///
///     async fn execute(&self, prompt: Prompt, _: &mut Execution) -> Result<End> {
///         Ok(End::Finished { final_text: prompt.text, usage: Usage::default() })
///     }
/// }
///
/// let mut team: Team<BoxAgent<Prompt, End>> = Team::of(named("echo", boxed(Echo)));
/// team.others.push(named("shell", boxed(ShellAgent)));
/// ```
pub struct BoxAgent<I, O> {
    agent: Arc<dyn AnyAgent<I, O>>,
}

/// Puts an agent behind [`BoxAgent`], whatever its type.
pub fn boxed<A: Agent>(agent: A) -> BoxAgent<A::Input, A::Output> {
    BoxAgent { agent: Arc::new(agent) }
}

/// The methods of [`Agent`], with a future on the heap.
trait AnyAgent<I, O>: Send + Sync + 'static {
    fn kind(&self) -> Option<&str>;

    fn has_tools(&self) -> bool;

    fn execute<'a>(
        &'a self,
        input: I,
        execution: &'a mut Execution,
    ) -> Pin<Box<dyn Future<Output = Result<O>> + Send + 'a>>
    where
        I: 'a;
}

impl<A: Agent> AnyAgent<A::Input, A::Output> for A {
    fn kind(&self) -> Option<&str> {
        Agent::kind(self)
    }

    fn has_tools(&self) -> bool {
        Agent::has_tools(self)
    }

    fn execute<'a>(
        &'a self,
        input: A::Input,
        execution: &'a mut Execution,
    ) -> Pin<Box<dyn Future<Output = Result<A::Output>> + Send + 'a>>
    where
        A::Input: 'a,
    {
        Box::pin(Agent::execute(self, input, execution))
    }
}

impl<I: Send + 'static, O: Send + 'static> Agent for BoxAgent<I, O> {
    type Input = I;
    type Output = O;

    fn kind(&self) -> Option<&str> {
        self.agent.kind()
    }

    fn has_tools(&self) -> bool {
        self.agent.has_tools()
    }

    async fn execute(&self, input: I, execution: &mut Execution) -> Result<O> {
        self.agent.execute(input, execution).await
    }
}

impl<I, O> Clone for BoxAgent<I, O> {
    fn clone(&self) -> Self {
        Self { agent: Arc::clone(&self.agent) }
    }
}

impl<I: 'static, O: 'static> fmt::Debug for BoxAgent<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxAgent").field("kind", &self.agent.kind()).finish_non_exhaustive()
    }
}
