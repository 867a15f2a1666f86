//! An engine that serves its root: beside a run, or alone as a daemon.

use std::{future::Future, io, sync::Arc, time::Duration};

use harness_core::role::Adding;

use super::{
    Daemon, Ended,
    daemon::serve_alone,
    server::{Duty, Host, Server, serve},
    socket::Bound,
};
use crate::{home::Home, process::leftovers, project::Engine, store::Writer, workspace::Workspace};

/// The longest time between two looks at what agents left behind.
const SWEEP_SECONDS_MAX: u64 = 100;

/// How an engine serves.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// How long a claim of a session lasts without a sign of life.
    pub lease_seconds: u64,
    /// `[tasks] agents_may_add`.
    pub adding: Adding,
}

impl Engine<Writer> {
    /// Serves the root while a run works in it, until [`Server::end`]. Inside a tokio runtime, which
    /// also ends what agents leave behind when nobody waits for it any more.
    pub fn serve_beside(
        &self,
        bound: Bound,
        service: Service,
        workspace: Arc<dyn Workspace>,
    ) -> io::Result<Server> {
        let every = Duration::from_secs((service.lease_seconds / 3).clamp(1, SWEEP_SECONDS_MAX));
        let left = Home::of(self.root()).processes();
        let server = serve(bound, self.host(service, Duty::Run, Some(workspace)))?;
        tokio::spawn(leftovers::keep_sweeping(left, every));
        Ok(server)
    }

    /// Serves the root as a daemon, which is one of its observers: until `asked` is ready, somebody asks
    /// it to end, nobody was connected for as long as `idle`, or it cannot be found any more. Inside a
    /// tokio runtime.
    pub async fn serve(
        &self,
        bound: Bound,
        service: Service,
        daemon: &Arc<Daemon>,
        idle: Option<Duration>,
        asked: impl Future<Output = ()>,
    ) -> io::Result<Ended> {
        let host = self.host(service, Duty::Daemon(Arc::clone(daemon)), None);
        serve_alone(bound, host, daemon, idle, asked).await
    }

    fn host(&self, service: Service, duty: Duty, workspace: Option<Arc<dyn Workspace>>) -> Host {
        Host {
            root: self.root().to_owned(),
            writer: Arc::clone(self.keeper()),
            hub: self.hub().clone(),
            workspace,
            desk: self.desk().clone(),
            lease_seconds: service.lease_seconds,
            duty,
            secrets: self.secrets().clone(),
            adding: service.adding,
        }
    }
}
