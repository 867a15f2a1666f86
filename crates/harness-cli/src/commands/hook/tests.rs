//! Ten thousand random calls of each hook, in all kinds of surroundings: none panics, none shows a
//! trace of its internals, and each ends in an allowed way.

use std::{fs, path::PathBuf};

use harness_sim::random::Random;
use serde_json::Value;

use super::*;
use crate::{
    render::{ColorWhen, Out},
    root::LEDGER,
};

const CALLS: usize = 10_000;

const LEDGERS: [&str; 7] = [
    r#"{"version":2,"tasks":[{"id":"a","title":"A"},{"id":"b","status":"completed"}]}"#,
    r#"{"version":2,"tasks":[{"id":"a","status":"in_progress","claimed_by":"w"},{"id":"b"}],
       "session_config":{"concurrency_mode":"concurrent"}}"#,
    r#"{"version":2,"tasks":[{"id":"a","status":"in_progress","title":"é\n\u0000"}],"goal":"g"}"#,
    r#"{"version":2,"tasks":[{"id":"a","status":"completed"}]}"#,
    r#"{"version":2,"tasks":[{"id":"a"},{"id":"a"}]}"#,
    "{ broken",
    "",
];

/// Fields that agents send, and some that they do not.
const FIELDS: [&str; 11] = [
    "session_id",
    "stop_hook_active",
    "agent_type",
    "agent_id",
    "teammate_name",
    "transcript_path",
    "task_id",
    "hook_event_name",
    "cwd",
    "prompt",
    "",
];

const VALUES: [&str; 18] = [
    r#""/harness run""#,
    r#""/harness do it""#,
    "true",
    "false",
    "null",
    "0",
    "-1e400",
    "[[{}]]",
    "{\"a\":[1]}",
    r#""""#,
    r#""w""#,
    r#""a""#,
    r#""s""#,
    r#""/""#,
    r#""/dev/zero""#,
    r#""../../x\u0000\n""#,
    r#""\ud800""#,
    "ROOT",
];

const VARIABLES: [(&str, &[&str]); 7] = [
    ("HARNESS_WORKER_ID", &["w", "\n", "/"]),
    ("HARNESS_TASK_ID", &["a", "x", " "]),
    ("HARNESS_EPOCH", &["0", "1", "x"]),
    ("HARNESS_RUN_ID", &["r", "01920000-0000-7000-8000-000000000000"]),
    ("HARNESS_HOOKS", &["off", "on"]),
    ("HARNESS_BIND", &["1", "0"]),
    ("REFLECT_MAX_ITERATIONS", &["0", "-1", "2", "x", "99999999999999999999"]),
];

/// A project in memory, if the machine has a place for that. Durability is not tested here.
struct Place {
    _directory: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::write(root.join("harness-progress.txt"), b"[x\n\xff\xfe STATS\n").unwrap();
        let entry = json!({ "type": "user", "message": { "content": [{ "type": "text", "text": "é".repeat(3000) }] } });
        fs::write(root.join("transcript"), format!("{{\n{entry}\n")).unwrap();
        Self { _directory: directory, root }
    }

    /// Prepares the files that a hook finds.
    fn prepare(&self, hook: Hook, random: &mut Random) -> &'static str {
        // A claim is a transaction, and a thousand of them are enough.
        let from = if hook == Hook::Claim && random.percent(70) { 3 } else { 0 };
        let ledger = random.pick(&LEDGERS[from..]).copied().unwrap_or_default();
        fs::write(self.root.join(LEDGER), ledger).unwrap();
        for marker in [project::ACTIVE, project::REFLECT] {
            let sessions = random.pick(&["", "", "s\n", "other"]).copied().unwrap_or_default();
            fs::write(self.root.join(marker), sessions).unwrap();
        }
        if random.percent(10) {
            let counter = random.pick(&["8,0", "x", "7,99", ","]).copied().unwrap_or_default();
            fs::write(self.root.join(project::COUNTER), counter).unwrap();
        }
        ledger
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let hash = harness::home::root_hash(&self.root);
        _ = fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"));
    }
}

fn input(random: &mut Random, root: &Path) -> Vec<u8> {
    if random.percent(10) {
        return (0..random.below(64)).map(|_| random.next().to_le_bytes()[0]).collect();
    }
    let count = random.below(7);
    let field = |random: &mut Random| {
        let name = random.pick(&FIELDS).copied().unwrap_or_default();
        let value = match random.pick(&VALUES).copied().unwrap_or_default() {
            "ROOT" => Value::from(root.join("transcript").to_string_lossy()).to_string(),
            value => value.to_owned(),
        };
        format!("{}:{value}", Value::from(name))
    };
    let fields: Vec<_> = (0..count).map(|_| field(random)).collect();
    let mut bytes = format!("{{{}}}", fields.join(",")).into_bytes();
    // Some inputs are damaged.
    if random.percent(10) {
        bytes.truncate(random.below(bytes.len()));
    } else if random.percent(10) {
        let at = random.below(bytes.len());
        bytes[at] = random.next().to_le_bytes()[0];
    }
    bytes
}

fn variables(random: &mut Random) -> Vec<(&'static str, &'static str)> {
    let mut set = vec![("HARNESS_DAEMON", "off"), ("HARNESS_LOCK_TIMEOUT_SECONDS", "0")];
    for (name, values) in VARIABLES {
        if random.percent(20) {
            set.extend(random.pick(values).map(|value| (name, *value)));
        }
    }
    set
}

fn ten_thousand(hook: Hook) {
    let told = std::env::var("HARNESS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = told.unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761);
    println!("HARNESS_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let place = Place::new();
    for number in 0..CALLS {
        let ledger = place.prepare(hook, &mut random);
        let input = input(&mut random, &place.root);
        let set = variables(&mut random);
        let env = Environment::of(&set);
        let is_off = is_off(&env);
        let out = Out::new(ColorWhen::Never, &env);
        let interrupt = crate::interrupt::Interrupt::Signals;
        let invocation = Invocation { out, env, plain: true, interrupt };
        let audience = random.pick(&[Audience::Everyone, Audience::Bound]).copied().unwrap();
        let payload = Payload::read(&input);
        let (_, answer) = call(&invocation, audience, hook, &payload, &place.root);
        if let Some(wrong) = wrong(hook, is_off, &answer) {
            let input = String::from_utf8_lossy(&input);
            panic!("seed {seed}, call {number}: {wrong}\n{input}\n{set:?}\n{ledger}\n{answer:?}");
        }
        if !hook.is_tool() {
            assert_eq!(fs::read_to_string(place.root.join(LEDGER)).unwrap(), ledger, "seed {seed}");
        }
    }
}

/// Returns the problem of an answer, if there is one.
fn wrong(hook: Hook, is_off: bool, answer: &Answer) -> Option<&'static str> {
    let Answer { stdout, stderr, ending } = answer;
    let document = serde_json::from_str::<Value>(stdout).ok().filter(Value::is_object);
    let says = |key: &str| document.as_ref().is_some_and(|said| said[key].is_boolean());
    let context = document.as_ref().map(|said| &said["hookSpecificOutput"]["additionalContext"]);
    let context = context.and_then(Value::as_str).unwrap_or_default();
    let go_on = *ending == Ending::GoOn;
    let code = ending.exit_code() as u8;
    let rules = [
        (code != 0 && !(hook == Hook::TeammateIdle && code == 2), "the exit code"),
        (go_on && (!stdout.is_empty() || stderr.is_empty()), "2 without a reason"),
        (stderr.lines().any(|line| !line.starts_with("HARNESS: ")), "a line on stderr"),
        (stderr.contains("bug in harness") || stderr.contains("panicked"), "a trace"),
        (!stdout.is_empty() && document.is_none() && hook != Hook::PreCompact, "no JSON"),
        (stdout.chars().count() > 10_001 && hook == Hook::PreCompact, "too long"),
        (context.chars().count() > 10_000, "too long"),
        (hook == Hook::Claim && !says("claimed"), "no answer"),
        (hook == Hook::Renew && !says("renewed"), "no answer"),
        (is_off && !hook.is_tool() && *answer != Answer::silent(), "not silent"),
    ];
    rules.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, what)| what)
}

#[test]
fn no_input_breaks_stop() {
    ten_thousand(Hook::Stop);
}

#[test]
fn no_input_breaks_session_start() {
    ten_thousand(Hook::SessionStart);
}

#[test]
fn no_input_breaks_teammate_idle() {
    ten_thousand(Hook::TeammateIdle);
}

#[test]
fn no_input_breaks_subagent_stop() {
    ten_thousand(Hook::SubagentStop);
}

#[test]
fn no_input_breaks_self_reflect() {
    ten_thousand(Hook::SelfReflect);
}

#[test]
fn no_input_breaks_pre_compact() {
    ten_thousand(Hook::PreCompact);
}

#[test]
fn no_input_breaks_prompt() {
    ten_thousand(Hook::Prompt);
}

#[test]
fn no_input_breaks_claim() {
    ten_thousand(Hook::Claim);
}

#[test]
fn no_input_breaks_renew() {
    ten_thousand(Hook::Renew);
}
