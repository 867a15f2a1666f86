//! Telemetry (the ACP emitter of the published protocol): facts as JSON lines over TCP to a program
//! of this user that listens on this machine. Emitting never waits. If nothing listens, the only
//! cost is one line of text. A listener of another user receives nothing.

use std::{
    collections::VecDeque,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use harness_core::{Fact, TaskId, WorkerId};

use serde_json::{Value, json};

use super::listener::Listener;
use crate::{
    process::Redactor,
    queue::BoundedQueue,
    store::{Observer, Transaction},
};

/// The limit of waiting facts. Beyond it, the oldest are dropped.
pub const QUEUE: usize = 4096;
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// The longest wait for a listener that does not read.
const SEND_WITHIN: Duration = Duration::from_secs(1);
/// The longest wait of [`Telemetry::close`] for unsent facts.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);

/// Receives messages for a person.
pub type Say = Box<dyn Fn(&str) + Send>;

/// Sends facts to a port of this machine, from its own thread.
pub struct Telemetry {
    shared: Arc<Shared>,
    sender: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signals that there is something to send, or the end.
    wake: Condvar,
    /// Signals that the sender has ended.
    ended: Condvar,
}

struct Queue {
    waiting: BoundedQueue<Told>,
    /// `true` if the sender sleeps. If it does not, a system call is saved.
    sleeps: bool,
    closing: bool,
    /// `true` if nothing listens, so that nothing is kept any more.
    off: bool,
    ended: bool,
}

impl Default for Queue {
    fn default() -> Self {
        let waiting = BoundedQueue::new(QUEUE);
        Self { waiting, sleeps: false, closing: false, off: false, ended: false }
    }
}

/// The data of a fact to be sent. The sender's thread converts it to text.
enum Told {
    PlanImport { goal: String, task_count: usize },
    TaskClaim { task: TaskId, worker: WorkerId },
    TaskComplete { task: TaskId },
}

impl Told {
    fn of(fact: &Fact) -> Option<Self> {
        match fact {
            Fact::PlanImported { goal, task_count }
            | Fact::PlanReplaced { goal, task_count, .. } => {
                Some(Self::PlanImport { goal: goal.clone(), task_count: *task_count })
            }
            Fact::Claimed { task, worker, .. } => {
                Some(Self::TaskClaim { task: task.clone(), worker: worker.clone() })
            }
            Fact::Completed { task, .. } => Some(Self::TaskComplete { task: task.clone() }),
            _ => None,
        }
    }

    /// Returns the JSON object. A listener of unknown owner gets `Detail::Ids`, which contains no
    /// text from users.
    fn object(&self, detail: Detail) -> Value {
        match self {
            Self::PlanImport { goal, task_count } => match detail {
                Detail::All => {
                    json!({ "event_type": "plan_import", "goal": goal, "task_count": task_count })
                }
                Detail::Ids => json!({ "event_type": "plan_import", "task_count": task_count }),
            },
            Self::TaskClaim { task, worker } => {
                json!({ "event_type": "task_claim", "task_id": task, "worker_id": worker })
            }
            Self::TaskComplete { task } => {
                json!({ "event_type": "task_complete", "task_id": task })
            }
        }
    }
}

/// Returns a fact in the form that is sent; `None` for facts that are not sent.
pub fn object(fact: &Fact) -> Option<Value> {
    Told::of(fact).map(|told| told.object(Detail::All))
}

/// The amount of detail that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    All,
    /// Only ids and counts.
    Ids,
}

impl Telemetry {
    /// Sends to `port` of 127.0.0.1, and connects when there is something to send. `secrets` are
    /// removed. `say` receives one line if nothing or another user listens, and one about dropped
    /// facts.
    pub fn start(port: u16, secrets: Redactor, say: Say) -> std::io::Result<Self> {
        Self::start_seeing(port, PathBuf::from("/proc"), secrets, say)
    }

    fn start_seeing(
        port: u16,
        proc: PathBuf,
        secrets: Redactor,
        say: Say,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            ended: Condvar::new(),
        });
        let sending = Arc::clone(&shared);
        let sender = thread::Builder::new()
            .name("harness-telemetry".into())
            .stack_size(256 * 1024)
            .spawn(move || sending.send_all(port, &proc, &secrets, &say))?;
        Ok(Self { shared, sender: Some(sender) })
    }

    /// Emits a fact. It never waits for anything but another caller of this method.
    pub fn emit(&self, fact: &Fact) {
        let Some(told) = Told::of(fact) else { return };
        let mut queue = self.shared.lock();
        if queue.off || queue.closing {
            return;
        }
        queue.waiting.push(told);
        if queue.sleeps {
            queue.sleeps = false;
            drop(queue);
            self.shared.wake.notify_one();
        }
    }

    /// Sends the waiting facts, for at most a second.
    pub fn close(mut self) {
        match (self.drain(), self.sender.take()) {
            // A panic of the thread was printed there.
            (Drained::All, Some(sender)) => _ = sender.join(),
            // It ends by itself, or with the process.
            (Drained::All | Drained::Late, _) => {}
        }
    }

    fn drain(&self) -> Drained {
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
        let deadline = Instant::now() + DRAIN_WITHIN;
        let mut queue = self.shared.lock();
        while !queue.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Drained::Late;
            }
            queue = match self.shared.ended.wait_timeout(queue, left) {
                Ok((queue, _)) => queue,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        Drained::All
    }
}

/// Whether the sender ended in time.
enum Drained {
    All,
    Late,
}

impl Observer for Telemetry {
    fn committed(&self, transaction: &Transaction<'_>) {
        transaction.facts.iter().for_each(|fact| self.emit(fact));
    }

    fn end(&self) {
        _ = self.drain();
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_all(&self, port: u16, proc: &Path, secrets: &Redactor, say: &Say) {
        let mut stream = None;
        let mut warned = false;
        while let Some(batch) = self.next(&mut warned, say) {
            if stream.is_none() {
                stream = connect(port, proc, say);
            }
            let sent = stream.as_mut().is_some_and(|(stream, detail)| {
                let lines = batch.iter().map(|told| format!("{}\n", told.object(*detail)));
                let lines: String = lines.collect();
                stream.write_all(secrets.text(&lines).as_bytes()).is_ok()
            });
            if !sent {
                // This is final: there is no second try.
                let mut queue = self.lock();
                queue.off = true;
                drop(queue.waiting.take());
                break;
            }
        }
        self.lock().ended = true;
        self.ended.notify_all();
    }

    /// Returns all waiting facts; `None` at the end.
    fn next(&self, warned: &mut bool, say: &Say) -> Option<VecDeque<Told>> {
        let mut queue = self.lock();
        while queue.waiting.is_empty() {
            if queue.closing {
                return None;
            }
            queue.sleeps = true;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.sleeps = false;
        let waiting = queue.waiting.take();
        let overflowed = queue.waiting.lost() > 0;
        drop(queue);
        if overflowed && !*warned {
            *warned = true;
            say("ACP: too many events at once, the oldest were dropped");
        }
        Some(waiting)
    }
}

/// Connects, then determines the listener, so that it is the one that has the connection.
fn connect(port: u16, proc: &Path, say: &Say) -> Option<(TcpStream, Detail)> {
    let Ok(stream) = connected(port) else {
        say(&format!("ACP: Claude Code not available on port {port}"));
        return None;
    };
    match Listener::on(port, proc) {
        Listener::Ours => Some((stream, Detail::All)),
        Listener::Unknown => Some((stream, Detail::Ids)),
        Listener::Anothers => {
            say(&format!("ACP: another user is listening on port {port}, so nothing is sent"));
            None
        }
    }
}

fn connected(port: u16) -> std::io::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
    stream.set_write_timeout(Some(SEND_WITHIN))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests;
