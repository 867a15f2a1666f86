//! Telemetry (the seeds' ACP emitter): facts as JSON lines over TCP to whoever listens on this
//! machine. Telling never waits, and nobody listening costs one line of words and nothing else.

use std::{
    collections::VecDeque,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use harness_core::{Fact, TaskId, WorkerId};
use serde_json::{Value, json};

/// Facts that may wait; beyond that the oldest go.
pub const QUEUE: usize = 4096;
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long a listener that does not read is waited for.
const SEND_WITHIN: Duration = Duration::from_secs(1);
/// How long [`Telemetry::close`] waits for what is still to be sent.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);

/// Where words for a person go.
pub type Say = Box<dyn Fn(&str) + Send>;

/// Sends facts to a port of this machine, from a thread of its own.
pub struct Telemetry {
    shared: Arc<Shared>,
    sender: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Something to send, or the end.
    wake: Condvar,
    /// The sender has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Told>,
    /// The sender sleeps: a call to the system that is saved where it does not.
    sleeps: bool,
    /// The oldest had to go; said once.
    overflowed: bool,
    closing: bool,
    /// Nobody listens: nothing is kept any more.
    off: bool,
    ended: bool,
}

impl Queue {
    fn push(&mut self, told: Told) {
        if self.waiting.len() == QUEUE {
            self.waiting.pop_front();
            self.overflowed = true;
        }
        self.waiting.push_back(told);
    }
}

/// What is sent, copied from a fact; it becomes text in the sender's thread.
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

    fn object(&self) -> Value {
        match self {
            Self::PlanImport { goal, task_count } => {
                json!({ "event_type": "plan_import", "goal": goal, "task_count": task_count })
            }
            Self::TaskClaim { task, worker } => {
                json!({ "event_type": "task_claim", "task_id": task, "worker_id": worker })
            }
            Self::TaskComplete { task } => {
                json!({ "event_type": "task_complete", "task_id": task })
            }
        }
    }
}

/// A fact as it is sent; `None` for those that are not.
pub fn object(fact: &Fact) -> Option<Value> {
    Told::of(fact).as_ref().map(Told::object)
}

impl Telemetry {
    /// To `port` of 127.0.0.1; connects when there is something to send. `say` is given the one line
    /// that is said if nobody listens, and the one about facts that had to go.
    pub fn start(port: u16, say: Say) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            ended: Condvar::new(),
        });
        let sending = Arc::clone(&shared);
        let sender = thread::Builder::new()
            .name("harness-telemetry".into())
            .stack_size(256 * 1024)
            .spawn(move || sending.send_all(port, &say))?;
        Ok(Self { shared, sender: Some(sender) })
    }

    /// Tells a fact. Never waits for anybody but another caller of this.
    pub fn emit(&self, fact: &Fact) {
        let Some(told) = Told::of(fact) else { return };
        let mut queue = self.shared.lock();
        if queue.off || queue.closing {
            return;
        }
        queue.push(told);
        if queue.sleeps {
            queue.sleeps = false;
            drop(queue);
            self.shared.wake.notify_one();
        }
    }

    /// Sends what waits, for at most a second.
    pub fn close(mut self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
        let deadline = Instant::now() + DRAIN_WITHIN;
        let mut queue = self.shared.lock();
        while !queue.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // It ends by itself, or with the process.
                self.sender = None;
                return;
            }
            queue = match self.shared.ended.wait_timeout(queue, left) {
                Ok((queue, _)) => queue,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        drop(queue);
        if let Some(sender) = self.sender.take() {
            // A panic there was printed there.
            _ = sender.join();
        }
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

    fn send_all(&self, port: u16, say: &Say) {
        let mut stream = None;
        let mut warned = false;
        while let Some(batch) = self.next(&mut warned, say) {
            if stream.is_none() {
                stream = connect(port).ok();
                if stream.is_none() {
                    say(&format!("ACP: Claude Code not available on port {port}"));
                }
            }
            let sent = stream.as_mut().is_some_and(|stream| stream.write_all(&batch).is_ok());
            if !sent {
                // For good: there is no second try.
                let mut queue = self.lock();
                queue.off = true;
                queue.waiting = VecDeque::new();
                break;
            }
        }
        self.lock().ended = true;
        self.ended.notify_all();
    }

    /// All that waits, as lines; `None` at the end.
    fn next(&self, warned: &mut bool, say: &Say) -> Option<Vec<u8>> {
        let mut queue = self.lock();
        while queue.waiting.is_empty() {
            if queue.closing {
                return None;
            }
            queue.sleeps = true;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.sleeps = false;
        let waiting = std::mem::take(&mut queue.waiting);
        let overflowed = queue.overflowed;
        drop(queue);
        if overflowed && !*warned {
            *warned = true;
            say("ACP: too many events at once, the oldest were dropped");
        }
        let mut lines = Vec::new();
        for told in &waiting {
            lines.extend(told.object().to_string().into_bytes());
            lines.push(b'\n');
        }
        Some(lines)
    }
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
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

    /// What was said, for the asking.
    fn heard() -> (Say, mpsc::Receiver<String>) {
        let (said, heard) = mpsc::channel();
        (Box::new(move |text: &str| _ = said.send(text.to_owned())), heard)
    }

    #[test]
    fn facts_arrive_as_lines_in_order() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (say, said) = heard();
        let telemetry = Telemetry::start(listener.local_addr().unwrap().port(), say).unwrap();
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

    #[test]
    fn nobody_listening_is_said_once_and_switches_it_off() {
        // A port that was free a moment ago.
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let (say, said) = heard();
        let telemetry = Telemetry::start(port, say).unwrap();
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
        let (say, said) = heard();
        let telemetry = Telemetry::start(listener.local_addr().unwrap().port(), say).unwrap();
        // Nobody takes anything away while it is locked, so that it overflows for certain.
        let mut queue = telemetry.shared.lock();
        (0..3 * QUEUE).for_each(|n| queue.push(Told::of(&claimed(n)).unwrap()));
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
