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
    named,
    shell::SystemShell,
    store::{
        FileStore, Locking, Writer,
        lock::{StateLock, Wait},
    },
    workspace::GitWorkspace,
};
use harness_core::WorkerId;

use super::{signals, told::Told};
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
}

/// Sorted by time, so that the newest run is the last.
pub(super) fn new_run_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

impl Session {
    /// Holds the lock for its whole life, as the only writer.
    pub(super) fn run(self, root: &StateRoot, agent: CodingAgent, run_id: &str) -> Result<Stopped> {
        let acquired =
            StateLock::acquire(root.path(), Wait::No).map_err(harness::store::StoreError::Lock)?;
        acquired.warnings.iter().for_each(|w| warn(&w.to_string()));
        end_leftovers(root.path())?;
        let told = Told::from_here_on(root.path())?;
        let store = FileStore::open(root.path(), Locking::Held(acquired.guard))?;
        let publish = Box::new(move |_: &[_], warnings: &[String]| {
            warnings.iter().for_each(|w| warn(w));
            told.show();
        });
        let writer = Arc::new(Writer::start(store, Arc::new(SystemClock), publish)?);
        let tools = self.tools(root.path(), Arc::clone(&writer), run_id);
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
        let hub = Hub::new(run_id);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stopped = runtime.block_on(async {
            let _signals = signals::interrupt(&hub)?;
            let done = flow.create_in(hub.clone(), ()).run().await;
            done.map(|done| done.result).map_err(|e| Failure::error(e.to_string()))
        })?;
        // Ends when nobody can ask any more; what waits is written first.
        drop(flow);
        drop(writer);
        Ok(stopped)
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
