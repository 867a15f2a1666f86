//! Handles one input after the other: lines of the editor, events of runs, and their ends.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::SyncSender,
};

use harness::{
    ClientOptions,
    agent::acp_wire::{self as wire, Message},
};
use serde_json::{Value, json};

use super::{
    active::{self, ActiveRun, Place, RunEnd},
    history::{Entry, History},
    question::Question,
    session::{Session, TASKS, commands, end_in_words, text_of},
    updates::{self, Shown, chunk, of_event},
};
use crate::{environment::Environment, failure::Result, host::places, root::StateRoot};

/// What the server takes.
pub(super) enum Input {
    /// A line of the editor.
    Line(String),
    TooLong,
    /// The editor has left.
    Closed,
    /// An event of the run that a session follows.
    Notice {
        session: String,
        kind: String,
        event: Value,
    },
    Ended {
        session: String,
        end: Box<RunEnd>,
    },
}

/// Whether the server goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Going {
    On,
    Over,
}

impl Going {
    pub(super) fn is_over(self) -> bool {
        self == Self::Over
    }
}

/// A request that cannot be served, as an error of JSON-RPC.
struct Refusal {
    code: i64,
    message: String,
}

impl Refusal {
    fn parameters(message: impl Into<String>) -> Self {
        Self { code: wire::INVALID_PARAMS, message: message.into() }
    }
}

type Served = Result<Value, Refusal>;

pub(super) struct Server {
    env: Environment,
    run_options: Vec<String>,
    inputs: SyncSender<Input>,
    history: History,
    sessions: BTreeMap<String, Session>,
    /// The questions that the editor was asked, by the id of the request.
    asked: BTreeMap<u64, (String, Question)>,
    requests: u64,
}

impl Server {
    pub(super) fn new(
        env: Environment,
        run_options: Vec<String>,
        inputs: SyncSender<Input>,
    ) -> Result<Self> {
        let history = History::below(&env.state_home()?);
        Ok(Self {
            env,
            run_options,
            inputs,
            history,
            sessions: BTreeMap::new(),
            asked: BTreeMap::new(),
            requests: 0,
        })
    }

    pub(super) fn take(&mut self, input: Input) -> io::Result<Going> {
        match input {
            Input::Line(line) => self.line(&line)?,
            Input::TooLong => {
                say(&wire::refused(Value::Null, wire::INVALID, "the message is too long"))?
            }
            // The runs go on: a session that is loaded again finds them.
            Input::Closed => return Ok(Going::Over),
            Input::Notice { session, kind, event } => self.notice(&session, &kind, &event)?,
            Input::Ended { session, end } => self.ended(&session, &end)?,
        }
        Ok(Going::On)
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        if line.trim().is_empty() {
            return Ok(());
        }
        match wire::message(line.trim_start_matches('\u{feff}')) {
            Some(Message::Request { id, method, params }) => self.request(id, &method, &params),
            Some(Message::Notification { method, params }) => {
                if method == "session/cancel" {
                    self.cancel(params["sessionId"].as_str().unwrap_or_default());
                }
                Ok(())
            }
            Some(Message::Answer { id, result }) => {
                if let Some((session, question)) = self.asked.remove(&id) {
                    self.answered(&session, &question, &result.unwrap_or_default())?;
                }
                Ok(())
            }
            None => say(&wire::refused(Value::Null, wire::PARSE, "no message of JSON-RPC 2.0")),
        }
    }

    fn request(&mut self, id: Value, method: &str, params: &Value) -> io::Result<()> {
        let served = match method {
            "initialize" => Ok(greeting()),
            "authenticate" => Ok(json!({})),
            "session/new" => self.open(params),
            "session/load" => self.load(params),
            "session/prompt" => return self.prompt(id, params),
            other => return say(&wire::not_known(id, other)),
        };
        let session = served.as_ref().ok().and_then(|found| found["sessionId"].as_str());
        let session = session.or(params["sessionId"].as_str()).map(str::to_owned);
        let is_session = method.starts_with("session/") && served.is_ok();
        answer(id, served)?;
        if let Some(session) = session.filter(|_| is_session) {
            update(&session, commands())?;
            self.show_plan(&session)?;
        }
        Ok(())
    }

    fn open(&mut self, params: &Value) -> Served {
        let folder = folder(params)?;
        let session = uuid::Uuid::now_v7().to_string();
        self.history.create(&session).map_err(|why| Refusal {
            code: wire::INTERNAL,
            message: format!("the session cannot be recorded: {why}"),
        })?;
        self.sessions.insert(session.clone(), Session::new(folder));
        Ok(json!({ "sessionId": session }))
    }

    /// Shows what happened in a session, and follows its run if that is still at work.
    fn load(&mut self, params: &Value) -> Served {
        let id = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let entries = self.history.read(&id);
        let entries =
            entries.ok_or_else(|| Refusal::parameters(format!("there is no session {id:?}")))?;
        let mut session = Session::new(folder(params)?);
        let mut began = None;
        for entry in entries {
            let shown = match entry {
                Entry::Prompt(text) => chunk("user_message_chunk", &text),
                Entry::Message(text) => {
                    began = None;
                    chunk("agent_message_chunk", &text)
                }
                Entry::Began(pid) => {
                    began = Some(pid);
                    continue;
                }
            };
            update(&id, shown)
                .map_err(|why| Refusal { code: wire::INTERNAL, message: why.to_string() })?;
        }
        if let Some(pid) = began
            && let Ok(place) = self.place(&id, &session.folder)
            && active::is_host(&place, pid)
        {
            session.run = Some(ActiveRun::attach(pid, place));
        }
        self.sessions.insert(id, session);
        Ok(json!({}))
    }

    fn prompt(&mut self, id: Value, params: &Value) -> io::Result<()> {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let text = text_of(&params["prompt"]);
        match self.turn(&session, &text) {
            Ok(()) => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.turn = Some(id);
                    session.is_cancelled = false;
                }
                Ok(())
            }
            Err(refusal) => answer(id, Err(refusal)),
        }
    }

    /// Begins a turn: a new run, or an answer or a message to the one that is at work.
    fn turn(&mut self, id: &str, text: &str) -> Result<(), Refusal> {
        let session = self.sessions.get_mut(id);
        let session =
            session.ok_or_else(|| Refusal::parameters(format!("there is no session {id:?}")))?;
        if session.turn.is_some() {
            return Err(Refusal {
                code: wire::INVALID,
                message: "a turn is in progress".to_owned(),
            });
        }
        if text.is_empty() {
            return Err(Refusal::parameters("the prompt has no text"));
        }
        self.history.add(id, &Entry::Prompt(text.to_owned()));
        let failed = |why: String| Refusal { code: wire::INTERNAL, message: why };
        if let Some(run) = &session.run {
            let done = match session.question.take() {
                Some(question) => run.reply(&question.id, text),
                None => run.send(text),
            };
            return done.map_err(|why| failed(why.to_string()));
        }
        let folder = session.folder.clone();
        let place = self.place(id, &folder).map_err(|why| failed(why.to_string()))?;
        let mut command = Command::new(std::env::current_exe().map_err(|e| failed(e.to_string()))?);
        command.arg("-C").arg(&folder).args(["run", "--json", "--events"]).args(&self.run_options);
        if text != TASKS {
            command.args(["--", text]);
        }
        let run = ActiveRun::start(command, place).map_err(|why| failed(why.to_string()))?;
        self.history.add(id, &Entry::Began(run.pid));
        if let Some(session) = self.sessions.get_mut(id) {
            session.run = Some(run);
        }
        Ok(())
    }

    fn cancel(&mut self, id: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.is_cancelled = true;
        if let Some(run) = &session.run {
            run.stop();
        }
    }

    fn notice(&mut self, id: &str, kind: &str, event: &Value) -> io::Result<()> {
        let Some(session) = self.sessions.get_mut(id) else { return Ok(()) };
        for shown in of_event(kind, event, &mut session.tools) {
            match shown {
                Shown::Update(value) => update(id, value)?,
                Shown::Plan => self.show_plan(id)?,
                Shown::Ask(question) => self.ask(id, question)?,
            }
        }
        Ok(())
    }

    fn ask(&mut self, id: &str, question: Question) -> io::Result<()> {
        let Some(session) = self.sessions.get_mut(id) else { return Ok(()) };
        if question.choices.is_empty() {
            update(id, chunk("agent_message_chunk", &format!("\n\n{}\n\n", question.text)))?;
            session.question = Some(question);
            return match session.turn.take() {
                Some(turn) => answer(turn, Ok(json!({ "stopReason": "end_turn" }))),
                None => Ok(()),
            };
        }
        self.requests += 1;
        let request =
            wire::request(self.requests, "session/request_permission", question.permission(id));
        self.asked.insert(self.requests, (id.to_owned(), question));
        say(&request)
    }

    fn answered(&mut self, id: &str, question: &Question, result: &Value) -> io::Result<()> {
        let run = self.sessions.get(id).and_then(|session| session.run.as_ref());
        let (Some(run), Some(choice)) = (run, question.chosen(result)) else { return Ok(()) };
        match run.choose(&question.id, choice) {
            Ok(()) => Ok(()),
            // Somebody else may have answered it meanwhile.
            Err(why) => update(id, chunk("agent_message_chunk", &format!("\n\n{why}\n\n"))),
        }
    }

    fn ended(&mut self, id: &str, end: &RunEnd) -> io::Result<()> {
        let Some(session) = self.sessions.get_mut(id) else { return Ok(()) };
        session.run = None;
        session.question = None;
        let turn = session.turn.take();
        let reason = if session.is_cancelled { "cancelled" } else { "end_turn" };
        self.asked.retain(|_, (of, _)| of != id);
        let words = end_in_words(end);
        self.history.add(id, &Entry::Message(words.clone()));
        update(id, chunk("agent_message_chunk", &format!("\n\n{words}\n")))?;
        self.show_plan(id)?;
        match turn {
            Some(turn) => answer(turn, Ok(json!({ "stopReason": reason }))),
            None => Ok(()),
        }
    }

    /// Shows the tasks of the ledger, if there is one with tasks.
    fn show_plan(&self, id: &str) -> io::Result<()> {
        let Some(session) = self.sessions.get(id) else { return Ok(()) };
        let Ok(root) = StateRoot::discover(&self.env, &session.folder) else { return Ok(()) };
        let ledger = root.snapshot().ok();
        match ledger.filter(|ledger| !ledger.is_empty()) {
            Some(ledger) => update(id, updates::plan(&ledger)),
            None => Ok(()),
        }
    }

    fn place(&self, session: &str, folder: &Path) -> Result<Place> {
        let root = match StateRoot::discover(&self.env, folder) {
            Ok(root) => root,
            Err(_) => StateRoot::for_init(&self.env, folder)?,
        };
        let mut options = ClientOptions::default();
        options.places = places(&self.env);
        Ok(Place {
            session: session.to_owned(),
            root: root.path().to_owned(),
            options,
            to: self.inputs.clone(),
        })
    }
}

fn greeting() -> Value {
    json!({
        "protocolVersion": wire::VERSION,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
        },
        "agentInfo": { "name": "harness", "title": "harness", "version": env!("CARGO_PKG_VERSION") },
        "authMethods": [],
    })
}

/// Returns the folder of a session, which must be an absolute path.
fn folder(params: &Value) -> Result<PathBuf, Refusal> {
    let cwd = params["cwd"].as_str().unwrap_or_default();
    let path = Path::new(cwd);
    match path.is_absolute() && path.is_dir() {
        true => Ok(path.to_owned()),
        false => {
            Err(Refusal::parameters(format!("cwd: {cwd:?} is not the absolute path of a folder")))
        }
    }
}

fn answer(id: Value, served: Served) -> io::Result<()> {
    match served {
        Ok(result) => say(&wire::reply(id, result)),
        Err(Refusal { code, message }) => say(&wire::refused(id, code, &message)),
    }
}

fn update(session: &str, update: Value) -> io::Result<()> {
    let params = json!({ "sessionId": session, "update": update });
    say(&wire::notification("session/update", params))
}

fn say(message: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}
