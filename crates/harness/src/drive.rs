//! The only loop in the system: it connects the decisions with the actions that follow.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use harness_core::{
    agent::{AgentEvent, StoppedBy, Usage},
    machine::{Input, Machine, Next},
    run::Allowance,
};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};

use crate::{
    agent::Told,
    clock::Clock,
    cx::Branch,
    error::{Error, Result},
    store::Commit,
};

/// The connections of [`Branch::drive`] to the world.
#[derive(Clone)]
pub struct Ports {
    /// Makes decisions durable; usually a [`Writer`](crate::store::Writer).
    pub commit: Arc<dyn Commit>,
    /// The source of `now` for the machine. (Ticks come by the runtime's time, not by this.)
    pub clock: Arc<dyn Clock>,
    /// The interval of ticks for a waiting machine.
    pub tick: Duration,
}

/// The limit of events of the agent that the machine has not received yet.
const UNTOLD: usize = 4096;

/// The current effect, if there is one.
enum Flight<'a, T> {
    None,
    UnderWay(Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>),
    /// The effect has ended. Earlier events of its agent may still have to be delivered.
    Landed(Result<T>),
}

impl<T> Flight<'_, T> {
    /// Completes when `other` does. The effect continues meanwhile, so that a store that does not
    /// answer keeps no agent from being stopped.
    async fn beside<R>(&mut self, other: impl Future<Output = R>) -> R {
        let mut other = std::pin::pin!(other);
        if let Self::UnderWay(effect) = self {
            tokio::select! {
                biased;
                done = &mut other => return done,
                ended = effect => *self = Self::Landed(ended),
            }
        }
        other.await
    }

    /// Waits for the end of the effect, which was asked to stop.
    async fn end(&mut self) {
        if let Self::UnderWay(effect) = self {
            _ = effect.await;
        }
        *self = Self::None;
    }
}

impl<A: Send + Sync> Branch<A> {
    /// Drives `machine` to its outcome. `perform` does one effect at a time. Its branch stops its
    /// agents when the machine cancels, and sends their events to the machine.
    ///
    /// The machine decides and this loop acts: commit, then act, then report. While an effect is under
    /// way, the machine receives what happens first: an [interrupt](crate::Hub::interrupt), a tick, an
    /// event of an agent, the end of the effect. Events of an agent come before the end of its effect.
    ///
    /// An error of `perform` or of the store ends the drive at once, without asking the machine. A
    /// failure that the machine should decide about belongs into its `Ended`. If the store cannot be
    /// reached, the effect is stopped first, and its end is waited for.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    ///
    /// use harness::{
    ///     Cx, Harness, Ports,
    ///     clock::SystemClock,
    ///     core::{
    ///         Command, Timestamp, TaskId,
    ///         command::{Add, Edit},
    ///         machine::{Input, Machine, Next},
    ///     },
    ///     store::{FileStore, Locking, Observers, Writer, lock::Wait},
    /// };
    ///
    /// /// Records what it is about to do, does it, and returns the length.
    /// struct Careful;
    ///
    /// impl Machine for Careful {
    ///     type Effect = &'static str;
    ///     type Ended = usize;
    ///     type Outcome = Result<usize, String>;
    ///
    ///     fn step(
    ///         &mut self,
    ///         _now: Timestamp,
    ///         input: Input<usize>,
    ///     ) -> Next<&'static str, Result<usize, String>> {
    ///         match input {
    ///             Input::Begin => {
    ///                 let id = TaskId::numbered(1);
    ///                 let fields = Edit::nothing(id.clone());
    ///                 let add = Add { id: Some(id), title: "measure".to_owned(), fields };
    ///                 Next::Commit(Box::new(Command::Add(add)))
    ///             }
    ///             Input::Committed(_) => Next::Start("a long word"),
    ///             Input::Refused(why) => Next::Done(Err(why.to_string())),
    ///             Input::Ended(length) => Next::Done(Ok(length)),
    ///             Input::Interrupt => Next::Done(Err("interrupted".to_owned())),
    ///             Input::Told(_) | Input::Tick | Input::Allowed(_) => Next::Wait,
    ///         }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let root = tempfile::tempdir()?;
    /// let mut store = FileStore::open(root.path(), Locking::Each(Wait::For(Duration::from_secs(5))))?;
    /// store.create(Timestamp::from_seconds(0))?;
    /// let clock = Arc::new(SystemClock);
    /// let writer = Writer::start(store, clock.clone(), Observers::default())?;
    /// let ports = Ports { commit: Arc::new(writer), clock, tick: Duration::from_secs(1) };
    ///
    /// let flow = Harness::define("driven").state(|(): &()| ()).run(
    ///     async move |cx: &mut Cx<'_, (), ()>| {
    ///         cx.drive(&ports, Careful, |_branch, effect| async move { Ok(effect.len()) }).await
    ///     },
    /// );
    /// assert_eq!(flow.create(()).run().await?.result, Ok(11));
    /// # let hash = harness::home::root_hash(&root.path().canonicalize()?);
    /// # std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// When the machine starts an effect while another is under way.
    pub async fn drive<M, F>(
        &self,
        ports: &Ports,
        mut machine: M,
        perform: impl Fn(Branch<A>, M::Effect) -> F,
    ) -> Result<M::Outcome>
    where
        M: Machine,
        F: Future<Output = Result<M::Ended>> + Send,
    {
        let (told, mut waiting) = self.waiting(ports);
        let mut flight = Flight::None;
        let mut bound = self.bound(told.clone());
        let mut input = Input::Begin;
        loop {
            input = match machine.step(ports.clock.now(), input) {
                Next::Commit(command) => match flight.beside(ports.commit.commit(*command)).await {
                    Ok(Ok(reply)) => Input::Committed(reply),
                    Ok(Err(refusal)) => Input::Refused(refusal),
                    Err(error) => {
                        if error.is_unreachable() {
                            // The agent ends in order, because its work is saved for when the store
                            // is back.
                            bound.stop(StoppedBy::Fenced);
                            flight.end().await;
                        }
                        return Err(Error::Commit(error));
                    }
                },
                Next::Start(effect) => {
                    assert!(matches!(flight, Flight::None), "one effect at a time");
                    ports.commit.flush().await.map_err(Error::Commit)?;
                    bound = self.bound(told.clone());
                    flight = Flight::UnderWay(Box::pin(perform(bound.clone(), effect)));
                    waiting.next(&mut flight).await?
                }
                Next::Cancel(cause) => {
                    bound.stop(cause);
                    waiting.next(&mut flight).await?
                }
                Next::Wait => waiting.next(&mut flight).await?,
                Next::Done(outcome) => {
                    ports.commit.flush().await.map_err(Error::Commit)?;
                    return Ok(outcome);
                }
            };
        }
    }

    fn waiting(&self, ports: &Ports) -> (Told, Waiting) {
        let (sender, events) = mpsc::channel(UNTOLD);
        let told = Told::new(sender, self.told());
        let mut ticker = tokio::time::interval_at(Instant::now() + ports.tick, ports.tick);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut interrupts = self.hub().interrupts();
        if *interrupts.borrow_and_update() > 0 {
            // A stop request also applies to effects that start after it.
            interrupts.mark_changed();
        }
        let overflow = Arc::clone(&told.overflow);
        let mut allowances = self.hub().allowances();
        if allowances.borrow_and_update().is_some() {
            // The budget may have changed after the machine was made.
            allowances.mark_changed();
        }
        (told, Waiting { events, overflow, ticker, interrupts, allowances })
    }
}

struct Waiting {
    events: mpsc::Receiver<AgentEvent>,
    overflow: Arc<Mutex<Usage>>,
    ticker: tokio::time::Interval,
    interrupts: tokio::sync::watch::Receiver<u64>,
    allowances: tokio::sync::watch::Receiver<Option<Allowance>>,
}

impl Waiting {
    fn overflowed(&mut self) -> Option<Usage> {
        let mut overflow = self.overflow.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = std::mem::take(&mut *overflow);
        (usage != Usage::default()).then_some(usage)
    }

    /// Returns the first thing that happens. Events of the agent come before its end, but a flood
    /// of them delays neither the clock nor an interrupt.
    async fn next<T>(&mut self, flight: &mut Flight<'_, T>) -> Result<Input<T>> {
        loop {
            if matches!(flight, Flight::Landed(_)) {
                if let Ok(event) = self.events.try_recv() {
                    return Ok(Input::Told(event));
                }
                if let Some(usage) = self.overflowed() {
                    return Ok(Input::Told(AgentEvent::Usage(usage)));
                }
                if let Flight::Landed(ended) = std::mem::replace(flight, Flight::None) {
                    return Ok(Input::Ended(ended?));
                }
            }
            let ended = async {
                match flight {
                    Flight::UnderWay(effect) => effect.await,
                    Flight::None | Flight::Landed(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Ok(()) = self.interrupts.changed() => return Ok(Input::Interrupt),
                Ok(()) = self.allowances.changed() => {
                    let allowance = *self.allowances.borrow_and_update();
                    if let Some(allowance) = allowance {
                        return Ok(Input::Allowed(allowance));
                    }
                }
                _ = self.ticker.tick() => return Ok(Input::Tick),
                Some(event) = self.events.recv() => return Ok(Input::Told(event)),
                ended = ended => *flight = Flight::Landed(ended),
            }
        }
    }
}
