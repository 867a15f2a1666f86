//! Notifications: `[[notify]]` and `harness notify`.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use insta::assert_snapshot;
use serde_json::Value;
use sha2::Sha256;

use crate::{
    environment::TestEnvironment,
    gates::with_approval,
    receiver::{Receiver, Silence},
    run::{add, world},
};

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn configure(env: &TestEnvironment, text: &str) {
    env.write(env.home().join(".config/harness/config.toml"), text);
}

fn outbox(env: &TestEnvironment) -> Vec<Value> {
    let listed = env.run(["notify", "list", "--json"]).success().json();
    listed["messages"].as_array().unwrap().clone()
}

/// Waits until a message in the outbox is as wanted. Each look is a process of its own.
fn wait_for(env: &TestEnvironment, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let rows = outbox(env);
        if let Some(row) = rows.iter().find(|row| is_wanted(row)) {
            return row.clone();
        }
        assert!(Instant::now() < until, "{rows:#?}");
    }
}

#[test]
fn the_end_of_a_run_reaches_a_webhook_with_its_signature() {
    let receiver = Receiver::start(200);
    let env = world().variable("MY_HOOK_SECRET", KEY);
    let url = receiver.url("/hook");
    configure(
        &env,
        &format!(
            "[[notify]]\nkind = 'webhook'\nurl = '{url}'\nsecret = {{ env = 'MY_HOOK_SECRET' }}\n"
        ),
    );
    add(&env, "touch one", "test -f one", &[]);
    env.run(["run", "--agent", "shell"]).success();
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1, "{requests:#?}");
    let (request, document) = (&requests[0], requests[0].json());
    assert_eq!((request.path.as_str(), &document["type"]), ("/hook", &"harness.finished".into()));
    let data = &document["data"];
    assert_eq!(data["text"], "1 of 1 tasks done.");
    assert_eq!((&data["command"], &data["project"]), (&"harness report".into(), &"project".into()));
    let key = STANDARD.decode(KEY.strip_prefix("whsec_").unwrap()).unwrap();
    let signed =
        [request.headers["webhook-id"].as_str(), &request.headers["webhook-timestamp"], ""];
    let mac = Hmac::<Sha256>::new_from_slice(&key).unwrap().chain_update(signed.join("."));
    let expected = STANDARD.encode(mac.chain_update(&request.body).finalize().into_bytes());
    assert_eq!(request.headers["webhook-signature"], format!("v1,{expected}"));
    assert_eq!(request.headers["webhook-id"], data["id"].as_str().unwrap());
    assert_eq!(outbox(&env)[0]["delivery"], "sent");
}

/// The first task fails for good at once, and a message about it goes to a port that never answers.
#[test]
fn a_dead_webhook_does_not_delay_a_run() {
    let silence = Silence::start();
    let env = world();
    configure(&env, &format!("[[notify]]\nkind = 'webhook'\nurl = '{}'\n", silence.url()));
    add(&env, "true", "false", &["--max-attempts", "1", "--priority", "P0"]);
    for n in 0..3 {
        add(&env, &format!("touch t{n}"), &format!("test -f t{n}"), &[]);
    }
    let begun = Instant::now();
    env.run(["run", "--agent", "shell"])
        .code(4)
        .stderr_contains("still waiting: `harness notify list`");
    let took = begun.elapsed();
    let times: Vec<(String, i64)> = recorded(&env)
        .iter()
        .map(|line| {
            let time: harness_core::Timestamp =
                serde_json::from_value(line["timestamp"].clone()).unwrap();
            (line["event"]["type"].as_str().unwrap_or_default().to_owned(), time.seconds())
        })
        .collect();
    let of = |kind: &str| -> Vec<i64> {
        times.iter().filter(|(known, _)| known == kind).map(|(_, time)| *time).collect()
    };
    let (failed, done) = (of("task:failed")[0], *of("task:complete").last().unwrap());
    // One try takes ten seconds. A run that waited for it would need them between the two.
    assert!(done - failed < 10, "{times:?}");
    assert_eq!(of("task:complete").len(), 3);
    assert!(took < Duration::from_secs(60), "{took:?}");
    let rows = outbox(&env);
    assert!(rows.iter().all(|row| row["delivery"] == "waiting"), "{rows:#?}");
    assert_eq!(rows.len(), 2, "the failure and the end: {rows:#?}");
}

fn recorded(env: &TestEnvironment) -> Vec<Value> {
    let folder = std::fs::read_dir(env.root().join(".harness/runs")).unwrap();
    let files = folder.map(|entry| entry.unwrap().path());
    let records = files.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let text: String = records.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_message_survives_a_killed_run_and_goes_out_with_the_next_process_under_the_same_id() {
    let receiver = Receiver::start(503);
    let env = world();
    let url = receiver.url("/");
    configure(&env, &format!("[[notify]]\nkind = 'slack'\nname = 'team'\nurl = '{url}'\n"));
    let gate = env.home().join("gate");
    assert!(env.program("mkfifo").arg(&gate).status().unwrap().success());
    add(&env, "true", "false", &["--max-attempts", "1", "--priority", "P0"]);
    add(&env, &format!("cat {} >/dev/null; touch two", gate.display()), "test -f two", &[]);
    let mut run = env.harness(["run", "--agent", "shell"]).stderr(Stdio::null()).spawn().unwrap();
    let row = wait_for(&env, |row| row["error"] == "HTTP 503");
    assert_eq!((&row["delivery"], &row["channel"]), (&"waiting".into(), &"team".into()));
    assert_eq!(row["notice"]["title"], "project: task-001 failed for good");
    run.kill().unwrap();
    run.wait().unwrap();
    let before = receiver.requests().len();
    receiver.answer(200);
    let until = Instant::now() + Duration::from_secs(60);
    while outbox(&env)[0]["delivery"] != "sent" {
        assert!(Instant::now() < until, "{:#?}", outbox(&env));
        env.run(["notify", "send"]).success();
    }
    let sent = outbox(&env);
    assert_eq!(sent[0]["notice"]["id"], row["notice"]["id"]);
    let requests = receiver.requests();
    assert_eq!(requests.len(), before + 1, "{requests:#?}");
    let text = requests.last().unwrap().json()["text"].as_str().unwrap().to_owned();
    assert_eq!(
        text,
        "*project: task-001 failed for good*\na task (TEST_FAIL, after 1 attempt)\n`harness why task-001`"
    );
}

#[test]
fn an_approval_and_its_answer_reach_a_command_of_the_daemon() {
    let env = crate::daemon::world();
    let told = env.home().join("told");
    let text = format!(
        "[[notify]]\nkind = 'command'\non = ['gate']\ncommand = 'cat >> {}'\n",
        told.display()
    );
    configure(&env, &text);
    with_approval(&env);
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "plan"]).success();
    env.run(["task", "claim"]).success();
    let asked = env.run(["questions", "--json"]).success().json();
    let id = asked["questions"][0]["prompt_id"].as_str().unwrap();
    let row = wait_for(&env, |row| row["delivery"] == "sent");
    assert_eq!(row["notice"]["event"], "gate");
    let notice: Value = serde_json::from_str(&env.read(&told)).unwrap();
    assert_eq!(notice, row["notice"]);
    assert_eq!(notice["command"], format!("harness reply {id} approve"));
}

#[test]
fn nothing_is_sent_in_quiet_hours_or_about_other_events() {
    let receiver = Receiver::start(200);
    let env = world();
    let now = jiff_minute();
    let clock = |minute: i64| {
        let minute = minute.rem_euclid(1440);
        format!("{:02}:{:02}", minute / 60, minute % 60)
    };
    let quiet = format!("{}-{}", clock(now - 120), clock(now + 120));
    let url = receiver.url("/");
    configure(
        &env,
        &format!(
            "[[notify]]\nkind = 'slack'\nname = 'night'\nurl = '{url}'\nquiet = '{quiet}'\n\
             [[notify]]\nkind = 'slack'\nname = 'other'\nurl = '{url}'\non = ['question']\n"
        ),
    );
    add(&env, "touch one", "test -f one", &[]);
    env.run(["run", "--agent", "shell"]).success();
    assert!(receiver.requests().is_empty());
    let rows = outbox(&env);
    assert_eq!(
        (rows.len(), &rows[0]["channel"], &rows[0]["tries"]),
        (1, &"night".into(), &0.into())
    );
}

/// Returns the minute of the day in UTC, which is the zone of every test.
fn jiff_minute() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() / 60 % 1440
}

#[test]
fn a_channel_can_be_tried_and_what_fails_is_named_without_its_address() {
    let receiver = Receiver::start(404);
    let env = world().variable("CHAT_TOKEN", "12345:abcdefgh");
    let told = env.home().join("told");
    let url = receiver.url("");
    configure(
        &env,
        &format!(
            "[[notify]]\nkind = 'command'\ncommand = 'cat > {told}'\n\
             [[notify]]\nkind = 'telegram'\nname = 'phone'\nurl = '{url}'\ntoken = {{ env = 'CHAT_TOKEN' }}\nchat = '7'\n\
             [[notify]]\nkind = 'ntfy'\ntopic = {{ env = 'NO_SUCH_TOPIC' }}\n",
            told = told.display()
        ),
    );
    assert_snapshot!(env.run(["notify", "test"]).code(1).output(), @r"
    command (command): sent
    phone (telegram): failed: HTTP 404
    ");
    let notice: Value = serde_json::from_str(&env.read(&told)).unwrap();
    assert_eq!(notice["text"], "This channel works.");
    assert_eq!(receiver.requests()[0].path, "/bot12345:abcdefgh/sendMessage");
    receiver.answer(200);
    let tried = env.run(["notify", "test", "--name", "phone", "--json"]);
    let tried =
        tried.code(1).stderr_contains("ntfy: `topic`: the variable NO_SUCH_TOPIC is not set");
    assert_eq!(tried.json()["channels"][0]["sent"], true);
    let shown = env.run(["config", "notify"]).success();
    assert!(!shown.output().contains("12345:"), "{}", shown.output());
}

#[test]
fn an_untrusted_root_sends_nothing_and_its_addresses_are_not_shown_whole() {
    let receiver = Receiver::start(200);
    let env = world();
    let told = env.root().join("told");
    let url = receiver.url("/services/T0/B0/verysecret");
    let text = format!(
        "[[notify]]\nkind = 'slack'\nurl = '{url}'\n[[notify]]\nkind = 'command'\ncommand = 'touch {}'\n",
        told.display()
    );
    env.write("harness.toml", text).git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "-m", "settings"]);
    add(&env, "touch one", "test -f one", &[]);
    for args in [&["notify", "test"][..], &["notify", "send"], &["run", "--agent", "shell"]] {
        let refused = env.run(args).code(5);
        let said = refused.errors();
        assert!(said.contains("url = \"http://127.0.0.1:"), "{said}");
        assert!(said.contains("touch ") && !said.contains("verysecret"), "{said}");
    }
    assert!(receiver.requests().is_empty() && !told.exists());
    env.run(["trust", "--yes"]).success();
    env.run(["run", "--agent", "shell"]).success();
    assert_eq!(receiver.requests().len(), 1);
    assert!(told.exists());
    // Another address is another item, although it looks the same.
    let text = env.read("harness.toml").replace("verysecret", "otherone");
    env.write("harness.toml", text).git(["commit", "--quiet", "-am", "other"]);
    env.run(["notify", "test"]).code(5);
}

#[test]
fn a_secret_of_a_channel_reaches_neither_agents_nor_checks_nor_files() {
    let receiver = Receiver::start(200);
    let hook = receiver.url("/very-secret-part");
    let env = world().variable("HARNESS_MY_HOOK", &hook);
    configure(&env, "[[notify]]\nkind = 'discord'\nurl = { env = 'HARNESS_MY_HOOK' }\n");
    let [agent, check] = ["agent-env", "check-env"].map(|name| env.home().join(name));
    add(&env, &format!("env > {}", agent.display()), &format!("env > {}", check.display()), &[]);
    env.run(["run", "--agent", "shell"]).success();
    for file in [agent, check] {
        let seen = env.read(file);
        assert!(seen.contains("HARNESS_TASK_ID=") && !seen.contains("very-secret-part"), "{seen}");
    }
    let ran = env.run(["run", "write it", "--agent-command", "env", "--max-iterations", "0"]);
    assert!(!ran.errors().contains("very-secret-part"), "{ran}");
    assert!(receiver.requests().iter().all(|request| request.path == "/very-secret-part"));
    let kept = env.root().join(".harness");
    let found =
        env.program("grep").args(["-r", "-l", "very-secret-part"]).arg(kept).output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
}

#[test]
fn a_mistake_in_a_channel_is_named_with_its_line() {
    let env = world();
    for (text, problem) in [
        ("[[notify]]\nkind = 'fax'\n", "unknown variant `fax`"),
        ("[[notify]]\nkind = 'slack'\n", "a channel of kind \"slack\" needs `url`"),
        (
            "[[notify]]\nkind = 'desktop'\nurl = 'x'\n",
            "a channel of kind \"desktop\" takes no `url`",
        ),
        (
            "[[notify]]\nkind = 'desktop'\non = ['done']\n",
            "unknown event \"done\": one of question, gate",
        ),
        ("[[notify]]\nkind = 'desktop'\nquiet = '22-7'\n", "is no part of the day"),
        (
            "[[notify]]\nkind = 'webhook'\nurl = 'https://x'\nsecret = 'abc'\n",
            "`secret` must not be in this file",
        ),
        ("[[notify]]\nkind = 'desktop'\ncolour = 1\n", "unknown field `colour`"),
        ("notify = 3\n", "expected a command in quotes, or tables [[notify]]"),
    ] {
        env.write("harness.toml", text);
        let failed = env.run(["config"]).code(5);
        let said = failed.errors();
        assert!(said.starts_with("Error: [ROOT]/harness.toml:"), "{said}");
        assert!(said.contains(problem), "{problem}: {said}");
    }
}
