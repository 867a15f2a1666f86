//! The file that a run leaves.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    sync::{Arc, Mutex},
};

use harness::{Cleanup, Envelope, Event, Hub, Scope, process::Redactor, recorder};
use serde_json::Value;

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn attach(hub: &Hub, path: &Path) -> Cleanup {
    let secret = ("API_TOKEN".into(), "s3cr3t \"quoted\"".into());
    recorder(path, Redactor::from_environment([secret]))(hub)
}

async fn end(cleanup: Cleanup) {
    cleanup().await;
}

fn task(id: &str) -> Event {
    Event::TaskStart { task_id: id.to_owned(), epoch: None }
}

#[tokio::test]
async fn what_was_told_is_kept_as_subscribers_get_it_but_for_text_and_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs/one.jsonl");
    let hub = Hub::new("session");
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = told.clone();
    let _subscription = hub.subscribe("*", move |e: &Envelope| {
        seen.lock().unwrap().push(serde_json::to_value(e).unwrap());
    });
    let cleanup = attach(&hub, &path);
    hub.emit_with(task("one"), Scope::phase("Build"));
    hub.emit(Event::AgentText { content: "not this".into(), run_id: None });
    hub.emit(Event::AgentThinking { content: "nor this".into(), run_id: None });
    hub.emit(Event::TaskFailed {
        task_id: "one".into(),
        error: "it said s3cr3t \"quoted\"".into(),
        stack: None,
    });
    end(cleanup).await;
    let kept = lines(&path);
    let told = told.lock().unwrap();
    assert_eq!(kept.len(), 2);
    assert_eq!(kept[0], told[0]);
    assert_eq!(kept[1]["event"]["error"], "it said [redacted:API_TOKEN]");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn nothing_told_makes_no_file_and_a_second_run_appends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    let hub = Hub::new("session");
    end(attach(&hub, &path)).await;
    assert!(!path.exists());
    for id in ["one", "two"] {
        let cleanup = attach(&hub, &path);
        hub.emit(task(id));
        end(cleanup).await;
        hub.emit(task("after the end"));
    }
    assert_eq!(lines(&path).len(), 2);
    // A partial line of a killed process stays on its own line.
    fs::write(&path, "{\"id\":\"01").unwrap();
    let cleanup = attach(&hub, &path);
    hub.emit(task("three"));
    end(cleanup).await;
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(text.lines().nth(1).unwrap().contains("\"three\""));
}

#[tokio::test]
async fn a_disk_that_fails_is_told_once_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("one.jsonl"), folder.path().join("target"));
    symlink(&target, &path).unwrap();
    let hub = Hub::new("session");
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let seen = warnings.clone();
    let _subscription = hub.subscribe("narrative", move |e: &Envelope| {
        seen.lock().unwrap().push(serde_json::to_value(&e.event).unwrap());
    });
    let cleanup = attach(&hub, &path);
    for _ in 0..3 {
        hub.emit(task("one"));
    }
    end(cleanup).await;
    hub.emit(task("two"));
    let warnings = warnings.lock().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0]["importance"], "warning");
    assert!(warnings[0]["text"].as_str().unwrap().contains("one.jsonl"));
    assert!(!target.exists());
}
