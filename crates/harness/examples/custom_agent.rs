//! An agent that receives messages while it works, and a channel that counts its output.
//!
//! ```sh
//! cargo run -p harness-supervisor --example custom_agent
//! ```

use harness::{
    Agent, Channel, Cx, Event, Execution, Harness, Named, Result,
    core::agent::{AgentEvent, Usage},
    named, terminal,
};

/// Writes down the messages that it receives until one of them is `stop`.
struct Scribe;

impl Agent for Scribe {
    type Input = ();
    type Output = Vec<String>;

    fn kind(&self) -> Option<&str> {
        Some("scribe")
    }

    async fn execute(&self, (): (), execution: &mut Execution) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        while let Some(message) = execution.inbox().pop().await {
            if message.content == "stop" {
                break;
            }
            execution.tell(AgentEvent::Text(format!("noted: {}", message.content)));
            execution.tell(AgentEvent::Usage(Usage { input_tokens: 10, ..Usage::default() }));
            lines.push(message.content);
        }
        Ok(lines)
    }
}

struct Agents {
    scribe: Named<Scribe>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let flow = Harness::define("dictation")
        .agents(Agents { scribe: named("scribe", Scribe) })
        .state(|(): &()| ())
        .run(async |cx: &mut Cx<'_, (), Agents>| cx.execute(|a| &a.scribe, ()).await);
    // A channel has a state of its own and handlers by filter. This one sends a message as soon as
    // the agent exists: its inbox is open before `agent:start` is emitted.
    let dictation = Channel::new(0_u64)
        .on("agent:start", |_, envelope, hub| {
            if let Event::AgentStart { run_id, .. } = &envelope.event {
                for line in ["first line", "second line", "stop"] {
                    hub.send_to_run(run_id.to_string(), line);
                }
            }
        })
        .on("agent:usage", |tokens, envelope, _| {
            if let Event::AgentUsage { input_tokens, .. } = &envelope.event {
                *tokens += input_tokens;
            }
        })
        .on_complete(|tokens| println!("{tokens} tokens"));
    let instance = flow.create(()).attach(terminal()).attach(dictation.attachment());
    println!("{:?}", instance.run().await?.result);
    Ok(())
}
