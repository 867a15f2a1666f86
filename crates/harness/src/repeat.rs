//! Two functions that most flows need: retries, and parallel work. Both emit events on the hub, and
//! both stop when they are dropped.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::{
    cx::Branch,
    error::{Error, Result},
    event::Event,
};

/// The number and the delays of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The number of tries, including the first; 0 counts as 1.
    pub tries: u32,
    /// The pause after the first try. It doubles after each further one.
    pub first_delay: Duration,
    /// The limit of the doubling. Each pause is then randomly reduced to between half of it and all
    /// of it.
    pub longest_delay: Duration,
}

impl Default for RetryPolicy {
    /// Three tries: one second after the first, then twice as long each time, up to five seconds.
    fn default() -> Self {
        Self {
            tries: 3,
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_secs(5),
        }
    }
}

impl RetryPolicy {
    /// Returns the pause after this try (from 1), before jitter.
    fn delay(&self, after_try: u32) -> Duration {
        let doublings = after_try.saturating_sub(1).min(31);
        self.first_delay.saturating_mul(1 << doublings).min(self.longest_delay)
    }
}

/// A good default for [`Branch::parallel`].
pub const PARALLEL: usize = 5;

impl<A> Branch<A> {
    /// Tries `what` until it succeeds or the policy gives up, with [`Error::GaveUp`]. `attempt`
    /// receives the number of the try, from 1. Every error except [`Error::Aborted`] is tried again.
    /// It emits `retry:start`, `retry:attempt`, `retry:backoff`, `retry:success` and `retry:failure`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use harness::{Cx, Harness, Result, RetryPolicy};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let flow = Harness::define("stubborn").state(|(): &()| ()).run(
    ///     async |cx: &mut Cx<'_, (), ()>| {
    ///         let first_delay = Duration::from_millis(1);
    ///         let policy = RetryPolicy { first_delay, ..RetryPolicy::default() };
    ///         cx.retry("download", policy, async |number| match number {
    ///             1 => Err("the line is bad".into()),
    ///             _ => Ok(number),
    ///         })
    ///         .await
    ///     },
    /// );
    /// assert_eq!(flow.create(()).run().await?.result, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry<T, F: Future<Output = Result<T>>>(
        &self,
        what: &str,
        policy: RetryPolicy,
        attempt: impl Fn(u32) -> F,
    ) -> Result<T> {
        self.tell("retry:start", json!({ "name": what, "maxAttempts": policy.tries.max(1) }));
        let mut number = 1;
        loop {
            self.tell("retry:attempt", json!({ "name": what, "attempt": number }));
            let error = match attempt(number).await {
                Ok(value) => {
                    self.tell("retry:success", json!({ "name": what, "attempt": number }));
                    return Ok(value);
                }
                Err(error) => error,
            };
            // After an abort nothing waits for a result.
            if number >= policy.tries || error.is_abort() {
                let fields =
                    json!({ "name": what, "attempts": number, "error": error.to_string() });
                self.tell("retry:failure", fields);
                if error.is_abort() {
                    return Err(error);
                }
                return Err(Error::GaveUp {
                    what: what.to_owned(),
                    tries: number,
                    source: Box::new(error),
                });
            }
            let delay = jittered(policy.delay(number));
            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            let fields = json!({ "name": what, "attempt": number, "delayMs": delay_ms,
                                 "error": error.to_string() });
            self.tell("retry:backoff", fields);
            tokio::time::sleep(delay).await;
            number += 1;
        }
    }

    /// Does `work` for every item, at most `limit` at once (0 counts as 1), and returns the results in
    /// the order of the items. A failure does not stop the others. It emits `parallel:start`,
    /// `parallel:item:start`, `parallel:item:complete` or `parallel:item:failed`, and
    /// `parallel:complete`.
    ///
    /// Everything runs in the calling task, so it is for work that waits, not for work that computes.
    /// The future of `work` cannot borrow `cx.state`; [`fork`](crate::Cx::fork) a branch for it.
    ///
    /// ```
    /// use harness::{Cx, Harness, PARALLEL, Result};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let flow = Harness::define("review")
    ///     .state(|files: &Vec<&'static str>| files.clone())
    ///     .run(async |cx: &mut Cx<'_, Vec<&'static str>, ()>| {
    ///         let (branch, files) = (cx.fork(), std::mem::take(cx.state));
    ///         let reviews = cx.parallel(PARALLEL, files, |file| {
    ///             let branch = branch.clone();
    ///             async move { branch.task(file, async |_| Ok(file.len())).await }
    ///         });
    ///         reviews.await.into_iter().collect::<Result<Vec<usize>>>()
    ///     });
    /// let done = flow.create(vec!["main.rs", "lib.rs"]).run().await?;
    /// assert_eq!(done.result, [7, 6]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn parallel<I, T, F: Future<Output = Result<T>>>(
        &self,
        limit: usize,
        items: impl IntoIterator<Item = I>,
        work: impl Fn(I) -> F,
    ) -> Vec<Result<T>> {
        let items: Vec<I> = items.into_iter().collect();
        let (total, limit) = (items.len(), limit.max(1));
        self.tell("parallel:start", json!({ "total": total, "limit": limit }));
        // These are created one by one and not in a closure, so that the compiler can see that they
        // can be sent.
        let mut each = Vec::with_capacity(total);
        for (index, item) in items.into_iter().enumerate() {
            each.push(self.one_of_several(index, work(item)));
        }
        // Collect in completion order so that a slow item blocks nothing, then restore input order.
        let ended = stream::iter(each).buffer_unordered(limit);
        let mut results: Vec<(usize, Result<T>)> = ended.collect().await;
        results.sort_unstable_by_key(|(index, _)| *index);
        let results: Vec<Result<T>> = results.into_iter().map(|(_, result)| result).collect();
        let failed = results.iter().filter(|r| r.is_err()).count();
        self.tell("parallel:complete", json!({ "total": total, "failed": failed }));
        results
    }
}

impl<A> Branch<A> {
    async fn one_of_several<T>(
        &self,
        index: usize,
        work: impl Future<Output = Result<T>>,
    ) -> (usize, Result<T>) {
        self.tell("parallel:item:start", json!({ "index": index }));
        let result = work.await;
        match &result {
            Ok(_) => self.tell("parallel:item:complete", json!({ "index": index })),
            Err(e) => {
                let fields = json!({ "index": index, "error": e.to_string() });
                self.tell("parallel:item:failed", fields);
            }
        }
        (index, result)
    }

    fn tell(&self, kind: &str, fields: serde_json::Value) {
        self.emit(Event::custom(kind, fields));
    }
}

/// Returns a time between half of the delay and all of it, so that callers that failed together do
/// not retry together.
fn jittered(delay: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) % 1000;
    delay / 2 + (delay / 2).mul_f64(random as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let policy = RetryPolicy::default();
        let delays = [1, 2, 3, 4, 40].map(|n| policy.delay(n).as_secs());
        assert_eq!(delays, [1, 2, 4, 5, 5]);
        for _ in 0..100 {
            let jittered = jittered(Duration::from_secs(2));
            assert!((1.0..=2.0).contains(&jittered.as_secs_f64()));
        }
    }
}
