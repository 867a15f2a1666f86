//! Puts the library's parts together and lets the flow run.

use std::{path::Path, sync::Arc, time::Duration};

use harness::{
    Cx, Harness, Hub, Ports,
    agent::CodingAgent,
    clock::SystemClock,
    core::machine::{
        attempt::Rules,
        work::{self, Runs, Stopped},
    },
    flows::{Judging, Team, Tools, work::work},
    host::{Desk, Duty, Host, serve, socket, tell_facts},
    named,
    shell::SystemShell,
    store::{
        FileStore, Locking, Writer,
        disk::{Disk, RealDisk},
        lock::{StateLock, Wait},
    },
    workspace::GitWorkspace,
};
use harness_core::WorkerId;

use super::{dirty::SetAside, signals, told::Told, view::View};
use crate::{
    failure::{Failure, Result},
    root::StateRoot,
    store::warn,
};

pub(super) struct Session {
    pub(super) worker: WorkerId,
    pub(super) workspace: GitWorkspace,
    pub(super) lease_seconds: u64,
    pub(super) max_tasks: i64,
    pub(super) runs: Runs,
    pub(super) stall_seconds: u64,
    pub(super) rules: Rules,
    pub(super) agent_name: String,
    pub(super) dirty: Dirty,
    pub(super) view: Arc<View>,
    pub(super) places: socket::Places,
}

/// What to do about changes of the user in the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dirty {
    Refuse,
    SetAside,
}

/// Sorted by time, so that the newest run is the last.
pub(super) fn new_run_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

impl Session {
    /// Holds the lock for its whole life, as the only writer.
    pub(super) fn run(self, root: &StateRoot, agent: CodingAgent, run_id: &str) -> Result<Stopped> {
        crate::host::make_way(root, &self.places)?;
        let acquired =
            StateLock::acquire(root.path(), Wait::No).map_err(harness::store::StoreError::Lock)?;
        acquired.warnings.iter().for_each(|w| warn(&w.to_string()));
        end_leftovers(root.path())?;
        // Hooks act only while there is a session.
        RealDisk::open(root.path())?.make_marker()?;
        let bound = crate::host::bind(root, &self.places)?;
        self.view.refresh(root.path());
        let told = Told::from_here_on(root.path(), Arc::clone(&self.view))?;
        let hub = Hub::new(run_id);
        hub.start_session();
        let store = FileStore::open(root.path(), Locking::Held(acquired.guard))?;
        let heard = hub.clone();
        let publish = Box::new(move |facts: &[_], warnings: &[String]| {
            told.show(warnings);
            tell_facts(&heard, facts);
        });
        let writer = Arc::new(Writer::start(store, Arc::new(SystemClock), publish)?);
        let tools = Tools {
            socket: Some(bound.path().to_owned()),
            ..self.tools(root.path(), Arc::clone(&writer), run_id)
        };
        let host = Host {
            root: root.path().to_owned(),
            writer: Arc::clone(&writer),
            hub: hub.clone(),
            workspace: Some(Arc::clone(&tools.workspace)),
            desk: tools.desk.clone(),
            lease_seconds: self.lease_seconds,
            duty: Duty::Run,
        };
        let session = work::Session {
            worker: self.worker,
            pid: std::process::id(),
            lease_seconds: self.lease_seconds,
            max_tasks: self.max_tasks,
            runs: self.runs,
        };
        let flow = Harness::define("run")
            .agents(Team { worker: named("worker", agent) })
            .state(|(): &()| ())
            .run(async move |cx: &mut Cx<'_, (), Team<CodingAgent>>| {
                work(cx, &tools, session.clone()).await
            });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let set_aside = match self.dirty {
            Dirty::Refuse => None,
            Dirty::SetAside => {
                SetAside::take(&self.workspace, &harness::store::look(root.path())?)?
            }
        };
        let ended = runtime.block_on(async {
            let _signals = signals::interrupt(&hub)?;
            let server = serve(bound, host)?;
            let done = flow.create_in(hub.clone(), ()).run().await;
            self.view.end();
            server.end().await;
            done.map(|done| done.result).map_err(|e| Failure::error(e.to_string()))
        });
        // Ends when nobody can ask any more; what waits is written first.
        drop(runtime);
        drop(flow);
        drop(writer);
        // Whatever became of the session.
        set_aside.map(SetAside::put_back).transpose()?;
        ended
    }

    fn tools(&self, root: &Path, writer: Arc<Writer>, run_id: &str) -> Tools {
        let [place, kept] = [root.to_owned(), root.to_owned()];
        Tools {
            ports: Ports {
                commit: writer,
                clock: Arc::new(SystemClock),
                // A lease survives two heartbeats that do not get through.
                tick: Duration::from_secs((self.lease_seconds / 3).max(1)),
            },
            workspace: Arc::new(self.workspace.clone()),
            shell: Arc::new(SystemShell::default()),
            ledger: Arc::new(move || Ok(harness::store::look(&place)?)),
            root: root.to_owned(),
            environment: std::env::vars_os().collect(),
            run_id: run_id.to_owned(),
            lease_seconds: self.lease_seconds,
            desk: Desk::default(),
            socket: None,
            judging: Judging {
                rules: self.rules.clone(),
                agent: Some(self.agent_name.clone()),
                record: Arc::new(move |receipt| Ok(harness::store::record(&kept, receipt)?)),
            },
            stall: (self.stall_seconds > 0).then(|| Duration::from_secs(self.stall_seconds)),
        }
    }
}

/// Processes of a harness that was killed could still write into the work tree.
fn end_leftovers(root: &Path) -> Result<()> {
    let swept = harness::process::leftovers::sweep(&root.join(".harness/processes"))?;
    for ended in &swept.ended {
        warn(&format!("ended what a killed run left: pid={}", ended.pid));
    }
    Ok(())
}
