//! Many processes at one lock, some of which are killed at any moment.
//!
//! The workers are this test binary again. Only the directory lock is taken, because the OS lock
//! beneath would hide its faults.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use harness::store::lock::{DirectoryLock, LockError, Wait};

use super::Root;

const ROOT: &str = "HARNESS_TEST_LOCK_ROOT";
const SEED: &str = "HARNESS_TEST_LOCK_SEED";
const ENTRIES: usize = 60;

/// A xorshift generator (Marsaglia). A seed reproduces the decisions of each process.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// The body of a worker, not a test of its own. Without the environment it does nothing.
#[test]
fn worker() {
    let (Ok(root), Ok(seed)) = (std::env::var(ROOT), std::env::var(SEED)) else {
        return;
    };
    let root = PathBuf::from(root);
    let mut dice = Dice(seed.parse().unwrap());
    let mut entries = 0;
    while entries < ENTRIES {
        let wait = match dice.roll(3) {
            0 => Wait::No,
            _ => Wait::For(Duration::from_secs(60)),
        };
        let held = match DirectoryLock::acquire(&root, wait) {
            Ok(held) => held.guard,
            Err(LockError::Busy { .. }) => continue,
            Err(e) => panic!("WRONG {e}"),
        };
        enter(&root.join("critical"));
        entries += 1;
        println!("entry {entries}");
        for _ in 0..dice.roll(4000) {
            std::hint::spin_loop();
        }
        if !held.still_held() {
            println!("WRONG lost the lock");
        }
        let dies = dice.roll(25) == 0;
        if dies && dice.roll(2) == 0 {
            die();
        }
        fs::remove_file(root.join("critical")).unwrap();
        if dies {
            die();
        }
        drop(held);
    }
    println!("finished");
}

fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    unreachable!("KILL returns to nobody");
}

/// Creates a link, which gets its content in one step and only if nothing is there. A process that
/// finds one learns which process is inside, or died there.
fn enter(critical: &Path) {
    let pid = std::process::id().to_string();
    while symlink(&pid, critical).is_err() {
        let inside = fs::read_link(critical).unwrap();
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", inside.display())).unwrap_or_default();
        let dead = stat.is_empty() || stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']);
        if !dead {
            println!("WRONG overlap with {}", inside.display());
        }
        fs::remove_file(critical).unwrap();
    }
}

fn start(root: &Path, seed: u64, number: usize, tell: mpsc::Sender<(usize, String)>) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lock_soak::worker", "--nocapture", "--test-threads=1"])
        .env(ROOT, root)
        .env(SEED, seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = tell.send((number, line));
        }
        let _ = tell.send((number, "ended".to_owned()));
    });
    child
}

#[cfg(target_os = "linux")]
#[test]
fn no_two_processes_are_inside_while_holders_die() {
    let seed = match std::env::var("HARNESS_TEST_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => u64::from(std::process::id()) * 0x9E37_79B9 + 1,
    };
    println!("HARNESS_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let root = Root::new();
    let path = root.path();
    let (tell, heard) = mpsc::channel();
    let mut workers: Vec<Child> =
        (0..8).map(|number| start(&path, dice.roll(u64::MAX) | 1, number, tell.clone())).collect();
    let (mut wrong, mut entries, mut finished, mut ended) = (Vec::new(), 0, 0, 0);
    let mut replacements = 24;
    while ended < workers.len() {
        let (number, line) = heard.recv().unwrap();
        if line.contains("WRONG") {
            wrong.push(line);
        } else if line.contains("entry") {
            entries += 1;
            // A kill from outside may come at any moment: while the worker waits, takes, reclaims
            // or releases.
            if dice.roll(40) == 0 {
                let victim = dice.roll(workers.len() as u64) as usize;
                let _ = workers[victim].kill();
            }
        } else if line.contains("finished") {
            finished += 1;
        } else if line == "ended" {
            workers[number].wait().unwrap();
            ended += 1;
            if replacements > 0 {
                replacements -= 1;
                let seed = dice.roll(u64::MAX) | 1;
                workers.push(start(&path, seed, workers.len(), tell.clone()));
            }
        }
    }
    println!("{entries} entries by {} processes, {finished} of which finished", workers.len());
    assert_eq!(wrong, [""; 0], "seed {seed}");
    assert!(entries > 100, "{entries}");
    drop(DirectoryLock::acquire(&path, Wait::No).unwrap());
}
