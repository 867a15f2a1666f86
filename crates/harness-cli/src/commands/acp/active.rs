//! A run in progress: its process, and the events of its host.

use std::{
    io::{self, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::SyncSender,
    },
    thread,
    time::Duration,
};

use harness::{
    Client, ClientError, ClientOptions,
    client::EventLine,
    protocol::{QuestionReply, SentMessage},
};
use serde_json::Value;
use uuid::Uuid;

use super::server::Input;

/// The interval of looks for a host that is about to start.
const LOOK: Duration = Duration::from_millis(100);
/// The number of bytes of standard error that are kept.
const SAID_BYTES: usize = 16 * 1024;

/// The end of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RunEnd {
    /// The exit code; `None` if this process did not start it, or if a signal ended it.
    pub(super) code: Option<i32>,
    /// What `harness run --json` printed.
    pub(super) report: Value,
    /// The end of its standard error.
    pub(super) said: String,
}

/// A run that this session follows.
pub(super) struct ActiveRun {
    pub(super) pid: u32,
    root: PathBuf,
    options: ClientOptions,
}

/// The place of a run, and the receiver of what happens there.
pub(super) struct Place {
    pub(super) session: String,
    pub(super) root: PathBuf,
    pub(super) options: ClientOptions,
    pub(super) to: SyncSender<Input>,
}

impl ActiveRun {
    /// Starts a process, and follows its events until it ends.
    pub(super) fn start(mut command: Command, place: Place) -> io::Result<Self> {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = piped.spawn()?;
        let active = Self::of(child.id(), &place);
        thread::spawn(move || {
            let end = Self::follow(child, &place);
            _ = place.to.send(Input::Ended { session: place.session, end: Box::new(end) });
        });
        Ok(active)
    }

    /// Follows a run that an earlier process started.
    pub(super) fn attach(pid: u32, place: Place) -> Self {
        let active = Self::of(pid, &place);
        thread::spawn(move || {
            listen(&place, pid, &AtomicBool::new(true));
            let end = Box::new(RunEnd::default());
            _ = place.to.send(Input::Ended { session: place.session, end });
        });
        active
    }

    fn of(pid: u32, place: &Place) -> Self {
        Self { pid, root: place.root.clone(), options: place.options.clone() }
    }

    fn follow(mut child: Child, place: &Place) -> RunEnd {
        let is_over = Arc::new(AtomicBool::new(false));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let pid = child.id();
        thread::scope(|scope| {
            let listening = scope.spawn(|| listen(place, pid, &is_over));
            let said = scope.spawn(|| err.map(tail).unwrap_or_default());
            let printed = out.map(tail).unwrap_or_default();
            let code = child.wait().ok().and_then(|status| status.code());
            is_over.store(true, Ordering::Release);
            // The host has ended, so the last events have come.
            _ = listening.join();
            RunEnd {
                code,
                report: serde_json::from_str(&printed).unwrap_or_default(),
                said: said.join().unwrap_or_default(),
            }
        })
    }

    fn client(&self) -> Result<Client, ClientError> {
        Client::with(&self.root, self.options.clone())
    }

    /// Stops the run as Ctrl-C does. A process whose host does not answer yet gets the signal itself.
    pub(super) fn stop(&self) {
        let told = self
            .client()
            .and_then(|mut client| client.abort(Some("cancelled in the editor".to_owned())));
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        if let (Err(_), Some(pid)) = (told, pid) {
            _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
    }

    /// Answers a question with any text.
    pub(super) fn reply(&self, question: &str, text: &str) -> Result<(), ClientError> {
        let (prompt_id, content) = (question.to_owned(), text.to_owned());
        self.client()?.reply(QuestionReply { prompt_id, content, choice: None })
    }

    /// Answers a question with one of its choices.
    pub(super) fn choose(&self, question: &str, choice: String) -> Result<(), ClientError> {
        let (prompt_id, content) = (question.to_owned(), choice.clone());
        self.client()?.reply(QuestionReply { prompt_id, content, choice: Some(choice) })
    }

    /// Sends a message to the agents of the run.
    pub(super) fn send(&self, text: &str) -> Result<(), ClientError> {
        let message = SentMessage { content: text.to_owned(), agent: None, run_id: None };
        self.client()?.send(message).map(|_| ())
    }
}

/// Returns whether the process `pid` is the host of the root.
pub(super) fn is_host(place: &Place, pid: u32) -> bool {
    let pong = Client::with(&place.root, place.options.clone()).and_then(|mut c| c.ping());
    pong.is_ok_and(|pong| pong.pid == pid)
}

/// Passes on the events of the host with this process id, until the run is over.
fn listen(place: &Place, pid: u32, is_over: &AtomicBool) {
    loop {
        // Another host, such as a daemon that makes way for the run, is not ours.
        if is_host(place, pid) && pass_on(place).is_ok() {
            return;
        }
        if is_over.load(Ordering::Acquire) {
            return;
        }
        thread::sleep(LOOK);
    }
}

fn pass_on(place: &Place) -> Result<(), ClientError> {
    let client = Client::with(&place.root, place.options.clone())?;
    // An id that the host does not know asks for everything that it still has.
    for notice in client.subscribe(&[], Some(Uuid::nil()))? {
        let Ok(EventLine::Event { kind, event, .. }) = notice else { continue };
        let session = place.session.clone();
        if place.to.send(Input::Notice { session, kind, event }).is_err() {
            break;
        }
    }
    Ok(())
}

/// Returns the end of what a stream holds. All of it is read, so that the writer never waits.
fn tail(mut from: impl Read) -> String {
    let (mut kept, mut chunk) = (Vec::new(), [0; 8192]);
    while let Ok(count) = from.read(&mut chunk) {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&chunk[..count]);
        let surplus = kept.len().saturating_sub(SAID_BYTES);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
