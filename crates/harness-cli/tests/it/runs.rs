//! `harness runs`: its output about the record of runs, and about one that cannot be read.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::PathBuf};

use harness::store::{RunStore, Runs as _, this_process};
use harness_core::{
    CommitId, Epoch, TaskId, Timestamp,
    agent::Usage,
    command::{OfRun, RunStep, Take},
    run::{Ending, Owner, Run, RunId, RunLimits, StopReason},
};
use insta::assert_snapshot;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::environment::TestEnvironment;

const OBJECTIVE: &str = "0197f0a2-0000-7000-8000-00000000000a";
const LEDGER: &str = "0197f0a3-0000-7000-8000-00000000000b";
const FIRST: &str = "0197f0a3-0000-7000-8000-00000000000c";
const SECOND: &str = "0197f0a3-0000-7000-8000-00000000000d";
const HEAD: &str = "9fceb02d0ae598e95dc970b74767f19372d61af8";
const NEXT_HEAD: &str = "e83c5163316f89bfbde7d9ab23ca2e25604af290";

fn at(minute: i64) -> Timestamp {
    Timestamp::from_seconds(1_751_364_000 + 60 * minute)
}

fn opened(id: &str, minute: i64) -> Run {
    Run {
        agent: "claude".to_owned(),
        workspace: "/work".to_owned(),
        limits: RunLimits { max_iterations: 10, ..RunLimits::default() },
        ..Run::queued(RunId::parse(id).unwrap(), at(minute))
    }
}

fn attempt(id: &str, minute: i64, agent: &str, epoch: u64) -> Run {
    Run {
        task: Some(TaskId::numbered(1)),
        epoch: Some(Epoch(epoch)),
        parent: Some(RunId::parse(LEDGER).unwrap()),
        agent: agent.to_owned(),
        ..opened(id, minute)
    }
}

fn step(store: &RunStore, minute: i64, id: &str, by: Option<&Owner>, step: RunStep) {
    let run = RunId::parse(id).unwrap();
    let command = OfRun { run, by: by.cloned(), step };
    store.apply(at(minute), &command).unwrap().unwrap();
}

fn spend(input_tokens: u64, output_tokens: u64, cost_usd: Option<f64>) -> RunStep {
    RunStep::Spend(Usage { input_tokens, output_tokens, cost_usd })
}

fn begin(number: u32, head: &str) -> RunStep {
    let head = Some(CommitId::parse(head).unwrap());
    let transcript = Some(format!(".harness/transcripts/{number}.log"));
    RunStep::Begin { number, head, mark: None, transcript }
}

fn end(ending: Ending, detail: Option<&str>, head: &str) -> RunStep {
    RunStep::End {
        ending,
        detail: detail.map(str::to_owned),
        final_text: Some("what it said".to_owned()),
        head: Some(CommitId::parse(head).unwrap()),
        mark: None,
    }
}

/// Records an objective that was stopped after two iterations, and an active run over the ledger
/// with two attempts at one task.
fn recorded() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.run(["init"]).success();
    let store = RunStore::open(env.root()).unwrap();
    let budget = RunLimits {
        max_iterations: 10,
        max_cost_usd: Some(5.0),
        max_tokens: None,
        max_duration_seconds: Some(5400),
    };
    let objective = Some("Research a topic\nand write a report".to_owned());
    let run = Run { objective, limits: budget, ..opened(OBJECTIVE, 0) };
    store.open_run(&run).unwrap();
    let by_me = Take { owner: Some(this_process()), lease_seconds: 3600, ..Take::default() };
    let me = Some(this_process());
    let of = |minute, what| step(&store, minute, OBJECTIVE, me.as_ref(), what);
    of(0, RunStep::Take(by_me.clone()));
    of(1, begin(0, HEAD));
    of(2, spend(1000, 200, Some(0.5)));
    of(4, end(Ending::Network, Some("no route to host"), HEAD));
    // These happen on the next day.
    of(1440, begin(1, HEAD));
    of(1441, spend(10, 2, Some(0.004)));
    of(1450, end(Ending::Finished, None, NEXT_HEAD));
    of(1451, RunStep::Stop(StopReason::Budget));

    store.open_run(&opened(LEDGER, 2000)).unwrap();
    step(&store, 2000, LEDGER, None, RunStep::Take(by_me));
    for (id, minute, agent, epoch) in [(FIRST, 2001, "codex", 1), (SECOND, 2010, "claude", 2)] {
        store.open_run(&attempt(id, minute, agent, epoch)).unwrap();
        step(&store, minute, id, None, RunStep::Take(Take::default()));
        step(&store, minute, id, None, begin(0, HEAD));
        step(&store, minute + 1, id, None, spend(7, 3, None));
    }
    step(&store, 2003, FIRST, None, RunStep::Stop(StopReason::Crashed));
    env
}

/// Returns all files below `.harness`, so that every new file is noticed.
fn files(env: &TestEnvironment) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = fs::read_dir(env.root().join(".harness")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn no_runs_are_no_error() {
    let env = TestEnvironment::new();
    env.run(["runs", "list"]).code(1).stderr_contains("harness init");
    env.run(["init"]).success();
    let before = files(&env);
    for command in ["list", "show", "cost"] {
        let ran = env.run(["runs", command]).success();
        ran.stdout("").stderr("there are no runs yet\n");
    }
    let said = |command| env.run(["runs", command, "--json"]).success().json();
    assert_eq!(said("list"), json!({ "version": 1, "runs": [] }));
    assert_eq!(
        said("show"),
        json!({ "version": 1, "run": null, "iterations": [], "attempts": [] })
    );
    assert_eq!(said("cost")["total"]["input_tokens"], 0);
    env.run(["runs", "show", "0197"]).code(1).stderr_contains("there is no run 0197");
    assert!(files(&env) == before, "looking makes no database");
}

#[test]
fn the_list_has_the_newest_first_and_attempts_below_their_run() {
    let env = recorded();
    let before = files(&env);
    assert_snapshot!(env.run(["runs", "list"]).success().output(), @r"
    0197f0a3-0000-7000-8000-00000000000b  [TIME]  running          -     20 tokens    -         claude  the ledger
    0197f0a2-0000-7000-8000-00000000000a  [TIME]  stopped: budget  1/10  1212 tokens  0.50 USD  claude  Research a topic and write a report
    ");
    assert_snapshot!(env.run(["runs", "list", "--all"]).success().output(), @r"
    0197f0a3-0000-7000-8000-00000000000b    [TIME]  running          -     20 tokens    -         claude  the ledger
      0197f0a3-0000-7000-8000-00000000000d  [TIME]  running          0/10  10 tokens    -         claude  task-001 (epoch 2)
      0197f0a3-0000-7000-8000-00000000000c  [TIME]  failed: crashed  0/10  10 tokens    -         codex   task-001 (epoch 1)
    0197f0a2-0000-7000-8000-00000000000a    [TIME]  stopped: budget  1/10  1212 tokens  0.50 USD  claude  Research a topic and write a report
    ");
    let ids = |args: &[&str]| -> Vec<String> {
        let said = env.run(args).success().json();
        let runs = said["runs"].as_array().unwrap().iter();
        runs.map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["runs", "list", "--json"]), [LEDGER, OBJECTIVE]);
    let all = ids(&["runs", "list", "--all", "--json"]);
    assert_eq!(all, [SECOND, FIRST, LEDGER, OBJECTIVE]);
    assert!(files(&env) == before, "looking changes nothing");
}

#[test]
fn a_run_is_shown_in_words_with_its_iterations() {
    let env = recorded();
    assert_snapshot!(env.run(["runs", "show", "0197f0a2"]).success().output(), @r"
    run 0197f0a2-0000-7000-8000-00000000000a: stopped: budget
      Research a topic
      and write a report
      agent       claude
      promise     TASK_COMPLETE
      workspace   /work
      started     [TIME]
      changed     [TIME]
      restarts    1 of 10
      spent       1010 tokens in, 202 out, 0.50 USD
      budget      5.00 USD, 1 h 30 min
      deadline    [TIME]
      go on with  harness run --resume --run-id 0197f0a2-0000-7000-8000-00000000000a

    Iterations
      n  started               took    outcome                    tokens  USD     commits            transcript
      0  [TIME]  3 min   network: no route to host  1200    0.50    9fceb02 stays      .harness/transcripts/0.log
      1  [TIME]  10 min  finished                   12      0.0040  9fceb02 → e83c516  .harness/transcripts/1.log
    ");
    assert_snapshot!(env.run(["runs", "show", FIRST]).success().output(), @r"
    run 0197f0a3-0000-7000-8000-00000000000c: failed: crashed
      task         task-001 (epoch 1)
      part of run  0197f0a3-0000-7000-8000-00000000000b
      agent        codex
      promise      TASK_COMPLETE
      workspace    /work
      started      [TIME]
      changed      [TIME]
      restarts     0 of 10
      spent        7 tokens in, 3 out

    Iterations
      n  started               took  outcome  tokens  USD  commits      transcript
      0  [TIME]  -     open     10      -    9fceb02 → -  .harness/transcripts/0.log
    ");
    let said = env.run(["runs", "show", OBJECTIVE, "--json"]).success().json();
    assert_eq!(said["run"]["stop_reason"], "budget");
    assert_eq!(said["iterations"][0]["outcome"], "network");
    assert_eq!(said["iterations"][1]["final_text"], "what it said");
    assert_eq!(said["iterations"].as_array().unwrap().len(), 2);
}

#[test]
fn the_newest_is_shown_where_none_is_named() {
    let env = recorded();
    let shown = env.run(["runs", "show"]).success();
    let shown = shown.stdout_contains(&format!("run {LEDGER}: running"));
    shown.stdout_contains("Attempts").stdout_contains(SECOND).stdout_contains("failed: crashed");
    let said = env.run(["runs", "show", "--json"]).success().json();
    assert_eq!(said["run"]["run_id"], LEDGER);
    assert_eq!(said["attempts"].as_array().unwrap().len(), 2);
}

#[test]
fn a_run_whose_process_is_gone_is_told_with_the_way_to_go_on() {
    let env = recorded();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let gone = Owner { pid: child.id(), started: "-/-/-".to_owned(), ..this_process() };
    let database = Connection::open(env.root().join(".harness/harness.db")).unwrap();
    let sql = "UPDATE runs SET lease_owner = ?1 WHERE run_id = ?2";
    assert_eq!(database.execute(sql, [gone.to_string(), LEDGER.to_owned()]).unwrap(), 1);
    env.run(["runs", "list"]).success().stdout_contains("interrupted");
    let resume = format!("harness run --resume --run-id {LEDGER}");
    env.run(["runs", "show"]).success().stdout_contains(&resume);
}

#[test]
fn a_name_that_fits_none_or_many_is_told() {
    let env = recorded();
    let none = env.run(["runs", "show", "ffff"]).code(1).stdout("");
    none.stderr_contains("there is no run ffff").stderr_contains("harness runs list --all");
    let many = env.run(["runs", "cost", "0197F0A3"]).code(1).stdout("");
    let many = many.stderr_contains("3 runs begin with \"0197f0a3\"");
    many.stderr_contains(LEDGER).stderr_contains(FIRST).stderr_contains(SECOND);
}

#[test]
fn what_was_spent_is_summed_up_and_nothing_twice() {
    let env = recorded();
    assert_snapshot!(env.run(["runs", "cost"]).success().output(), @r"
                                            USD     tokens in  out
    Total                                   0.50    1024       208
    Runs
      0197f0a3-0000-7000-8000-00000000000b  -       14         6    the ledger
      0197f0a2-0000-7000-8000-00000000000a  0.50    1010       202  Research a topic and write a report
    Tasks
      task-001                              -       14         6
    Agents
      claude                                0.50    1017       205
      codex                                 -       7          3
    Days
      2025-07-01                            0.50    1000       200
      2025-07-02                            0.0040  24         8
    ");
    let said = env.run(["runs", "cost", "--json"]).success().json();
    let tokens = |rows: &Value| -> u64 {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["input_tokens"].as_u64().unwrap()).sum()
    };
    assert_eq!(said["total"]["input_tokens"], 1024);
    for part in ["runs", "agents", "days"] {
        assert_eq!(tokens(&said[part]), 1024, "{part}");
    }
    assert_eq!(tokens(&said["tasks"]), 14);
    let one = env.run(["runs", "cost", OBJECTIVE, "--json"]).success().json();
    assert_eq!(
        one["total"],
        json!({ "input_tokens": 1010, "output_tokens": 202, "cost_usd": 0.504 })
    );
    assert_eq!(one["tasks"], json!([]));
}

#[test]
fn a_file_that_is_no_record_is_named_with_the_way_out() {
    let env = TestEnvironment::new();
    env.run(["init"]).success();
    let path = env.root().join(".harness/harness.db");

    env.write(".harness/harness.db", "garbage ".repeat(1000));
    let refused = |code, expected| {
        let before = files(&env);
        for command in ["list", "show", "cost"] {
            let ran = env.run(["runs", command, "--json"]).code(code).stdout("");
            ran.stderr_contains("harness.db").stderr_contains(expected);
        }
        assert!(files(&env) == before, "something was written");
    };
    refused(5, "move it away");
    fs::remove_file(&path).unwrap();

    drop(RunStore::open(env.root()).unwrap());
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    refused(5, "has version 99, but this harness knows version 2");
    fs::rename(&path, env.home().join("elsewhere.db")).unwrap();

    symlink(env.home().join("elsewhere.db"), &path).unwrap();
    for command in ["list", "show", "cost"] {
        let ran = env.run(["runs", command]).stdout("");
        ran.stderr_contains(".harness/harness.db is a symbolic link");
    }
}

#[test]
fn a_writer_keeps_nobody_from_looking_but_one_that_locks_all_is_told() {
    let env = recorded();
    let path = env.root().join(".harness/harness.db");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; UPDATE runs SET agent = 'nobody'").unwrap();
    env.run(["runs", "list"]).success().stdout_contains("claude");
    drop(writer);
    let hog = Connection::open(&path).unwrap();
    hog.pragma_update(None, "journal_mode", "delete").unwrap();
    hog.execute_batch("BEGIN EXCLUSIVE; UPDATE runs SET agent = 'nobody'").unwrap();
    let ran = env.run(["runs", "list"]).code(1).stdout("");
    ran.stderr_contains("harness.db was locked by another program");
}
