//! Scripts of the published protocol, run by a real `sh`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use harness::store::lock::{StateLock, Wait, Warning};

use super::Root;

/// The protocol as published, from finding the root to the trap. Then it prints `held` and keeps
/// the lock until its standard input has a line or ends.
const SCRIPT: &str = r#"
ROOT="$PWD"
SEARCH="$PWD"
while [ "$SEARCH" != "/" ] && [ ! -f "$SEARCH/harness-tasks.json" ]; do
  SEARCH="$(dirname "$SEARCH")"
done
if [ -f "$SEARCH/harness-tasks.json" ]; then
  ROOT="$SEARCH"
fi
PWD_HASH="$(printf '%s' "$ROOT" | (shasum -a 256 2>/dev/null || sha256sum 2>/dev/null) | awk '{print $1}' | cut -c1-16)"
LOCKDIR="/tmp/harness-${PWD_HASH:-unknown}.lock"
if ! mkdir "$LOCKDIR" 2>/dev/null; then
  LOCK_PID=$(cat "$LOCKDIR/pid" 2>/dev/null)
  if [ -n "$LOCK_PID" ] && kill -0 "$LOCK_PID" 2>/dev/null; then
    echo "ERROR: Another harness session is active (pid=$LOCK_PID)"; exit 1
  fi
  STALE="$LOCKDIR.stale.$$"
  if mv "$LOCKDIR" "$STALE" 2>/dev/null; then
    rm -rf "$STALE"
    mkdir "$LOCKDIR" || { echo "ERROR: Lock contention"; exit 1; }
    echo "WARN: Removed stale lock${LOCK_PID:+ from pid=$LOCK_PID}"
  else
    echo "ERROR: Another agent reclaimed the lock"; exit 1
  fi
fi
echo "$$" > "$LOCKDIR/pid"
trap 'rm -rf "$LOCKDIR"' EXIT
if mkdir "$CRITICAL"; then echo held; else echo overlap; fi
read -r _
rmdir "$CRITICAL"
"#;

struct Script {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Script {
    fn start(root: &Root) -> Script {
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT])
            .current_dir(root.path())
            .env("PWD", root.path())
            .env("CRITICAL", critical(root))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Script { child, input, output }
    }

    fn says(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets it continue to its end.
    fn end(mut self) {
        self.input.write_all(b"\n").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn critical(root: &Root) -> PathBuf {
    root.path().join("critical")
}

fn root() -> Root {
    let root = Root::new();
    fs::write(root.path().join("harness-tasks.json"), "{}").unwrap();
    root
}

#[test]
fn a_script_that_holds_keeps_us_out() {
    let root = root();
    let mut script = Script::start(&root);
    assert_eq!(script.says(), "held");
    let busy = StateLock::acquire(&root.path(), Wait::No).unwrap_err();
    let expected = format!("Another harness session is active (pid={})", script.child.id());
    assert_eq!(busy.to_string(), expected);
    let busy = StateLock::acquire(&root.path(), Wait::For(Duration::from_millis(30))).unwrap_err();
    assert_eq!(busy.to_string(), expected);
    script.end();
    StateLock::acquire(&root.path(), Wait::No).unwrap();
}

#[test]
fn we_keep_a_script_out() {
    let root = root();
    let held = StateLock::acquire(&root.path(), Wait::No).unwrap();
    let mut script = Script::start(&root);
    let pid = std::process::id();
    assert_eq!(script.says(), format!("ERROR: Another harness session is active (pid={pid})"));
    assert_eq!(script.child.wait().unwrap().code(), Some(1));
    assert!(held.guard.still_held());
}

#[test]
fn the_lock_goes_back_and_forth_without_overlap() {
    let root = root();
    for round in 0..40 {
        let mut script = Script::start(&root);
        assert_eq!(script.says(), "held", "round {round}");
        let path = root.path();
        // It waits in line while the script holds the lock and while it releases it.
        let waiter = std::thread::spawn(move || {
            StateLock::acquire(&path, Wait::For(Duration::from_secs(60))).unwrap()
        });
        script.end();
        let held = waiter.join().unwrap();
        fs::create_dir(critical(&root)).unwrap();
        assert_eq!(held.warnings, []);
        let mut refused = Script::start(&root);
        assert!(refused.says().starts_with("ERROR: Another harness session"), "round {round}");
        drop(refused);
        fs::remove_dir(critical(&root)).unwrap();
        assert!(held.guard.still_held());
    }
}

#[test]
fn the_lock_of_a_killed_script_is_reclaimed() {
    let root = root();
    let mut script = Script::start(&root);
    assert_eq!(script.says(), "held");
    let pid = script.child.id();
    // After KILL, the trap does not run.
    script.child.kill().unwrap();
    script.child.wait().unwrap();
    assert!(root.lock().exists());
    let held = StateLock::acquire(&root.path(), Wait::No).unwrap();
    assert_eq!(held.warnings, [Warning::Reclaimed { pid: Some(pid) }]);
}

#[test]
fn a_script_reclaims_the_lock_of_a_killed_harness() {
    let root = root();
    let pid = super::dead_pid();
    root.signed_by(pid);
    fs::write(root.lock().join("owner"), "{}").unwrap();
    let mut script = Script::start(&root);
    assert_eq!(script.says(), format!("WARN: Removed stale lock from pid={pid}"));
    assert_eq!(script.says(), "held");
    script.end();
    assert!(!root.lock().exists());
}
