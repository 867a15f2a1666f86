//! The project in a browser, and the same for programs over HTTP.
//!
//! The server renders [`harness::view`] and forwards requests of the socket protocol through the
//! [client](harness::Client). It decides only one thing itself: [who may look](gate). It has a
//! thread and a runtime of its own, so that no browser can slow the work of its process.

mod access;
mod address;
mod answer;
mod api;
mod assets;
mod command;
mod control;
mod events;
mod feed;
mod gate;
mod listen;
mod maker;
mod metrics;
pub(crate) mod pages;
mod patience;
mod reader;
mod secret;
mod site;
mod token_file;

use std::{
    io::{self, IsTerminal as _, Write as _},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
};

use harness::host::socket::Bound;
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use self::{address::Names, site::Site};
pub(crate) use self::{control::ask_url, site::Mode};
use crate::{
    environment::Environment,
    failure::{Failure, Result},
    host::places,
    paint::warn,
    root::StateRoot,
};

/// The number of threads for commands, some of which wait.
const BLOCKING_THREADS_MAX: usize = 8;

/// The choices of the person who starts a server.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) place: Place,
    pub(crate) mode: Mode,
    /// The file that gets the token for programs.
    pub(crate) token_file: Option<PathBuf>,
}

/// Where the server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the loopback addresses; 0 for a port that the system chooses.
    Loopback(u16),
    /// On another address, which others may reach.
    Address(SocketAddr),
}

impl Default for Options {
    fn default() -> Self {
        Self { place: Place::Loopback(0), mode: Mode::Full, token_file: None }
    }
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    site: Arc<Site>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// Starts a server for `root`.
pub(crate) fn start(env: &Environment, root: &StateRoot, options: &Options) -> Result<Server> {
    let listeners = match options.place {
        Place::Loopback(port) => listen::loopback(port)?,
        Place::Address(address) => vec![listen::bind(address)?],
    };
    let bound = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    let names = Names::of(&bound);
    let site = Arc::new(Site::new(names, env.clone(), root.clone(), options.mode)?);
    if let Some(file) = &options.token_file {
        token_file::write(file, &site.token())?;
    }
    let control = control::bind(root.path(), &places(env))?;
    if control.is_none() {
        warn("another web server of this root answers `harness web --url`");
    }
    let stop = CancellationToken::new();
    let (served, stopped) = (Arc::clone(&site), stop.clone());
    let thread = thread::Builder::new()
        .name("web".to_owned())
        .spawn(move || run(listeners, control, &served, &stopped))?;
    Ok(Server { site, stop, thread: Some(thread) })
}

/// Starts a server beside other work, which goes on without it if that is not possible. The link is
/// shown to a person only: standard error of a process in the background is a file.
pub(crate) fn beside(env: &Environment, root: &StateRoot) -> Option<Server> {
    let started = start(env, root, &Options::default()).and_then(|server| {
        let link = match io::stderr().is_terminal() {
            true => server.url()?,
            false => format!("port {}, `harness web --url` prints a link", server.port()),
        };
        _ = writeln!(io::stderr(), "web: {link}");
        Ok(server)
    });
    started.inspect_err(|why| warn(&format!("there is no web page: {why}"))).ok()
}

fn run(
    listeners: Vec<TcpListener>,
    control: Option<Bound>,
    site: &Arc<Site>,
    stop: &CancellationToken,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build();
    let ended = runtime.and_then(|runtime| {
        site.start_feed();
        let ended = LocalSet::new().block_on(&runtime, async {
            let control = control.as_ref().map(Bound::listener).transpose()?;
            if let Some(control) = control {
                tokio::task::spawn_local(control::serve(control, Arc::clone(site)));
            }
            tokio::task::spawn_local(site.watch_files());
            tokio::select! {
                ended = listen::serve(listeners, answer::answering(site)) => ended,
                () = stop.cancelled() => Ok(()),
            }
        });
        site.end_feed();
        // A page that is being made, or a command that waits, must not delay the end.
        runtime.shutdown_background();
        ended
    });
    if let Err(why) = ended {
        warn(&format!("the web server ended: {why}"));
    }
}

impl Server {
    /// Returns a link that works once, within two minutes.
    pub(crate) fn url(&self) -> Result<String> {
        self.site.new_url()
    }

    pub(crate) fn port(&self) -> u16 {
        self.site.port()
    }

    /// Returns the token for programs.
    pub(crate) fn token(&self) -> String {
        self.site.token()
    }

    /// Waits until the server ends by itself, which is a failure.
    pub(crate) fn join(mut self) -> Result<()> {
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Err(_)) => Err(Failure::error("the web server failed")),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Returns a value that ends the server from another thread.
    pub(crate) fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}
