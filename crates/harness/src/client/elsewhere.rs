//! Requests to the hosts of other machines, through the database of the ledger.
//!
//! The processes of this root are asked first, over their sockets. What is for all agents is then sent to
//! the hosts that are registered at that moment, and the client waits a few seconds for their answers.

use std::{path::Path, time::Duration};

use harness_core::{
    database::{HostPlace, HostPresence},
    role::{Circumstances, may},
};
use serde_json::Value;
use uuid::Uuid;

use super::{Caller, Client, ClientError, Hosts, Machines, everyone::both};
use crate::{
    project::Backing,
    protocol::{Answer, PostedCall, QuestionView, Refused, Request, Verb},
    store::{
        StoreError,
        postgres::{Database, FleetHost, NewMessage},
    },
};

/// The time within which another machine must answer before it is named as one that has not.
const WITHIN: Duration = Duration::from_secs(5);

/// The hosts of a ledger that are there, with their names for people.
struct Known {
    all: Vec<(FleetHost, String)>,
}

impl Known {
    fn read(database: &Database) -> Result<Self, StoreError> {
        let mut present = database.hosts()?;
        present.retain(|host| host.presence() == HostPresence::Present);
        let places: Vec<HostPlace<'_>> = present.iter().map(FleetHost::place).collect();
        let names: Vec<String> = places.iter().map(|place| place.name(&places)).collect();
        Ok(Self { all: present.into_iter().zip(names).collect() })
    }

    /// Removes the host of `root` on this machine, unless sockets are not used.
    fn except_here(mut self, database: &Database, root: &Path, sockets: Hosts) -> Self {
        match sockets {
            Hosts::Asked => self.all.retain(|(host, _)| !database.is_here(host, root)),
            Hosts::Ignored => {}
        }
        self
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.all.iter().find(|(host, _)| host.id == id).map(|(_, name)| name.as_str())
    }
}

/// The answers of other machines to a request.
#[derive(Default)]
struct Heard {
    answers: Vec<Result<Answer, ClientError>>,
    /// The hosts that have not answered.
    silent: Vec<String>,
}

/// Returns the open questions of other machines, and of this one if sockets are not used. Those of a host
/// that is gone are left out.
pub(super) fn questions(
    database: &Database,
    root: &Path,
    sockets: Hosts,
) -> Result<Vec<QuestionView>, StoreError> {
    let hosts = Known::read(database)?.except_here(database, root, sockets);
    if hosts.all.is_empty() {
        return Ok(Vec::new());
    }
    let open = database.questions()?.into_iter().filter_map(|asked| {
        let name = hosts.name(asked.host)?.to_owned();
        let view: QuestionView = serde_json::from_value(asked.body).ok()?;
        Some(QuestionView { host: Some(name), ..view })
    });
    Ok(open.collect())
}

/// Does the same for a view, which is shown without them if the database cannot be asked.
pub(super) fn seen_questions(backing: &Backing, root: &Path, sockets: Hosts) -> Vec<QuestionView> {
    let database = backing.open().ok().flatten();
    database.and_then(|database| questions(&database, root, sockets).ok()).unwrap_or_default()
}

impl<C: Caller> Client<C> {
    /// Adds the answers of other machines to that of this one, if the ledger is in a database. What this
    /// machine refuses, because of a role for example, is not sent to others.
    pub(super) fn with_others(
        &self,
        request: &Request,
        own: Result<Answer, ClientError>,
    ) -> Result<Answer, ClientError> {
        let is_settled = match &own {
            Ok(_) => matches!(request, Request::Reply(_)),
            Err(ClientError::Nobody { .. }) => false,
            Err(ClientError::Refused(why)) => !why.is_not_for(),
            Err(_) => true,
        };
        let is_asked = self.options.machines == Machines::All && !self.options.backing.is_files();
        if is_settled || !is_asked {
            return own;
        }
        self.permit_elsewhere(request)?;
        let heard = match self.options.backing.open() {
            Ok(Some(database)) => self.hear(&database, request),
            Ok(None) => return own,
            Err(why) => Err(why.into()),
        };
        match (heard, own) {
            (Ok(heard), own) => self.join(own, heard),
            // The agents of this machine have received it.
            (Err(why), Ok(own)) => {
                self.caller.warn(&format!("other machines were not asked: {why}"));
                Ok(own)
            }
            (Err(why), Err(_)) => Err(why),
        }
    }

    /// Checks the role of this process where no host of this machine has done it.
    fn permit_elsewhere(&self, request: &Request) -> Result<(), ClientError> {
        let operation = request.operation()?;
        if let Some(role) = self.options.speaks_as {
            let permitted = may(role, operation, Circumstances::default());
            permitted.map_err(|why| ClientError::from(harness_core::Refusal::from(why)))?;
        }
        Ok(self.caller.permit(operation, request.holder())?)
    }

    fn hear(&self, database: &Database, request: &Request) -> Result<Heard, ClientError> {
        if let Request::Questions = request {
            let open = questions(database, &self.root, self.options.hosts)?;
            return Ok(Heard { answers: vec![Ok(Answer::Questions(open))], silent: Vec::new() });
        }
        let hosts = Known::read(database)?;
        let mut hosts = hosts.except_here(database, &self.root, self.options.hosts);
        if let Request::Reply(reply) = request {
            let asked = database.questions().map_err(StoreError::from)?;
            let asker = asked.iter().find(|one| one.id == reply.prompt_id).map(|one| one.host);
            hosts.all.retain(|(host, _)| Some(host.id) == asker);
        }
        if hosts.all.is_empty() {
            return Ok(Heard::default());
        }
        Ok(self.send_to(database, &hosts, request).map_err(StoreError::from)?)
    }

    fn send_to(
        &self,
        database: &Database,
        hosts: &Known,
        request: &Request,
    ) -> Result<Heard, crate::store::postgres::DatabaseError> {
        let ids: Vec<Uuid> = hosts.all.iter().map(|(host, _)| host.id).collect();
        let verb = request.verb();
        let message = NewMessage {
            request: Uuid::now_v7(),
            kind: verb.name(),
            body: PostedCall::body(request, self.secrets()),
        };
        database.send_message(&ids, &message)?;
        let answers = database.wait_for_answers(message.request, ids.len(), WITHIN)?;
        let has_answered = |host: &FleetHost| answers.iter().any(|one| one.host == host.id);
        let silent = hosts.all.iter().filter(|(host, _)| !has_answered(host));
        let silent = silent.map(|(_, name)| name.clone()).collect();
        let answers = answers.into_iter().map(|one| read(verb, one.answer)).collect();
        Ok(Heard { answers, silent })
    }

    fn join(&self, own: Result<Answer, ClientError>, heard: Heard) -> Result<Answer, ClientError> {
        match heard.answers.into_iter().fold(own, both) {
            Ok(answer) => {
                for host in heard.silent {
                    self.caller.warn(&format!("sent to {host}, which has not answered yet"));
                }
                Ok(answer)
            }
            Err(why) if heard.silent.is_empty() => Err(why),
            Err(_) => Err(ClientError::Unanswered { hosts: heard.silent }),
        }
    }
}

/// Parses the answer of another machine.
fn read(verb: Verb, mut answer: Value) -> Result<Answer, ClientError> {
    match Refused::read(&answer) {
        Some(refused) => Err(refused.into()),
        None => Answer::read(verb, answer["data"].take()).ok_or(ClientError::Strange),
    }
}
