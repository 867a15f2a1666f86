//! The behaviour of every adapter of a coding agent, for each way in which programs behave. The
//! program is a shell script: the adapter under test is set up so that it runs the text of the
//! prompt, or its instructions.

use std::{
    fs,
    future::Future,
    path::{Path, PathBuf},
    pin::pin,
    process::Command,
    sync::{Arc, Mutex, mpsc},
    task::Poll,
    thread,
    time::Duration,
};

use harness::{
    Agent, Cx, Envelope, Harness, Hub, Named, Result,
    agent::Prompt,
    core::agent::{End, FailureKind, StoppedBy},
    named,
    process::Limits,
};

/// A limit that is longer than any case takes.
const LONG: Duration = Duration::from_secs(120);
const PROMISE: &str = "TASK_COMPLETE";

/// A folder for one execution, with a pipe. A process that must not survive holds the pipe open.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        for part in ["tree", "state"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let pipes = ["roll", "told"].map(|name| folder.path().join(name));
        let made = Command::new("mkfifo").args(pipes).status().unwrap();
        assert!(made.success());
        Place { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn roll(&self) -> PathBuf {
        self.path().join("roll")
    }

    pub fn prompt(&self, script: &str) -> Prompt {
        Prompt::new(script)
            .in_tree(self.path().join("tree"))
            .folder(self.path().join("state"))
            .instructions(script.to_owned())
            .promise(PROMISE)
            .environment([
                ("PATH".into(), std::env::var_os("PATH").unwrap()),
                ("HARNESS_ROLL".into(), self.roll().into()),
            ])
            .limits(Limits { timeout: None, stall: None, grace: Duration::from_millis(200) })
            .run_id("run-of-a-test")
            .name("execution-1")
    }

    /// Sends a text to the agent once a process has written to the first pipe. The second pipe,
    /// `told`, is written to after that.
    pub fn say(&self, words: &'static str) -> Begun {
        Begun::Say { begun: self.watch(), words, told: self.path().join("told") }
    }

    /// Sends once when a process has opened the pipe and written to it, and once more when no
    /// process holds it any longer.
    pub fn watch(&self) -> mpsc::Receiver<()> {
        let (tell, told) = mpsc::channel();
        let roll = self.roll();
        thread::spawn(move || {
            let mut file = fs::File::open(roll).unwrap();
            let mut byte = [0];
            std::io::Read::read_exact(&mut file, &mut byte).unwrap();
            tell.send(()).unwrap();
            std::io::copy(&mut file, &mut std::io::sink()).unwrap();
            let _ = tell.send(());
        });
        told
    }
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

struct One<A> {
    agent: Named<A>,
}

/// Executes the agent in its own flow and returns its end with all events.
pub async fn execute<A>(agent: A, prompt: Prompt, begun: Begun) -> Result<(End, Vec<Arc<Envelope>>)>
where
    A: Agent<Input = Prompt, Output = End>,
{
    // A flow can be run more than once, but this one is not.
    let begun = Mutex::new(Some(begun));
    let flow = Harness::define("conformance")
        .agents(One { agent: named("agent", agent) })
        .state(|(): &()| ())
        .run(async move |cx: &mut Cx<'_, (), One<A>>| {
            let begun = begun.lock().unwrap().take();
            let (token, hub) = (cx.cancelled().clone(), cx.hub().clone());
            thread::spawn(move || match begun {
                Some(Begun::Cancel(told)) => {
                    told.recv_timeout(LONG).unwrap();
                    token.cancel();
                }
                Some(Begun::Say { begun, words, told }) => {
                    begun.recv_timeout(LONG).unwrap();
                    hub.send_to_run("run-0", words);
                    // This blocks until the reader opens the pipe.
                    let _ = fs::write(told, "\n");
                }
                Some(Begun::Nothing) | None => {}
            });
            cx.execute(|one| &one.agent, prompt.clone()).await
        });
    let done = flow.create_in(Hub::new("session"), ()).run().await?;
    Ok((done.result, done.events))
}

/// The action after the program has begun.
pub enum Begun {
    Nothing,
    Cancel(mpsc::Receiver<()>),
    Say { begun: mpsc::Receiver<()>, words: &'static str, told: PathBuf },
}

/// A script, and a check of its end.
struct Case {
    name: &'static str,
    script: &'static str,
    timeout: Option<Duration>,
    is_right: fn(&End) -> bool,
}

const fn case(name: &'static str, script: &'static str, is_right: fn(&End) -> bool) -> Case {
    Case { name, script, timeout: None, is_right }
}

fn is_finished(end: &End) -> bool {
    matches!(end, End::Finished { final_text, .. } if final_text.len() <= 3 * 1024 * 1024 + 64)
}

fn is_crash(end: &End, words: &[&str]) -> bool {
    let End::Failed { kind: FailureKind::Crashed, detail } = end else { return false };
    words.iter().all(|word| detail.contains(word))
}

const TIMED_OUT: fn(&End) -> bool = |end| *end == End::Stopped { by: StoppedBy::Timeout };
const SHORT: Option<Duration> = Some(Duration::from_millis(300));

/// `command` agents print their promise, and `shell` agents keep it by their exit code. In both
/// cases it is in the final text.
const CASES: &[Case] = &[
    case(
        "a normal end",
        "echo working; echo TASK_COMPLETE",
        |end| matches!(end, End::Finished { final_text, .. } if final_text.contains(PROMISE)),
    ),
    case("an empty end", "exit 0", is_finished),
    case("an error", "echo oops >&2; exit 3", |end| is_crash(end, &["3", "oops"])),
    case("killed", "kill -KILL $$", |end| is_crash(end, &["9"])),
    case(
        "a flood",
        "yes 0123456789012345678901234567890123456789 | head -c 200000000",
        is_finished,
    ),
    case("a flood of errors", "yes error | head -c 20000000 >&2; exit 1", |end| {
        is_crash(end, &["error"])
    }),
    case("no UTF-8", "printf '\\377\\376\\n\\303'; printf '\\377' >&2", is_finished),
    case("a line of 100 MB", "head -c 100000000 /dev/zero | tr '\\0' x", is_finished),
    Case { timeout: SHORT, ..case("hangs", "exec sleep 100000", TIMED_OUT) },
    Case { timeout: SHORT, ..case("ignores TERM", "trap '' TERM; sleep 100000", TIMED_OUT) },
    Case { timeout: SHORT, ..case("floods for ever", "yes", TIMED_OUT) },
];

/// Runs all cases with adapters that `agent` creates.
pub async fn conforms<A>(agent: impl Fn() -> A)
where
    A: Agent<Input = Prompt, Output = End>,
{
    for case in CASES {
        let place = Place::new();
        let mut prompt = place.prompt(case.script);
        prompt.limits.timeout = case.timeout;
        let (end, _) = execute(agent(), prompt, Begun::Nothing).await.unwrap();
        assert!((case.is_right)(&end), "{}: {:.300}", case.name, format!("{end:?}"));
        for part in ["processes", "prompts"] {
            let folder = place.path().join("state").join(part);
            let left = fs::read_dir(folder).map_or(0, Iterator::count);
            assert_eq!(left, 0, "{}: {part} of an execution that has ended", case.name);
        }
    }
    children_that_outlive_it_are_ended(agent()).await;
    one_that_is_cancelled_says_so(agent()).await;
    one_that_is_dropped_is_gone(agent()).await;
    a_work_tree_that_is_not_there_is_said(agent()).await;
}

/// Runs a further case, for adapters that learn the end of a turn before the program ends. The
/// program under test continues after its last word as long as the file `stays` lies beside the
/// work tree.
pub async fn converses<A>(agent: A)
where
    A: Agent<Input = Prompt, Output = End>,
{
    let place = Place::new();
    let prompt = place.prompt("touch ../stays");
    let (end, _) = execute(agent, prompt, Begun::Nothing).await.unwrap();
    let kept =
        |end: &End| matches!(end, End::Finished { final_text, .. } if final_text.contains(PROMISE));
    assert!(kept(&end), "says all and stays: {end:?}");
}

/// A child in its own session, reparented, that ignores TERM and keeps the output open.
const OUTLIVES: &str = "( setsid sh -c 'exec 9>\"$HARNESS_ROLL\"; trap \"\" TERM HUP; echo here >&9; \
                        exec sleep 100000' & )\n";

async fn children_that_outlive_it_are_ended<A>(agent: A)
where
    A: Agent<Input = Prompt, Output = End>,
{
    let place = Place::new();
    let told = place.watch();
    // The script ends only when the child is there, because both open the second pipe.
    let script = OUTLIVES.replace("exec sleep", "echo > ../both; exec sleep");
    let script = format!("mkfifo ../both\n{script}read line < ../both\necho TASK_COMPLETE\n");
    let (end, _) = execute(agent, place.prompt(&script), Begun::Nothing).await.unwrap();
    assert!(is_finished(&end), "{end:?}");
    for _ in 0..2 {
        told.recv_timeout(LONG).expect("a child is left");
    }
}

async fn one_that_is_cancelled_says_so<A>(agent: A)
where
    A: Agent<Input = Prompt, Output = End>,
{
    let place = Place::new();
    let script = format!("{OUTLIVES}exec sleep 100000");
    let prompt = place.prompt(&script);
    let (end, _) = execute(agent, prompt, Begun::Cancel(place.watch())).await.unwrap();
    assert_eq!(end, End::Stopped { by: StoppedBy::User });
}

async fn one_that_is_dropped_is_gone<A>(agent: A)
where
    A: Agent<Input = Prompt, Output = End>,
{
    let place = Place::new();
    let told = place.watch();
    let mut prompt = place.prompt(&format!("{OUTLIVES}exec sleep 100000"));
    prompt.limits.grace = LONG;
    {
        let mut running = pin!(execute(agent, prompt, Begun::Nothing));
        std::future::poll_fn(|cx| {
            if told.try_recv().is_ok() {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            let polled = running.as_mut().poll(cx);
            assert!(polled.is_pending(), "it ended by itself");
            Poll::Pending
        })
        .await;
    }
    told.recv_timeout(LONG).expect("it runs on");
}

async fn a_work_tree_that_is_not_there_is_said<A>(agent: A)
where
    A: Agent<Input = Prompt, Output = End>,
{
    let place = Place::new();
    let mut prompt = place.prompt("exit 0");
    prompt.work_tree = place.path().join("nowhere");
    let (end, _) = execute(agent, prompt, Begun::Nothing).await.unwrap();
    let End::Failed { kind: FailureKind::Config, detail } = end else { panic!("{end:?}") };
    assert!(detail.contains("nowhere"), "{detail}");
}
