//! Two agents with types of their own, two phases, and a state that only the flow can change.
//!
//! ```sh
//! cargo run -p harness-supervisor --example plan_and_code
//! ```

use harness::{Agent, Cx, Error, Execution, Harness, Named, Result, named, terminal};

struct Wish(&'static str);

struct Step {
    title: String,
}

#[derive(Default)]
struct Notes {
    wish: String,
    plan: Vec<Step>,
    written: Vec<String>,
}

/// Turns a wish into steps.
struct Planner;

impl Agent for Planner {
    type Input = String;
    type Output = Vec<Step>;

    async fn execute(&self, wish: String, _: &mut Execution) -> Result<Vec<Step>> {
        let titles = ["the data", "the screen", "the tests"];
        Ok(titles.map(|part| Step { title: format!("{wish}: {part}") }).into())
    }
}

/// Turns a step into code. The compiler ensures that it gets no other input.
struct Coder;

impl Agent for Coder {
    type Input = String;
    type Output = String;

    async fn execute(&self, title: String, execution: &mut Execution) -> Result<String> {
        let text = format!("working on {title}");
        execution.tell(harness::core::agent::AgentEvent::Text(text));
        Ok(format!("// {title}\n"))
    }
}

struct Team {
    planner: Named<Planner>,
    coder: Named<Coder>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let flow = Harness::define("plan-and-code")
        .agents(Team { planner: named("planner", Planner), coder: named("coder", Coder) })
        .state(|wish: &Wish| Notes { wish: wish.0.to_owned(), ..Notes::default() })
        .run(async |cx: &mut Cx<'_, Notes, Team>| {
            cx.phase((1, "Planning"), async |cx| {
                let wish = cx.state.wish.clone();
                cx.state.plan = cx.execute(|team| &team.planner, wish).await?;
                Ok(())
            })
            .await?;
            cx.phase((2, "Building"), async |cx| {
                let titles: Vec<String> = cx.state.plan.iter().map(|s| s.title.clone()).collect();
                for title in titles {
                    let code = cx.task(title.clone(), async |cx| {
                        cx.execute(|team| &team.coder, title).await
                    });
                    let code = code.await?;
                    cx.state.written.push(code);
                }
                Ok(())
            })
            .await?;
            if cx.state.written.len() == cx.state.plan.len() {
                Ok(cx.state.written.len())
            } else {
                Err(Error::message("something was not written"))
            }
        });
    let done = flow.create(Wish("a TODO app")).attach(terminal()).run().await?;
    println!("{} files, {} events", done.result, done.events.len());
    Ok(())
}
