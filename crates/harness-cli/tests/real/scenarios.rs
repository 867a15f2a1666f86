//! The required behaviour of every real agent. An agent has to pass all scenarios, or those that it
//! lists:
//!
//! ```ignore
//! crate::scenarios!(AGENT);
//! crate::scenarios!(ANOTHER: it_writes_a_file_and_keeps_its_promise, …);
//! ```

use std::path::{Path, PathBuf};

use harness_sim::model::{Call, Script, Step};
use serde_json::json;

use crate::{
    environment::TestEnvironment,
    world::{LONG, World, eventually, files_with, processes_with},
};

/// A real agent with the setup of the tests. All of them ask a model twice before they give up.
pub(crate) struct Real {
    /// Puts it on the `PATH`, configures it, and sets the address of its model.
    pub(crate) set_up: fn(TestEnvironment, &str) -> TestEnvironment,
    /// A variable that it sees, and the secret in it.
    pub(crate) secret: (&'static str, &'static str),
    /// The price of a token in USD, in and out.
    pub(crate) price: (f64, f64),
    /// The text that its model receives when something is not allowed.
    pub(crate) denied: &'static str,
}

/// Defines a test for each of the named scenarios, or for every one.
#[macro_export]
macro_rules! scenarios {
    ($agent:ident) => {
        $crate::scenarios!($agent:
            it_writes_a_file_and_keeps_its_promise,
            it_may_not_write_outside_of_the_work_tree,
            a_limit_is_waited_for_in_the_same_iteration,
            a_limit_stops_a_run_that_does_not_wait,
            who_is_not_let_in_burns_no_iteration,
            a_full_context_is_followed_by_a_fresh_one,
            a_stream_that_is_cut_is_taken_up,
            a_model_that_is_never_reached_is_given_up_after_three_contexts,
            a_killed_harness_leaves_nothing_running_and_is_taken_up,
            an_interrupted_run_leaves_nothing_running,
            one_that_stops_early_five_times_is_sent_on,
            one_that_says_nothing_goes_on_in_its_context,
            three_tasks_are_worked_and_one_fails_first,
            no_secret_is_in_any_file_of_ours,
        );
    };
    ($agent:ident: $($scenario:ident),+ $(,)?) => {$(
        #[test]
        #[ignore = "needs the real agents: cargo xtask test --real-agents"]
        fn $scenario() {
            $crate::scenarios::$scenario(&$agent);
        }
    )+};
}

impl Real {
    pub(crate) fn world(&self, script: Script) -> World {
        World::new(|_| script, self.set_up)
    }

    /// Checks that the recorded usage is the one that the model served.
    pub(crate) fn assert_cost(&self, world: &World) {
        let total = world.tokens_agree();
        let served = world.model.served();
        let (input, output) = (served.input_tokens as f64, served.output_tokens as f64);
        let expected = input * self.price.0 + output * self.price.1;
        let cost = total["cost_usd"].as_f64().unwrap();
        assert!((cost - expected).abs() < 1e-9, "{cost} is not {expected}");
    }
}

pub(crate) fn done() -> Step {
    Step::text("All is done. TASK_COMPLETE")
}

pub(crate) fn limit() -> Step {
    let headers = vec![("retry-after", "1".to_owned())];
    Step::Status { status: 429, message: "too fast".into(), headers }
}

fn write(path: &Path, content: &str) -> Step {
    let (path, content) = (path.display().to_string(), content.to_owned());
    Step::call(Call::Write { path, content })
}

/// Returns a path of its own for each test. It is outside of the project, and not in a temporary
/// folder, because some agents may write there.
fn outside(root: &Path) -> PathBuf {
    let world = root.parent().and_then(Path::file_name).unwrap();
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(world).with_extension("outside")
}

/// Checks the reason of the run's end, and the number of restarts.
#[track_caller]
pub(crate) fn assert_ended(world: &World, reason: &str, restarts: u32) {
    let row = world.run_row();
    let ended = (&row["stop_reason"], &row["iteration_count"]);
    assert_eq!(ended, (&json!(reason), &json!(restarts)), "{row}");
}

/// Returns the end of the first context.
pub(crate) fn first_outcome(world: &World) -> String {
    let id = world.run_row()["run_id"].as_str().unwrap().to_owned();
    let shown = world.env.run(["runs", "show", &id, "--json"]).success().json();
    shown["iterations"][0]["outcome"].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn it_writes_a_file_and_keeps_its_promise(agent: &Real) {
    let script = |root: &Path| Script::new([write(&root.join("hello.txt"), "hello\n"), done()]);
    let world = World::new(script, agent.set_up);
    world.env.run(["run", "Write hello.txt"]).success();
    assert_eq!(world.env.read("hello.txt"), "hello\n");
    assert_ended(&world, "complete", 0);
    let row = world.run_row();
    assert!(row["provider_session_id"].is_string(), "{row}");
    agent.assert_cost(&world);
}

pub(crate) fn it_may_not_write_outside_of_the_work_tree(agent: &Real) {
    let world = World::new(|root| Script::new([write(&outside(root), "no"), done()]), agent.set_up);
    world.env.run(["run", "Write it"]).success();
    assert!(!outside(world.env.root()).exists());
    let bodies = world.model.served().bodies;
    assert!(bodies[1].contains(agent.denied), "{}", bodies[1]);
}

pub(crate) fn a_limit_is_waited_for_in_the_same_iteration(agent: &Real) {
    let world = agent.world(Script::new([limit(), limit(), done()]));
    let mut harness = world.start(&["run", "Do it"]);
    // The test does not wait as long as the limit lasts.
    let mut kick = world.env.harness(["kick"]);
    kick.env_remove("HARNESS_DAEMON");
    eventually("it waits", || kick.output().unwrap().status.success());
    assert!(harness.wait().unwrap().success());
    assert_ended(&world, "complete", 0);
    agent.assert_cost(&world);
}

pub(crate) fn a_limit_stops_a_run_that_does_not_wait(agent: &Real) {
    // The agent itself recovers from the first one, because it tries once more.
    let steps = [limit(), Step::shell("echo 1 > one"), limit(), limit(), done()];
    let world = agent.world(Script::new(steps));
    world.env.run(["run", "Do it", "--no-wait"]).code(3).stderr_contains("limit");
    assert_ended(&world, "limit", 0);
    world.env.run(["run", "--resume"]).success();
    assert_ended(&world, "complete", 0);
    assert_eq!(world.env.read("one"), "1\n");
}

pub(crate) fn who_is_not_let_in_burns_no_iteration(agent: &Real) {
    let no = || Step::status(401, "invalid api key");
    let world = agent.world(Script::new([no(), no(), done()]));
    world.env.run(["run", "Do it"]).code(1).stderr_contains("not signed in");
    assert_ended(&world, "env_setup", 0);
    world.env.run(["run", "--resume"]).success();
    assert_ended(&world, "complete", 0);
}

pub(crate) fn a_full_context_is_followed_by_a_fresh_one(agent: &Real) {
    let script = Script::new([Step::shell("echo 1 > one"), Step::TooLong])
        .when("Iteration 1 of", [done()])
        .repeating();
    let world = agent.world(script);
    world.env.run(["run", "Do it"]).success();
    assert_ended(&world, "complete", 1);
    assert_eq!(first_outcome(&world), "out_of_context");
}

pub(crate) fn a_stream_that_is_cut_is_taken_up(agent: &Real) {
    let steps = [Step::cut("I beg"), Step::shell("echo 1 > one"), done()];
    let world = agent.world(Script::new(steps));
    world.env.run(["run", "Do it"]).success();
    assert_ended(&world, "complete", 0);
    assert_eq!(world.env.read("one"), "1\n");
}

pub(crate) fn a_model_that_is_never_reached_is_given_up_after_three_contexts(agent: &Real) {
    let world = agent.world(Script::new([Step::cut("I beg")]).repeating());
    world.env.run(["run", "Do it"]).code(1).stderr_contains("3 times in a row");
    assert_ended(&world, "crashed", 2);
}

pub(crate) fn a_killed_harness_leaves_nothing_running_and_is_taken_up(agent: &Real) {
    let world = agent.world(Script::new([Step::shell("echo 1 > one"), Step::Hang, done()]));
    let mut harness = world.start(&["run", "Do it"]);
    assert!(world.model.has_played(2, LONG), "it never asked twice");
    let id = world.run_row()["run_id"].as_str().unwrap().to_owned();
    let of_it = format!("HARNESS_RUN_ID={id}");
    assert!(!processes_with(&of_it).is_empty(), "it does not run");
    harness.kill().unwrap();
    harness.wait().unwrap();
    eventually("nothing is left", || processes_with(&of_it).is_empty());
    world.env.run(["run", "--resume"]).success();
    assert_ended(&world, "complete", 0);
    assert_eq!(world.env.read("one"), "1\n");
}

pub(crate) fn an_interrupted_run_leaves_nothing_running(agent: &Real) {
    let world = agent.world(Script::new([Step::shell("echo 1 > one"), Step::Hang, done()]));
    let mut harness = world.start(&["run", "Do it"]);
    assert!(world.model.has_played(2, LONG), "it never asked twice");
    let id = world.run_row()["run_id"].as_str().unwrap().to_owned();
    let pid = nix::unistd::Pid::from_raw(harness.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(harness.wait().unwrap().code(), Some(130));
    let left = processes_with(&format!("HARNESS_RUN_ID={id}"));
    assert!(left.is_empty(), "{left:?}");
    assert_ended(&world, "cancelled", 0);
}

pub(crate) fn one_that_stops_early_five_times_is_sent_on(agent: &Real) {
    let early = |n: u32| [Step::shell(&format!("echo {n} >> many")), Step::text("That is enough.")];
    let world = agent.world(Script::new((0..5).flat_map(early).chain([done()])));
    world.env.run(["run", "Do it"]).success();
    assert_ended(&world, "complete", 5);
    assert_eq!(world.env.read("many"), "0\n1\n2\n3\n4\n");
    agent.assert_cost(&world);
}

/// The agent goes on in the same context: earlier text is still there, and everything is counted
/// once.
pub(crate) fn one_that_says_nothing_goes_on_in_its_context(agent: &Real) {
    let mute = || Step::text("");
    let world = agent.world(Script::new([Step::shell("echo 1 > one"), mute(), mute(), done()]));
    world.env.run(["run", "Do it"]).success();
    assert_ended(&world, "complete", 0);
    let bodies = world.model.served().bodies;
    let last = bodies.last().unwrap();
    for words in ["Do it", "echo 1 > one", "Your last turn ended without a message"] {
        assert!(last.contains(words), "{words:?} is not in {last}");
    }
    agent.assert_cost(&world);
}

pub(crate) fn three_tasks_are_worked_and_one_fails_first(agent: &Real) {
    let write = |command: &str| [Step::shell(command), done()];
    let script = Script::default()
        .when("Write the file one", write("echo 1 > one"))
        .when("Write the file two", [write("echo wrong > two"), write("echo 2 > two")].concat())
        .when("Write the file three", write("echo 3 > three"));
    let world = agent.world(script);
    for (title, check) in [("one", "grep 1 one"), ("two", "grep 2 two"), ("three", "grep 3 three")]
    {
        let told = format!("Write the file {title}");
        world.env.run(["add", title, "--instructions", &told, "--validate", check]).success();
    }
    world.env.run(["run"]).success();
    let subjects = world.env.git(["log", "--format=%s", "-3"]);
    assert_eq!(subjects.trim(), "task-002: two\ntask-003: three\ntask-001: one");
    let ledger: serde_json::Value =
        serde_json::from_str(&world.env.read("harness-tasks.json")).unwrap();
    let attempts: Vec<_> =
        ledger["tasks"].as_array().unwrap().iter().map(|task| &task["attempts"]).collect();
    assert_eq!(attempts, [1, 2, 1]);
    agent.assert_cost(&world);
}

pub(crate) fn no_secret_is_in_any_file_of_ours(agent: &Real) {
    let (variable, secret) = agent.secret;
    let other = "another-secret-0123456789";
    let script = Script::new([
        Step::shell(&format!("env; echo the key is ${variable}")),
        Step::text(&format!("The key is {secret}.")),
        done(),
    ]);
    let set_up = |env, url: &str| (agent.set_up)(env, url).variable("DATABASE_PASSWORD", other);
    let world = World::new(|_| script, set_up);
    world.env.run(["run", "Do it"]).success();
    let transcripts = world.env.root().join(".harness/transcripts");
    let mut found = Vec::new();
    files_with(&transcripts, format!("[redacted:{variable}]").as_bytes(), &mut found);
    assert!(!found.is_empty(), "it was never said");
    found.clear();
    for secret in [secret, other] {
        files_with(world.env.root(), secret.as_bytes(), &mut found);
    }
    assert!(found.is_empty(), "{found:?}");
    assert!(world.model.served().bodies.iter().all(|body| !body.contains(other)));
}
