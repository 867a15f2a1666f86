//! Requests to every process that works in a root. The host answers for its own agents. Each other
//! process with workers has a socket of its own, which the files of its workers name.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use harness_core::WorkerId;

use super::{Caller, Client, ClientError, Connection, Hosts, may_be_repeated};
use crate::{
    host::socket,
    protocol::{Answer, Request},
    store::{Presence, RegisteredWorker, Registry},
};

/// The time within which a process beside the host must answer. One that is frozen is left out.
const WITHIN: Duration = Duration::from_secs(5);

/// Returns the workers of processes with a socket of their own, beside that of the host.
fn workers_beside(root: &Path, host: Option<&Path>) -> impl Iterator<Item = (WorkerId, PathBuf)> {
    let alive = |found: &RegisteredWorker| found.presence == Presence::Alive;
    let all = Registry::of(root).workers().unwrap_or_default().into_iter().filter(alive);
    let of_host = host.map(Path::to_owned);
    all.filter_map(|found| Some((found.record.id, found.record.socket?)))
        .filter(move |(_, socket)| Some(socket) != of_host.as_ref())
}

/// Returns the sockets of the processes with workers, except that of the host.
pub(super) fn sockets_beside(root: &Path, host: Option<&Path>) -> BTreeSet<PathBuf> {
    workers_beside(root, host).map(|(_, socket)| socket).collect()
}

impl<C: Caller> Client<C> {
    /// Sends a request to the host, to the other processes and to other machines, and joins their
    /// answers. If nobody is here, the files are used.
    pub(super) fn ask_everyone(&mut self, request: Request) -> Result<Answer, ClientError> {
        let host = self.ask_host(&request).transpose();
        let sockets = match self.options.hosts {
            Hosts::Ignored => BTreeSet::new(),
            Hosts::Asked => {
                let host = self.connection.as_ref().and_then(Connection::path);
                sockets_beside(&self.root, host.as_deref())
            }
        };
        let others = sockets.iter().filter_map(|socket| {
            let mut connection = Connection::connect(socket).ok()?;
            let data = connection.ask(&self.line(&request), Some(WITHIN));
            let read = |data| Answer::read(request.verb(), data).ok_or(ClientError::Strange);
            Some(data.and_then(read))
        });
        let own = match host.into_iter().chain(others).reduce(both) {
            Some(answer) => answer,
            None => self.by_files(request.clone()),
        };
        #[cfg(feature = "postgres")]
        let own = self.with_others(&request, own);
        own
    }

    /// Sends a request about an attempt to the process of its worker, because no other process can
    /// answer for it. Returns `None` if that is the host, or if it is gone.
    pub(super) fn ask_worker(&mut self, request: &Request) -> Option<Result<Answer, ClientError>> {
        let worker = &request.holder()?.worker;
        let host = socket::path(&self.root, &self.options.places).ok();
        let (_, socket) =
            workers_beside(&self.root, host.as_deref()).find(|(id, _)| id == worker)?;
        let connection = Connection::connect(&socket).ok()?;
        let answer = self.converse(connection, request);
        // The next request goes to the host again.
        self.connection = None;
        match answer {
            Err(why) if may_be_repeated(request, &why) => None,
            answer => Some(answer),
        }
    }
}

/// Joins the answers of two processes. An answer counts more than a refusal, because a process
/// refuses what is for another one.
pub(super) fn both(
    one: Result<Answer, ClientError>,
    other: Result<Answer, ClientError>,
) -> Result<Answer, ClientError> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one.joined(other)),
        (Ok(answer), Err(_)) | (Err(_), Ok(answer)) => Ok(answer),
        (Err(ClientError::Refused(one)), Err(other)) if one.is_not_for() => Err(other),
        (Err(ClientError::Nobody { .. }), Err(other)) => Err(other),
        (Err(one), Err(_)) => Err(one),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use harness_core::command::Code;

    use super::*;
    use crate::protocol::Refused;

    fn refused(code: Code) -> Result<Answer, ClientError> {
        Err(ClientError::Refused(Refused::new(code, "no")))
    }

    #[test]
    fn counts_are_added_and_an_answer_counts_more_than_a_refusal() {
        let sent = |received| Ok(Answer::Sent { received });
        let received = |answer: Result<Answer, ClientError>| match answer {
            Ok(Answer::Sent { received }) => received,
            other => panic!("{other:?}"),
        };
        assert_eq!(received(both(sent(Some(1)), sent(Some(2)))), Some(3));
        assert_eq!(received(both(sent(None), sent(Some(2)))), Some(2));
        assert_eq!(received(both(refused(Code::NoRun), sent(Some(2)))), Some(2));
        let code = |answer: Result<Answer, ClientError>| match answer {
            Err(ClientError::Refused(why)) => why.code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(both(refused(Code::NotFound), refused(Code::Failed))), Code::Failed);
        assert_eq!(code(both(refused(Code::Failed), refused(Code::NotFound))), Code::Failed);
    }
}
