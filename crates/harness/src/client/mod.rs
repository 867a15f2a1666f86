//! The tasks of a root, for other programs: through the host that answers, which is started if
//! needed, or through the files.
//!
//! A [`Client`] has one connection and sends one request per operation. It blocks, and needs no
//! runtime while a host answers. [`ClientOptions`] and [`Caller`] provide what it cannot know by
//! itself (secrets, configuration, trust, how to start a daemon). It reads no variable.

mod completion;
mod connection;
#[cfg(feature = "postgres")]
mod elsewhere;
mod error;
mod events;
mod everyone;
mod files;
mod host_store;
mod operations;
mod options;
mod spawn;
mod succession;

use std::{
    borrow::Cow,
    cell::OnceCell,
    path::{Path, PathBuf},
    time::Duration,
};

use harness_core::{Command, Ledger, command::Code, format::read_ledger, ledger::ConcurrencyMode};
use serde_json::Value;

#[doc(hidden)]
pub use connection::{ANSWER_WITHIN, Connection, Reach};
pub use error::ClientError;
pub use events::{EventLine, EventLines};
#[doc(hidden)]
pub use host_store::HostStore;
#[doc(hidden)]
pub use operations::open_questions;
pub use options::{Caller, ClientOptions, FileAccess, Hosts, Launch, Machines, PlainCaller};
pub use spawn::StartError;
#[doc(hidden)]
pub use spawn::{Way, make_way};
#[doc(hidden)]
pub use succession::{HostSeat, Succession};

use crate::{
    host::socket,
    process::Redactor,
    protocol::{Answer, Call, PASSED_ON, PlanText, Request, Verb, hide},
    store::{
        disk::{Disk as _, RealDisk},
        read_text, redacted,
    },
    workspace::glance,
};

/// The time without an answer after which the program may show a person what it waits for.
const SILENCE: Duration = Duration::from_secs(1);

/// A client of one state root.
///
/// ```
/// use harness::{Client, core::{Timestamp, WorkerId}, protocol::TaskClaim};
/// use harness::store::{FileStore, Locking, lock::Wait};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path();
/// // As `harness init` does.
/// FileStore::open(root, Locking::Each(Wait::No))?.create(Timestamp::from_seconds(0))?;
/// let mut client = Client::connect(root)?;
/// client.add_task("Write the parser")?;
/// let worker = WorkerId::parse("alice")?;
/// let claimed = client.claim(TaskClaim::any(worker))?.ok_or("nothing is ready")?;
/// assert_eq!(claimed.task.description, "Write the parser");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Client<C = PlainCaller> {
    root: PathBuf,
    options: ClientOptions,
    caller: C,
    connection: Option<Connection>,
    secrets: OnceCell<Redactor>,
}

impl Client {
    /// Creates a client for the root in the folder `root`: through the host that answers there, or
    /// through the files. No daemon is started; [`ClientOptions::launch`] does that.
    pub fn connect(root: &Path) -> Result<Self, ClientError> {
        Self::with(root, ClientOptions::default())
    }

    /// Does the same with other options.
    pub fn with(root: &Path, options: ClientOptions) -> Result<Self, ClientError> {
        Self::of(root, options, PlainCaller)
    }
}

impl<C: Caller> Client<C> {
    /// Does the same for a program that knows more.
    pub fn of(root: &Path, options: ClientOptions, caller: C) -> Result<Self, ClientError> {
        let root = root.canonicalize()?;
        Ok(Self { root, options, caller, connection: None, secrets: OnceCell::new() })
    }

    /// Returns the state root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Sends `request` to the host, or performs it on the files if none can be asked.
    pub fn ask(&mut self, request: Request) -> Result<Answer, ClientError> {
        if request.verb().is_for_everyone() {
            return self.ask_everyone(request);
        }
        match self.ask_host(&request) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => self.by_files(request),
            Err(ClientError::Refused(why)) if why.code == Code::Busy && self.shares(&request) => {
                self.by_files(request)
            }
            // The row of a run that the host does not drive is only in the database.
            Err(ClientError::Refused(why))
                if why.code == Code::NoRun && matches!(request, Request::Budget(_)) =>
            {
                self.by_files(request)
            }
            Err(why) => Err(why),
        }
    }

    /// Returns whether the files can be used although a run is the host: one with several workers
    /// serves its own agents and holds no lock.
    fn shares(&self, request: &Request) -> bool {
        let of_workers = matches!(request, Request::TaskClaim(_) | Request::TaskComplete(_));
        let ledger = || read_text(&self.root).ok().and_then(|text| read_ledger(&text).ok());
        let concurrent = |ledger: Ledger| {
            ledger.head().session_config.concurrency_mode == ConcurrencyMode::Concurrent
        };
        of_workers && ledger().is_some_and(concurrent)
    }

    /// Sends `request` to the host. Returns `None` if none can be asked; nothing was done then.
    pub fn ask_host(&mut self, request: &Request) -> Result<Option<Answer>, ClientError> {
        if self.options.hosts == Hosts::Ignored {
            return Ok(None);
        }
        if cfg!(not(target_os = "linux")) {
            // On this system, hosts cannot determine the role of a process.
            self.caller.permit(request.operation()?, request.holder())?;
        }
        let request = &*self.without_secrets(request)?;
        if let Some(answer) = self.ask_worker(request) {
            return answer.map(Some);
        }
        let kept = self.connection.take().filter(Connection::is_open);
        let reach = match kept {
            Some(connection) => Reach::Host(connection),
            None => Reach::of(&self.root, &self.options.places),
        };
        match reach {
            Reach::Host(connection) => match self.converse(connection, request) {
                Err(why) if may_be_repeated(request, &why) => {}
                answered => return answered.map(Some),
            },
            Reach::Nobody => {}
            Reach::Forbidden => return self.without_sockets(request.verb()),
        }
        match self.options.launch.clone().filter(|_| request.starts_host()) {
            Some(launch) if !socket::is_read_only(&self.root, &self.options.places) => {
                let connection = self.start(&launch)?;
                self.converse(connection, request).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Starts a daemon and waits until it answers. The next request goes to it.
    pub fn start_daemon(&mut self, launch: &Launch) -> Result<(), ClientError> {
        self.connection = Some(self.start(launch)?);
        Ok(())
    }

    fn start(&self, launch: &Launch) -> Result<Connection, ClientError> {
        RealDisk::open(&self.root)?.ensure_home()?;
        let socket = socket::path(&self.root, &self.options.places)?;
        let arguments = launch.arguments(&self.root, &socket, &self.worktree());
        let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        let places = &self.options.places;
        Ok(spawn::start(&launch.program, &arguments, &self.root, places, launch.within)?)
    }

    /// Returns the directory in which checks run, unless a claim sets another.
    fn worktree(&self) -> PathBuf {
        let found = self.options.worktree.clone().or_else(|| glance::top_level(&self.root));
        found.unwrap_or_else(|| self.root.clone())
    }

    /// Sends one request on a connection, which is kept if it was answered.
    fn converse(
        &mut self,
        mut connection: Connection,
        request: &Request,
    ) -> Result<Answer, ClientError> {
        let line = self.line(request);
        let answer = match &self.options.stop {
            _ if !request.waits() => connection.ask(&line, Some(ANSWER_WITHIN)),
            Some(stop) => connection.ask_until(&line, stop),
            None => connection.ask_patiently(&line, SILENCE, || self.caller.waiting(request)),
        };
        let data = match answer {
            Ok(data) => data,
            Err(why) => {
                if let ClientError::Refused(_) = why {
                    self.connection = Some(connection);
                }
                return Err(why);
            }
        };
        self.connection = Some(connection);
        Answer::read(request.verb(), data).ok_or(ClientError::Strange)
    }

    /// Refuses command lines with a secret. [`hide`] does not change command lines, and the host
    /// knows only its own secrets.
    fn without_secrets<'a>(&self, request: &'a Request) -> Result<Cow<'a, Request>, ClientError> {
        let command = match request {
            Request::TaskAdd(add) => Command::Add(add.clone()),
            Request::TaskEdit(edit) => Command::Edit(edit.clone()),
            Request::PlanImport(text) => Command::Import(files::import(text, None)?),
            _ => return Ok(Cow::Borrowed(request)),
        };
        Ok(Cow::Owned(match (redacted(command, self.secrets())?, request) {
            (Command::Add(add), _) => Request::TaskAdd(add),
            (Command::Edit(edit), _) => Request::TaskEdit(edit),
            (_, Request::PlanImport(PlanText { content, mode })) => {
                let content = self.secrets().text(content).into_owned();
                Request::PlanImport(PlanText { content, mode: *mode })
            }
            (_, other) => other.clone(),
        }))
    }

    /// Returns the line to send, without secrets of this process, because the host knows only its
    /// own.
    fn line(&self, request: &Request) -> Value {
        let mut line = Value::Object(Call::line(request, &self.root, self.options.speaks_as));
        if request.verb() != Verb::Ping {
            hide(&mut line, self.secrets());
        }
        if request.verb().is_for_everyone() {
            // This client asks the other processes itself.
            line[PASSED_ON] = true.into();
        }
        line
    }

    fn secrets(&self) -> &Redactor {
        self.secrets.get_or_init(|| self.caller.secrets())
    }

    /// Decides whether the files may be used in a sandbox. The agent of a run may not, and neither
    /// may operations that only a host can do. Reading is allowed to all.
    fn without_sockets(&self, verb: Verb) -> Result<Option<Answer>, ClientError> {
        let is_forbidden = match verb {
            Verb::Ping | Verb::GetState | Verb::Status | Verb::May => false,
            Verb::Ask | Verb::Questions | Verb::Reply | Verb::Send | Verb::Abort => true,
            _ => self.options.files == FileAccess::OfARun,
        };
        if is_forbidden { Err(ClientError::Forbidden { verb }) } else { Ok(None) }
    }
}

/// Returns whether a request can be sent elsewhere: it was not carried out, or a second time
/// changes nothing.
fn may_be_repeated(request: &Request, why: &ClientError) -> bool {
    match why {
        ClientError::Refused(refused) => refused.code == Code::AnotherRoot,
        ClientError::Gone => request.is_idempotent(),
        _ => false,
    }
}
