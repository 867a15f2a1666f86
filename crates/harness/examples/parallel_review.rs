//! Several reviews at once, one of them unreliable and tried again.
//!
//! ```sh
//! cargo run -p harness-supervisor --example parallel_review
//! ```

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use harness::{
    Agent, Cx, Execution, Harness, Named, PARALLEL, Result, RetryPolicy, named, terminal,
};

/// Fails at the first call, as services do.
#[derive(Default)]
struct Reviewer {
    asked: AtomicU32,
}

impl Agent for Reviewer {
    type Input = String;
    type Output = usize;

    async fn execute(&self, file: String, _: &mut Execution) -> Result<usize> {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            0 => Err("the service is busy".into()),
            _ => Ok(file.len() % 3),
        }
    }
}

struct Team {
    reviewer: Named<Reviewer>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let policy = RetryPolicy { first_delay: Duration::from_millis(10), ..RetryPolicy::default() };
    let flow = Harness::define("review")
        .agents(Team { reviewer: named("reviewer", Reviewer::default()) })
        .state(|files: &Vec<String>| files.clone())
        .run(async move |cx: &mut Cx<'_, Vec<String>, Team>| {
            let branch = cx.fork();
            let files = std::mem::take(cx.state);
            // The branch has no state, so two reviews cannot race on it.
            let reviews = cx.parallel(PARALLEL, files, |file| {
                let branch = branch.clone();
                async move {
                    let review = |_| branch.execute(|team| &team.reviewer, file.clone());
                    branch.retry(&file, policy, review).await
                }
            });
            reviews.await.into_iter().sum::<Result<usize>>()
        });
    let files = ["main.rs", "lib.rs", "a.rs", "tests.rs"].map(str::to_owned).into();
    let done = flow.create(files).attach(terminal()).run().await?;
    println!("{} remarks", done.result);
    Ok(())
}
