//! `harness log`

use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use insta::assert_snapshot;

use crate::{
    environment::TestEnvironment,
    ledgers::{LOG, MIXED},
    terminal::{Terminal, screen},
};

fn environment() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", MIXED).write("harness-progress.txt", LOG);
    env
}

#[test]
fn times_are_local_on_a_terminal_and_utc_elsewhere() {
    let env = TestEnvironment::of_worker().variable("TZ", "Etc/GMT-7").variable("TERM", "xterm");
    let log = env.read("harness-progress.txt");
    let utc = harness_core::Timestamp::parse(&log[1..21]).unwrap();
    let local = utc.plus(7 * 3600).to_string().replace('T', " ").replace('Z', "");
    let shown = |args: &[&str]| screen(&Terminal::start(&env, args).end().1).join("\n");
    for args in [&["log"][..], &["log", "--plain"], &["status"]] {
        let shown = shown(args);
        assert!(shown.contains(&format!("[{local}] [SESSION-0] INIT")), "{args:?}: {shown}");
    }
    assert!(shown(&["log", "--utc"]).contains(&format!("[{utc}] [SESSION-0] INIT")));
    assert!(env.run(["log"]).success().raw().contains(&format!("[{utc}] [SESSION-0] INIT")));
    let entry = env.run(["log", "--json"]).success().json();
    assert_eq!(entry["time"], utc.to_string());
}

#[test]
fn without_a_filter_every_line_is_shown_and_none_acts_on_the_terminal() {
    let env = environment();
    let ran = env.run(["log"]).success();
    assert_eq!(ran.raw(), LOG.replace('\u{1b}', "\\u{1b}").trim_end());
    assert_eq!(env.run(["log", "-n", "2"]).success().raw().lines().count(), 2);
    env.run(["log", "-n", "0"]).success().stdout("");
}

#[test]
fn filters_leave_out_what_they_do_not_name() {
    let env = environment();
    assert_snapshot!(env.run(["log", "--errors"]).success().output(), @"[[TIME]] [SESSION-2] ERROR [task-004] [TEST_FAIL] exit 1");
    assert_snapshot!(env.run(["log", "--task", "task-001"]).success().output(), @r"
    [[TIME]] [SESSION-1] Starting [task-001] Set up (base=abc1234)
    [[TIME]] [SESSION-1] Completed [task-001] (commit def5678)
    ");
    assert_snapshot!(env.run(["log", "--session", "2", "-n", "1"]).success().output(), @"[[TIME]] [SESSION-2] LOCK released");
    env.run(["log", "--session", "9"]).success().stdout("");
    env.run(["log", "--task", "no/id"]).code(2);
}

#[test]
fn programs_get_an_object_per_line() {
    let env = environment();
    let ran = env.run(["log", "--json"]).success();
    let lines: Vec<serde_json::Value> =
        ran.raw().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    assert_snapshot!(lines[5], @r#"{"version":1,"time":"2025-07-01T11:00:00Z","session":2,"type":"ERROR","task_id":"task-004","category":"TEST_FAIL","message":"exit 1"}"#);
    assert_snapshot!(lines[4], @r#"{"version":1,"time":null,"session":null,"type":null,"message":"somebody's own \u001b[2J note"}"#);
}

#[test]
fn colours_follow_the_type_of_a_line() {
    let env = environment();
    let ran = env.run(["log", "--color", "always", "--errors"]).success();
    assert_snapshot!(ran.output().escape_default(), @r"\u{1b}[2m[[TIME]] [SESSION-2] \u{1b}[0m\u{1b}[31mERROR\u{1b}[0m\u{1b}[31m [task-004] [TEST_FAIL] exit 1\u{1b}[0m\n");
}

#[test]
fn a_missing_log_is_an_empty_one_but_a_link_is_refused() {
    let env = TestEnvironment::new();
    env.run(["log"]).code(1).stderr_contains("harness init");
    env.write("harness-tasks.json", MIXED);
    env.run(["log"]).success().stdout("");
    std::os::unix::fs::symlink("/etc/passwd", env.root().join("harness-progress.txt")).unwrap();
    env.run(["log"]).code(5).stdout("").stderr_contains("harness-progress.txt is a symbolic link");
}

#[test]
fn a_line_without_an_end_and_bytes_that_are_no_text_are_shown() {
    let env = environment();
    env.write("harness-progress.txt", b"a\xffb\nno end");
    assert_snapshot!(env.run(["log"]).success().output(), @r"
    a�b
    no end
    ");
    env.run(["log", "-n", "1"]).success().stdout("no end");
}

#[test]
fn following_goes_on_over_a_replaced_log() {
    let env = environment();
    let mut child = env.harness(["log", "-f", "-n", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().ends_with("LOCK released"));
    let path = env.root().join("harness-progress.txt");
    let mut log = std::fs::File::options().append(true).open(&path).unwrap();
    log.write_all(b"half").unwrap();
    log.write_all(b" a line\n").unwrap();
    assert_eq!(next(), "half a line");
    std::fs::rename(&path, env.root().join("old")).unwrap();
    env.write("harness-progress.txt", "another log\n");
    assert_eq!(next(), "another log");
    env.write("harness-progress.txt", "cut\n");
    assert_eq!(next(), "cut");
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
