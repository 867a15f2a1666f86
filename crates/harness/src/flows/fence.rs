//! Stops the agent of a worker that cannot renew its claim, before another worker may take the task.
//! The fence in the core decides when; this waits, looks a last time and stops.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use harness::{
    Branch, Commit, Committing, Flushed, Hold,
    clock::Clock,
    core::{
        Command, Holder, Task,
        agent::StoppedBy,
        command::{Landing, LandingStep, Renew},
        lease::Fence,
    },
};
use tokio_util::sync::CancellationToken;

/// The longest time until a suspension of the machine is noticed.
const NOTICE: Duration = Duration::from_secs(2);
/// The time between two tries of a renewal that the store could not make durable.
const AGAIN: Duration = Duration::from_secs(1);

/// The watch over the claim of one attempt.
#[derive(Clone)]
pub(super) struct Watch {
    fence: Arc<Mutex<Fence>>,
    clock: Arc<dyn Clock>,
    fired: CancellationToken,
    renew: Command,
}

impl Watch {
    pub(super) fn new(
        task: &Task,
        holder: &Holder,
        lease_seconds: u64,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let left = task.lease_expires_at().map_or(0, |end| end.since(clock.now()));
        let left = Duration::from_secs(left);
        let fence = Fence::new(lease_seconds, left, clock.since_boot());
        Self {
            fence: Arc::new(Mutex::new(fence)),
            clock,
            fired: CancellationToken::new(),
            renew: Command::Renew(Renew::new(holder.clone(), lease_seconds)),
        }
    }

    /// Returns a store through which the watch sees the renewals. It holds steps only as long as the
    /// agent may work.
    pub(super) fn hold(&self, hold: &Hold) -> Hold {
        let watch = self.clone();
        hold.fenced(self.fired.clone(), |commit| Arc::new(Renewing { commit, watch }))
    }

    /// Returns whether it stopped the agent.
    pub(super) fn has_fired(&self) -> bool {
        self.fired.is_cancelled()
    }

    /// Asks for a renewal. Its refusal means that the claim is lost.
    pub(super) fn renewal(&self) -> Command {
        self.renew.clone()
    }

    /// Stops `branch` when the claim was not renewed for too long. After a pause of the machine or of
    /// this process, it looks first. It never completes.
    pub(super) async fn guard<A: Send + Sync>(&self, branch: &Branch<A>, commit: &dyn Commit) {
        loop {
            let fence = self.fence();
            if let Some(left) = fence.left(self.clock.since_boot()) {
                let longest = if self.clock.may_be_set() { NOTICE } else { left };
                tokio::time::sleep(left.min(longest)).await;
                continue;
            }
            let look = tokio::time::timeout(fence.last_look(), commit.commit(self.renewal()));
            if !matches!(look.await, Ok(Ok(Ok(_)))) {
                branch.stop(StoppedBy::Fenced);
                self.fired.cancel();
                return std::future::pending().await;
            }
        }
    }

    fn fence(&self) -> Fence {
        *self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renewed(&self, asked: Duration) {
        self.fence.lock().unwrap_or_else(PoisonError::into_inner).renewed(asked);
    }
}

/// Shows the watch every renewal that became durable, and repeats those that the store could not make
/// durable, as long as the agent may work.
struct Renewing {
    commit: Arc<dyn Commit>,
    watch: Watch,
}

impl Commit for Renewing {
    fn commit(&self, command: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        if !renews(&command) {
            return self.commit.commit(command);
        }
        Box::pin(async move {
            loop {
                let asked = self.watch.clock.since_boot();
                match self.commit.commit(command.clone()).await {
                    Ok(Ok(reply)) => {
                        self.watch.renewed(asked);
                        return Ok(Ok(reply));
                    }
                    Ok(Err(refusal)) => return Ok(Err(refusal)),
                    // This is held elsewhere, so that each try has a time of its own.
                    Err(why) if why.is_unreachable() => return Err(why),
                    Err(why) => {
                        let left = self.watch.fence().left(self.watch.clock.since_boot());
                        let Some(left) = left else { return Err(why) };
                        tokio::time::sleep(left.min(AGAIN)).await;
                    }
                }
            }
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.commit.flush()
    }
}

fn renews(command: &Command) -> bool {
    match command {
        Command::Renew(_) => true,
        Command::Landing(Landing { step, .. }) => *step == LandingStep::Renew,
        _ => false,
    }
}
