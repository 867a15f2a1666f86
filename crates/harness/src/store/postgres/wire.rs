//! Connections for callers that block.
//!
//! One thread with a runtime moves the bytes of all connections of a host. A caller that sends a
//! statement parks its own thread until the answer is there, so that the ports can be called from any
//! thread, also from one that is part of a runtime of its own. (The crate `postgres` starts a runtime
//! on the thread of its caller, which fails there.)
//!
//! All statements are unnamed and typed, so that nothing of a session is used and a pooling proxy may
//! stand between. Several statements that are sent together cost one round trip.

use std::{
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use harness_core::{
    backoff::Backoff,
    database::{Password, SslMode},
};
use tokio::{
    runtime,
    sync::oneshot,
    task::{JoinError, JoinHandle},
    time::timeout,
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Row,
    config::SslMode as Negotiation,
    types::{ToSql, Type},
};

use super::{
    DatabaseAccess, DatabaseError, Waiting,
    error::{Trouble, placed, plain, trouble},
    park::wait,
    tls::Tls,
};

/// The pauses between two tries to connect. The first repetition is made at once.
const PAUSES: Backoff =
    Backoff { first: Duration::from_millis(20), longest: Duration::from_secs(1) };
/// The limit for a new connection.
const CONNECT: Duration = Duration::from_secs(10);
/// The time after which a wait for a connection notices that the process is about to end.
const LOOK: Duration = Duration::from_secs(1);
/// A silent peer is asked for a sign of life after this time.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// A peer that confirms nothing is given up after this time.
const USER_TIMEOUT: Duration = Duration::from_secs(20);
/// A time that no pause reaches.
const DOUBT: Duration = Duration::from_secs(60);
/// The limit for the answers to statements that are sent together. It is longer than the server waits
/// for a lock, and longer than it keeps a silent transaction.
const ANSWER: Duration = Duration::from_secs(60);
/// The time after which the server gives up waiting for a lock.
pub(super) const LOCK_SECONDS: u64 = 30;

/// Starts a transaction. If this host freezes within, the server ends it, so that the others go on.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
     SET LOCAL lock_timeout = '30s'; SET LOCAL idle_in_transaction_session_timeout = '10s'";
/// Starts a look at one moment of the database.
pub(super) const BEGIN_LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

type Joined<T> = Result<T, JoinError>;
/// Parameters with their types.
pub(super) type By<'a> = Vec<(&'a (dyn ToSql + Sync), Type)>;

/// A statement with the types of its parameters.
pub(super) enum Step<'a> {
    /// Text without parameters.
    Plain(&'a str),
    /// Text with parameters.
    With(&'a str, By<'a>),
}

/// The thread that moves the bytes.
pub(super) struct Driver {
    handle: runtime::Handle,
    _stop: oneshot::Sender<()>,
}

impl Driver {
    pub(super) fn start() -> Result<Arc<Self>, DatabaseError> {
        let failed = |why: std::io::Error| DatabaseError::Unreachable {
            server: "any".to_owned(),
            why: why.to_string(),
        };
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("harness-postgres".to_owned());
        thread.spawn(move || _ = runtime.block_on(stopped)).map_err(failed)?;
        Ok(Arc::new(Self { handle, _stop: stop }))
    }
}

/// The receiver of notifications about one ledger.
#[derive(Clone)]
struct Bell {
    /// The beginning of their payload.
    about: String,
    ring: SyncSender<()>,
}

/// A connection that is made when it is needed.
pub(super) struct Link {
    pub(super) access: Arc<DatabaseAccess>,
    driver: Arc<Driver>,
    client: Option<Client>,
    notified: Option<Bell>,
    /// The number of tries to connect that failed since the last success.
    failed: u32,
    /// The time at which the first of them was made.
    away_since: Option<Instant>,
}

impl Link {
    pub(super) fn new(access: &Arc<DatabaseAccess>, driver: &Arc<Driver>) -> Self {
        let (access, driver) = (Arc::clone(access), Arc::clone(driver));
        let (failed, away_since) = (0, None);
        Self { access, driver, client: None, notified: None, failed, away_since }
    }

    /// Passes on that a notification about this ledger arrived.
    pub(super) fn notifying(self, ledger: i64, ring: SyncSender<()>) -> Self {
        let notified = Bell { about: format!("{ledger}:"), ring };
        Self { notified: Some(notified), ..self }
    }

    /// Forgets the connection. The next statement makes a new one.
    pub(super) fn close(&mut self) {
        self.client = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.is_closed())
    }

    /// Connects, if there is no connection.
    pub(super) fn open(&mut self) -> Result<(), Trouble> {
        if !self.is_open() {
            self.client = Some(self.connect()?);
            (self.failed, self.away_since) = (0, None);
        }
        Ok(())
    }

    /// Returns the time at which a caller gives up that begins now. One that finds the server away for
    /// longer tries once, so that callers of a process that repeat their calls do not all wait here.
    pub(super) fn until(&self) -> Instant {
        self.away_since.unwrap_or_else(Instant::now) + self.access.patience
    }

    fn connect(&self) -> Result<Client, Trouble> {
        let (server, user) = (self.access.server(), self.access.user());
        let tls = Tls::of(&self.access.url)
            .map_err(|why| DatabaseError::Tls { server: server.clone(), why })?;
        let config = config(&self.access);
        let notified = self.notified.clone();
        let connecting = self.driver.handle.spawn(async move {
            let made = timeout(CONNECT, config.connect(tls)).await;
            let (client, mut connection) = match made {
                Ok(Ok(made)) => made,
                Ok(Err(why)) => return Err(Some(why)),
                Err(_) => return Err(None),
            };
            tokio::spawn(async move {
                while let Some(Ok(message)) =
                    std::future::poll_fn(|cx| connection.poll_message(cx)).await
                {
                    if let (AsyncMessage::Notification(note), Some(bell)) = (message, &notified)
                        && note.payload().starts_with(&bell.about)
                    {
                        // One that waits says as much as several.
                        _ = bell.ring.try_send(());
                    }
                }
            });
            Ok(client)
        });
        match self.wait_for_connection(connecting) {
            Some(Ok(Ok(client))) => Ok(client),
            Some(Ok(Err(Some(error)))) => Err(refused_connection(&server, user, &error)),
            Some(Ok(Err(None))) | None => {
                Err(Trouble::Lost(format!("no answer within {} s", CONNECT.as_secs())))
            }
            Some(Err(gone)) => {
                Err(DatabaseError::Unreachable { server, why: gone.to_string() }.into())
            }
        }
    }

    /// Waits for a new connection, unless this process is about to end.
    fn wait_for_connection<T>(&self, mut connecting: JoinHandle<T>) -> Option<Joined<T>> {
        loop {
            let made = wait(&mut connecting, Some(Instant::now() + LOOK));
            if made.is_some() || self.access.waiting() == Waiting::NoLonger {
                return made;
            }
        }
    }

    /// Sends all statements at once, and returns the rows of each. The first failure counts. Later
    /// statements of a failed transaction do nothing.
    pub(super) fn all(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, Trouble> {
        self.each(steps)
    }

    /// Does the same with statements that are not in one place.
    pub(super) fn each<'a, 'b: 'a>(
        &mut self,
        steps: impl IntoIterator<Item = &'a Step<'b>>,
    ) -> Result<Vec<Vec<Row>>, Trouble> {
        self.open()?;
        let Some(client) = &self.client else {
            return Err(Trouble::Lost("there is no connection".to_owned()));
        };
        let sent: Vec<_> = steps.into_iter().map(|step| send(client, step)).collect();
        let answers = wait(join_all(sent), Some(Instant::now() + ANSWER));
        let Some(answers) = answers else {
            self.close();
            return Err(Trouble::Lost(format!("no answer within {} s", ANSWER.as_secs())));
        };
        let mut rows = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer {
                Ok(found) => rows.push(found),
                Err(error) => {
                    let (server, user) = (self.access.server(), self.access.user());
                    let trouble = trouble(&server, user, LOCK_SECONDS, &error);
                    self.abandon(&trouble);
                    return Err(trouble);
                }
            }
        }
        Ok(rows)
    }

    /// Leaves a transaction that failed. A connection in doubt is not used again.
    fn abandon(&mut self, trouble: &Trouble) {
        let rolled_back = match (&self.client, trouble) {
            (Some(client), Trouble::Said(_)) if !client.is_closed() => {
                let back = client.batch_execute("ROLLBACK");
                wait(back, Some(Instant::now() + CONNECT)).is_some_and(|done| done.is_ok())
            }
            _ => false,
        };
        if !rolled_back {
            self.close();
        }
    }

    /// Sends one statement.
    pub(super) fn query(&mut self, sql: &str, by: By<'_>) -> Result<Vec<Row>, Trouble> {
        Ok(self.all(&[Step::With(sql, by)])?.pop().unwrap_or_default())
    }

    /// Repeats an act that does no harm when it is done twice, until the connection is back or the
    /// patience of the caller has ended.
    pub(super) fn again<T>(
        &mut self,
        mut act: impl FnMut(&mut Self) -> Result<T, Trouble>,
    ) -> Result<T, DatabaseError> {
        let until = self.until();
        loop {
            match act(self) {
                Ok(done) => return Ok(done),
                Err(Trouble::Said(error)) => return Err(self.placed(error)),
                Err(Trouble::Lost(why)) => {
                    self.close();
                    self.pause_until(until, why)?;
                }
            }
        }
    }

    /// Waits a moment before the next try to connect. The error is the one of a caller that gives up.
    pub(super) fn pause_until(&mut self, until: Instant, why: String) -> Result<(), DatabaseError> {
        self.away_since.get_or_insert_with(Instant::now);
        let pause = match self.failed.checked_sub(1) {
            None => Duration::ZERO,
            Some(failed) => PAUSES.pause(failed, random()),
        };
        let ends = self.access.waiting() == Waiting::NoLonger && self.failed > 0;
        if ends || Instant::now() + pause >= until {
            return Err(self.given_up(Trouble::Lost(why)));
        }
        thread::sleep(pause);
        self.failed = self.failed.saturating_add(1);
        Ok(())
    }

    /// Waits a moment before it is asked again whether a change took effect.
    pub(super) fn pause_in_doubt(
        &mut self,
        until: Instant,
        why: String,
    ) -> Result<(), DatabaseError> {
        match self.access.waiting() {
            Waiting::UntilKnown => self.pause_until(Instant::now() + DOUBT, why),
            Waiting::Briefly | Waiting::NoLonger => self.pause_until(until, why),
        }
    }

    /// Returns the error of a failure for a caller that gives up.
    pub(super) fn given_up(&self, trouble: Trouble) -> DatabaseError {
        match trouble {
            Trouble::Lost(why) => DatabaseError::Unreachable { server: self.access.server(), why },
            Trouble::Said(error) => self.placed(error),
        }
    }

    /// Adds where it happened to an error about damaged rows.
    pub(super) fn placed(&self, error: DatabaseError) -> DatabaseError {
        placed(&self.access, error)
    }
}

async fn send(client: &Client, step: &Step<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
    match step {
        Step::Plain(sql) => client.batch_execute(sql).await.map(|()| Vec::new()),
        Step::With(sql, by) => client.query_typed(sql, by).await,
    }
}

fn refused_connection(server: &str, user: &str, error: &tokio_postgres::Error) -> Trouble {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let tls = cause.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref());
        if cause.is::<rustls::Error>() || tls.is_some_and(|inner| inner.is::<rustls::Error>()) {
            let (server, why) = (server.to_owned(), cause.to_string());
            return DatabaseError::Tls { server, why }.into();
        }
        source = cause.source();
    }
    match trouble(server, user, LOCK_SECONDS, error) {
        Trouble::Lost(why) if error.to_string().contains("TLS") => {
            DatabaseError::Tls { server: server.to_owned(), why }.into()
        }
        Trouble::Lost(_) if error.to_string().starts_with("invalid configuration") => {
            // The server asks for a password, and there is none.
            let (server, user) = (server.to_owned(), user.to_owned());
            DatabaseError::Login { server, user, why: plain(error) }.into()
        }
        trouble => trouble,
    }
}

fn config(access: &DatabaseAccess) -> Config {
    let url = &access.url;
    let mut config = Config::new();
    config
        .host(url.host())
        .port(url.port())
        .user(access.user())
        .dbname(access.database())
        .application_name("harness")
        .connect_timeout(CONNECT)
        .keepalives_idle(KEEPALIVE)
        .keepalives_interval(KEEPALIVE)
        .tcp_user_timeout(USER_TIMEOUT)
        .ssl_mode(match url.sslmode() {
            SslMode::Disable => Negotiation::Disable,
            SslMode::Prefer => Negotiation::Prefer,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Negotiation::Require,
        });
    if let Some(password) = access.password.as_ref().or(url.password()) {
        config.password(Password::reveal(password));
    }
    config
}

/// Returns a number for the pauses, which need no better one.
fn random() -> u64 {
    uuid::Uuid::now_v7().as_u64_pair().1
}

/// Returns a channel in which one notification waits for its receiver.
pub(super) fn bell() -> (SyncSender<()>, std::sync::mpsc::Receiver<()>) {
    sync_channel(1)
}
