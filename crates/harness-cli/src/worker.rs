//! The name under which this process claims tasks.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    path::Path,
};

use harness::home::folder::Folder;
use harness_core::WorkerId;
use sha2::{Digest, Sha256};

use crate::{
    environment::Environment,
    failure::{Failure, Result},
    paint::warn,
    root::StateRoot,
};

/// The `--worker` of every command that acts as a worker (`#[command(flatten)]`).
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Choice {
    /// Act as this worker [default: HARNESS_WORKER_ID, else your agent's session or terminal]
    #[arg(long, value_name = "WORKER")]
    worker: Option<String>,
}

/// The limit of the file. An id is far shorter.
const BYTES_MAX: u64 = 4096;
/// The prefix of every generated id.
const PREFIX: &str = "worker-";
/// The number of random bytes in a generated id.
const BYTES: usize = 6;
/// The variables that agents set for everything in their session. Every command of an agent is a
/// terminal session of its own, so that its file would be another worker each time. Codex comes
/// first: if Claude Code started it, its commands have both variables, but it names its own thread
/// to our server.
const SESSIONS: [&str; 2] = [CODEX_THREAD, "CLAUDE_CODE_SESSION_ID"];
const CODEX_THREAD: &str = "CODEX_THREAD_ID";

/// Whether a person chose the id of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdOrigin {
    /// By `--worker` or HARNESS_WORKER_ID.
    ByHand,
    /// It is that of a session, a terminal or a file.
    MadeUp,
}

impl Choice {
    /// Returns whether a person chose the id.
    pub(crate) fn origin(&self, env: &Environment) -> Result<IdOrigin> {
        let by_hand = self.worker.is_some() || env.text("HARNESS_WORKER_ID")?.is_some();
        Ok(if by_hand { IdOrigin::ByHand } else { IdOrigin::MadeUp })
    }

    /// Returns the worker: the given one, else HARNESS_WORKER_ID, else the one in
    /// HARNESS_WORKER_ID_FILE, else that of the agent's session, else that of the terminal. The
    /// root is searched only if the id is stored in it.
    pub(crate) fn id(
        &self,
        env: &Environment,
        root: impl FnOnce() -> Result<StateRoot>,
    ) -> Result<WorkerId> {
        if let Some(told) = &self.worker {
            return WorkerId::parse(told).map_err(|bad| Failure::usage(bad.to_string()));
        }
        let session = SESSIONS.iter().find_map(|name| env.text(name).transpose());
        of_session(env, session.transpose()?, root)
    }
}

/// Does the same for callers that know the agent's session by other means than its variables.
pub(crate) fn of_session(
    env: &Environment,
    session: Option<&str>,
    root: impl FnOnce() -> Result<StateRoot>,
) -> Result<WorkerId> {
    if let Some(told) = env.text("HARNESS_WORKER_ID")? {
        return WorkerId::parse(told)
            .map_err(|bad| Failure::config(format!("HARNESS_WORKER_ID: {bad}")));
    }
    if let Some(file) = env.path("HARNESS_WORKER_ID_FILE") {
        return kept_in(file);
    }
    match session {
        Some(session) => {
            let hash = Sha256::digest(session.as_bytes());
            WorkerId::parse(&named(&hash[..BYTES])).map_err(|bad| Failure::error(bad.to_string()))
        }
        None => {
            let workers = Folder::ours(&root()?.own_directory("workers")?)?;
            kept(&workers, &terminal_file()?)
        }
    }
}

/// Returns the environment of Codex's own commands. Codex sets no variable for a server, but names
/// the thread with each call.
pub(crate) fn in_codex_thread(env: &Environment, thread: &str) -> Environment {
    env.with(CODEX_THREAD, thread)
}

/// Returns the name of one file per terminal session, so that a dozen terminals are a dozen
/// workers. A session's number is that of its leader and is reused after its end. Together with the
/// leader's start time it is unique.
fn terminal_file() -> Result<String> {
    let (session, terminal) = own_session()?;
    if session == 0 {
        // The leader is outside our pid namespace, as in most containers. Only the terminal
        // distinguishes two sessions then.
        return Ok(format!("terminal-tty-{terminal}"));
    }
    // A leader that has ended still reserves its number while the session lives.
    let started = fs::read_to_string(format!("/proc/{session}/stat"))
        .ok()
        .and_then(|stat| field(&stat, 22).map(str::to_owned))
        .unwrap_or_else(|| "gone".to_owned());
    Ok(format!("terminal-{session}-{started}"))
}

/// Returns the number of this process's session, and that of its terminal's device. It is read from
/// /proc because `rustix::process::getsid` does not accept 0.
#[cfg(target_os = "linux")]
fn own_session() -> Result<(u32, String)> {
    let path = Path::new("/proc/self/stat");
    let stat = fs::read_to_string(path).map_err(|why| Failure::file("read", path, &why))?;
    let session = field(&stat, 6).and_then(|text| text.parse().ok());
    match (session, field(&stat, 7)) {
        (Some(session), Some(terminal)) => Ok((session, terminal.to_owned())),
        _ => Err(Failure::error("/proc/self/stat names no session")
            .hint("name the worker with --worker or HARNESS_WORKER_ID")),
    }
}

#[cfg(not(target_os = "linux"))]
fn own_session() -> Result<(u32, String)> {
    let session = rustix::process::getsid(None).map_err(io::Error::from)?;
    Ok((session.as_raw_nonzero().get().unsigned_abs(), String::new()))
}

/// Returns field `number` of /proc/PID/stat, from the third on. The second field, the program's
/// name in parentheses, may contain blanks and parentheses, so counting begins after the last
/// parenthesis.
fn field(stat: &str, number: usize) -> Option<&str> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(number - 3)
}

/// Returns the id in the user's own file, which may be a link.
fn kept_in(file: &Path) -> Result<WorkerId> {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let parent = file.parent().filter(|parent| *parent != Path::new(""));
    let folder = Folder::open_private(parent.unwrap_or(Path::new(".")))?;
    kept(&folder, file.file_name().and_then(OsStr::to_str).unwrap_or_default())
}

/// Returns the id in a file, and creates it if there is none. If several processes create one at
/// the same time, the first file in place decides, and all of them return the same id.
fn kept(folder: &Folder, name: &str) -> Result<WorkerId> {
    match read(folder, name)? {
        Kept::Worker(worker) => return Ok(worker),
        Kept::Damaged => {
            let file = folder.shown(name);
            warn(&format!("{file} holds no worker id that harness made; it gets a new one"));
            folder.put(name, format!("{}\n", new_id()?).as_bytes())?;
        }
        Kept::Nothing => {}
    }
    // The write is durable, because a power cut could otherwise leave an empty file under the final
    // name.
    folder.put_first(name, format!("{}\n", new_id()?).as_bytes())?;
    match read(folder, name)? {
        Kept::Worker(worker) => Ok(worker),
        Kept::Damaged | Kept::Nothing => {
            Err(Failure::error(format!("{} vanished", folder.shown(name))))
        }
    }
}

/// The content of a file for a worker id.
enum Kept {
    Worker(WorkerId),
    Damaged,
    Nothing,
}

fn read(folder: &Folder, name: &str) -> Result<Kept> {
    // A pipe or a device may never end.
    let bytes = folder.read_small(name, BYTES_MAX).map_err(|why| {
        Failure::config(why.to_string()).hint("name another file for the worker's id")
    })?;
    let Some(bytes) = bytes else { return Ok(Kept::Nothing) };
    let text = String::from_utf8_lossy(&bytes);
    let made = text.trim_end().strip_prefix(PREFIX).is_some_and(|digits| {
        digits.len() == 2 * BYTES && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    Ok(match WorkerId::parse(text.trim_end()) {
        Ok(worker) if made => Kept::Worker(worker),
        Ok(_) | Err(_) => Kept::Damaged,
    })
}

fn new_id() -> Result<String> {
    let mut random = [0; BYTES];
    let source = Path::new("/dev/urandom");
    File::open(source)
        .and_then(|mut source| source.read_exact(&mut random))
        .map_err(|why| Failure::file("read", source, &why))?;
    Ok(named(&random))
}

fn named(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("worker-{hex}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_field_is_found_behind_any_name() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        assert_eq!(field(stat, 22), Some("777"));
        assert_eq!(field("42 (x", 22), None);
    }

    #[test]
    fn all_who_ask_at_once_get_one_id() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("id");
        let ids: Vec<_> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..16).map(|_| scope.spawn(|| kept_in(&file).unwrap())).collect();
            asking.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(ids[0].as_str().len(), "worker-".len() + 12);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_told_needs_no_root() {
        let nowhere = || -> Result<StateRoot> { panic!("searched for the root") };
        let env = Environment::of(&[("HARNESS_WORKER_ID", "w-env")]);
        let told = Choice { worker: Some("w-flag".into()) };
        assert_eq!(told.id(&env, nowhere).unwrap().as_str(), "w-flag");
        assert_eq!(Choice { worker: None }.id(&env, nowhere).unwrap().as_str(), "w-env");
        let bad = Environment::of(&[("HARNESS_WORKER_ID", "a/b")]);
        let failure = Choice { worker: None }.id(&bad, nowhere).unwrap_err();
        assert!(failure.error.starts_with("HARNESS_WORKER_ID: "), "{failure}");
    }

    #[test]
    fn a_session_is_one_worker_wherever_it_is_told() {
        let nowhere = || -> Result<StateRoot> { panic!("searched for the root") };
        let worker = |pairs: &[(&str, &str)]| {
            Choice { worker: None }.id(&Environment::of(pairs), nowhere).unwrap()
        };
        let (claude, codex) = (("CLAUDE_CODE_SESSION_ID", "s"), ("CODEX_THREAD_ID", "t"));
        let none = Environment::of(&[]);
        assert_eq!(worker(&[claude]), of_session(&none, Some("s"), nowhere).unwrap());
        assert_eq!(worker(&[claude]).as_str(), "worker-043a718774c5");
        assert_ne!(worker(&[claude]), worker(&[codex]));
        assert_eq!(worker(&[claude, codex]), worker(&[codex]), "as it tells our server");
        let served = in_codex_thread(&Environment::of(&[claude]), "t");
        assert_eq!(Choice { worker: None }.id(&served, nowhere).unwrap(), worker(&[codex]));
        let told = ("HARNESS_WORKER_ID", "w");
        assert_eq!(worker(&[claude, codex, told]).as_str(), "w");
        let told = Environment::of(&[told]);
        assert_eq!(of_session(&told, Some("s"), nowhere).unwrap().as_str(), "w");
    }

    #[test]
    fn a_damaged_file_gets_a_new_id_and_an_unusable_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("id");
        for damaged in ["\n", "rubbish\n", "worker-12\n", "worker-zzzzzzzzzzzz\n"] {
            fs::write(&file, damaged).unwrap();
            let id = kept_in(&file).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), format!("{id}\n"), "{damaged:?}");
            assert_eq!(kept_in(&file).unwrap(), id);
        }
        let device = kept_in(Path::new("/dev/zero")).unwrap_err();
        assert!(device.error.starts_with("/dev/zero is a device"), "{}", device.error);
    }
}
