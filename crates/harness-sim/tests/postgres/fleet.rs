//! Workers, messages and questions of several machines, and how changes reach them.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use harness::store::{
    Runs as _, Store as _,
    postgres::{Database, FleetMessage, FleetWorker, NewMessage, Reported, WorkerState},
};
use harness_core::{
    TaskId, Timestamp, WorkerId,
    database::{Addressee, HostPresence},
};
use harness_sim::{
    conformance::store::{add, at},
    postgres::{Proxy, TestDatabase, TestServer},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("changes_reach_other_hosts", changes_reach_other_hosts),
    ("an_idle_host_asks_at_most_twice_a_second", an_idle_host_asks_at_most_twice_a_second),
    ("workers_are_registered_and_asked_to_leave", workers_are_registered_and_asked_to_leave),
    ("a_message_is_taken_once_by_its_host", a_message_is_taken_once_by_its_host),
    ("the_sender_gets_the_answers_of_the_hosts", the_sender_gets_the_answers_of_the_hosts),
    (
        "messages_to_an_earlier_host_are_known_as_such",
        messages_to_an_earlier_host_are_known_as_such,
    ),
    ("questions_vanish_with_their_host", questions_vanish_with_their_host),
];

const LONG: Duration = Duration::from_secs(20);

fn host(database: &TestDatabase, name: &str) -> Database {
    let mut access = database.access();
    access.host = name.to_owned();
    Database::open(access).unwrap()
}

fn changes_reach_other_hosts(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let (here, there) = (host(&database, "here"), host(&database, "there"));
    let told = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&told);
    let follower = here.follow(move |news| theirs.lock().unwrap().push(news.version)).unwrap();
    let notifies = there.follow(|_| ()).unwrap();
    let mut store = there.store();
    let mut version = follower.wait_newer(0, LONG).unwrap();
    for _ in 0..3 {
        let _ = store.apply(at(0), &[add("x")]).unwrap();
        version = follower.wait_newer(version, LONG).unwrap();
    }
    assert_eq!(version, 4);
    assert_eq!(notifies.wait_newer(3, LONG), Some(4));
    assert_eq!(told.lock().unwrap().last(), Some(&4));
    here.report_host(Path::new("/here")).unwrap();
    let ids = [here.hosts().unwrap()[0].id];
    there.send_message(&ids, &message(&json!({}))).unwrap();
    let _ = store.apply(at(0), &[add("x")]).unwrap();
    follower.wait_newer(version, LONG).unwrap();
    assert!(follower.news().messages);
    assert_eq!(follower.news().cut_off, None);
}

fn an_idle_host_asks_at_most_twice_a_second(server: &TestServer) {
    const SECONDS: u64 = 4;
    let database = server.fresh();
    database.create();
    let proxy = Proxy::before(&database.url());
    let access = database.access_by(proxy.url(&database.url()));
    let opened = Database::open(access).unwrap();
    let mut store = opened.store();
    let _ = store.apply(at(0), &[add("x")]).unwrap();
    assert_eq!(opened.runs().runs().unwrap(), []);
    opened.beat(&[worker("a.1", "here")]).unwrap();
    let follower = opened.follow(|_| ()).unwrap();
    let version = follower.wait_newer(0, LONG).unwrap();
    let before = proxy.statements();
    assert_eq!(follower.wait_newer(version, Duration::from_secs(SECONDS)), None);
    let asked = proxy.statements() - before;
    assert!((1..=2 * SECONDS).contains(&asked), "{asked} in {SECONDS} s");
    let connections = database.value(&format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'harness'",
        database.name
    ));
    assert_eq!(connections, "3", "one for the ledger, one for the rest, one that follows");
}

fn worker(id: &str, host: &str) -> FleetWorker {
    FleetWorker {
        id: WorkerId::parse(id).unwrap(),
        host: host.to_owned(),
        boot: Some("boot".to_owned()),
        pid: 7,
        version: "0.1.0".to_owned(),
        labels: vec!["gpu".to_owned(), "linux".to_owned()],
        task: Some(TaskId::numbered(1)),
        state: WorkerState::Working,
        run: None,
        started_at: Timestamp::from_seconds(100),
        seen_at: Timestamp::from_seconds(0),
        draining: false,
    }
}

fn workers_are_registered_and_asked_to_leave(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let (here, there) = (host(&database, "here"), host(&database, "there"));
    let ours = [worker("a.1", "here"), FleetWorker { labels: Vec::new(), ..worker("a.2", "here") }];
    assert_eq!(here.beat(&ours).unwrap(), []);
    assert_eq!(there.beat(&[worker("b.1", "there")]).unwrap(), []);
    let found = there.workers().unwrap();
    let ids: Vec<&str> = found.iter().map(|worker| worker.id.as_str()).collect();
    assert_eq!(ids, ["a.1", "a.2", "b.1"]);
    assert!((found[0].seen_at.seconds() - here.now().unwrap().seconds()).abs() < 60);
    let same = FleetWorker { seen_at: ours[0].seen_at, ..found[0].clone() };
    assert_eq!(same, ours[0]);
    assert_eq!(found[1].labels, Vec::<String>::new());
    assert_eq!(there.drain("here").unwrap(), 2);
    assert_eq!(there.drain("b.1").unwrap(), 1);
    assert_eq!(there.drain("nobody").unwrap(), 0);
    let leaving = here.beat(&ours).unwrap();
    assert_eq!(leaving, [ours[0].id.clone(), ours[1].id.clone()]);
    here.leave(&ours[0].id).unwrap();
    assert_eq!(here.workers().unwrap().len(), 2);
    let anew = FleetWorker { started_at: Timestamp::from_seconds(200), ..ours[1].clone() };
    assert_eq!(here.beat(&[anew]).unwrap(), [], "a worker that starts again stays");
    let status = here.status().unwrap();
    assert_eq!(status.hosts, ["here", "there"]);
}

fn message(body: &Value) -> NewMessage<'static> {
    NewMessage { request: Uuid::now_v7(), kind: "send", body: body.clone() }
}

/// Registers a host, and returns its id.
fn registered(database: &Database, root: &str) -> Uuid {
    let before = database.hosts().unwrap();
    assert_eq!(database.report_host(Path::new(root)).unwrap(), Reported::Anew);
    let mut after = database.hosts().unwrap();
    after.retain(|host| !before.contains(host));
    assert_eq!(after[0].presence(), HostPresence::Present);
    after[0].id
}

fn taken(database: &Database, root: &str) -> Vec<FleetMessage> {
    database.take_messages(Path::new(root)).unwrap()
}

fn a_message_is_taken_once_by_its_host(server: &TestServer) {
    let database = server.fresh();
    database.create();
    // Two clones on one machine are two hosts.
    let (one, two) = (host(&database, "here"), host(&database, "here"));
    let ids = [registered(&one, "/one"), registered(&two, "/two")];
    assert_eq!(one.report_host(Path::new("/one")).unwrap(), Reported::Known);
    let there = host(&database, "there");
    let text = message(&json!({ "text": "hurry \u{0}" }));
    there.send_message(&ids[..1], &text).unwrap();
    there.send_message(&ids[..1], &text).unwrap();
    there.send_message(&ids[..1], &message(&json!({ "text": "more" }))).unwrap();
    assert_eq!(taken(&two, "/two"), []);
    let got = taken(&one, "/one");
    assert_eq!(got.len(), 2, "a repeated message is sent once: {got:?}");
    assert_eq!((got[0].to, &*got[0].sender, &*got[0].kind), (Addressee::Reader, "there", "send"));
    assert_eq!(got[0].body["text"], "hurry \u{0}");
    assert!(got[0].seconds < 60 && got[0].id < got[1].id, "{got:?}");
    assert_eq!(taken(&one, "/one"), [], "each is taken once");
}

fn the_sender_gets_the_answers_of_the_hosts(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let (one, two, sender) = (host(&database, "1"), host(&database, "2"), host(&database, "3"));
    let ids = [registered(&one, "/r"), registered(&two, "/r")];
    let asked = message(&json!({}));
    sender.send_message(&ids, &asked).unwrap();
    let waiting = thread::spawn(move || sender.wait_for_answers(asked.request, 2, LONG).unwrap());
    for (n, host) in [&one, &two].into_iter().enumerate() {
        // The follower notifies the sender.
        let _follower = host.follow(|_| ()).unwrap();
        let message = taken(host, "/r").remove(0);
        host.answer_message(message.id, &json!({ "n": n })).unwrap();
        host.answer_message(message.id, &json!("a second answer")).unwrap();
    }
    let answers = waiting.join().unwrap();
    let said: Vec<_> = answers.iter().map(|one| (one.host, one.answer["n"].as_u64())).collect();
    assert_eq!(said, [(ids[0], Some(0)), (ids[1], Some(1))]);
    let none = one.wait_for_answers(Uuid::now_v7(), 1, Duration::ZERO).unwrap();
    assert_eq!(none, []);
}

fn messages_to_an_earlier_host_are_known_as_such(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let earlier = host(&database, "here");
    let (other_root, other_machine) = (host(&database, "here"), host(&database, "there"));
    let ids = [
        registered(&earlier, "/r"),
        registered(&other_root, "/other"),
        registered(&other_machine, "/r"),
    ];
    earlier.put_question("prompt-0-a", &json!({})).unwrap();
    other_machine.put_question("prompt-0-b", &json!({})).unwrap();
    other_machine.send_message(&ids, &message(&json!({}))).unwrap();
    let next = host(&database, "here");
    let own = registered(&next, "/r");
    let got = taken(&next, "/r");
    assert_eq!(got.iter().map(|one| one.to).collect::<Vec<_>>(), [Addressee::Predecessor]);
    next.remove_earlier_hosts(Path::new("/r")).unwrap();
    let left: Vec<Uuid> = next.hosts().unwrap().iter().map(|host| host.id).collect();
    assert_eq!(left, [ids[1], own, ids[2]]);
    let open: Vec<String> = next.questions().unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(open, ["prompt-0-b"], "its questions are gone too");
    assert_eq!(earlier.report_host(Path::new("/r")).unwrap(), Reported::Anew);
}

fn questions_vanish_with_their_host(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let (here, there) = (host(&database, "here"), host(&database, "there"));
    let id = registered(&here, "/r");
    assert!(there.put_question("prompt-0-x", &json!({})).is_err(), "it is not registered");
    here.put_question("prompt-0-aaaa", &json!({ "text": "which?" })).unwrap();
    here.put_question("prompt-0-aaaa", &json!({ "text": "which one?" })).unwrap();
    here.put_question("prompt-1-aaaa", &json!({})).unwrap();
    let found = there.questions().unwrap();
    assert_eq!((found.len(), found[0].host), (2, id));
    assert_eq!(found[0].body["text"], "which one?");
    here.remove_question("prompt-0-aaaa").unwrap();
    assert_eq!(there.questions().unwrap().len(), 1);
    here.remove_host().unwrap();
    assert_eq!(there.questions().unwrap(), []);
    assert_eq!(there.hosts().unwrap(), []);
}
