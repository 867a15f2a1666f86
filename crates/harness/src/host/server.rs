//! Serves the socket: one task per connection, one handler per verb.
//!
//! No request and no client that dies ends the host or delays another client.

use std::{
    io,
    path::{Path, PathBuf},
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

#[cfg(feature = "postgres")]
use super::post::Post;
use super::{
    Daemon,
    crowd::{Crowd, Place},
    frames::{Frame, Frames, Halves},
    refused::another_root,
    socket::Bound,
    verbs::{self, Handled},
};
#[cfg(feature = "postgres")]
use crate::project::Mail;
use crate::{
    agent::Desk,
    hub::Hub,
    process::{Redactor, ancestry::Peer},
    project::RunBudget,
    protocol::{Answer, Call, LINE_BYTES_MAX, Refused, Request, Verb},
    store::Writer,
    workspace::Workspace,
};

/// The time for pending requests when the host ends. A check that must be stopped is killed after
/// five seconds.
const FAREWELL: Duration = Duration::from_secs(7);
/// The time that a new connection has for its request when the host ends.
const LAST_WORD: Duration = Duration::from_millis(50);
/// The interval of checks whether a waiting client is still there.
const LOOK: Duration = Duration::from_millis(500);

/// The state that the handlers work with.
pub struct Host {
    /// The state root.
    pub root: PathBuf,
    /// The writer, which owns its store.
    pub writer: Arc<Writer>,
    /// The hub of the run. Its session is started.
    pub hub: Hub,
    /// Git, if checkpoints record the tree.
    pub workspace: Option<Arc<dyn Workspace>>,
    /// The attempts of this process.
    pub desk: Desk,
    /// The lease of a session's claim without a sign of life.
    pub lease_seconds: u64,
    /// The purpose of the host.
    pub duty: Duty,
    /// The secrets that are removed from every text of a client.
    pub secrets: Redactor,
    /// `[tasks] agents_may_add`.
    pub adding: Adding,
    /// The budget of the run that this process drives.
    pub budget: Option<RunBudget>,
}

impl Host {
    /// Answers one request of `peer`: everything that the socket does except `subscribe`, which has
    /// no single answer. A peer that acts in a lesser role declares it with `as`.
    pub async fn answer(&self, peer: &Peer, call: &Call) -> Result<Answer, Refused> {
        self.expect_own_root(call)?;
        let peer = match call.speaks_as()? {
            None => peer.clone(),
            Some(role) => peer.clone().at_most(role),
        };
        verbs::handle(self, &peer, call).await
    }

    /// Returns the part of the host that gives tasks to workers, if it has one.
    pub(super) fn daemon(&self) -> Option<&Arc<Daemon>> {
        match &self.duty {
            Duty::Daemon(daemon) | Duty::Shared(daemon) => Some(daemon),
            Duty::Run => None,
        }
    }

    fn expect_own_root(&self, call: &Call) -> Result<(), Refused> {
        match call.root()? {
            Some(root) if Path::new(&root) != self.root => Err(another_root(&self.root)),
            Some(_) | None => Ok(()),
        }
    }
}

/// The purpose of a host.
#[derive(Clone)]
pub enum Duty {
    /// It works on the ledger, which it holds exclusively.
    Run,
    /// It works on the ledger beside others, and gives tasks to workers too.
    Shared(Arc<Daemon>),
    /// It gives tasks to workers.
    Daemon(Arc<Daemon>),
}

/// A host that serves until [`end`](Server::end).
pub struct Server {
    stop: CancellationToken,
    accepting: JoinHandle<()>,
    connections: watch::Receiver<usize>,
    bound: Arc<Bound>,
    stranded: CancellationToken,
    /// The part of a run that gives tasks to workers, which ends with it.
    giving: Option<Arc<Daemon>>,
    host: Arc<Host>,
    /// The part that serves other machines.
    #[cfg(feature = "postgres")]
    post: Option<Post>,
}

/// Serves `host` on `bound`. It runs inside a tokio runtime.
pub fn serve(bound: Bound, host: Host) -> io::Result<Server> {
    let listener = bound.listener()?;
    let stop = CancellationToken::new();
    let (count, connections) = watch::channel(0);
    let (bound, stranded) = (Arc::new(bound), CancellationToken::new());
    let giving = match &host.duty {
        Duty::Shared(daemon) => Some(Arc::clone(daemon)),
        Duty::Run | Duty::Daemon(_) => None,
    };
    let host = Arc::new(host);
    let shared = Shared {
        host: Arc::clone(&host),
        bound: Arc::clone(&bound),
        stranded: stranded.clone(),
        stop: stop.clone(),
        halves: Halves::default(),
    };
    let accepting = tokio::spawn(accept(listener, shared, count));
    Ok(Server {
        stop,
        accepting,
        connections,
        bound,
        stranded,
        giving,
        host,
        #[cfg(feature = "postgres")]
        post: None,
    })
}

impl Server {
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Serves other machines too, if it is the host of its root.
    #[cfg(feature = "postgres")]
    pub(super) fn with_mail(
        self,
        mail: impl FnOnce() -> io::Result<Option<Mail>>,
    ) -> io::Result<Self> {
        if !self.bound.is_of_host() {
            return Ok(self);
        }
        let post = mail()?.map(|mail| Post::start(Arc::clone(&self.host), mail));
        Ok(Self { post, ..self })
    }

    /// Returns the number of connected clients. It changes when a client connects or leaves.
    pub(super) fn connections(&self) -> watch::Receiver<usize> {
        self.connections.clone()
    }

    pub(super) fn can_be_found(&self) -> bool {
        self.bound.can_be_found()
    }

    /// Completes when a request came to a daemon that could not be found any more.
    pub(super) async fn stranded(&self) {
        self.stranded.cancelled().await;
    }

    /// Answers pending requests, accepts no new ones, and unlinks the socket.
    pub async fn end(self) {
        // From here on it cannot be found. Connected clients are still answered.
        self.bound.unlink();
        if let Some(giving) = &self.giving {
            giving.close();
            giving.leaving.cancel();
        }
        self.stop.cancel();
        if let Err(why) = self.accepting.await {
            tracing::error!(%why, "the host failed");
        }
        #[cfg(feature = "postgres")]
        if let Some(post) = self.post {
            post.end().await;
        }
    }
}

/// The state that all connections share.
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
            // A client that has connected is accepted, even when the host ends. New ones cannot
            // find it then.
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => break,
            // Remove connections that ended.
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) if is_ours(&stream) => {
                connections.spawn(talk(stream, shared.clone(), crowd.enter()));
            }
            Ok(_) => tracing::warn!("a process of another user connected"),
            // Usually there are no descriptors left. Open connections continue.
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

/// Serves one connection. An error means that the client is gone.
async fn talk(stream: UnixStream, shared: Shared, place: Option<Place>) {
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    // An unknown peer has no process id.
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
    /// The peer, once it was determined. Its role does not change.
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
                // A received request is answered, even when the host ends.
                frame = frames.next() => frame?,
                () = self.last_word() => return Ok(()),
                // Another connection needs the place.
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
        host.expect_own_root(call)?;
        if matches!(host.duty, Duty::Daemon(_)) && !self.bound.can_be_found() {
            // Its root is gone, and another may be in its place. The next daemon may start before
            // this one has ended.
            self.bound.leave();
            self.stranded.cancel();
            return Err(another_root(&host.root));
        }
        let peer = self.peer.get_or_init(|| Peer::of(self.pid, &host.root));
        let verb = call.verb();
        tokio::select! {
            answer = host.answer(peer, call) => answer,
            () = self.gone(), if verb.as_ref().is_ok_and(|verb| verb.waits()) => {
                Err(Refused::new(Code::Stopped, "The client is gone"))
            }
            () = self.stop.cancelled(), if verb == Ok(Verb::Ask) => {
                Err(Refused::new(Code::Stopped, "Session aborted"))
            }
        }
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

    /// Completes when the other end is gone. A client that only has nothing more to send is still
    /// there.
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
