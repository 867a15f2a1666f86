//! Two clones at work on one ledger.

use harness_sim::postgres::TestServer;

use crate::{
    Test,
    stage::{Beside, Fleet, add, start, states},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("two_clones_share_one_ledger", two_clones_share_one_ledger),
    ("every_view_reads_the_database", every_view_reads_the_database),
    ("views_follow_other_machines", views_follow_other_machines),
    ("the_machine_of_a_transcript_is_named", the_machine_of_a_transcript_is_named),
    ("a_host_serves_a_ledger_in_a_database", a_host_serves_a_ledger_in_a_database),
    (
        "a_worker_of_another_machine_leaves_when_asked",
        a_worker_of_another_machine_leaves_when_asked,
    ),
    (
        "a_worker_wakes_when_another_machine_adds_a_task",
        a_worker_wakes_when_another_machine_adds_a_task,
    ),
];

fn two_clones_share_one_ledger(server: &TestServer) {
    let fleet = Fleet::new(server);
    let a = fleet.first("a");
    let b = fleet.another("b");
    let ids: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
    for id in &ids {
        add(&a, id, &format!("echo > {id}"), &format!("test -f {id}"));
    }
    let run = ["run", "--agent", "shell", "--workers", "2"];
    let running = [(&a, start(&a, &run)), (&b, start(&b, &run))];
    for (env, child) in running {
        env.ran(child.wait_with_output().unwrap()).success();
    }
    let mut landed = fleet.landed();
    landed.sort();
    assert_eq!(landed, ids, "every task landed once");
    let expected: Vec<_> = ids.iter().map(|id| (id.clone(), "completed".to_owned())).collect();
    assert_eq!(states(&a), expected);
    assert_eq!(states(&b), expected);
    for sql in ["SELECT count(*) FROM harness.receipt", "SELECT count(*) FROM harness.task"] {
        assert_eq!(fleet.database.value(sql), "8", "{sql}");
    }
    // The budget of a run is in the same place.
    assert_eq!(a.run(["runs", "list"]).success().raw(), b.run(["runs", "list"]).success().raw());
    // Nothing of the ledger is in files.
    assert!(!a.exists("harness-tasks.json") && !b.exists("harness-progress.txt"));
}

fn views_follow_other_machines(server: &TestServer) {
    let fleet = Fleet::new(server);
    let a = fleet.first("a");
    let b = fleet.another("b");
    let mut views = [Beside::start(&b, &["log", "-f"]), Beside::start(&b, &["status", "--watch"])];
    views[0].until("INIT");
    views[1].until("0 tasks");
    add(&a, "one", "echo > one", "test -f one");
    views[1].until("1 pending");
    a.run(["pause"]).success();
    views[0].until("claiming is paused");
    views[1].until("paused");
}

fn every_view_reads_the_database(server: &TestServer) {
    let fleet = Fleet::new(server);
    let a = fleet.first("a");
    let b = fleet.another("b");
    add(&a, "one", "echo > one", "test -f one");
    a.run(["run", "--agent", "shell"]).success();
    b.run(["status"]).success().stdout_contains("1 completed");
    b.run(["why", "one"]).success().stdout_contains("`test -f one` passed");
    b.run(["report"]).success().stdout_contains("Landed (1)");
    b.run(["log"]).success().stdout_contains("Completed [one]");
    b.run(["log", "-n", "1"]).success().stdout_contains("LOCK released");
    b.run(["runs", "show"]).success().stdout_contains("shell");
    b.git(["fetch", "--quiet"]);
    b.run(["verify", "one"]).code(0).stdout_contains("1 of 1 hold");
    b.run(["task", "show", "one"]).success().stdout_contains("completed");
    b.run(["export", "--to", "checklist"]).success().stdout_contains("one");
    let status = b.run(["store", "status", "--json"]).success().json();
    assert_eq!((status["ledger"].as_str(), status["tasks"].as_u64()), (Some("shop"), Some(1)));
    let seen = a.run(["store", "status", "--json"]).success().json();
    assert_eq!(seen["behind"], 0, "{seen}");
}

fn the_machine_of_a_transcript_is_named(server: &TestServer) {
    let fleet = Fleet::new(server);
    let a = fleet.first("a");
    let b = fleet.another("b");
    add(&a, "one", "echo > one", "test -f one");
    a.run(["run", "--agent", "shell"]).success();
    let here = fleet.database.value("SELECT DISTINCT host FROM harness.iteration");
    a.run(["runs", "show"]).success().stdout_contains(&format!("on {here}"));
    // To the other clone, the first one is on another machine.
    fleet
        .database
        .sql("UPDATE harness.run SET host = 'far'; UPDATE harness.iteration SET host = 'far'");
    let shown = b.run(["runs", "show", "--json"]).success().json();
    assert_eq!(
        (&shown["run"]["host"], &shown["attempts"][0]["host"]),
        (&"far".into(), &"far".into())
    );
    let attempt = shown["attempts"][0]["run_id"].as_str().unwrap();
    let shown = b.run(["runs", "show", attempt, "--json"]).success().json();
    assert_eq!(shown["iterations"][0]["host"], "far");
    b.run(["runs", "show", attempt]).success().stdout_contains(".log (on far)");
    for args in [&["log", "--agent", "one"][..], &["log", "--agent", attempt], &["log", "--agent"]]
    {
        b.run(args).code(1).stderr_contains(" are on far");
    }
    a.run(["log", "--agent", "one"]).success();
}

fn a_host_serves_a_ledger_in_a_database(server: &TestServer) {
    let fleet = Fleet::new(server);
    let a = fleet.first("a").with_daemon();
    let b = fleet.another("b");
    a.run(["daemon", "start"]).success();
    add(&b, "one", "echo > one", "test -f one");
    add(&a, "two", "echo > two", "test -f two");
    let claimed = a.run(["task", "claim"]).success().json();
    assert_eq!(claimed["task"]["id"], "one", "{claimed}");
    let expected = [("one", "in_progress"), ("two", "pending")];
    let expected = expected.map(|(id, status)| (id.to_owned(), status.to_owned()));
    assert_eq!(states(&b), expected);
    b.run(["task", "claim"]).success().stdout_contains("\"two\"");
    a.run(["shutdown"]).success();
}

/// The poll of a host finds the change, because nothing else connects the two machines.
fn a_worker_wakes_when_another_machine_adds_a_task(server: &TestServer) {
    let fleet = Fleet::new(server);
    let a = fleet.first("a");
    let b = fleet.another("b").with_daemon();
    b.run(["daemon", "start"]).success();
    let waiting = start(&b, &["task", "claim", "--wait", "60"]);
    add(&a, "one", "echo > one", "test -f one");
    let claimed = b.ran(waiting.wait_with_output().unwrap()).success().json();
    assert_eq!(claimed["task"]["id"], "one", "{claimed}");
    b.run(["shutdown"]).success();
}

fn a_worker_of_another_machine_leaves_when_asked(server: &TestServer) {
    let fleet = Fleet::new(server);
    let a = fleet.first("a");
    let b = fleet.another("b");
    let working = start(&b, &["work", "--agent", "shell", "--wait"]);
    let is_listed = || {
        let workers = a.run(["workers", "--json"]).success().json();
        workers["workers"].as_array().unwrap().iter().any(|worker| worker["id"] == "b")
    };
    while !is_listed() {}
    a.run(["store", "pull"]).code(1).stderr_contains("worker b on ");
    let workers = a.run(["workers", "--json"]).success().json();
    let worker = &workers["workers"][0];
    assert!(worker["seen_at"].is_string() && worker["draining"] == false, "{workers}");
    let host = worker["host"].as_str().unwrap();
    a.run(["workers"]).success().stdout_contains(&format!("(on {host})"));
    a.run(["workers", "drain", "nobody"]).code(1).stderr_contains("is called \"nobody\"");
    a.run(["workers", "drain", "b"]).success().stdout_contains("1 worker leaves");
    b.ran(working.wait_with_output().unwrap()).success();
    assert!(!is_listed(), "it has left the list");
}
