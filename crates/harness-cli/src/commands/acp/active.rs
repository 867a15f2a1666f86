//! A run in progress: its process, and its events.

use std::{
    io::{self, BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::SyncSender,
    thread,
};

use harness::{
    Client, ClientError, ClientOptions,
    client::EventLine,
    protocol::{QuestionReply, SentMessage},
};
use serde_json::Value;
use uuid::Uuid;

use super::server::Input;

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
            if is_host(&place, pid) {
                _ = place.listen();
            }
            let end = Box::new(RunEnd::default());
            _ = place.to.send(Input::Ended { session: place.session, end });
        });
        active
    }

    fn of(pid: u32, place: &Place) -> Self {
        Self { pid, root: place.root.clone(), options: place.options.clone() }
    }

    /// Passes on what the process prints: its events, and its report at the end.
    fn follow(mut child: Child, place: &Place) -> RunEnd {
        let (out, err) = (child.stdout.take(), child.stderr.take());
        thread::scope(|scope| {
            let said = scope.spawn(|| err.map(tail).unwrap_or_default());
            let mut report = Value::Null;
            for line in out.map(BufReader::new).into_iter().flat_map(BufRead::lines) {
                let Some(line) = line.ok().and_then(|l| serde_json::from_str::<Value>(&l).ok())
                else {
                    continue;
                };
                match EventLine::read(line.clone()) {
                    Ok(event) => place.pass_on(event),
                    Err(_) => report = line,
                }
            }
            let code = child.wait().ok().and_then(|status| status.code());
            RunEnd { code, report, said: said.join().unwrap_or_default() }
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

impl Place {
    fn pass_on(&self, line: EventLine) {
        if let EventLine::Event { kind, event, .. } = line {
            let session = self.session.clone();
            _ = self.to.send(Input::Notice { session, kind, event });
        }
    }

    /// Passes on the events of the host of this root, until it ends.
    fn listen(&self) -> Result<(), ClientError> {
        let client = Client::with(&self.root, self.options.clone())?;
        // An id that the host does not know asks for everything that it still has.
        let lines = client.subscribe(&[], Some(Uuid::nil()))?;
        lines.flatten().for_each(|line| self.pass_on(line));
        Ok(())
    }
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
