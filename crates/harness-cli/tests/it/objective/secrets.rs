//! Values of secret variables are in no file of harness and in no prompt.

use std::{fs, path::Path};

use super::stage::*;
use crate::environment::TestEnvironment;

const SECRET: &str = "hunter2-hunter2";

/// Returns the files below the state root that contain the secret.
fn leaks(env: &TestEnvironment) -> Vec<String> {
    fn look(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                look(&entry.path(), found);
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).unwrap();
                if bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
                    found.push(entry.path().display().to_string());
                }
            }
        }
    }
    let mut found = Vec::new();
    look(&env.root().join(".harness"), &mut found);
    let log = env.read("harness-progress.txt");
    found.extend(log.contains(SECRET).then(|| "the log".to_owned()));
    found
}

#[test]
fn a_configured_key_of_a_command_agent_shows_nowhere() {
    let env = stage();
    let script = "echo $X_KEY > \"$HOME/key\"; echo out $X_KEY; echo err $X_KEY >&2\n\
                  echo \"{\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"$X_KEY\\\"}\" >> $HARNESS_EVENTS\n\
                  echo TASK_COMPLETE";
    let command = agent(&env, script);
    env.write(
        "harness.toml",
        format!(
            "agent = \"mine\"\n[agents.mine]\ncommand = \"{command}\"\nenv = [\"X_KEY={SECRET}\"]\n"
        ),
    );
    // The check prints it too, and fails the first time.
    let verify = "cat \"$HOME/key\"; test $(tail -n 1 work.txt) = 1";
    let ran = env.run(["run", "write it", "--verify", verify, "--json"]);
    came_to(ran, 0, "complete", 1);
    assert_eq!(env.read(env.home().join("key")), format!("{SECRET}\n"));
    let told = prompt(&env, 1);
    assert!(told.contains("[redacted:X_KEY]") && !told.contains(SECRET), "{told}");
    assert_eq!(leaks(&env), [""; 0]);
}

#[test]
fn the_failure_of_a_task_hides_a_configured_key() {
    let env = stage();
    let command = bare_agent(&env, "echo $X_KEY > key.txt; echo TASK_COMPLETE");
    env.write(
        "harness.toml",
        format!(
            "agent = \"mine\"\n[agents.mine]\ncommand = \"{command}\"\nenv = [\"X_KEY={SECRET}\"]\n"
        ),
    );
    env.git(["add", "-A"]);
    env.git(["commit", "-qm", "configured"]);
    env.run(["trust", "--yes"]).success();
    let check = "cat key.txt; false";
    env.run(["add", "a task", "--instructions", "x", "--validate", check, "--max-attempts", "1"])
        .success();
    env.run(["run"]).code(4);
    assert_eq!(leaks(&env), [""; 0]);
    assert!(!env.read("harness-tasks.json").contains(SECRET));
}

#[test]
fn a_handoff_and_the_objective_are_told_without_secrets() {
    let env = stage().variable("DB_PASSWORD", SECRET);
    let script = "mkdir -p state; echo '{\"phase\":\"p\",\"memory_notes\":\"it is hunter2-hunter2\"}' > state/handoff.json\n\
                  if [ $n = 1 ]; then echo TASK_COMPLETE; else echo not yet; fi";
    let command = agent(&env, script);
    let objective = format!("use {SECRET} well");
    let ran = env.run(["run", &objective, "--agent-command", &command, "--json"]);
    came_to(ran, 0, "complete", 1);
    for told in [prompt(&env, 0), prompt(&env, 1)] {
        assert!(told.contains("use [redacted:DB_PASSWORD] well"), "{told}");
        assert!(!told.contains(SECRET), "{told}");
    }
    assert!(prompt(&env, 1).contains("it is [redacted:DB_PASSWORD]"), "{}", prompt(&env, 1));
    assert_eq!(run_row(&env)["objective"], "use [redacted:DB_PASSWORD] well");
    assert_eq!(leaks(&env), [""; 0]);
}

#[test]
fn a_script_runs_as_it_was_written_after_a_resume_too() {
    let env = stage().variable("DB_PASSWORD", SECRET);
    let up = fifo(&env, "up");
    let script = format!(
        "echo {SECRET} >> \"$HOME/used\"; test -e \"$HOME/good\" && exit; echo up > {}; exec sleep 600",
        up.display()
    );
    let mut run = Going::start(&env, &["run", &script, "--agent", "shell"]);
    assert_eq!(hear(&up), "up");
    run.kill();
    fs::write(env.home().join("good"), "").unwrap();
    env.run(["run", "--resume"]).success();
    let used = env.read(env.home().join("used"));
    assert_eq!(used, format!("{SECRET}\n{SECRET}\n"));
    // A running script needs the secret. Only the file of the killed one contains it.
    let scripts = |path: &String| path.contains("/.harness/prompts/");
    assert!(leaks(&env).iter().all(scripts), "{:?}", leaks(&env));
}
