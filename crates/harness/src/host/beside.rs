//! Passes requests on to other processes that work in the root, each of which has a socket of its own:
//! what concerns an attempt goes to the process of its worker, and what is for all agents to all
//! processes.

use std::{
    collections::BTreeSet,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use harness_core::{WorkerId, command::Code};
use serde_json::Value;

use super::{server::Host, verbs::Handled};
use crate::{
    protocol::{Answer, Call, LINE_BYTES_MAX, Refused, Request, Verb},
    store::{Presence, RegisteredWorker, Registry},
};

/// The time within which another process must answer. One that is frozen is left out.
const WITHIN: Duration = Duration::from_secs(5);

/// Passes a request about an attempt of another process on to it. Returns `None` if it is for this
/// process, or if that process is gone.
pub(super) async fn of_worker(host: &Host, call: &Call, request: &Request) -> Option<Handled> {
    let holder = request.holder()?;
    if call.is_passed_on() || host.desk.works_on(&holder.task) {
        return None;
    }
    let (_, socket) = others(&host.root).into_iter().find(|(id, _)| *id == holder.worker)?;
    let (verb, line) = (request.verb(), call.to_pass_on());
    let asked = tokio::task::spawn_blocking(move || ask(&socket, verb, &line).ok());
    asked.await.ok().flatten()
}

/// Passes a request for all agents on to all other processes, and joins their answers with `own`.
pub(super) async fn of_everyone(host: &Host, call: &Call, own: Handled) -> Handled {
    let Ok(verb) = call.verb() else { return own };
    if call.is_passed_on() || !verb.is_for_everyone() {
        return own;
    }
    let sockets: BTreeSet<PathBuf> = others(&host.root).into_iter().map(|(_, path)| path).collect();
    if sockets.is_empty() {
        return own;
    }
    let line = call.to_pass_on();
    let asked = tokio::task::spawn_blocking(move || -> Vec<Handled> {
        sockets.iter().filter_map(|socket| ask(socket, verb, &line).ok()).collect()
    });
    asked.await.unwrap_or_default().into_iter().fold(own, both)
}

/// Joins the answers of two processes. An answer counts more than a refusal, because a process
/// refuses what is for another one.
fn both(one: Handled, other: Handled) -> Handled {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one.joined(other)),
        (Ok(answer), Err(_)) | (Err(_), Ok(answer)) => Ok(answer),
        (Err(one), Err(other)) => Err(if one.is_not_for() { other } else { one }),
    }
}

/// Returns the workers of other processes, with the sockets of those. It reads one small folder, which
/// is cheaper than another thread.
fn others(root: &Path) -> Vec<(WorkerId, PathBuf)> {
    let ours = std::process::id();
    let alive =
        |found: &RegisteredWorker| found.presence == Presence::Alive && found.record.pid != ours;
    let all = Registry::of(root).workers().unwrap_or_default().into_iter().filter(alive);
    all.filter_map(|found| Some((found.record.id, found.record.socket?))).collect()
}

/// Asks the process that listens on `socket`. The error means that it cannot be asked.
fn ask(socket: &Path, verb: Verb, line: &Value) -> io::Result<Handled> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(LINE_BYTES_MAX as u64)).read_until(b'\n', &mut answer)?;
    let mut answer: Value = serde_json::from_slice(&answer)?;
    if let Some(refused) = Refused::read(&answer) {
        return Ok(Err(refused));
    }
    let strange = || Refused::new(Code::Failed, "another process gave an unknown answer");
    Ok(Answer::read(verb, answer["data"].take()).ok_or_else(strange))
}
