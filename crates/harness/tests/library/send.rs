//! A run can be moved to another thread, whatever its flow contains.

use harness::{Agent, Cx, Execution, Harness, Named, Result, RetryPolicy, named};

struct Same;

impl Agent for Same {
    type Input = u32;
    type Output = u32;

    async fn execute(&self, input: u32, _: &mut Execution) -> Result<u32> {
        Ok(input)
    }
}

struct Team {
    same: Named<Same>,
}

fn can_be_sent<T: Send>(_: T) {}

macro_rules! flow {
    (|$cx:ident| $body:expr) => {
        Harness::define("sent")
            .agents(Team { same: named("same", Same) })
            .state(|(): &()| 0)
            .run(async |$cx: &mut Cx<'_, u32, Team>| $body)
            .create(())
            .run()
    };
}

#[test]
fn flows_of_every_kind_can_be_sent() {
    can_be_sent(flow!(|cx| cx.execute(|t| &t.same, 1).await));
    can_be_sent(flow!(|cx| {
        *cx.state = cx.task("one", async |cx| cx.execute(|t| &t.same, 1).await).await?;
        cx.phase("P", async |cx| cx.task("two", async |cx| Ok(*cx.state)).await).await
    }));
    can_be_sent(flow!(|cx| {
        let branch = cx.fork();
        Ok(cx.parallel(2, [1, 2], |n| branch.execute(|t| &t.same, n)).await.len())
    }));
    can_be_sent(flow!(|cx| {
        let branch = cx.fork();
        let results = cx.parallel(2, [1, 2], |n| {
            let branch = branch.clone();
            async move { branch.task("x", async |b| b.execute(|t| &t.same, n).await).await }
        });
        Ok(results.await.len())
    }));
    can_be_sent(flow!(|cx| {
        let branch = cx.fork();
        cx.retry("x", RetryPolicy::default(), |n| branch.execute(|t| &t.same, n)).await
    }));
}
