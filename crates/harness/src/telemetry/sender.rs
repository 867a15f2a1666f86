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
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::{
        io::{BufRead, BufReader},
        net::TcpListener,
        sync::mpsc,
    };

    use harness_core::Epoch;

    use super::*;

    fn claimed(n: usize) -> Fact {
        Fact::Claimed {
            task: TaskId::parse(&format!("t{n}")).unwrap(),
            title: "title".into(),
            worker: WorkerId::parse("w").unwrap(),
            epoch: Epoch(1),
            base: None,
        }
    }

    /// Returns a receiver for the messages.
    fn messages() -> (Say, mpsc::Receiver<String>) {
        let (said, received) = mpsc::channel();
        (Box::new(move |text: &str| _ = said.send(text.to_owned())), received)
    }

    #[test]
    fn facts_arrive_as_lines_in_order() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (say, said) = messages();
        let telemetry =
            Telemetry::start(listener.local_addr().unwrap().port(), Redactor::default(), say)
                .unwrap();
        let worker = WorkerId::parse("w").unwrap();
        let task = TaskId::parse("t1").unwrap();
        telemetry.emit(&Fact::PlanImported { goal: "g".into(), task_count: 2 });
        telemetry.emit(&Fact::PlanReset { task_count: 2 });
        telemetry.emit(&claimed(1));
        telemetry.emit(&Fact::Completed { task, worker, commit: None });
        let (stream, _) = listener.accept().unwrap();
        telemetry.close();
        let lines: Vec<_> = BufReader::new(stream).lines().map(Result::unwrap).collect();
        assert_eq!(
            lines,
            [
                r#"{"event_type":"plan_import","goal":"g","task_count":2}"#,
                r#"{"event_type":"task_claim","task_id":"t1","worker_id":"w"}"#,
                r#"{"event_type":"task_complete","task_id":"t1"}"#,
            ]
        );
        assert_eq!(said.try_recv().ok(), None, "nothing is said");
    }

    fn goal() -> Fact {
        Fact::PlanImported { goal: "say very-secret-1".into(), task_count: 2 }
    }

    /// Returns what a listener receives if `/proc/net/tcp` has this content for its port.
    fn got(table: Option<&dyn Fn(u16) -> String>) -> (Vec<String>, Vec<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let proc = tempfile::tempdir().unwrap();
        if let Some(table) = table {
            std::fs::create_dir(proc.path().join("net")).unwrap();
            std::fs::write(proc.path().join("net/tcp"), table(port)).unwrap();
        }
        let (say, said) = messages();
        let secrets = Redactor::from_environment([("A_KEY".into(), "very-secret-1".into())]);
        let place = proc.path().to_owned();
        let telemetry = Telemetry::start_seeing(port, place, secrets, say).unwrap();
        telemetry.emit(&goal());
        let (stream, _) = listener.accept().unwrap();
        telemetry.close();
        let lines = BufReader::new(stream).lines().map(Result::unwrap).collect();
        (lines, said.try_iter().collect())
    }

    fn listed(port: u16, uid: u32) -> String {
        format!(
            "  sl  local_address rem_address   st\n   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  {uid}        0 1\n"
        )
    }

    #[test]
    fn x_m11_a_listener_of_another_user_receives_nothing() {
        let own = rustix::process::geteuid().as_raw();
        let (lines, said) = got(Some(&|port| listed(port, own + 1)));
        assert!(lines.is_empty(), "{lines:?}");
        assert!(said[0].contains("another user is listening"), "{said:?}");
        let (lines, said) = got(Some(&|port| listed(port, own)));
        let expected =
            r#"{"event_type":"plan_import","goal":"say [redacted:A_KEY]","task_count":2}"#;
        assert_eq!((lines, said), (vec![expected.to_owned()], Vec::new()));
    }

    #[test]
    fn x_m11_where_the_owner_cannot_be_seen_only_ids_and_counts_are_sent() {
        let (lines, _) = got(None);
        assert_eq!(lines, [r#"{"event_type":"plan_import","task_count":2}"#]);
        let (lines, _) = got(Some(&|port| listed(port ^ 1, 0)));
        assert_eq!(lines, [r#"{"event_type":"plan_import","task_count":2}"#]);
    }

    #[test]
    fn nobody_listening_is_said_once_and_switches_it_off() {
        // This port was free a moment ago.
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let (say, said) = messages();
        let telemetry = Telemetry::start(port, Redactor::default(), say).unwrap();
        telemetry.emit(&claimed(0));
        assert_eq!(said.recv().unwrap(), format!("ACP: Claude Code not available on port {port}"));
        let started = Instant::now();
        (0..10_000).for_each(|n| telemetry.emit(&claimed(n)));
        assert!(started.elapsed() < Duration::from_secs(1), "it does not wait");
        telemetry.close();
        assert_eq!(said.try_recv().ok(), None, "said once");
    }

    #[test]
    fn the_oldest_go_when_the_listener_is_slow_and_that_is_said_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (say, said) = messages();
        let telemetry =
            Telemetry::start(listener.local_addr().unwrap().port(), Redactor::default(), say)
                .unwrap();
        // Nothing is taken away while the queue is locked, so it certainly overflows.
        let mut queue = telemetry.shared.lock();
        (0..3 * QUEUE).for_each(|n| drop(queue.waiting.push(Told::of(&claimed(n)).unwrap())));
        assert_eq!(queue.waiting.len(), QUEUE);
        drop(queue);
        telemetry.emit(&claimed(4 * QUEUE));
        let reading = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            BufReader::new(stream).lines().map(Result::unwrap).last().unwrap()
        });
        telemetry.close();
        assert!(
            reading.join().unwrap().contains(&format!("t{}", 4 * QUEUE)),
            "the newest is there"
        );
        let said: Vec<_> = said.try_iter().collect();
        assert_eq!(said, ["ACP: too many events at once, the oldest were dropped"]);
    }
}
