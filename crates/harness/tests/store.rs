//! The file store on a real disk, and the effects of people, crashes and strangers on its files.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use harness::{
    Project,
    home::root_hash,
    store::{Created, FileStore, Locking, Store, StoreError, lock::Wait},
};
use harness_core::{
    Command, Ledger, Reply, TaskId, Timestamp, WorkerId,
    command::{Add, Claim, ClaimChoice, Edit, Place, Remove},
    fact::Source,
    task::Via,
};
use serde_json::Value;

const LEDGER: &str = "harness-tasks.json";
const BACKUP: &str = "harness-tasks.json.bak";
const TMP: &str = "harness-tasks.json.tmp";
const LOG: &str = "harness-progress.txt";
const TRAJECTORY: &str = ".harness/trajectory.jsonl";

fn snapshot(root: &Path) -> Result<Ledger, StoreError> {
    Project::open(root)?.snapshot()
}

/// A state root with an empty ledger, whose traces in `/tmp` are removed with it.
struct Root {
    folder: tempfile::TempDir,
}

impl Root {
    fn bare() -> Root {
        Root { folder: tempfile::tempdir().unwrap() }
    }

    fn new() -> Root {
        let root = Root::bare();
        assert_eq!(root.store().create(at(0)).unwrap(), Created::New);
        root
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn store(&self) -> FileStore {
        let locking = Locking::Each(Wait::For(Duration::from_secs(20)));
        FileStore::open(&self.path(""), locking).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.read(LEDGER)).unwrap()
    }

    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut json = self.json();
        change(&mut json);
        self.write(LEDGER, &json.to_string());
    }

    fn log(&self) -> Vec<String> {
        self.read(LOG).lines().map(str::to_owned).collect()
    }

    fn archived(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(".harness/archive")) else { return Vec::new() };
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let Ok(path) = self.folder.path().canonicalize() else { return };
        let ours = format!("harness-{}", root_hash(&path));
        for entry in fs::read_dir("/tmp").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().contains(&ours) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_seconds(1_751_364_000 + second)
}

fn add(title: &str) -> Command {
    let fields = Edit::nothing(TaskId::numbered(0));
    Command::Add(Add { id: None, title: title.to_owned(), fields })
}

fn claim(worker: &str) -> Command {
    Command::Claim(Claim {
        worker: WorkerId::recorded(worker),
        via: Via::Client,
        role: None,
        labels: Vec::new(),
        choice: ClaimChoice::Next,
        lease_seconds: 60,
        place: Place::default(),
        parallel: None,
    })
}

fn apply(store: &mut FileStore, second: i64, commands: &[Command]) -> Vec<Reply> {
    let applied = store.apply(at(second), commands).unwrap();
    applied.replies.into_iter().map(Result::unwrap).collect()
}

fn titles(store: &mut FileStore) -> Vec<String> {
    store.ledger().unwrap().tasks().map(|t| t.title.clone()).collect()
}

#[test]
fn a_ledger_is_made_once() {
    let root = Root::bare();
    assert!(matches!(root.store().apply(at(0), &[add("x")]), Err(StoreError::NoLedger { .. })));
    assert_eq!(root.store().create(at(0)).unwrap(), Created::New);
    apply(&mut root.store(), 1, &[add("one")]);
    let before = (root.read(LEDGER), root.log());
    assert_eq!(root.store().create(at(2)).unwrap(), Created::Existed);
    assert_eq!((root.read(LEDGER), root.log()), before);
    assert!(root.path(".harness-active").is_file());
    assert!(root.log()[0].contains("INIT Harness initialized for project"));
    assert_eq!(root.read(".harness/.gitignore"), "*\n");
}

#[test]
fn edits_by_hand_are_noticed_and_unknown_fields_survive() {
    let root = Root::new();
    let mut store = root.store();
    apply(&mut store, 1, &[add("one")]);
    root.edit(|json| {
        json["owner"] = "me".into();
        json["session_config"]["colour"] = "green".into();
        json["tasks"][0]["title"] = "mine".into();
        json["tasks"][0]["ticket"] = serde_json::json!({ "id": [1, null] });
        json["tasks"][0]["validation"]["shell"] = "zsh".into();
    });
    assert_eq!(titles(&mut store), ["mine"]);
    apply(&mut store, 2, &[claim("w"), add("two")]);
    assert_eq!(titles(&mut store), ["mine", "two"]);
    let json = root.json();
    assert_eq!(json["owner"], "me");
    assert_eq!(json["session_config"]["colour"], "green");
    assert_eq!(json["tasks"][0]["ticket"]["id"][0], 1);
    assert_eq!(json["tasks"][0]["validation"]["shell"], "zsh");
    assert_eq!(json["tasks"][0]["status"], "in_progress");
    assert_eq!(json.as_object().unwrap().keys().next().unwrap(), "version");
    assert!(root.read(LEDGER).starts_with("{\n  \"version\": 2,"));
}

#[test]
fn a_ledger_that_is_no_json_is_restored_from_its_backup() {
    let root = Root::new();
    apply(&mut root.store(), 1, &[add("one")]);
    apply(&mut root.store(), 2, &[add("two")]);
    for garbage in ["", "{\"version\": 2, \"tasks\": [", "<<<<<<< HEAD\n"] {
        let backup = root.read(BACKUP);
        root.write(LEDGER, garbage);
        assert!(snapshot(&root.path("")).is_err(), "who only looks never restores");
        assert_eq!(root.read(LEDGER), garbage);
        let applied = root.store().apply(at(3), &[add("three")]).unwrap();
        assert!(applied.warnings[0].contains("restored from its backup"), "{applied:?}");
        let kept = root.archived().into_iter().find(|name| {
            name.contains("corrupt")
                && fs::read(root.path(".harness/archive").join(name)).unwrap() == garbage.as_bytes()
        });
        assert!(kept.is_some(), "{:?}", root.archived());
        let recovery = root.log().into_iter().filter(|l| l.contains(kept.as_ref().unwrap()));
        let recovery: Vec<String> = recovery.collect();
        assert_eq!(recovery.len(), 1);
        assert!(recovery[0].contains("RECOVERY action=\"restore harness-tasks.json.bak\""));
        let titles = titles(&mut root.store());
        assert_eq!(titles.last().unwrap(), "three");
        assert_eq!(titles.first().unwrap(), "one");
        let before: Value = serde_json::from_str(&backup).unwrap();
        assert_eq!(titles.len(), before["tasks"].as_array().unwrap().len() + 1);
    }
}

#[test]
fn a_claim_lost_with_the_newest_version_keeps_its_epoch_for_itself() {
    let root = Root::new();
    apply(&mut root.store(), 1, &[add("one")]);
    let epoch = |replies: &[Reply]| match &replies[0] {
        Reply::Claimed(claimed) => claimed.epoch,
        other => panic!("{other:?}"),
    };
    let mut last = epoch(&apply(&mut root.store(), 2, &[claim("w1")]));
    for n in 2..5 {
        root.write(LEDGER, "garbage");
        let now = epoch(&apply(&mut root.store(), n, &[claim(&format!("w{n}"))]));
        assert!(now > last, "{now} after {last}");
        last = now;
    }
}

#[test]
fn no_backup_to_help_changes_nothing_but_the_log() {
    let root = Root::new();
    apply(&mut root.store(), 1, &[add("one")]);
    for backup in [Some("also garbage"), None] {
        root.write(LEDGER, "garbage");
        match backup {
            Some(text) => root.write(BACKUP, text),
            None => fs::remove_file(root.path(BACKUP)).unwrap(),
        }
        let error = root.store().apply(at(2), &[add("two")]).unwrap_err();
        assert!(matches!(error, StoreError::Unrecoverable { .. }), "{error}");
        assert!(error.to_string().starts_with("harness-tasks.json corrupted and unrecoverable"));
        assert_eq!(root.read(LEDGER), "garbage");
        let line = root.log().pop().unwrap();
        let expected = "ERROR [ENV_SETUP] harness-tasks.json corrupted and unrecoverable";
        assert!(line.ends_with(expected), "{line}");
        assert!(root.archived().is_empty());
    }
}

#[test]
fn a_ledger_that_needs_an_unknown_feature_is_read_and_never_written() {
    let root = Root::new();
    let mut store = root.store();
    apply(&mut store, 1, &[add("one")]);
    root.edit(|json| json["needs"] = serde_json::json!(["teleport", "levitate"]));
    let (text, log) = (root.read(LEDGER), root.read(LOG));
    for mut store in [store, root.store()] {
        let error = store.apply(at(2), &[add("two")]).unwrap_err();
        assert!(matches!(error, StoreError::Needs { .. }), "{error}");
        assert!(error.to_string().contains("teleport, levitate"), "{error}");
        assert!(error.to_string().ends_with("upgrade harness"), "{error}");
        assert_eq!((root.read(LEDGER), root.read(LOG)), (text.clone(), log.clone()));
        assert_eq!(titles(&mut store), ["one"]);
    }
    assert!(snapshot(root.folder.path()).is_ok());
    root.edit(|json| json["needs"] = serde_json::json!([]));
    apply(&mut root.store(), 3, &[add("two")]);
}

#[test]
fn a_wrong_shape_or_a_newer_version_is_left_to_a_person() {
    let root = Root::new();
    apply(&mut root.store(), 1, &[add("one")]);
    let good = root.read(LEDGER);
    for (text, says) in [
        (good.replace("\"version\": 2", "\"version\": 3"), "newer harness"),
        ("[]".to_owned(), "not an object"),
        ("{\"tasks\": 1}".to_owned(), "must be a list"),
        ("{\"tasks\": [{\"id\": \"a\"}, {\"id\": \"a\"}]}".to_owned(), "duplicate"),
        ("{\"tasks\": [{\"id\": \"../x\"}]}".to_owned(), "id"),
        ("{\"tasks\": [{\"id\": \"a\", \"status\": \"odd\"}]}".to_owned(), "status"),
    ] {
        root.write(LEDGER, &text);
        let error = root.store().apply(at(2), &[add("two")]).unwrap_err();
        assert!(matches!(error, StoreError::Format(_)), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(root.read(LEDGER), text);
    }
}

#[test]
fn a_link_in_place_of_a_file_of_ours_is_refused() {
    for name in [LEDGER, LOG] {
        let root = Root::new();
        apply(&mut root.store(), 1, &[add("one"), claim("w")]);
        let elsewhere = root.path("elsewhere");
        fs::rename(root.path(name), &elsewhere).unwrap();
        symlink(&elsewhere, root.path(name)).unwrap();
        let before = fs::read(&elsewhere).unwrap();
        let error = root.store().apply(at(2), &[add("two")]).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("symbolic link"), "{error}");
        assert_eq!(fs::read(&elsewhere).unwrap(), before, "{name}: what is behind it is written");
    }
    let root = Root::bare();
    fs::create_dir(root.path("elsewhere")).unwrap();
    symlink(root.path("elsewhere"), root.path(".harness")).unwrap();
    assert!(root.store().create(at(0)).is_err());
    assert_eq!(fs::read_dir(root.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_link_at_the_trajectory_costs_the_trajectory_only() {
    let root = Root::new();
    fs::write(root.path("elsewhere"), "theirs").unwrap();
    symlink(root.path("elsewhere"), root.path(TRAJECTORY)).unwrap();
    let applied = root.store().apply(at(1), &[add("one")]).unwrap();
    assert!(applied.warnings[0].contains("trajectory"), "{:?}", applied.warnings);
    assert_eq!(root.read("elsewhere"), "theirs");
    assert_eq!(titles(&mut root.store()), ["one"]);
}

#[test]
fn a_link_at_tmp_or_bak_is_replaced_and_not_followed() {
    let root = Root::new();
    apply(&mut root.store(), 1, &[add("one")]);
    fs::write(root.path("theirs"), "theirs").unwrap();
    fs::remove_file(root.path(BACKUP)).unwrap();
    for name in [TMP, BACKUP] {
        symlink(root.path("theirs"), root.path(name)).unwrap();
    }
    apply(&mut root.store(), 2, &[add("two")]);
    assert_eq!(root.read("theirs"), "theirs");
    assert!(!root.path(TMP).exists());
    assert!(fs::symlink_metadata(root.path(BACKUP)).unwrap().is_file());
    assert_eq!(titles(&mut root.store()), ["one", "two"]);
}

/// The files are in the state after a crash between the ledger and its log lines.
#[test]
fn the_next_change_finishes_the_log() {
    let lines = [
        "[2025-07-01T10:00:00Z] [SESSION-0] WARN a.",
        "[2025-07-01T10:00:00Z] [SESSION-0] WARN b.",
    ];
    let whole = format!("{}\n{}\n", lines[0], lines[1]);
    for written in [0, 1, 10, lines[0].len(), lines[0].len() + 1, whole.len() - 1, whole.len()] {
        let root = Root::new();
        apply(&mut root.store(), 1, &[add("one")]);
        let start = root.read(LOG);
        root.edit(|json| {
            json["log_tail"] = lines.to_vec().into();
            json["log_at"] = start.len().into();
        });
        root.write(LOG, &format!("{start}{}", &whole[..written]));
        apply(&mut root.store(), 2, &[add("two")]);
        assert_eq!(root.read(LOG), format!("{start}{whole}"), "{written} bytes were written");
        assert_eq!(root.json().get("log_tail"), None);
    }
}

#[test]
fn a_line_left_open_does_not_swallow_ours() {
    let root = Root::new();
    apply(&mut root.store(), 1, &[add("one")]);
    root.write(LOG, &(root.read(LOG) + "no newline"));
    root.write(TRAJECTORY, &(root.read(TRAJECTORY) + "{\"half\": "));
    apply(&mut root.store(), 2, &[claim("w")]);
    assert_eq!(root.log()[1], "no newline");
    assert!(root.log()[2].contains("Starting [task-001] one"), "{:?}", root.log());
    let last = root.read(TRAJECTORY).lines().last().unwrap().to_owned();
    let entry: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(entry["event_type"], "task_claim");
}

#[test]
fn a_log_that_was_cut_or_replaced_gets_the_last_lines_once() {
    for text in ["", "rotated\n"] {
        let root = Root::new();
        apply(&mut root.store(), 1, &[add("one")]);
        apply(&mut root.store(), 2, &[claim("w")]);
        let last = root.log().pop().unwrap();
        for round in 3..6 {
            root.write(LOG, text);
            root.edit(|json| {
                json["log_tail"] = vec![last.clone()].into();
                json["log_at"] = 5000.into();
            });
            apply(&mut root.store(), round, &[add("more")]);
            apply(&mut root.store(), round, &[add("more")]);
            assert_eq!(root.read(LOG), format!("{text}{last}\n"));
        }
    }
}

#[test]
fn the_trajectory_is_json_line_by_line() {
    let root = Root::new();
    let mut store = root.store();
    apply(&mut store, 1, &[add("with \"quotes\" and a \\ backslash"), claim("w")]);
    apply(&mut store, 2, &[add("two"), Command::Remove(Remove { task: TaskId::numbered(2) })]);
    let entries: Vec<Value> =
        root.read(TRAJECTORY).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let types: Vec<&str> = entries.iter().map(|e| e["event_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["task_add", "task_claim", "task_add", "task_remove"]);
    assert!(entries.iter().all(|e| e["ts"].as_str().unwrap().ends_with('Z')));
}

#[test]
fn the_backup_is_the_version_before() {
    let root = Root::new();
    let mut store = root.store();
    for n in 1..5 {
        let before = root.read(LEDGER);
        apply(&mut store, n, &[add("x")]);
        assert_eq!(root.read(BACKUP), before);
        assert!(!root.path(TMP).exists());
    }
}

#[test]
fn two_processes_add_a_hundred_tasks_each() {
    let root = Root::new();
    let ids: Vec<TaskId> = thread::scope(|scope| {
        let work = |_| {
            let mut store = root.store();
            scope.spawn(move || -> Vec<TaskId> {
                let one = |n| match apply(&mut store, n, &[add("x")]).pop() {
                    Some(Reply::Task(id)) => id,
                    other => panic!("{other:?}"),
                };
                (0..100).map(one).collect()
            })
        };
        let threads: Vec<_> = (0..2).map(work).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let unique: std::collections::BTreeSet<&TaskId> = ids.iter().collect();
    assert_eq!(unique.len(), 200);
    let ledger = snapshot(&root.path("")).unwrap();
    assert_eq!(ledger.len(), 200);
    assert!(unique.into_iter().all(|id| ledger.contains(id)));
    let entries = root.read(TRAJECTORY);
    assert_eq!(entries.lines().count(), 200);
}

/// Returns a root that looks like a repository, so that there is a journal.
fn with_journal() -> Root {
    let root = Root::bare();
    fs::create_dir(root.path(".git")).unwrap();
    fs::write(root.path(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    assert_eq!(root.store().create(at(0)).unwrap(), Created::New);
    root
}

#[test]
fn a_process_writes_back_what_it_knows() {
    let root = with_journal();
    let mut store = root.store();
    apply(&mut store, 1, &[add("one"), claim("w")]);
    let log = root.log();
    for name in [LEDGER, BACKUP, LOG, ".harness-active"] {
        _ = fs::remove_file(root.path(name));
    }
    fs::remove_dir_all(root.path(".git/harness")).unwrap();
    let applied = store.apply(at(2), &[add("two")]).unwrap();
    assert!(applied.warnings[0].contains("written back"), "{:?}", applied.warnings);
    assert_eq!(titles(&mut root.store()), ["one", "two"]);
    assert!(root.path(".harness-active").is_file());
    assert!(root.log().contains(&log[1]), "the ledger remembers its last lines");
}

#[test]
fn the_newest_of_what_is_left_is_restored() {
    let root = with_journal();
    let mut old = root.store();
    apply(&mut old, 1, &[add("one")]);
    apply(&mut root.store(), 2, &[add("two")]);
    apply(&mut root.store(), 3, &[add("three")]);
    fs::remove_file(root.path(LEDGER)).unwrap();
    // It knew only the first one, and the backup has two of them. The journal has all.
    apply(&mut old, 4, &[add("four")]);
    assert_eq!(titles(&mut old), ["one", "two", "three", "four"]);
    let folder = fs::read_dir(root.path(".git/harness")).unwrap().next().unwrap().unwrap();
    fs::write(folder.path().join("journal"), "garbage").unwrap();
    fs::remove_file(root.path(LEDGER)).unwrap();
    apply(&mut root.store(), 5, &[add("five")]);
    assert_eq!(titles(&mut old), ["one", "two", "three", "five"], "from the backup");
}

#[test]
fn the_edit_of_a_person_is_restored_from_the_backup() {
    let root = with_journal();
    apply(&mut root.store(), 1, &[add("one")]);
    root.edit(|json| json["tasks"][0]["title"] = "edited".into());
    let before = fs::read(journal(&root)).unwrap();
    apply(&mut root.store(), 2, &[add("two")]);
    // The journal is as if it could not be written. The version in it is as old as that of the backup.
    fs::write(journal(&root), before).unwrap();
    root.write(LEDGER, "garbage");
    apply(&mut root.store(), 3, &[add("three")]);
    assert_eq!(titles(&mut root.store()), ["edited", "three"]);
}

#[test]
fn a_journal_is_begun_anew_when_it_has_outgrown_its_snapshot() {
    let root = with_journal();
    let mut store = root.store();
    let folder = fs::read_dir(root.path(".git/harness")).unwrap().next().unwrap().unwrap();
    let lines = || fs::read_to_string(folder.path().join("journal")).unwrap().lines().count();
    let mut most = 0;
    for n in 0..400 {
        apply(&mut store, n, &[add(&format!("{n} {}", "x".repeat(300)))]);
        most = most.max(lines());
    }
    assert!(lines() < most && most < 200, "{most}");
    fs::remove_file(root.path(LEDGER)).unwrap();
    fs::remove_file(root.path(BACKUP)).unwrap();
    assert_eq!(apply(&mut root.store(), 999, &[add("last")]), [Reply::Task(TaskId::numbered(401))]);
    assert!(root.log()[0].contains("INIT"));
}

#[test]
fn a_host_protects_the_rows_that_its_workers_hold_and_no_others() {
    let root = with_journal();
    let state = tempfile::tempdir().unwrap();
    let open = || {
        let locking = Locking::Each(Wait::For(Duration::from_secs(20)));
        FileStore::open_with(&root.path(""), locking, Some(state.path())).unwrap()
    };
    let mut host = open().hosting();
    apply(&mut host, 1, &[add("held"), add("free"), claim("w")]);
    // A row without a holder is free, also for a second process without memory.
    root.edit(|json| json["tasks"][1]["status"] = "completed".into());
    apply(&mut host, 2, &[add("three")]);
    assert_eq!(root.json()["tasks"][1]["status"], "completed");
    root.edit(|json| {
        json["tasks"][0]["status"] = "completed".into();
        json["tasks"][2]["title"] = "lost with the rest".into();
    });
    let applied = host.apply(at(3), &[add("four")]).unwrap();
    assert!(applied.warnings.iter().any(|w| w.contains("task-001: status")), "{applied:?}");
    assert_eq!(root.json()["tasks"][0]["status"], "in_progress");
    assert_eq!(root.json()["tasks"][0]["flags"], serde_json::json!(["edit"]));
    assert_eq!(root.json()["alerts"].as_array().unwrap().len(), 1);
    assert_eq!(root.archived().len(), 1);
    // A process that works alone holds nothing for others.
    root.edit(|json| json["tasks"][0]["title"] = "by hand".into());
    apply(&mut open(), 4, &[add("five")]);
    assert_eq!(root.json()["tasks"][0]["title"], "by hand");
}

/// Opens the store as a command of a user with a state directory does. There is a key, so versions
/// are sealed.
fn sealed(root: &Root) -> FileStore {
    let locking = Locking::Each(Wait::For(Duration::from_secs(20)));
    let home = root.path("state-home");
    FileStore::open_with(&root.path(""), locking, Some(&home)).unwrap()
}

#[test]
fn a_backup_that_harness_did_not_write_is_not_believed() {
    let root = with_journal();
    apply(&mut sealed(&root), 1, &[add("one")]);
    apply(&mut sealed(&root), 2, &[add("two")]);
    let mut forged = root.json();
    forged["tasks"][0]["status"] = "completed".into();
    forged["revision"] = 9999.into();
    root.write(BACKUP, &forged.to_string());
    fs::remove_file(root.path(LEDGER)).unwrap();
    apply(&mut sealed(&root), 3, &[add("three")]);
    assert_eq!(titles(&mut sealed(&root)), ["one", "two", "three"]);
    assert_eq!(root.json()["tasks"][0]["status"], "pending");
}

#[test]
fn without_a_journal_the_sealed_backup_shows_an_edit() {
    let root = with_journal();
    let of_run = match claim("runner") {
        Command::Claim(claim) => Command::Claim(Claim { via: Via::Run, ..claim }),
        other => other,
    };
    apply(&mut sealed(&root), 1, &[add("one"), of_run]);
    apply(&mut sealed(&root), 2, &[add("two")]);
    fs::remove_dir_all(root.path(".git/harness")).unwrap();
    root.edit(|json| json["tasks"][0]["status"] = "completed".into());
    let refused = sealed(&root).apply(at(3), &[add("three")]);
    assert!(matches!(refused, Err(StoreError::Edited { .. })), "{refused:?}");
    let restored = sealed(&root).bring_back(at(4)).unwrap();
    assert_eq!((restored.from, restored.tasks), (Some(Source::Backup), 1));
    assert_eq!(root.json()["tasks"][0]["status"], "in_progress");
}

fn journal(root: &Root) -> PathBuf {
    let mut of_roots = fs::read_dir(root.path(".git/harness")).unwrap();
    of_roots.next().unwrap().unwrap().path().join("journal")
}

#[test]
fn a_journal_that_harness_did_not_write_is_not_believed() {
    let of_run = match claim("runner") {
        Command::Claim(claim) => Command::Claim(Claim { via: Via::Run, ..claim }),
        other => other,
    };
    let root = with_journal();
    apply(&mut sealed(&root), 1, &[add("one"), of_run]);
    apply(&mut sealed(&root), 2, &[add("two")]);
    // The seal is forged with another key, as by an agent that cannot read the user's key.
    let forged = with_journal();
    apply(&mut sealed(&forged), 1, &[add("one"), add("two")]);
    forged.edit(|json| json["tasks"][0]["status"] = "completed".into());
    apply(&mut sealed(&forged), 2, &[add("three")]);
    fs::copy(forged.path(LEDGER), root.path(LEDGER)).unwrap();
    fs::copy(journal(&forged), journal(&root)).unwrap();
    let refused = sealed(&root).apply(at(3), &[add("four")]);
    assert!(matches!(refused, Err(StoreError::Edited { .. })), "{refused:?}");
    fs::remove_file(root.path(LEDGER)).unwrap();
    apply(&mut sealed(&root), 4, &[add("four")]);
    assert_eq!(root.json()["tasks"][0]["status"], "in_progress", "the sealed backup counts");
}
