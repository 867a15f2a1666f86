//! The shell of the system, with real processes.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use harness::shell::{Cancel, Exit, Ran, Script, Shell as _, SystemShell};
use sha2::{Digest as _, Sha256};

const LONG: Duration = Duration::from_secs(120);
/// Long enough for a shell to start on a busy machine.
const SHORT: Duration = Duration::from_secs(2);

fn shell() -> SystemShell {
    SystemShell { grace: Duration::from_millis(200), secrets: None, ..SystemShell::default() }
}

fn script(command: &str, timeout: Duration) -> Script {
    Script {
        command: command.to_owned(),
        directory: std::env::temp_dir(),
        timeout,
        environment: Vec::new(),
    }
}

fn run(command: &str) -> Ran {
    shell().run(&script(command, LONG)).unwrap()
}

/// Returns whether the process with the id in the file is gone, or only waits for its parent.
fn is_gone(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    if rustix::process::test_kill_process(pid).is_err() {
        return true;
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}

fn hex_sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn exits_and_signals_are_told_as_they_are() {
    for (command, exit) in [
        ("true", Exit::Code(0)),
        ("exit 3", Exit::Code(3)),
        ("no-such-command-at-all", Exit::Code(127)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("kill -TERM $$", Exit::Signal(15)),
        ("exit 143", Exit::Code(143)),
    ] {
        assert_eq!(run(command).exit, exit, "{command}");
    }
}

#[test]
fn both_outputs_come_in_the_order_they_were_written() {
    let ran = run("echo one; echo two >&2; echo three; cat; printf '\\377\\000'");
    assert_eq!(ran.tail, b"one\ntwo\nthree\n\xff\0");
    assert_eq!(ran.output_bytes, ran.tail.len() as u64);
    assert_eq!(ran.output_sha256, hex_sha256(&ran.tail));
}

#[test]
fn the_directory_and_the_environment_are_those_of_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(folder.path()).unwrap();
    let ran = shell()
        .run(&Script {
            directory: path.clone(),
            environment: vec![("GREETING".to_owned(), "hi there".to_owned())],
            ..script("pwd -P; echo \"$GREETING\"", LONG)
        })
        .unwrap();
    let expected = format!("{}\nhi there\n", path.display());
    assert_eq!(String::from_utf8(ran.tail).unwrap(), expected);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let missing = PathBuf::from("/no/such/folder");
    let error = shell().run(&Script { directory: missing, ..script("true", LONG) }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    let file = PathBuf::from("/dev/null");
    let error = shell().run(&Script { directory: file, ..script("true", LONG) }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
}

#[test]
fn a_time_out_asks_first_who_is_stopped_too() {
    for busy in ["while :; do sleep 0.01; done", "kill -STOP $$; while :; do sleep 0.01; done"] {
        let command = format!("trap 'echo asked; exit 0' TERM; echo ready; {busy}");
        let ran = SystemShell { grace: LONG, secrets: None, ..SystemShell::default() }
            .run(&script(&command, SHORT))
            .unwrap();
        assert_eq!(ran.exit, Exit::TimedOut);
        // Some shells print that their `sleep` was terminated.
        assert!(ran.tail.starts_with(b"ready\n") && ran.tail.ends_with(b"asked\n"), "{ran:?}");
        assert!(ran.duration < LONG);
    }
}

#[test]
fn a_time_out_kills_who_ignores_it_and_their_children() {
    let folder = tempfile::tempdir().unwrap();
    let (child, grandchild) = (folder.path().join("child"), folder.path().join("grandchild"));
    let command = format!(
        "trap '' TERM; sh -c 'trap \"\" TERM; sleep 600 & echo $! > {grandchild}; echo $$ > {child}; wait' & wait",
        child = child.display(),
        grandchild = grandchild.display(),
    );
    let started = Instant::now();
    let ran = shell().run(&script(&command, SHORT)).unwrap();
    assert_eq!(ran.exit, Exit::TimedOut);
    assert!(started.elapsed() < LONG);
    assert!(is_gone(&child));
    assert!(is_gone(&grandchild));
}

#[test]
fn who_is_left_in_the_background_neither_hangs_us_nor_stays() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let ran = run(&format!("sleep 600 & echo $! > {}; echo done", pid.display()));
    assert_eq!((ran.exit, ran.tail.as_slice()), (Exit::Code(0), &b"done\n"[..]));
    assert!(ran.duration < LONG);
    assert!(is_gone(&pid));
    // A process that ignores TERM and floods the pipe is killed after the grace.
    let command = format!("trap '' TERM; yes & echo $! > {}; exit 4", pid.display());
    let ran = run(&command);
    assert_eq!(ran.exit, Exit::Code(4));
    assert!(is_gone(&pid));
}

#[test]
fn who_left_the_group_with_the_pipe_does_not_hang_us() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let file = pid.display();
    let ran = run(&format!(
        "setsid sh -c 'echo $$ > {file}; exec sleep 600' & until [ -s {file} ]; do :; done"
    ));
    let pid = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(ran.exit, Exit::Code(0));
    assert!(ran.duration < LONG);
}

#[cfg(target_os = "linux")]
#[test]
fn a_flood_is_hashed_and_not_kept() {
    let peak_kib = || -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let before = peak_kib();
    let ran = run("yes 0123456789abcde | head -c 200000000; echo end >&2");
    assert_eq!(ran.output_bytes, 200_000_004);
    assert!(peak_kib() - before < 64 * 1024, "{} KiB", peak_kib() - before);
    assert_eq!(ran.tail.len(), 64 * 1024);
    assert!(ran.tail.ends_with(b"end\n"));
    let mut sha256 = Sha256::new();
    let block = b"0123456789abcde\n".repeat(62_500);
    for _ in 0..200 {
        sha256.update(&block);
    }
    sha256.update(b"end\n");
    let expected: String = sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(ran.output_sha256, expected);
}

#[test]
fn a_cancelled_script_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    assert!(std::process::Command::new("mkfifo").arg(&ready).status().unwrap().success());
    let cancel = Cancel::new().unwrap();
    let asked = cancel.clone();
    let fifo = ready.clone();
    let canceller = std::thread::spawn(move || {
        // This returns when the script has opened the other end.
        fs::read(fifo).unwrap();
        asked.cancel();
    });
    let command = format!("echo ready > {}; sleep 600", ready.display());
    let ran = shell().run_until(&script(&command, LONG), &cancel).unwrap();
    canceller.join().unwrap();
    assert_eq!(ran.exit, Exit::Cancelled);
    assert!(cancel.is_cancelled());
    // A request before the start ends it as well.
    let ran = shell().run_until(&script("sleep 600", LONG), &cancel).unwrap();
    assert_eq!(ran.exit, Exit::Cancelled);
}

#[test]
fn a_missing_command_is_found_out_without_running_it() {
    let here = std::env::temp_dir();
    assert!(shell().lacks("no-such-command-at-all --flag", &here));
    for known in ["true", "if true; then :; fi", "cd /", "sh -c x", "./no-such-file", "X=1 nope"] {
        assert!(!shell().lacks(known, &here), "{known}");
    }
    assert!(!shell().lacks("no-such-command-at-all", Path::new("/no/such/folder")));
}
