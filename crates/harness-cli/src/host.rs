//! The host of a root as commands see it: who answers is asked, and where nobody does the files are
//! changed.

use std::{ffi::OsStr, io::Write as _, time::Duration};

use harness::{
    clock::{Clock as _, SystemClock},
    host::{
        client::{ANSWER_WITHIN, Client, ClientError, Found},
        socket::{self, Bound, Places, SocketError},
        spawn, wire,
    },
    store::disk::{Disk as _, RealDisk},
};
use harness_core::{Command, Reply, decide};
use serde_json::{Value, json};

use crate::{
    environment::Environment,
    failure::{Failure, Kind, Result},
    interrupt::Interrupt,
    invocation::Invocation,
    root::StateRoot,
    store::warn,
};

const TIMEOUT: &str = "HARNESS_TIMEOUT";
const TIMEOUT_SECONDS: u64 = 5;
/// When a daemon that a command started has had nothing to do for this long, it leaves.
const IDLE_SECONDS: &str = "1800";
/// How often a run tries to be the host before it gives up.
const BINDS: usize = 5;
/// After this long without an answer a person is told what is being waited for.
const SILENCE: Duration = Duration::from_secs(1);
/// In the sandbox of an agent.
const FORBIDDEN: &str = "the sandbox of this command does not let it reach the harness";

pub(crate) fn places(env: &Environment) -> Places {
    Places {
        socket: env.path("HARNESS_SOCKET").map(Into::into),
        runtime_dir: env.path("XDG_RUNTIME_DIR").map(Into::into),
    }
}

/// For a run: a daemon that is there makes way, or says who works on a task that it gave out.
pub(crate) fn make_way(root: &StateRoot, places: &Places) -> Result<spawn::Way> {
    Ok(spawn::make_way(root.path(), places, ANSWER_WITHIN)?)
}

/// Binds the socket for a run, which holds the lock by now. A daemon that somebody has started in
/// between makes way too.
pub(crate) fn bind(root: &StateRoot, places: &Places) -> Result<Bound> {
    for _ in 0..BINDS {
        match socket::bind(root.path(), places) {
            Err(running @ SocketError::Running { .. }) => match make_way(root, places)? {
                spawn::Way::Free => {}
                spawn::Way::Silent => return Err(running.into()),
            },
            bound => return Ok(bound?),
        }
    }
    Ok(socket::bind(root.path(), places)?)
}

/// What came of asking.
pub(crate) enum Asked {
    Answered(Value),
    /// Nobody is there; or not any more, and it did nothing.
    Nobody,
}

/// How long an answer may take.
pub(crate) enum Patience {
    /// It waits for nobody.
    Short,
    /// As long as somebody is there to answer; after a while a person is told this.
    Patient(String),
}

/// Whether a daemon that is started leaves by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    WhileNeeded,
    UntilStopped,
}

impl Invocation {
    /// `HARNESS_DAEMON=off`: the files alone.
    fn asks_hosts(&self) -> bool {
        self.env.get("HARNESS_DAEMON").is_none_or(|value| value != "off")
    }

    fn host(&self, root: &StateRoot) -> Found {
        if !self.asks_hosts() {
            return Found::Nobody;
        }
        Found::of(root.path(), &places(&self.env))
    }

    /// One request to the host of `root`, if there is one.
    pub(crate) fn ask_host(
        &self,
        root: &StateRoot,
        request: Value,
        within: Option<Duration>,
    ) -> Result<Asked> {
        let mut host = match self.host(root) {
            Found::Host(host) => host,
            Found::Nobody => return Ok(Asked::Nobody),
            Found::Forbidden => return self.without_sockets(&request),
        };
        let request = self.addressed(root, request);
        let answer = match (within, &self.interrupt) {
            (None, Interrupt::Request(stop)) => host.ask_until(&request, stop),
            _ => host.ask(&request, within),
        };
        match answer {
            Ok(data) => Ok(Asked::Answered(data)),
            Err(why) if did_nothing(&request, &why) => Ok(Asked::Nobody),
            Err(why) => Err(self.failed(root, why)),
        }
    }

    /// One request to the host of `root`, which is started if there is none. `Nobody` only where
    /// hosts are not to be asked, or can not be.
    pub(crate) fn ask_or_start(
        &self,
        root: &StateRoot,
        request: &Value,
        patience: &Patience,
    ) -> Result<Asked> {
        if !self.asks_hosts() {
            return Ok(Asked::Nobody);
        }
        let request = self.addressed(root, request.clone());
        match self.host(root) {
            Found::Host(mut host) => match patience.ask(&mut host, &request, &self.interrupt) {
                Ok(data) => return Ok(Asked::Answered(data)),
                Err(why) if did_nothing(&request, &why) => {}
                Err(why) => return Err(self.failed(root, why)),
            },
            Found::Nobody if socket::is_read_only(root.path(), &places(&self.env)) => {
                return Ok(Asked::Nobody);
            }
            Found::Nobody => {}
            Found::Forbidden => return self.without_sockets(&request),
        }
        let mut host = self.start_daemon(root, Stay::WhileNeeded)?;
        match patience.ask(&mut host, &request, &self.interrupt) {
            Ok(data) => Ok(Asked::Answered(data)),
            Err(why) => Err(self.failed(root, why)),
        }
    }

    /// In a sandbox the files are left. Not to the agent of a run: the run has them for itself, but
    /// has given it tools, whose server is outside of the sandbox.
    fn without_sockets(&self, request: &Value) -> Result<Asked> {
        let of_a_run = self.env.get("HARNESS_RUN_ID").is_some();
        match tool_for(request).filter(|_| of_a_run) {
            Some(tool) => Err(Failure::error(FORBIDDEN)
                .hint(format!("call your tool `{tool}` (of the MCP server `harness`) instead"))),
            None => Ok(Asked::Nobody),
        }
    }

    /// Starts the daemon of `root` and waits until it answers.
    pub(crate) fn start_daemon(&self, root: &StateRoot, stay: Stay) -> Result<Client> {
        RealDisk::open(root.path())?.ensure_home()?;
        let places = places(&self.env);
        let socket = socket::path(root.path(), &places)?;
        let worktree = self.worktree(root);
        let mut arguments: Vec<&OsStr> = vec!["daemon".as_ref(), "--detached".as_ref()];
        if stay == Stay::WhileNeeded {
            arguments.extend(["--idle-seconds", IDLE_SECONDS].map(OsStr::new));
        }
        arguments.extend(["--root".as_ref(), root.path().as_os_str(), "--".as_ref()]);
        arguments.extend([socket.as_os_str(), worktree.as_os_str()]);
        let program = std::env::current_exe()?;
        let within = self.timeout()?;
        spawn::start(&program, &arguments, root.path(), &places, within).map_err(|why| {
            Failure::error(why.to_string())
                .hint("its words are in .harness/daemon.log")
                .hint("HARNESS_DAEMON=off works on the files alone")
        })
    }

    pub(crate) fn timeout(&self) -> Result<Duration> {
        Ok(Duration::from_secs(self.seconds(TIMEOUT)?.unwrap_or(TIMEOUT_SECONDS)))
    }

    fn failed(&self, root: &StateRoot, why: ClientError) -> Failure {
        let unknown = matches!(&why, ClientError::Refused(refused)
            if refused.message.starts_with("Unknown command: "));
        if (unknown || matches!(why, ClientError::Strange))
            && let Some(other) = self.other_version(root)
        {
            return Failure::error(format!("{why}: {other}"))
                .hint("end it with `harness shutdown`; the next command starts this version");
        }
        match why {
            ClientError::Refused(refused) if wire::is_of_another_root(&refused.message) => {
                Failure::from(refused).hint("unset HARNESS_SOCKET, or set it to another path")
            }
            ClientError::Refused(refused) => refused.into(),
            ClientError::Cancelled => Failure::new(Kind::Interrupted, why.to_string()),
            ClientError::Gone | ClientError::Silent => Failure::error(why.to_string())
                .hint("`harness task list` shows whether it was done"),
            ClientError::TooLong { .. } | ClientError::Strange | ClientError::Io(_) => {
                Failure::error(why.to_string())
            }
        }
    }

    /// Says which root is meant, and where it is not this process that asks. What is sent holds no
    /// secret of this process: the host knows only its own.
    fn addressed(&self, root: &StateRoot, mut request: Value) -> Value {
        request["root"] = root.path().display().to_string().into();
        if request["command"] != "ping" {
            wire::hide(&mut request, &self.secrets(root));
        }
        if self.is_of_a_tool() && request["as"].is_null() {
            request["as"] = "worker".into();
        }
        request
    }

    /// What to say of a host that is of another version than this program.
    fn other_version(&self, root: &StateRoot) -> Option<String> {
        let ping = self.addressed(root, json!({ "command": "ping" }));
        let Found::Host(mut host) = self.host(root) else { return None };
        differs(&host.ask(&ping, Some(ANSWER_WITHIN)).ok()?)
    }

    /// The same where only a host can help.
    pub(crate) fn ask_running(
        &self,
        root: &StateRoot,
        request: Value,
        within: Option<Duration>,
    ) -> Result<Value> {
        match self.ask_host(root, request, within)? {
            Asked::Answered(data) => Ok(data),
            Asked::Nobody if matches!(self.host(root), Found::Forbidden) => {
                Err(Failure::error(FORBIDDEN).hint("run it outside of the sandbox"))
            }
            Asked::Nobody => {
                let root = root.path().display();
                Err(Failure::error(format!("no harness is running in {root}"))
                    .hint("`harness run` answers while it works, `harness daemon start` stays"))
            }
        }
    }

    /// Has the host make a command true; `None` where there is no host, or it is not for hosts.
    pub(crate) fn apply_by_host(
        &self,
        root: &StateRoot,
        command: &Command,
    ) -> Result<Option<Reply>> {
        let Some(request) = wire::request(command) else { return Ok(None) };
        let asked = if starts_daemon(command) {
            self.ask_or_start(root, &request, &Patience::Short)
        } else {
            self.ask_host(root, request, Some(ANSWER_WITHIN))
        };
        match asked.map_err(|failure| self.explained(root, command, failure))? {
            Asked::Nobody => Ok(None),
            Asked::Answered(data) => match wire::reply(&data) {
                Some(reply) => Ok(Some(reply)),
                None => Err(Failure::error(format!("unexpected answer: {data}"))),
            },
        }
    }

    /// The wire has only words. The same decision on the same ledger gives the refusal that they
    /// stand for, and with it the exit code and the hints.
    pub(crate) fn explained(
        &self,
        root: &StateRoot,
        command: &Command,
        failure: Failure,
    ) -> Failure {
        let Ok(ledger) = self.look(root) else { return failure };
        match decide(&ledger, SystemClock.now(), command) {
            Err(refusal) if refusal.to_string() == failure.error => {
                let explained = Failure::from(refusal);
                match explained.hints.is_empty() {
                    true => Failure { hints: failure.hints, ..explained },
                    false => explained,
                }
            }
            _ => failure,
        }
    }
}

impl Patience {
    fn ask(
        &self,
        host: &mut Client,
        request: &Value,
        interrupt: &Interrupt,
    ) -> Result<Value, ClientError> {
        match (self, interrupt) {
            (Self::Short, _) => host.ask(request, Some(ANSWER_WITHIN)),
            (Self::Patient(_), Interrupt::Request(stop)) => host.ask_until(request, stop),
            (Self::Patient(words), Interrupt::Signals) => {
                host.ask_patiently(request, SILENCE, || {
                    _ = writeln!(std::io::stderr(), "{words} …");
                })
            }
        }
    }
}

/// Commands of workers have a daemon started; those of the ledger's authors use the files without one.
fn starts_daemon(command: &Command) -> bool {
    matches!(
        command,
        Command::Claim(_)
            | Command::Complete(_)
            | Command::Checkpoint(_)
            | Command::Fail(_)
            | Command::Renew(_)
    )
}

/// The tool of `harness mcp` that does what a request asks for, of those that change something.
fn tool_for(request: &Value) -> Option<&'static str> {
    Some(match request["command"].as_str()? {
        "ask" => "ask_user",
        "plan_import" => "plan_import",
        "task_add" => "task_add",
        // A checkpoint renews the claim too.
        "task_checkpoint" | "task_renew" => "task_checkpoint",
        "task_claim" => "task_claim",
        "task_complete" => "task_complete",
        "task_fail" => "task_fail",
        _ => return None,
    })
}

/// Whether it can be asked again elsewhere: it was not done, or a second time changes nothing.
fn did_nothing(request: &Value, why: &ClientError) -> bool {
    match why {
        ClientError::Refused(refused) => wire::is_of_another_root(&refused.message),
        ClientError::Gone => {
            request["command"] != "task_add" && request["command"] != "plan_import"
        }
        _ => false,
    }
}

/// What to say of the answer to a ping if it is that of another version.
fn differs(ping: &Value) -> Option<String> {
    let (version, protocol) = (ping["version"].as_str().unwrap_or("?"), ping["protocol"].as_u64());
    let own = env!("CARGO_PKG_VERSION");
    if version == own && protocol == Some(wire::PROTOCOL) {
        return None;
    }
    let spoken = protocol.map_or("?".to_owned(), |p| p.to_string());
    let pid = &ping["pid"];
    Some(format!(
        "the harness that answers (pid={pid}) is version {version} with protocol {spoken}, \
         this one is {own} with {}",
        wire::PROTOCOL
    ))
}

/// Says so where whoever answered is of another version.
pub(crate) fn warn_of_version(ping: &Value) {
    if let Some(other) = differs(ping) {
        warn(&other);
    }
}
