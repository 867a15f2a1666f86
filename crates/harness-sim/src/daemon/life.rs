//! One life of a daemon: the engine and the host that `harness daemon` uses too, over simulated
//! ports and simulated time.

use std::{path::Path, sync::Arc};

use harness::{
    Engine, Hub, Observers,
    host::{Daemon, Host, Service, Settings, Surroundings},
    process::{Redactor, ancestry::Peer},
    project::{Parts, Tenure},
    protocol::{Answer, Call, Refused, Request},
    store::{FileStore, Locking, Redacted, Writer, lock::Wait},
    workspace::{Bring, Filters},
};
use harness_core::{
    TaskId,
    command::Unchecked,
    machine::judge::Rules,
    role::{Adding, Role},
};
use tokio::runtime::{Builder, Runtime};

use super::{fault::FaultyStore, floor::Floor, workshop::SimWorkshop};
use crate::clock::SimClock;

pub(super) const ROOT: &str = "/simulated";
pub(super) const LEASE_SECONDS: u64 = 60;

/// What a client received; `None` if the daemon or the client died before the answer.
pub(super) type Delivery = Option<Result<Answer, Refused>>;

/// A request on its way.
#[derive(Debug, Clone)]
pub(super) struct Letter {
    pub(super) request: Request,
    pub(super) role: Role,
}

pub(super) struct Life {
    floor: Floor,
    clock: Arc<SimClock>,
    runtime: Runtime,
    host: Host,
    engine: Engine<Writer>,
}

impl Life {
    pub(super) fn start(floor: &Floor) -> harness::Result<Self> {
        let (clock, disk, fault) = {
            let mut state = floor.state();
            (state.over, state.deserted) = (false, None);
            (Arc::clone(&state.clock), state.disk.clone(), state.fault)
        };
        let root = Path::new(ROOT);
        let workshop = Arc::new(SimWorkshop::open(floor));
        let daemon = Daemon::over(workshop, surroundings(), clock.clone(), Wait::No);
        let daemon = Arc::new(daemon);
        let mut observers = Observers::default();
        observers.add(daemon.clone());
        let hub = Hub::new("daemon");
        let store = FileStore::on(root, Box::new(disk), Locking::Elsewhere).hosting();
        let store = FaultyStore { store: Redacted::new(store, Redactor::default()), fault };
        let all = Observers::default().with(hub.clone()).with(observers.clone());
        let engine = Engine::of(Parts {
            root: root.to_owned(),
            keeper: Arc::new(Writer::without_thread(store, clock.clone(), all)),
            hub,
            observers,
            clock: clock.clone(),
            secrets: Redactor::default(),
            tenure: Tenure::Shared,
        });
        let service = Service { lease_seconds: LEASE_SECONDS, adding: Adding::default() };
        let host = engine.daemon_host(service, &daemon);
        Ok(Self { floor: floor.clone(), clock, runtime: runtime(floor)?, host, engine })
    }

    /// Sends all letters at once. The answers are in the order of the letters.
    pub(super) fn deliver(&self, letters: &[Letter]) -> Vec<Delivery> {
        self.floor.state().deserted = None;
        self.runtime.block_on(async {
            let _following = self.clock.follow();
            match letters {
                [one] => vec![self.answer(one).await],
                [one, other] => {
                    let (one, other) = tokio::join!(self.answer(one), self.answer(other));
                    vec![one, other]
                }
                _ => Vec::new(),
            }
        })
    }

    async fn answer(&self, letter: &Letter) -> Delivery {
        let line = Call::line(&letter.request, Path::new(ROOT), None);
        let line = serde_json::Value::Object(line).to_string();
        let call = match Call::parse(line.as_bytes(), &Redactor::default()) {
            Ok(call) => call,
            Err(refused) => return Some(Err(refused)),
        };
        let peer = Peer { pid: 0, role: letter.role, attempt: None, worker: None, machine: None };
        tokio::select! {
            biased;
            () = self.floor.deserted(judged_task(&letter.request)) => None,
            answer = self.host.answer(&peer, &call) => {
                (!self.floor.state().is_dead()).then_some(answer)
            }
        }
    }

    /// Ends the daemon, or removes what is left of one that was killed.
    pub(super) fn end(self) -> harness::Result<()> {
        let Self { floor, runtime, host, engine, .. } = self;
        let killed = floor.state().is_dead();
        floor.state().over = true;
        drop((runtime, host));
        if killed { Ok(()) } else { engine.end() }
    }
}

/// Returns the task whose check a request may start.
fn judged_task(request: &Request) -> Option<TaskId> {
    match request {
        Request::TaskComplete(of) => Some(of.holder.task.clone()),
        _ => None,
    }
}

/// Returns a runtime with simulated time and one thread for everything that blocks.
fn runtime(floor: &Floor) -> std::io::Result<Runtime> {
    let (parks, wakes) = (floor.clone(), floor.clone());
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(1)
        .on_thread_park(move || parks.parks())
        .on_thread_unpark(move || wakes.wakes())
        .build()
}

fn surroundings() -> Surroundings {
    Surroundings {
        claims: None,
        settings: Box::new(|| {
            let (rules, unchecked) = (Rules::default(), Unchecked::Forbidden);
            Ok(Settings { rules, unchecked, bring: Bring::default() })
        }),
        may_run: Box::new(|_, _| Ok(())),
        filters: Box::new(|| Filters::Off),
        made: Box::new(|| {}),
        warn: Box::new(|_| {}),
        state_home: None,
        records: None,
    }
}
