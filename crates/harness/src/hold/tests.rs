#![allow(clippy::unwrap_used, reason = "tests")]

use harness_core::{Refusal, TaskId, command::Note};

use super::*;
use crate::store::postgres::DatabaseError;

/// A store that cannot be reached for some calls.
#[derive(Default)]
struct Away {
    left: Mutex<u32>,
    calls: Mutex<u32>,
    fails_with: Mutex<Option<DatabaseError>>,
}

impl Away {
    fn answer(&self) -> Result<(), Arc<StoreError>> {
        *self.calls.lock().unwrap() += 1;
        let mut left = self.left.lock().unwrap();
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        let error = self.fails_with.lock().unwrap().clone();
        Err(Arc::new(StoreError::from(error.unwrap_or_else(unreachable))))
    }
}

fn unreachable() -> DatabaseError {
    DatabaseError::Unreachable { server: "db:5432/work".to_owned(), why: "no answer".to_owned() }
}

impl Commit for Away {
    fn commit(&self, _: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        let answer = self.answer().map(|()| Err(Refusal::NotFound { task: TaskId::numbered(1) }));
        Box::pin(std::future::ready(answer))
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(std::future::ready(self.answer()))
    }
}

fn away(calls: u32) -> (Arc<Away>, Hub, Hold) {
    let store = Arc::new(Away { left: Mutex::new(calls), ..Away::default() });
    let hub = Hub::new("test");
    let hold = Hold::over(store.clone(), &hub);
    (store, hub, hold)
}

fn note() -> Command {
    Command::Note(Note::Warning { task: None, message: "one".to_owned() })
}

#[tokio::test(start_paused = true)]
async fn a_step_waits_until_the_store_is_back_and_is_asked_again() {
    let (store, _hub, hold) = away(7);
    let began = tokio::time::Instant::now();
    assert!(hold.commit(note()).await.unwrap().is_err(), "a refusal is an answer");
    assert_eq!(*store.calls.lock().unwrap(), 8);
    assert!(!hold.is_cut_off());
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(8) && waited <= Duration::from_secs(23), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_wait_at_once_and_nothing_is_begun_after_it() {
    let (store, hub, hold) = away(u32::MAX);
    let theirs = hold.clone();
    let held = tokio::spawn(async move { theirs.commit(note()).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!held.is_finished() && hold.is_cut_off());
    hub.interrupt();
    assert!(held.await.unwrap().unwrap_err().is_unreachable());
    let calls = *store.calls.lock().unwrap();
    assert!(hold.flush().await.unwrap_err().is_unreachable());
    assert_eq!(*store.calls.lock().unwrap(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_fence_ends_the_wait_of_its_attempt_only() {
    let (store, _hub, hold) = away(u32::MAX);
    let fence = CancellationToken::new();
    let fenced = hold.fenced(fence.clone(), |store| store);
    let held = tokio::spawn(async move { fenced.commit(note()).await });
    let theirs = hold.clone();
    let outer = tokio::spawn(async move { theirs.commit(note()).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    fence.cancel();
    assert!(held.await.unwrap().unwrap_err().is_unreachable());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!outer.is_finished());
    *store.left.lock().unwrap() = 0;
    assert!(outer.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn other_errors_and_usage_are_not_waited_for() {
    let (store, _hub, hold) = away(u32::MAX);
    let server = "db:5432/work".to_owned();
    let unknown = DatabaseError::OutcomeUnknown { server, why: "cut".to_owned() };
    *store.fails_with.lock().unwrap() = Some(unknown);
    assert!(!hold.commit(note()).await.unwrap_err().is_unreachable());
    *store.fails_with.lock().unwrap() = None;
    let step = RunStep::Spend(harness_core::agent::Usage::default());
    let spend = OfRun { run: harness_core::RunId::of_bits(1), by: None, step };
    assert!(hold.commit(spend.into()).await.unwrap_err().is_unreachable());
}

/// A store that asks whether its change was made says nothing meanwhile.
#[tokio::test(start_paused = true)]
async fn a_fence_ends_the_wait_for_a_store_that_is_silent() {
    struct Silent;
    impl Commit for Silent {
        fn commit(&self, _: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
            Box::pin(std::future::pending())
        }
    }
    let hub = Hub::new("test");
    let hold = Hold::over(Arc::new(Silent), &hub).of_database();
    let fence = CancellationToken::new();
    let fenced = hold.fenced(fence.clone(), |store| store);
    let held = tokio::spawn(async move { fenced.commit(note()).await });
    tokio::time::sleep(Duration::from_secs(19)).await;
    fence.cancel();
    assert!(!hold.is_cut_off());
    assert!(held.await.unwrap().unwrap_err().is_unreachable());
    assert!(hold.is_cut_off());
}
