//! A branch of a git remote as the target: several clones, a server that refuses or is gone, and work
//! that another clone continues.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use super::stage::{ledger, tasks};
use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, fifo, hear},
};

const FLEET: &str = "[fleet]\nremote = \"origin\"\ntarget = \"main\"\n";

/// A bare repository with one commit.
struct Server {
    env: TestEnvironment,
}

impl Server {
    fn new() -> Self {
        let env = TestEnvironment::new();
        env.git(["init", "--quiet", "--bare", "--initial-branch=main", "."]);
        let tree = env.git(["hash-object", "-t", "tree", "-w", "/dev/null"]);
        let commit = env.git(["commit-tree", "-m", "start", tree.trim()]);
        env.git(["update-ref", "refs/heads/main", commit.trim()]);
        Self { env }
    }

    fn url(&self) -> String {
        format!("file://{}", self.env.root().display())
    }

    /// Makes a clone with an empty ledger, whose results land here.
    fn clone(&self) -> TestEnvironment {
        let env = TestEnvironment::new().variable("HARNESS_WORKER_ID", "w");
        env.git(["clone", "--quiet", &self.url(), "."]);
        env.run(["init"]).success();
        env.write("harness.toml", FLEET);
        env
    }

    fn hook(&self, name: &str, text: &str) {
        let file = self.env.root().join("hooks").join(name);
        executable(&file, text);
    }

    fn files(&self, branch: &str) -> Vec<String> {
        let listed = self.env.git(["ls-tree", "-r", "--name-only", branch]);
        listed.lines().map(str::to_owned).collect()
    }

    fn refs(&self) -> Vec<String> {
        let listed = self.env.git(["for-each-ref", "--format=%(refname)"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Returns the tasks of the commits on main, oldest first.
    fn landed(&self) -> Vec<String> {
        let format = "--format=%P|%(trailers:key=Harness-Task,valueonly,separator=%x2C)";
        let log = self.env.git(["log", "--reverse", format, "main"]);
        let lines = log.lines().skip(1).map(|line| line.split_once('|').unwrap());
        lines
            .inspect(|(parents, _)| assert!(!parents.contains(' '), "not linear: {log}"))
            .map(|(_, task)| task.split('.').next().unwrap().to_owned())
            .collect()
    }
}

fn executable(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn add(env: &TestEnvironment, id: &str, script: &str, check: &str) {
    env.run(["add", "a task", "--id", id, "--instructions", script, "--validate", check]).success();
}

const RUN: [&str; 5] = ["run", "--agent", "shell", "--workers", "2"];

#[test]
fn three_clones_land_on_one_remote() {
    let server = Server::new();
    let clones: Vec<_> = (0..3).map(|_| server.clone()).collect();
    for (n, env) in clones.iter().enumerate() {
        for t in 0..3 {
            add(
                env,
                &format!("c{n}t{t}"),
                &format!("echo > f{n}-{t}"),
                &format!("test -f f{n}-{t}"),
            );
        }
    }
    let runs: Vec<_> = clones.iter().map(|env| Going::start(env, &RUN)).collect();
    for run in runs {
        let (code, out, err) = run.end();
        assert_eq!(code, Some(0), "{out}{err}");
    }
    let mut landed = server.landed();
    landed.sort();
    let expected: Vec<_> = (0..3).flat_map(|n| (0..3).map(move |t| format!("c{n}t{t}"))).collect();
    assert_eq!(landed, expected, "every task landed once");
    assert_eq!(server.files("main").len(), 9);
    assert_eq!(server.refs(), ["refs/heads/main"], "nothing is left on the server");
    for env in &clones {
        for task in tasks(env) {
            let end = (task["status"].as_str(), task["attempts"].as_u64());
            assert_eq!(end, (Some("completed"), Some(1)), "{task}");
        }
        // The branch of the clone follows the target, and its tree was clean.
        assert_eq!(env.git(["status", "--porcelain", "--untracked-files=no"]), "");
    }
}

#[test]
fn a_race_that_a_foreign_push_wins_is_run_again_without_an_attempt() {
    let server = Server::new();
    let env = server.clone();
    let other = server.clone();
    other.write("foreign", "foreign\n");
    other.git(["add", "foreign"]);
    other.git(["commit", "--quiet", "--message", "foreign"]);
    // The check runs on the tip that the fetch found. Then somebody pushes.
    let push = format!(
        "test -f mine && {{ test -e {once} || {{ touch {once}; git -C {other} push --quiet origin HEAD:main; }}; }}",
        once = env.home().join("once").display(),
        other = other.root().display(),
    );
    add(&env, "t1", "echo > mine", &push);
    env.run(RUN).success();
    assert_eq!(server.landed(), ["", "t1"]);
    assert_eq!(tasks(&env)[0]["attempts"], 1);
    let log = env.read("harness-progress.txt");
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn a_server_that_refuses_the_branch_gets_the_results_beside_it() {
    let server = Server::new();
    server.hook(
        "pre-receive",
        "while read old new ref; do if [ $ref = refs/heads/main ]; then \
         echo main takes pull requests only >&2; exit 1; fi; done",
    );
    let env = server.clone();
    add(&env, "t1", "echo > one", "test -f one");
    add(&env, "t2", "echo > two", "test -f two");
    let ran = env.run(RUN).success();
    assert!(ran.errors().contains("origin/harness/landed"), "{ran}");
    assert_eq!(server.files("main"), Vec::<String>::new());
    assert_eq!(server.files("harness/landed"), ["one", "two"]);
    let target = &env.run(["status", "--json"]).success().json()["target"];
    assert_eq!(target["remote"], "origin");
    assert_eq!(target["landed_branch"], "harness/landed");
    assert_eq!(target["ahead"], 2);
    let why = target["why"].as_str().unwrap();
    assert!(why.contains("main takes pull requests only"), "{why}");
    for command in ["status", "report"] {
        let ran = env.run([command]).success();
        assert!(ran.output().contains("main takes pull requests only"), "{ran}");
        assert!(ran.output().contains("git pull origin harness/landed"), "{ran}");
    }
    // Later results build on those. When the server takes them, the branch goes.
    fs::remove_file(server.env.root().join("hooks/pre-receive")).unwrap();
    add(&env, "t3", "test -f one && echo > three", "test -f three");
    env.run(RUN).success();
    assert_eq!(server.files("main"), ["one", "three", "two"]);
    assert_eq!(server.refs(), ["refs/heads/main"]);
    assert_eq!(ledger(&env)["session_config"].get("landed_why"), None);
}

#[test]
fn a_remote_that_is_gone_costs_no_attempt() {
    let server = Server::new();
    let env = server.clone().variable("HARNESS_LEASE_SECONDS", "30");
    add(&env, "t1", "echo > one", "test -f one");
    let away = server.env.root().with_extension("away");
    fs::rename(server.env.root(), &away).unwrap();
    let ran = env.run(RUN);
    assert!(ran.ended_with(&[1, 2, 3, 4]), "{ran}");
    let log = env.read("harness-progress.txt");
    assert!(log.contains("[ENV_SETUP]") && log.contains("origin cannot be reached"), "{log}");
    let task = &tasks(&env)[0];
    assert_eq!((task["status"].as_str(), task["attempts"].as_u64()), (Some("pending"), Some(0)));
    fs::rename(&away, server.env.root()).unwrap();
    env.run(RUN).success();
    assert_eq!(server.landed(), ["t1"]);
}

#[test]
fn a_dead_clones_work_is_continued_from_its_snapshot() {
    let server = Server::new();
    let env = server.clone().variable("HARNESS_LEASE_SECONDS", "2");
    let ready = fifo(&env, "ready");
    let once = env.home().join("once").display().to_string();
    // The first life makes a checkpoint and stops. What it left is all that the check needs.
    let script = format!(
        "test -e {once} && exit 1; touch {once}; echo done > done; \
         \"$HARNESS\" task checkpoint t1 --step 1 --total 2 'the first half' >&2; \
         while ! git ls-remote origin | grep -q refs/harness/work/t1; do sleep 0.1; done; \
         echo ready > {ready}; exec sleep 600",
        ready = ready.display(),
    );
    let env = env.variable("HARNESS", env!("CARGO_BIN_EXE_harness"));
    add(&env, "t1", &script, "test -f done");
    let mut run = Going::start(&env, &["run", "--agent", "shell", "--workers", "1"]);
    assert_eq!(hear(&ready), "ready");
    run.kill();
    drop(run);
    // Another clone gets the ledger. The first one is gone.
    let other = server.clone().variable("HARNESS_WORKER_ID", "x");
    other.write("harness-tasks.json", env.read("harness-tasks.json"));
    other.run(["trust", "--yes"]).success();
    fs::rename(env.root(), env.root().with_extension("away")).unwrap();
    other.run(["run", "--agent", "shell", "--workers", "1"]).success();
    assert_eq!(server.files("main"), ["done"]);
    let log = other.read("harness-progress.txt");
    assert!(log.contains("Completed [t1]"), "{log}");
    assert_eq!(tasks(&other)[0]["attempts"], 1, "{log}");
    let rescues = server.refs().into_iter().filter(|name| name.starts_with("refs/harness/rescue/"));
    assert_eq!(rescues.count(), 1, "what the dead one left is kept");
}

#[test]
fn what_the_repository_says_about_its_remote_does_not_count() {
    let server = Server::new();
    let env = server.clone();
    env.run(["trust", "--yes"]).success().stderr_contains("git remote, used with `[fleet] remote`");
    let (trap, script) = (env.home().join("trap"), env.home().join("script"));
    executable(&script, &format!("touch '{}'; exit 1", trap.display()));
    let elsewhere = Server::new();
    let script = script.display().to_string();
    for (key, value) in [
        ("remote.origin.url", elsewhere.url()),
        ("remote.origin.pushurl", elsewhere.url()),
        ("remote.origin.receivepack", script.clone()),
        ("remote.origin.uploadpack", script.clone()),
        ("core.sshCommand", script.clone()),
        ("credential.helper", script.clone()),
        (&format!("url.{}.insteadOf", elsewhere.url()), server.url()),
    ] {
        env.git(["config", key, &value]);
    }
    add(&env, "t1", "echo > one", "test -f one");
    let ran = env.run(RUN).success();
    assert!(ran.errors().contains("another address for origin"), "{ran}");
    assert_eq!(server.landed(), ["t1"]);
    assert_eq!(elsewhere.landed(), Vec::<String>::new());
    assert!(!trap.exists());
}

#[test]
fn large_files_are_pushed_before_a_result_lands() {
    let server = Server::new();
    let env = server.clone();
    let folder = env.home().join("programs");
    let said = env.home().join("lfs").display().to_string();
    executable(&folder.join("git-lfs"), &format!("echo \"$@\" $(git rev-parse \"$3\") >> {said}"));
    let path = std::env::join_paths(
        std::iter::once(folder).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let env = env.variable("PATH", path.unwrap());
    add(&env, "t1", "echo > one", "test -f one");
    env.run(RUN).success();
    assert!(!Path::new(&said).exists(), "no large files are in use");
    add(&env, "t2", "echo '*.bin filter=lfs diff=lfs' > .gitattributes", "test -f .gitattributes");
    env.run(RUN).success();
    let tip = server.env.git(["rev-parse", "main"]);
    assert_eq!(
        fs::read_to_string(&said).unwrap(),
        format!("push origin refs/heads/landing {tip}\n")
    );
}

#[test]
fn a_worker_makes_its_own_clone() {
    let server = Server::new();
    let first = server.clone();
    add(&first, "t1", "echo > one", "test -f one");
    first.git(["add", "-f", "harness-tasks.json", "harness.toml"]);
    first.git(["commit", "--quiet", "--message", "a ledger"]);
    first.git(["push", "--quiet", "origin", "main"]);
    let env = TestEnvironment::new().variable("HARNESS_WORKER_ID", "w");
    let place = env.root().join("mine");
    let (url, place) = (server.url(), place.display().to_string());
    let work = ["work", "--agent", "shell", "--clone", &url, &place];
    env.run(work).code(5).stderr_contains("is not trusted");
    env.run(["-C", &place, "trust", "--yes"]).success();
    env.run(work).success();
    assert!(server.files("main").contains(&"one".to_owned()));
    env.run(["work", "--agent", "shell", "--clone", "file:///elsewhere", &place])
        .code(1)
        .stderr_contains("no clone of that address");
}

#[test]
fn taking_back_lands_on_the_remote_too() {
    let server = Server::new();
    let env = server.clone();
    add(&env, "t1", "echo > one", "test -f one");
    env.run(RUN).success();
    assert_eq!(server.files("main"), ["one"]);
    env.run(["revert", "t1", "--reason", "not wanted"]).success();
    assert_eq!(server.files("main"), Vec::<String>::new());
    assert_eq!(tasks(&env)[0]["status"], "pending");
}
