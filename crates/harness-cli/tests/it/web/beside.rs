//! The page beside a run and beside a daemon.

use std::fs;

use super::{
    client::{Request, get},
    server::path_of,
};
use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, Held, bare_agent, stage},
};

/// Opens the link of a server that another process has started.
struct Visitor {
    port: u16,
    base: String,
    cookie: String,
    secrets: Vec<String>,
}

impl Visitor {
    fn new(env: &TestEnvironment) -> Self {
        let link = env.run(["web", "--url", "--json"]).success().json();
        let url = link["url"].as_str().unwrap();
        let port = u16::try_from(link["port"].as_u64().unwrap()).unwrap();
        let response = get(path_of(url)).send(port);
        let cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let parts: Vec<&str> = path_of(url).split('/').collect();
        let secrets =
            vec![parts[1].to_owned(), parts[3].to_owned(), cookie.replace("harness=", "")];
        Self { port, base: format!("/{}/", parts[1]), cookie, secrets }
    }

    fn get(&self, page: &str) -> Request {
        get(format!("{}{page}", self.base)).header("Cookie", &*self.cookie)
    }
}

#[test]
fn an_agent_of_a_run_with_a_page_sees_no_secret() {
    let env = stage().without_variable("HARNESS_DAEMON");
    let held = Held::new(&env);
    let script = fs::read_to_string(held.command.strip_prefix("sh ").unwrap()).unwrap();
    let told = "env > \"$HOME/seen\"; ps -ewwo args >> \"$HOME/seen\" 2>&1; cat /proc/$PPID/environ >> \"$HOME/seen\" 2>&1\n";
    let command = bare_agent(&env, &format!("{told}{script}"));
    let run = Going::start(&env, &["run", "write it", "--agent-command", &command, "--web"]);
    held.is_at_work();
    let visitor = Visitor::new(&env);
    let page = visitor.get("").send(visitor.port);
    assert!(page.body.contains("write it"), "{}", page.body);
    held.release();
    let (code, out, err) = run.end();
    assert_eq!(code, Some(0), "{err}");
    let seen = fs::read(env.home().join("seen")).unwrap();
    let seen = String::from_utf8_lossy(&seen).into_owned() + &out + &err;
    for secret in &visitor.secrets {
        assert!(!seen.contains(secret.as_str()), "{secret} is in {seen}");
    }
    env.run(["web", "--url"]).code(1).stderr_contains("no web server is running here");
}

#[test]
fn a_run_in_the_background_writes_no_link_to_its_log() {
    let env = stage().without_variable("HARNESS_DAEMON");
    let held = Held::new(&env);
    let args = ["run", "write it", "--agent-command", &held.command, "--web", "--detach"];
    env.run(args).success();
    held.is_at_work();
    let visitor = Visitor::new(&env);
    assert_eq!(visitor.get("").send(visitor.port).status, 200);
    let log = env.read(".harness/run.log");
    assert!(log.contains("`harness web --url` prints a link"), "{log}");
    assert!(!log.contains("http") && visitor.secrets.iter().all(|s| !log.contains(s.as_str())));
    held.release();
    while env.run(["web", "--url"]).ended_with(&[0]) {}
}

#[test]
fn a_daemon_shows_the_page_and_an_idle_one_is_not_kept_alive_by_it() {
    let env = TestEnvironment::of_worker().with_daemon();
    env.run(["daemon", "start", "--web"]).success();
    env.run(["add", "Parse the file", "--validate", "true"]).success();
    let visitor = Visitor::new(&env);
    assert!(visitor.get("tasks").send(visitor.port).body.contains("Parse the file"));
    let log = env.read(".harness/daemon.log");
    assert!(visitor.secrets.iter().all(|secret| !log.contains(secret.as_str())), "{log}");
    env.run(["daemon", "stop"]).success();
    env.run(["web", "--url"]).code(1);
}

#[test]
fn a_frozen_browser_does_not_slow_a_run() {
    let env = stage().without_variable("HARNESS_DAEMON");
    let held = Held::new(&env);
    let script = fs::read_to_string(held.command.strip_prefix("sh ").unwrap()).unwrap();
    // More events than any buffer holds, after the browsers have stopped reading.
    let flood = "i=0; while test $i -lt 20000; do echo '{\"type\":\"text\",\"text\":\"a line of some length for everybody who listens\"}'; i=$((i+1)); done >> $HARNESS_EVENTS\n";
    let flooding = script.replace("; echo TASK_COMPLETE", &format!("\n{flood}echo TASK_COMPLETE"));
    let command = bare_agent(&env, &flooding);
    let run = Going::start(&env, &["run", "write it", "--agent-command", &command, "--web"]);
    held.is_at_work();
    let visitor = Visitor::new(&env);
    let frozen: Vec<_> = (0..40)
        .map(|n| visitor.get(if n % 2 == 0 { "api/events" } else { "live" }).stream(visitor.port))
        .collect();
    assert!(frozen.iter().all(|stream| stream.status == 200));
    held.release();
    let (code, _, err) = run.end();
    assert_eq!(code, Some(0), "{err}");
    drop(frozen);
}
