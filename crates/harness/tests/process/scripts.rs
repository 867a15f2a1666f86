//! Scripts under a guard: nothing that they start outlives them.

use std::{
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use harness::shell::{Cancel, Exit, Ran, Script, Shell as _, SystemShell};

use crate::stage::{GRACE, LONG, Roll};

fn script(command: &str) -> Script {
    Script {
        command: command.to_owned(),
        directory: std::env::temp_dir(),
        timeout: LONG,
        environment: Vec::new(),
    }
}

fn shell() -> SystemShell {
    SystemShell { grace: GRACE, secrets: None, ..SystemShell::default() }
}

fn run(command: &str) -> Ran {
    shell().run(&script(command)).unwrap()
}

fn text(ran: Ran) -> String {
    String::from_utf8(ran.tail).unwrap()
}

/// Returns a script that ends when all three processes run, and leaves them behind.
fn deserter(roll: &Roll) -> String {
    let said = roll.folder.path().join("said");
    assert!(Command::new("mkfifo").arg(&said).status().unwrap().success());
    let (nameless, far) = (roll.nameless("nobody"), roll.detached("far"));
    let said = said.display();
    format!("{}{nameless}{far}(linger child) >/dev/null 2>&1 &\ncat {said}; exit 5", roll.prelude())
}

pub(crate) fn scripts_end_as_they_are_told() {
    for (command, exit) in [
        ("true", Exit::Code(0)),
        ("exit 3", Exit::Code(3)),
        ("no-such-command-at-all", Exit::Code(127)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("kill -TERM $$", Exit::Signal(15)),
    ] {
        assert_eq!(run(command).exit, exit, "{command}");
    }
    let ran = run("echo one; echo two >&2; echo three; cat; printf '\\377\\000'");
    assert_eq!(ran.tail, b"one\ntwo\nthree\n\xff\0");
    let ran = shell().run_with_input(&script("cat; echo end"), b"given\n").unwrap();
    assert_eq!(text(ran), "given\nend\n");
    let missing = Script { directory: "/no/such/folder".into(), ..script("true") };
    let error = shell().run(&missing).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
}

pub(crate) fn what_a_script_started_ends_with_it() {
    let mut roll = Roll::new();
    let (command, said) = (deserter(&roll), roll.folder.path().join("said"));
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&command));
        roll.wait_for(3);
        std::fs::write(&said, "go").unwrap();
        running.join().unwrap()
    });
    assert!(roll.is_empty());
    assert_eq!(ran.exit, Exit::Code(5));
    assert!(text(ran).starts_with("go"));
}

pub(crate) fn a_script_that_is_stopped_takes_all_with_it() {
    for is_cancelled in [false, true] {
        let mut roll = Roll::new();
        let cancel = Cancel::new().unwrap();
        let timeout = if is_cancelled { LONG } else { Duration::from_secs(2) };
        let script = Script { timeout, ..script(&deserter(&roll)) };
        let ran = std::thread::scope(|scope| {
            let running = scope.spawn(|| shell().run_until(&script, &cancel).unwrap());
            if is_cancelled {
                roll.wait_for(3);
                cancel.cancel();
            }
            running.join().unwrap()
        });
        assert!(roll.is_empty());
        assert_eq!(ran.exit, if is_cancelled { Exit::Cancelled } else { Exit::TimedOut });
    }
}

/// The result is the same whether it reports success before or after its own end.
pub(crate) fn a_script_that_kills_its_guard_has_not_passed() {
    let folder = tempfile::tempdir().unwrap();
    let up = folder.path().join("up").display().to_string();
    let later = format!(
        "guard=$PPID; setsid sh -c \"trap 'kill -KILL $guard; exit' TERM; echo up >{up}; \
         while :; do sleep 0.01; done\" & until [ -s {up} ]; do :; done; exit 0"
    );
    for command in ["kill -KILL $PPID; exit 0", "kill -STOP $PPID; exit 0", &later] {
        let script = Script { timeout: Duration::from_secs(1), ..script(command) };
        let ran = shell().run(&script).unwrap();
        assert!(matches!(ran.exit, Exit::Signal(9) | Exit::TimedOut), "{command}: {ran:?}");
    }
}

pub(crate) fn the_command_line_of_a_guard_says_whose_it_is() {
    let environment = [
        ("HARNESS_STATE_ROOT", "/home/me/project"),
        ("HARNESS_TASK_ID", "task-001"),
        ("HARNESS_EPOCH", "3"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let words = "tr '\\0' ' ' </proc/$PPID/cmdline; echo $HARNESS_JOB";
    let said =
        text(shell().run(&Script { environment: environment.into(), ..script(words) }).unwrap());
    let (line, job) =
        said.split_once("harness-guard __guard 225df3094012a213 task-001.3 ").unwrap();
    assert!(line.is_empty() && job.starts_with("225df3094012a213."), "{said}");
    assert!(text(run(words)).starts_with("harness-guard __guard - - "));
}

pub(crate) fn a_script_ends_with_a_killed_harness() {
    for _ in 0..3 {
        let mut roll = Roll::new();
        let mut harness = Command::new(std::env::current_exe().unwrap())
            .args(["__script", &deserter(&roll)])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        roll.wait_for(3);
        harness.kill().unwrap();
        harness.wait().unwrap();
        roll.wait_for_end();
    }
}

pub(crate) fn be_harness() -> ExitCode {
    run(&std::env::args().nth(2).unwrap());
    ExitCode::SUCCESS
}
