//! Usage limits and a busy target among several workers.

use super::stage::{
    add, add_independent, all_landed_once, nothing_left, tasks, until_completed, world,
};
use crate::objective::stage::{Going, bare_agent, kick, later};

#[test]
fn a_usage_limit_pauses_only_the_workers_of_that_agent() {
    let env = world();
    add_independent(&env, 4, "");
    let limited = format!(
        "if ! [ -e \"$HOME/lifted\" ]; then\n\
         touch \"$HOME/lifted\"; echo '{{\"type\":\"limit\",\"until\":\"{}\"}}' >> $HARNESS_EVENTS\n\
         exit 1\n\
         fi\n\
         echo ${{HARNESS_TASK_ID#task-00}} > f${{HARNESS_TASK_ID#task-00}}; echo TASK_COMPLETE",
        later()
    );
    let limited = bare_agent(&env, &limited);
    let args = ["run", "--agent-command", &limited, "--worktree", "--task", "task-001"];
    let mut run = Going::start(&env, &args);
    run.until("usage limit: waiting until ");
    let work = Going::start(&env, &["work", "--agent", "shell", "--worker", "second"]);
    ["task-002", "task-003", "task-004"].iter().for_each(|id| until_completed(&env, id));
    assert_eq!(tasks(&env)[0]["status"], "in_progress", "its agent still waits");
    kick(&env);
    for process in [run, work] {
        let ended = process.end();
        assert_eq!(ended.0, Some(0), "{}", ended.2);
    }
    all_landed_once(&env, "main");
    nothing_left(&env);
}

/// Somebody commits to the target whenever a result is about to land.
#[test]
fn a_target_that_never_rests_gets_its_results_on_another_branch() {
    let env = world();
    let count = env.home().join("count").display().to_string();
    let check = format!(
        "test -f f1 || exit 1; echo x >> {count}; \
         git -C \"$HARNESS_STATE_ROOT\" commit --quiet --allow-empty --message 'of a person'"
    );
    add(&env, "echo 1 > f1", &check, &[]);
    let ran = env.run(["run", "--agent", "shell", "--worktree"]).success();
    let words = "Results are on harness/landed; take them with: git merge harness/landed";
    assert!(ran.errors().contains(words), "{}", ran.errors());
    let tries = env.read(&count).lines().count();
    assert!((5..=10).contains(&tries), "{tries} checks");
    let task = &tasks(&env)[0];
    assert_eq!((&task["status"], &task["attempts"]), (&"completed".into(), &1.into()));
    assert_eq!(env.git(["show", "harness/landed:f1"]), "1");
    assert!(!env.git(["log", "--format=%s", "main"]).contains("task-001"));
    assert_eq!(env.git(["status", "--porcelain"]), "");
}
