//! A flow that asks before it continues. Here another task answers; usually it is a person at a
//! terminal.
//!
//! ```sh
//! cargo run -p harness-supervisor --example human_in_the_loop
//! ```

use std::time::Duration;

use harness::{Ask, Cx, Envelope, Error, Event, Harness, Result, UserReply, terminal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let flow = Harness::define("deploy").state(|(): &()| Vec::<String>::new()).run(
        async |cx: &mut Cx<'_, Vec<String>, ()>| {
            let session = cx.session().ok_or(Error::NoSession)?;
            let ask = Ask::choices(["staging", "production"]).within(Duration::from_secs(60));
            let target = session.wait_for_user("Where to?", ask).await?.content;
            cx.state.push(target.clone());
            let for_whom = session.read_messages().into_iter().map(|m| m.content);
            cx.state.extend(for_whom);
            cx.task(format!("deploy to {target}"), async |_| Ok(())).await?;
            Ok(target)
        },
    );
    let instance = flow.create(()).start_session().attach(terminal());
    // Any listener of the question may answer it.
    let answerer = instance.hub().clone();
    instance
        .subscribe("session:prompt", move |e: &Envelope| {
            if let Event::SessionPrompt { prompt_id, .. } = &e.event {
                answerer.send("and tell the team");
                answerer.reply(*prompt_id, UserReply::choice("staging"));
            }
        })
        .forever();
    let done = instance.run().await?;
    println!("deployed to {} ({})", done.result, done.state.join(", "));
    Ok(())
}
