//! The host of a root as commands see it: who answers is asked, and where nobody does the files are
//! changed.

use std::time::Duration;

use harness::{
    clock::{Clock as _, SystemClock},
    host::{
        client::{ANSWER_WITHIN, Client, ClientError},
        socket::Places,
        wire,
    },
};
use harness_core::{Command, Reply, decide};
use serde_json::Value;

use crate::{
    commands::Invocation,
    environment::Environment,
    failure::{Failure, Result},
    root::StateRoot,
};

pub(crate) fn places(env: &Environment) -> Places {
    Places {
        socket: env.path("HARNESS_SOCKET").map(Into::into),
        runtime_dir: env.path("XDG_RUNTIME_DIR").map(Into::into),
    }
}

/// What came of asking.
pub(crate) enum Asked {
    Answered(Value),
    /// Nobody is there; or not any more, and it did nothing.
    Nobody,
}

impl Invocation {
    fn host(&self, root: &StateRoot) -> Option<Client> {
        // `HARNESS_DAEMON=off`: the files alone.
        if self.env.get("HARNESS_DAEMON").is_some_and(|value| value == "off") {
            return None;
        }
        Client::find(root.path(), &places(&self.env))
    }

    /// One request to the host of `root`, if there is one.
    pub(crate) fn ask_host(
        &self,
        root: &StateRoot,
        mut request: Value,
        within: Option<Duration>,
    ) -> Result<Asked> {
        let Some(mut host) = self.host(root) else { return Ok(Asked::Nobody) };
        request["root"] = root.path().display().to_string().into();
        match host.ask(&request, within) {
            Ok(data) => Ok(Asked::Answered(data)),
            Err(ClientError::Refused(message)) if wire::is_of_another_root(&message) => {
                Ok(Asked::Nobody)
            }
            // Everything but a new task can be asked twice: the second time changes nothing.
            Err(ClientError::Gone) if request["command"] != "task_add" => Ok(Asked::Nobody),
            Err(why @ (ClientError::Gone | ClientError::Silent)) => {
                Err(Failure::error(why.to_string())
                    .hint("`harness task list` shows whether it was done"))
            }
            Err(why) => Err(Failure::error(why.to_string())),
        }
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
            Asked::Nobody => {
                let root = root.path().display();
                Err(Failure::error(format!("no harness is running in {root}"))
                    .hint("`harness run` answers while it works"))
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
        let asked = self.ask_host(root, request, Some(ANSWER_WITHIN));
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
            Err(refusal) if refusal.to_string() == failure.error => refusal.into(),
            _ => failure,
        }
    }
}
