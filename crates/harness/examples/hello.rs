//! The smallest harness: one agent, one task.
//!
//! ```sh
//! cargo run -p harness-supervisor --example hello
//! ```

use harness::{Agent, Cx, Execution, Harness, Named, Result, named, terminal};

/// An agent is anything that turns an input into an output.
struct Greeter;

impl Agent for Greeter {
    type Input = String;
    type Output = String;

    async fn execute(&self, name: String, _: &mut Execution) -> Result<String> {
        Ok(format!("Hello, {name}!"))
    }
}

struct Agents {
    greeter: Named<Greeter>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let hello = Harness::define("hello")
        .agents(Agents { greeter: named("greeter", Greeter) })
        .state(|name: &String| name.clone())
        .run(async |cx: &mut Cx<'_, String, Agents>| {
            let name = cx.state.clone();
            cx.task("greet", async |cx| cx.execute(|a| &a.greeter, name).await).await
        });
    let done = hello.create("world".to_owned()).attach(terminal()).run().await?;
    println!("{}", done.result);
    Ok(())
}
