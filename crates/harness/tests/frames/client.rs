//! The client of the library, with a daemon on a real socket, with hosts that fail, and without a host.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixListener,
    path::Path,
    thread,
};

use harness::{
    Client, ClientError, ClientOptions,
    client::{EventLine, Hosts},
    protocol::{Inquiry, PlanText, QuestionReply, Request, TaskCheckpoint, TaskClaim, TaskFail},
    store::{FileStore, Locking},
};
use harness_core::{
    Category, Holder, Timestamp, WorkerId,
    command::{Code, ImportMode},
    task::Status,
};

use crate::served::{Kind, Served, WAIT, places, with_own_environment};

const PLAN: &str = r#"```json
{"goal":"ship","tasks":{
  "a":{"description":"first","validation":{"command":"true"}},
  "b":{"description":"second","dependencies":["a"],"role":"backend","validation":{"command":"echo red; false"}}}}
```"#;

fn worker(name: &str) -> WorkerId {
    WorkerId::parse(name).unwrap()
}

fn options(root: &Path) -> ClientOptions {
    let mut options = ClientOptions::default();
    options.places = places(root);
    options
}

fn client(root: &Path) -> Client {
    Client::with(root, options(root)).unwrap()
}

/// A root with an empty ledger, without a host.
fn root() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FileStore::open(folder.path(), Locking::Each(WAIT)).unwrap();
    store.create(Timestamp::from_seconds(1_750_000_000)).unwrap();
    folder
}

fn code<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Code {
    match answer {
        Err(ClientError::Refused(refused)) => refused.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_claims_and_completes_through_a_daemon() {
    with_own_environment("client::a_client_claims_and_completes_through_a_daemon", || {
        let served = Served::start(Kind::Daemon);
        let mut client = client(served.root());
        assert!(client.ping().unwrap().running);
        assert_eq!(client.get_state().unwrap(), None);
        let plan = PlanText { content: PLAN.to_owned(), mode: ImportMode::IfFinished };
        assert_eq!(client.import_plan(plan).unwrap().task_count, 2);

        let claimed = client.claim(TaskClaim::any(worker("alice"))).unwrap().unwrap();
        let task = claimed.task;
        assert_eq!((task.id.as_str(), task.status), ("a", Status::InProgress));
        let holder = Holder { task: task.id.clone(), worker: worker("alice"), epoch: task.epoch() };
        let description = "half".to_owned();
        let step = TaskCheckpoint { holder: holder.clone(), step: 1, total: 2, description };
        assert_eq!(client.checkpoint(step).unwrap().task_id, task.id);
        assert_eq!(client.renew(holder.clone()).unwrap().task_id, task.id);
        let other = Holder { worker: worker("bob"), ..holder.clone() };
        assert_eq!(code(client.complete(other)), Code::NotClaimedBy);
        assert!(!client.complete(holder.clone()).unwrap().requested);
        // A repeated request after a crash gets the same answer.
        assert_eq!(client.complete(holder).unwrap().task_id, task.id);

        let task = client.claim(TaskClaim::any(worker("alice"))).unwrap().unwrap().task;
        let holder = Holder { task: task.id, worker: worker("alice"), epoch: None };
        assert_eq!(code(client.complete(holder.clone())), Code::CheckFailed);
        let message = "the check is red".to_owned();
        let fail = TaskFail { holder, category: Category::TestFail, message };
        assert!(client.fail(fail).unwrap().retryable);
        assert_eq!(client.claim(TaskClaim::any(worker("bob")).role("x")).unwrap(), None);

        let summary = client.status(10).unwrap().summary;
        assert_eq!((summary.total, summary.completed, summary.failed), (2, 1, 1));
        client.shutdown().unwrap();
    });
}

#[test]
fn questions_and_events_reach_a_client() {
    with_own_environment("client::questions_and_events_reach_a_client", || {
        let served = Served::start(Kind::Run);
        let root = served.root().to_owned();
        let mut client = client(&root);
        let mut events = client.subscribe(&["session:*"], Some(uuid::Uuid::nil())).unwrap();
        assert!(matches!(events.next(), Some(Ok(EventLine::Lagged { .. }))));
        let asking = thread::spawn(move || {
            let question = "Which?".to_owned();
            let choices = vec!["red".to_owned(), "blue".to_owned()];
            let inquiry = Inquiry {
                question,
                choices,
                allow_text: false,
                timeout_seconds: None,
                task_id: None,
            };
            self::client(&root).inquire(inquiry).unwrap()
        });
        match events.find(
            |event| matches!(event, Ok(EventLine::Event { kind, .. }) if kind == "session:prompt"),
        ) {
            Some(Ok(EventLine::Event { id, .. })) => assert!(id.is_some()),
            other => panic!("{other:?}"),
        }
        let open = client.questions().unwrap();
        let (prompt_id, content) = (open[0].prompt_id.clone(), "blue".to_owned());
        let choice = Some(content.clone());
        client.reply(QuestionReply { prompt_id, content, choice }).unwrap();
        assert_eq!(asking.join().unwrap().content, "blue");
        assert_eq!(code(client.claim(TaskClaim::any(worker("alice")))), Code::Busy);
    });
}

#[test]
fn a_client_without_a_host_works_on_the_files() {
    let folder = root();
    let mut client = client(folder.path());
    let id = client.add_task("first").unwrap();
    let claimed = client.claim(TaskClaim::any(worker("alice"))).unwrap().unwrap();
    assert_eq!(claimed.task.id, id);
    let holder = Holder { task: id.clone(), worker: worker("alice"), epoch: None };
    // The task has no check, so it is completed without proof.
    assert_eq!(client.complete(holder).unwrap().task_id, id);
    let status = client.status(3).unwrap();
    assert_eq!((status.summary.completed, status.events.len()), (1, 3));
    assert_eq!(client.get_state().unwrap().unwrap().tasks[0].status, Status::Completed);
    assert!(matches!(client.ping(), Err(ClientError::Nobody { .. })));
    assert!(matches!(client.questions(), Err(ClientError::Nobody { .. })));
}

#[test]
fn a_program_that_trusts_nothing_runs_no_check() {
    let folder = root();
    let mut client = client(folder.path());
    let plan = PlanText { content: PLAN.to_owned(), mode: ImportMode::IfFinished };
    client.import_plan(plan).unwrap();
    let task = client.claim(TaskClaim::any(worker("alice"))).unwrap().unwrap().task.id;
    let holder = Holder { task, worker: worker("alice"), epoch: None };
    assert_eq!(code(client.complete(holder)), Code::Config);
}

/// Starts a host that answers each connection with the next of `answers`, or not at all for `None`.
fn fake_host(root: &Path, answers: Vec<Option<&'static str>>) -> thread::JoinHandle<usize> {
    let listener = UnixListener::bind(root.join("s")).unwrap();
    thread::spawn(move || {
        let mut heard = 0;
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            heard += usize::from(stream.read_line(&mut line).unwrap() > 0);
            if let Some(answer) = answer {
                writeln!(stream.get_mut(), "{answer}").unwrap();
            }
        }
        heard
    })
}

#[test]
fn only_what_can_be_repeated_is_asked_again() {
    for (answer, added) in [
        // The request may have been performed.
        (None, false),
        // The host serves another root, so the request was not performed. An old host without codes
        // answers in words.
        (Some(r#"{"status":"error","message":"x","code":"another_root"}"#), true),
        (Some(r#"{"status":"error","message":"This socket serves another root: /x"}"#), true),
    ] {
        let folder = root();
        let host = fake_host(&folder.path().canonicalize().unwrap(), vec![answer, answer]);
        let mut client = client(folder.path());
        match client.add_task("first") {
            Ok(_) => assert!(added),
            Err(ClientError::Gone) => assert!(!added),
            Err(other) => panic!("{other}"),
        }
        // The files, which were asked next, refuse a renewal.
        let holder = Holder {
            task: harness_core::TaskId::numbered(9),
            worker: worker("alice"),
            epoch: None,
        };
        assert_eq!(code(client.renew(holder)), Code::NotFound);
        assert_eq!(host.join().unwrap(), 2);
        assert_eq!(
            harness::Project::open(folder.path()).unwrap().snapshot().unwrap().len(),
            usize::from(added)
        );
    }
}

#[test]
fn a_client_that_ignores_hosts_connects_to_none() {
    let folder = root();
    let root = folder.path().canonicalize().unwrap();
    let listener = UnixListener::bind(root.join("s")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut options = options(&root);
    options.hosts = Hosts::Ignored;
    let mut client = Client::with(&root, options).unwrap();
    client.add_task("first").unwrap();
    assert!(client.ask_host(&Request::Ping).unwrap().is_none());
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}
