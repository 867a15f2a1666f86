//! The client of a root, with the surroundings that this program knows: the environment, the
//! configuration, trust, secrets, and the role of this process.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use harness::{
    Client, ClientError, ClientOptions,
    client::{Caller, FileAccess, Hosts, Launch},
    home::Outside,
    host::{ClaimRules, Settings},
    process::Redactor,
    protocol::{Answer, PROTOCOL, Pong, Refused, Request, Verb},
    shell::Cancel,
    workspace::glance,
};
use harness_core::{
    Holder, Task, TaskId,
    command::Code,
    protect::Protected,
    role::{Author, Operation, Role},
    trust::Kind as ItemKind,
};

use crate::{
    config::Overrides,
    environment::Environment,
    failure::{Failure, Kind, Result},
    host::places,
    interrupt::Interrupt,
    invocation::Invocation,
    paint::{visible, warn},
    root::StateRoot,
    store::not_found,
    trust::{self, Trust},
    would_run::item,
};

const TIMEOUT: &str = "HARNESS_TIMEOUT";

pub(crate) type CommandClient<'a> = Client<CommandCaller<'a>>;

/// The caller of a command or of a tool, for the library.
pub(crate) struct CommandCaller<'a> {
    invocation: &'a Invocation,
    root: &'a StateRoot,
    /// Called when a ledger was created.
    made: fn(&Environment, &StateRoot),
}

impl Caller for CommandCaller<'_> {
    fn secrets(&self) -> Redactor {
        self.invocation.secrets(self.root)
    }

    fn waiting(&self, request: &Request) {
        let what = match request {
            Request::TaskClaim(_) => "waiting for a task".to_owned(),
            Request::TaskComplete(of) => format!("waiting for the check of {}", of.holder.task),
            _ => return,
        };
        _ = writeln!(io::stderr(), "{what} …");
    }

    fn warn(&self, text: &str) {
        warn(text);
    }

    /// Checks the permission. Commands whose permission depends on more than the request check it
    /// earlier.
    fn permit(&self, operation: Operation, holder: Option<&Holder>) -> Result<(), Refused> {
        use Operation as O;
        let permitted = match (operation, holder) {
            (O::Checkpoint | O::Renew | O::Complete | O::Fail, Some(holder)) => {
                self.invocation.permit_holder(self.root, operation, holder)
            }
            (O::Claim | O::ForceComplete | O::Send | O::Reply | O::Kick | O::Abort, _) => {
                self.invocation.permit(self.root, operation)
            }
            _ => Ok(()),
        };
        Ok(permitted?)
    }

    fn author(&self) -> Option<Author> {
        self.invocation.author(self.root)
    }

    fn made(&self) {
        (self.made)(&self.invocation.env, self.root);
    }

    fn settings(&self) -> Result<Settings, Refused> {
        let config = self.invocation.config(self.root, Overrides::default())?;
        Ok(config.settings(self.root.path())?)
    }

    fn may_check(&self, task: &Task) -> Result<(), Refused> {
        let command = task.check().unwrap_or_default();
        trust::require_item(self.invocation, self.root, &item(ItemKind::Check, command))?;
        _ = writeln!(io::stderr(), "checking {}: {}", task.id, visible(command));
        Ok(())
    }

    fn trusts_filters(&self) -> Result<bool, Refused> {
        Ok(Trust::of_user(&self.invocation.env)?.is_place_trusted(self.root)?)
    }

    fn interrupt(&self) -> io::Result<Cancel> {
        self.invocation.interrupt.request().map_err(|failure| io::Error::other(failure.error))
    }
}

/// Returns the store of the rules of claims.
pub(crate) fn claim_rules(env: &Environment, root: &StateRoot) -> Result<ClaimRules> {
    let folder = Outside::of_root(root.path(), &env.state_home()?);
    Ok(ClaimRules::in_folder(&folder.claims()))
}

/// Returns the folder in which git's settings at claims are recorded.
pub(crate) fn settings_folder(env: &Environment, root: &StateRoot) -> Result<PathBuf> {
    let folder = Outside::of_root(root.path(), &env.state_home()?);
    Ok(folder.settings())
}

impl Invocation {
    pub(crate) fn client_options(&self, root: &StateRoot) -> Result<ClientOptions> {
        let mut options = ClientOptions::default();
        if self.env.get("HARNESS_DAEMON").is_some_and(|value| value == "off") {
            options.hosts = Hosts::Ignored;
        }
        options.places = places(&self.env);
        options.launch = Some(self.launch()?);
        match &self.interrupt {
            Interrupt::Signals => {}
            Interrupt::Request(stop) => {
                options.stop = Some(stop.clone());
                options.speaks_as = Some(Role::Worker);
            }
            Interrupt::Page(stop) => options.stop = Some(stop.clone()),
        }
        options.lock_wait = self.lock_wait()?;
        options.lease_seconds = self.lease_seconds()?;
        options.worktree = self.env.path("HARNESS_WORKTREE").map(Into::into);
        options.state_home = self.state_home();
        options.backing = root.backing().clone();
        options.claims = claim_rules(&self.env, root).ok();
        options.records = settings_folder(&self.env, root).ok();
        if self.env.get("HARNESS_RUN_ID").is_some() {
            options.files = FileAccess::OfARun;
        }
        Ok(options)
    }

    /// Returns the remark for the log if other files are protected than at the last claim.
    pub(crate) fn compare_protected(
        &self,
        root: &StateRoot,
        protected: &Protected,
    ) -> Option<String> {
        let compared = claim_rules(&self.env, root).and_then(|rules| Ok(rules.compare(protected)?));
        compared.unwrap_or_else(|why| {
            warn(&format!("changes to protected files will not be noticed: {}", why.error));
            None
        })
    }

    /// Returns the directory in which checks run, unless a claim names another.
    pub(crate) fn worktree(&self, root: &StateRoot) -> PathBuf {
        let named = self.env.path("HARNESS_WORKTREE").map(PathBuf::from);
        let found = named.or_else(|| glance::top_level(root.path()));
        found.unwrap_or_else(|| root.path().to_owned())
    }

    /// Returns the command that starts a daemon which ends by itself.
    pub(crate) fn launch(&self) -> Result<Launch> {
        let mut launch = Launch::of(std::env::current_exe()?);
        if let Some(seconds) = self.seconds(TIMEOUT)? {
            launch.within = std::time::Duration::from_secs(seconds);
        }
        Ok(launch)
    }

    /// Performs one operation of a client of `root`.
    pub(crate) fn with_client<T>(
        &self,
        root: &StateRoot,
        operation: impl FnOnce(&mut CommandClient<'_>) -> Result<T, ClientError>,
    ) -> Result<T> {
        self.with_options(root, self.client_options(root)?, operation)
    }

    /// Performs one operation on a task. If there is no such task, the failure names a similar one.
    pub(crate) fn with_client_of_task<T>(
        &self,
        root: &StateRoot,
        task: &TaskId,
        operation: impl FnOnce(&mut CommandClient<'_>) -> Result<T, ClientError>,
    ) -> Result<T> {
        let mut unknown = false;
        let done = self.with_client(root, |client| {
            operation(client).inspect_err(|why| {
                unknown = matches!(why, ClientError::Refused(r) if r.code == Code::NotFound);
            })
        });
        done.map_err(|failure| match self.look(root) {
            Ok(ledger) if unknown && ledger.task(task).is_none() => {
                not_found(&ledger, task.clone())
            }
            Ok(_) | Err(_) => failure,
        })
    }

    /// Performs the same with other options.
    pub(crate) fn with_options<T>(
        &self,
        root: &StateRoot,
        options: ClientOptions,
        operation: impl FnOnce(&mut CommandClient<'_>) -> Result<T, ClientError>,
    ) -> Result<T> {
        self.perform(CommandCaller { invocation: self, root, made: |_, _| {} }, options, operation)
    }

    /// Performs the same for an operation that may create a ledger.
    pub(crate) fn with_maker<T>(
        &self,
        root: &StateRoot,
        made: fn(&Environment, &StateRoot),
        operation: impl FnOnce(&mut CommandClient<'_>) -> Result<T, ClientError>,
    ) -> Result<T> {
        let caller = CommandCaller { invocation: self, root, made };
        self.perform(caller, self.client_options(root)?, operation)
    }

    fn perform<'a, T>(
        &self,
        caller: CommandCaller<'a>,
        options: ClientOptions,
        operation: impl FnOnce(&mut CommandClient<'a>) -> Result<T, ClientError>,
    ) -> Result<T> {
        let root = caller.root;
        let mut client = Client::of(root.path(), options, caller)?;
        operation(&mut client).map_err(|why| match other_version(&mut client, &why) {
            Some(other) => Failure::error(format!("{why}: {other}"))
                .hint("stop it with `harness shutdown`; the next command starts this version"),
            None => self.failed(why),
        })
    }

    /// Adds hints that depend on the place where this process runs.
    fn failed(&self, why: ClientError) -> Failure {
        match why {
            ClientError::Forbidden { verb } => {
                let of_a_run = self.env.get("HARNESS_RUN_ID").is_some();
                let failure = Failure::error(ClientError::Forbidden { verb }.to_string());
                match tool_for(verb).filter(|_| of_a_run) {
                    Some(tool) => failure.hint(format!(
                        "call the tool `{tool}` of the MCP server `harness` instead"
                    )),
                    None => failure.hint("run it outside the sandbox"),
                }
            }
            other => other.into(),
        }
    }
}

/// The tool of `harness mcp` that asks people. The other tools that change something have the name
/// of a verb.
pub(crate) const ASK_TOOL: &str = "ask_user";

/// Returns the tool that an agent of a run calls if its sandbox forbids sockets.
fn tool_for(verb: Verb) -> Option<&'static str> {
    match verb {
        Verb::Ask => Some(ASK_TOOL),
        Verb::PlanImport
        | Verb::TaskAdd
        | Verb::TaskCheckpoint
        | Verb::TaskClaim
        | Verb::TaskComplete
        | Verb::TaskFail => Some(verb.name()),
        // A checkpoint also renews the claim.
        Verb::TaskRenew => Some(Verb::TaskCheckpoint.name()),
        Verb::Ping
        | Verb::GetState
        | Verb::Status
        | Verb::PlanReset
        | Verb::PhaseEdit
        | Verb::PhaseRemove
        | Verb::SessionConfigure
        | Verb::TaskEdit
        | Verb::TaskRemove
        | Verb::TaskRetry
        | Verb::TaskRelease
        | Verb::Questions
        | Verb::Reply
        | Verb::Send
        | Verb::Ack
        | Verb::Kick
        | Verb::Pause
        | Verb::Resume
        | Verb::Budget
        | Verb::Abort
        | Verb::Subscribe
        | Verb::May
        | Verb::WorkerTransaction
        | Verb::Shutdown
        | Verb::Yield => None,
    }
}

/// Returns the message about a host that does not understand this version, or is not understood.
fn other_version(client: &mut CommandClient<'_>, why: &ClientError) -> Option<String> {
    match why {
        ClientError::Strange => {}
        ClientError::Refused(refused) if refused.code == Code::UnknownCommand => {}
        _ => return None,
    }
    match client.ask_host(&Request::Ping).ok()?? {
        Answer::Pong(pong) => differs(&pong),
        _ => None,
    }
}

/// Returns the message about a host of another version.
fn differs(pong: &Pong) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    let Pong { pid, version, protocol, .. } = pong;
    if version == own && *protocol == PROTOCOL {
        return None;
    }
    Some(format!(
        "the running harness (pid={pid}) has version {version} and protocol {protocol}, \
         this one has {own} and {PROTOCOL}"
    ))
}

pub(crate) fn warn_of_version(pong: &Pong) {
    if let Some(other) = differs(pong) {
        warn(&other);
    }
}

impl From<ClientError> for Failure {
    fn from(why: ClientError) -> Self {
        let text = why.to_string();
        match why {
            ClientError::Refused(refused) if refused.code == Code::AnotherRoot => {
                Self::from(refused).hint("unset HARNESS_SOCKET, or set it to another path")
            }
            ClientError::Refused(refused) => refused.into(),
            ClientError::NotDone(why) => why.into(),
            ClientError::Cancelled => Self::new(Kind::Interrupted, text),
            ClientError::Gone | ClientError::Silent => {
                Self::error(text).hint("`harness task list` shows whether the change was made")
            }
            ClientError::Nobody { .. } => Self::error(text).hint(
                "start one with `harness daemon start`; `harness run` also answers while it works",
            ),
            ClientError::Unanswered { .. } => Self::error(text)
                .hint("it is carried out when the machine answers within some minutes"),
            ClientError::Start(_) => Self::error(text)
                .hint("its output is in .harness/daemon.log")
                .hint("set HARNESS_DAEMON=off to use the files without a daemon"),
            ClientError::Store(why) => why.into(),
            ClientError::Runs(why) => why.into(),
            ClientError::Judge(why) => why.into(),
            ClientError::Io(why) => why.into(),
            _ => Self::error(text),
        }
    }
}
