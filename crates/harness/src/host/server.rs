//! Serves the socket: one task per connection, one handler per verb.
//!
//! Nothing that a client sends, and no client that dies, ends the host or holds up another client.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use harness_core::{command::Code, role::Adding};
use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use super::{
    Daemon,
    crowd::{Crowd, Place},
    frames::{Frame, Frames, Halves},
    refused::another_root,
    socket::Bound,
    verbs::{self, Handled},
};
use crate::{
    agent::Desk,
    hub::Hub,
    process::{Redactor, ancestry::Peer},
    protocol::{Call, LINE_BYTES_MAX, Refused, Request, Verb},
    store::Writer,
    workspace::Workspace,
};

/// How long those who are being answered have when the host ends: a check that has to be stopped is
/// killed after five seconds.
const FAREWELL: Duration = Duration::from_secs(7);
/// How long somebody who has just connected has to ask, when the host ends.
const LAST_WORD: Duration = Duration::from_millis(50);
/// How often a client that waits is looked after.
const LOOK: Duration = Duration::from_millis(500);

/// What the handlers work with.
pub struct Host {
    /// The state root.
    pub root: PathBuf,
    /// The one that owns its store.
    pub writer: Arc<Writer>,
    /// Where the run tells what happens; its session is started.
    pub hub: Hub,
    /// Git, where the tree of a checkpoint is wanted.
    pub workspace: Option<Arc<dyn Workspace>>,
    /// The attempts of this process.
    pub desk: Desk,
    /// How long a claim of a session lasts without a word.
    pub lease_seconds: u64,
    /// What it is there for.
    pub duty: Duty,
    /// What is taken out of every text that a client sends.
    pub secrets: Redactor,
    /// `[tasks] agents_may_add`.
    pub adding: Adding,
}

/// What a host is there for.
#[derive(Clone)]
pub enum Duty {
    /// To work on the ledger, which it has for itself.
    Run,
    /// To give tasks to others.
    Daemon(Arc<Daemon>),
}

/// A host that is served, until [`end`](Server::end).
pub struct Server {
    stop: CancellationToken,
    accepting: JoinHandle<()>,
    connections: watch::Receiver<usize>,
    bound: Arc<Bound>,
    stranded: CancellationToken,
}

/// Serves `host` on `bound`. Inside a tokio runtime.
pub fn serve(bound: Bound, host: Host) -> io::Result<Server> {
    let listener = bound.listener()?;
    let stop = CancellationToken::new();
    let (count, connections) = watch::channel(0);
    let (bound, stranded) = (Arc::new(bound), CancellationToken::new());
    let shared = Shared {
        host: Arc::new(host),
        bound: Arc::clone(&bound),
        stranded: stranded.clone(),
        stop: stop.clone(),
        halves: Halves::default(),
    };
    let accepting = tokio::spawn(accept(listener, shared, count));
    Ok(Server { stop, accepting, connections, bound, stranded })
}

impl Server {
    /// How many clients are connected; changes with each that comes or goes.
    pub(super) fn connections(&self) -> watch::Receiver<usize> {
        self.connections.clone()
    }

    pub(super) fn can_be_found(&self) -> bool {
        self.bound.can_be_found()
    }

    /// Is ready when somebody asked a daemon that could not be found any more.
    pub(super) async fn stranded(&self) {
        self.stranded.cancelled().await;
    }

    /// Answers what was asked, takes nothing new, and unlinks the socket.
    pub async fn end(self) {
        // From here on nobody finds it; who has connected is answered.
        self.bound.unlink();
        self.stop.cancel();
        if let Err(why) = self.accepting.await {
            tracing::error!(%why, "the host failed");
        }
    }
}

/// What all connections have in common.
#[derive(Clone)]
struct Shared {
    host: Arc<Host>,
    bound: Arc<Bound>,
    stranded: CancellationToken,
    stop: CancellationToken,
    halves: Halves,
}

async fn accept(listener: UnixListener, shared: Shared, count: watch::Sender<usize>) {
    let (mut connections, crowd) = (JoinSet::new(), Crowd::default());
    loop {
        count.send_replace(connections.len());
        let accepted = tokio::select! {
            biased;
            // A client that has connected is accepted, even when the host ends: nobody new finds it then.
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => break,
            // Forgets those that ended.
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) if is_ours(&stream) => {
                connections.spawn(talk(stream, shared.clone(), crowd.enter()));
            }
            Ok(_) => tracing::warn!("a process of another user connected"),
            // Out of descriptors, mostly: those that are open go on.
            Err(why) => {
                tracing::warn!(%why, "a client could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    let answered = async { while connections.join_next().await.is_some() {} };
    _ = tokio::time::timeout(FAREWELL, answered).await;
}

fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::getuid().as_raw())
}

/// An error is that of a client that is gone.
async fn talk(stream: UnixStream, shared: Shared, place: Option<Place>) {
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    // What cannot be told has no number, and so no process.
    let pid = pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
    let (read, write) = stream.into_split();
    let Shared { host, bound, stranded, stop, halves } = shared;
    let mut client = Client { write, stop, pid, peer: OnceLock::new(), bound, stranded };
    let Some(place) = place else {
        let refused = Refused::new(Code::Limit, "Too many connections");
        _ = client.answer(Err(refused)).await;
        return;
    };
    let mut frames = Frames::new(BufReader::new(read), halves);
    _ = client.serve(&mut frames, &host, &place).await;
}

pub(super) struct Client {
    write: OwnedWriteHalf,
    stop: CancellationToken,
    /// The process that connected.
    pid: u32,
    /// Who that is, once it was looked at: what a process is does not change.
    peer: OnceLock<Peer>,
    bound: Arc<Bound>,
    stranded: CancellationToken,
}

impl Client {
    async fn serve(
        &mut self,
        frames: &mut Frames<BufReader<OwnedReadHalf>>,
        host: &Host,
        place: &Place,
    ) -> io::Result<()> {
        loop {
            place.wait();
            let frame = tokio::select! {
                biased;
                // What has come is answered, also when the host ends.
                frame = frames.next() => frame?,
                () = self.last_word() => return Ok(()),
                // Somebody else needs the place.
                () = place.taken() => return Ok(()),
            };
            place.work();
            let call = match frame {
                Frame::End => return Ok(()),
                Frame::TooLong => {
                    Err(format!("A request has at most {LINE_BYTES_MAX} bytes").into())
                }
                Frame::Crowded => Err("Too many large requests at a time".into()),
                Frame::Late => return self.refuse("The request did not end in time".into()).await,
                Frame::Line(line) => Call::parse(&line, &host.secrets),
            };
            match call {
                Err(refused) => self.answer(Err(refused)).await?,
                Ok(call) if call.verb() == Ok(Verb::Subscribe) => {
                    return match call.request() {
                        Ok(Request::Subscribe(wanted)) => {
                            verbs::subscribe(host, wanted, self).await
                        }
                        Ok(_) => Ok(()),
                        Err(refused) => self.answer(Err(refused)).await,
                    };
                }
                Ok(call) => {
                    let answer = self.handle(host, &call).await;
                    self.answer(answer).await?;
                }
            }
        }
    }

    async fn last_word(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(LAST_WORD).await;
    }

    async fn handle(&self, host: &Host, call: &Call) -> Handled {
        if let Some(root) = call.root()?
            && std::path::Path::new(&root) != host.root
        {
            return Err(another_root(&host.root));
        }
        if matches!(host.duty, Duty::Daemon(_)) && !self.bound.can_be_found() {
            // Its root is gone, and another may be in its place: the next daemon is free to start
            // before this one has ended.
            self.bound.leave();
            self.stranded.cancel();
            return Err(another_root(&host.root));
        }
        let peer = self.peer(host, call)?;
        let verb = call.verb()?;
        tokio::select! {
            answer = verbs::handle(host, &peer, call) => answer,
            () = self.gone(), if verb.waits() => {
                Err(Refused::new(Code::Stopped, "The client is gone"))
            }
            () = self.stop.cancelled(), if verb == Verb::Ask => {
                Err(Refused::new(Code::Stopped, "Session aborted"))
            }
        }
    }

    /// Who asks. One that speaks for somebody with a lesser role says so with `as`.
    fn peer(&self, host: &Host, call: &Call) -> Result<Peer, Refused> {
        let peer = self.peer.get_or_init(|| Peer::of(self.pid, &host.root)).clone();
        Ok(match call.speaks_as()? {
            None => peer,
            Some(role) => peer.at_most(role),
        })
    }

    async fn answer(&mut self, answer: Handled) -> io::Result<()> {
        match answer {
            Ok(answer) => self.send(answer.line()?).await,
            Err(refused) => self.line(&refused.line()).await,
        }
    }

    pub(super) async fn line(&mut self, value: &Value) -> io::Result<()> {
        self.send(value.to_string()).await
    }

    async fn send(&mut self, mut line: String) -> io::Result<()> {
        line.push('\n');
        self.write.write_all(line.as_bytes()).await
    }

    pub(super) async fn refuse(&mut self, message: String) -> io::Result<()> {
        self.answer(Err(message.into())).await
    }

    /// Is ready when nobody is at the other end any more. A client that only has nothing more to
    /// say is still there.
    pub(super) async fn gone(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        loop {
            tokio::time::sleep(LOOK).await;
            let stream: &UnixStream = self.write.as_ref();
            let mut looked = [PollFd::new(stream, PollFlags::empty())];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let polled = poll(&mut looked, Some(&now));
            if polled.is_ok() && looked[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                return;
            }
        }
    }

    pub(super) async fn stopped(&self) {
        self.stop.cancelled().await;
    }
}
