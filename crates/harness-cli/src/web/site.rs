//! The state that all requests share.

use std::{future::Future, path::Path, sync::Arc, time::Instant};

use tokio::sync::Semaphore;

use super::{access::Access, address::Names, feed::Feed, maker::Maker, reader::Reader};
use crate::{environment::Environment, failure::Result, root::StateRoot};

/// The number of streams of events at the same time.
pub(super) const STREAMS_MAX: usize = 256;
/// The number of commands that are carried out at the same time. Some of them wait.
const COMMANDS_MAX: usize = 8;

/// Whether the server changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Full,
    ReadOnly,
}

#[derive(Debug)]
pub(super) struct Site {
    pub(super) names: Names,
    pub(super) access: Access,
    pub(super) reader: Reader,
    pub(super) feed: Arc<Feed>,
    pub(super) mode: Mode,
    pub(super) streams: Arc<Semaphore>,
    pub(super) maker: Maker,
    pub(super) commands: Arc<Semaphore>,
}

impl Site {
    pub(super) fn new(names: Names, env: Environment, root: StateRoot, mode: Mode) -> Result<Self> {
        let feed = Feed::new();
        let reader = Reader::new(env, root, Arc::clone(&feed));
        let maker = Maker::start(reader.clone())?;
        Ok(Self {
            names,
            access: Access::new()?,
            reader,
            feed,
            mode,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            maker,
            commands: Arc::new(Semaphore::new(COMMANDS_MAX)),
        })
    }

    pub(super) fn root(&self) -> &Path {
        self.reader.root().path()
    }

    pub(super) fn port(&self) -> u16 {
        self.names.port()
    }

    pub(super) fn token(&self) -> String {
        self.access.token()
    }

    /// Returns a link with a new code.
    pub(super) fn new_url(&self) -> Result<String> {
        let code = self.access.issue_code(Instant::now())?;
        Ok(format!("http://{}/{}/enter/{code}", self.names.host(), self.access.prefix()))
    }

    /// Returns the path below which all pages are, for links.
    pub(super) fn base(&self) -> String {
        format!("/{}/", self.access.prefix())
    }

    pub(super) fn start_feed(&self) {
        match self.reader.client_options() {
            Ok(options) => self.feed.start(self.root().to_owned(), options),
            Err(why) => tracing::warn!(%why, "events cannot be shown"),
        }
    }

    pub(super) fn end_feed(&self) {
        self.feed.end();
    }

    pub(super) fn watch_files(&self) -> impl Future<Output = ()> + use<> {
        Arc::clone(&self.feed).watch_files(self.reader.root().clone())
    }
}
