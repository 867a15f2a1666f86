//! An engine that serves its root: beside a run, or alone as a daemon.

use std::{future::Future, io, sync::Arc, time::Duration};

use harness_core::role::Adding;

use super::{
    Daemon, Ended,
    daemon::keep_serving,
    server::{Duty, Host, Server, serve},
    socket::Bound,
};
use crate::{
    home::Home,
    process::leftovers,
    project::{ActiveRun, Engine},
    store::Writer,
    workspace::Workspace,
};

/// The longest interval of sweeps for processes that agents left behind.
const SWEEP_SECONDS_MAX: u64 = 100;

/// The settings of serving.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// The lease of a session's claim without a sign of life.
    pub lease_seconds: u64,
    /// `[tasks] agents_may_add`.
    pub adding: Adding,
}

impl Engine<Writer> {
    /// Serves the root while `run` works in it, until [`Server::end`]. It runs inside a tokio
    /// runtime, which also ends processes that agents left behind. A run that works beside others
    /// has a daemon, which gives tasks to workers and is one of its observers.
    pub fn serve_beside(
        &self,
        bound: Bound,
        service: Service,
        workspace: Arc<dyn Workspace>,
        run: &ActiveRun,
        daemon: Option<&Arc<Daemon>>,
    ) -> io::Result<Server> {
        let every = Duration::from_secs((service.lease_seconds / 3).clamp(1, SWEEP_SECONDS_MAX));
        let left = Home::of(self.root()).processes();
        let duty = daemon.map_or(Duty::Run, |daemon| Duty::Shared(Arc::clone(daemon)));
        let host = self.host(service, duty, Some(workspace));
        let server = self.with_mail(serve(bound, Host { budget: run.budget(), ..host })?)?;
        if let Some(daemon) = daemon.cloned() {
            tokio::spawn(async move { daemon.watch_leases().await });
        }
        tokio::spawn(leftovers::keep_sweeping(left, every));
        Ok(server)
    }

    /// Serves the root as a daemon, which is one of its observers. It ends when `asked` is ready,
    /// when it is asked to end, when there was no connection for as long as `idle`, or when it
    /// cannot be found any more. It runs inside a tokio runtime.
    pub async fn serve(
        &self,
        bound: Bound,
        service: Service,
        daemon: &Arc<Daemon>,
        idle: Option<Duration>,
        asked: impl Future<Output = ()>,
    ) -> io::Result<Ended> {
        let server = self.with_mail(serve(bound, self.daemon_host(service, daemon))?)?;
        keep_serving(server, daemon, idle, asked).await
    }

    /// Lets the host of a ledger in a database serve other machines too.
    fn with_mail(&self, server: Server) -> io::Result<Server> {
        #[cfg(feature = "postgres")]
        return server.with_mail(|| self.mail().map_err(io::Error::other));
        #[cfg(not(feature = "postgres"))]
        return Ok(server);
    }

    /// Returns the host of a daemon, which [answers](Host::answer) requests that came without a
    /// socket.
    pub fn daemon_host(&self, service: Service, daemon: &Arc<Daemon>) -> Host {
        self.host(service, Duty::Daemon(Arc::clone(daemon)), None)
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
            budget: None,
        }
    }
}
