//! Workers, messages and questions of several machines, and how changes reach them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::store::{
    Runs as _, Store as _,
    postgres::{Database, FleetWorker, MessageKind, WorkerState},
};
use harness_core::{TaskId, Timestamp, WorkerId};
use harness_sim::{
    conformance::store::{add, at},
    postgres::{Proxy, TestDatabase, TestServer},
};
use serde_json::json;

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("changes_reach_other_hosts", changes_reach_other_hosts),
    ("an_idle_host_asks_at_most_twice_a_second", an_idle_host_asks_at_most_twice_a_second),
    ("workers_are_registered_and_asked_to_leave", workers_are_registered_and_asked_to_leave),
    (
        "messages_reach_one_machine_until_they_are_done",
        messages_reach_one_machine_until_they_are_done,
    ),
    ("questions_are_seen_everywhere", questions_are_seen_everywhere),
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
    there.send_message("here", MessageKind::Abort, &json!({})).unwrap();
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

fn messages_reach_one_machine_until_they_are_done(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let (here, there) = (host(&database, "here"), host(&database, "there"));
    there.send_message("here", MessageKind::Text, &json!({ "text": "hurry \u{0}" })).unwrap();
    there.send_message("here", MessageKind::Answer, &json!({ "to": 1 })).unwrap();
    assert_eq!(there.waiting_messages().unwrap(), []);
    let waiting = here.waiting_messages().unwrap();
    assert_eq!(waiting.len(), 2);
    assert_eq!(
        (waiting[0].kind, &waiting[0].body["text"]),
        (MessageKind::Text, &json!("hurry \u{0}"))
    );
    assert_eq!(here.waiting_messages().unwrap(), waiting, "nothing is lost with a host that dies");
    here.settle_message(waiting[0].id).unwrap();
    assert_eq!(here.waiting_messages().unwrap(), waiting[1..]);
}

fn questions_are_seen_everywhere(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let (here, there) = (host(&database, "here"), host(&database, "there"));
    here.put_question("prompt-0-aaaa", &json!({ "text": "which?" })).unwrap();
    here.put_question("prompt-0-aaaa", &json!({ "text": "which one?" })).unwrap();
    let found = there.questions().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&*found[0].host, &found[0].body["text"]), ("here", &json!("which one?")));
    there.remove_question("prompt-0-aaaa").unwrap();
    assert_eq!(here.questions().unwrap(), []);
}
