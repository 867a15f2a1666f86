//! Text from outside is untrusted: its commands run only after somebody saw them.

use super::openspec;
use crate::environment::TestEnvironment;

fn with_command() -> TestEnvironment {
    let env = openspec();
    let text = "- [ ] 1.1 Do it\n  Validate: `touch pwned`\n";
    env.write("openspec/changes/add-x/tasks.md", text);
    env.git(["commit", "--quiet", "--all", "--message", "other"]);
    env
}

#[test]
fn an_imported_command_runs_only_after_trust_showed_it() {
    for daemon in [false, true] {
        let env = with_command();
        let env = if daemon { env.with_daemon() } else { env };
        // Git does not track the ledger, which would be enough for a task of one's own.
        env.run(["import"])
            .success()
            .stderr_contains("touch pwned")
            .stderr_contains("it is not trusted yet");
        env.run(["run", "--agent", "shell"]).code(5).stderr_contains("touch pwned");
        env.run(["task", "claim"]).success();
        env.run(["task", "complete", "--id", "add-x-1.1"]).code(5).stderr_contains("touch pwned");
        assert!(!env.exists("pwned"));
        env.run(["trust"]).code(2).stderr_contains("touch pwned");
        env.run(["trust", "--yes"]).success();
        env.run(["task", "complete", "--id", "add-x-1.1"]).success();
        assert!(env.exists("pwned"));
    }
}

#[test]
fn a_changed_text_is_asked_for_again_and_ones_own_check_is_not() {
    let env = openspec();
    env.write("openspec/changes/add-x/tasks.md", "- [ ] 1.1 Do it\n");
    env.run(["import", "--validate", "true"]).success();
    // The instructions came from outside too, and the shell agent would run them.
    let refused = env.run(["run", "--agent", "shell"]).code(5);
    let shown = refused.stderr_contains("instructions of tasks: 1").errors().to_owned();
    assert!(!shown.contains("checks:"), "{shown}");
    env.run(["trust", "--yes"]).success();
    env.write("openspec/changes/add-x/tasks.md", "- [ ] 1.1 Do it, and more\n");
    env.run(["import"]).success().stdout_contains("1 updated");
    env.run(["run", "--agent", "shell"]).code(5).stderr_contains("instructions of tasks: 1");
}

#[test]
fn a_plan_that_came_from_an_import_is_no_way_around() {
    let env = with_command();
    let plan = env.run(["import", "--dry-run"]).success().raw().to_owned();
    env.write("plan.md", plan);
    env.run(["plan", "import", "plan.md"]).success().stderr_contains("touch pwned");
    env.run(["run", "--agent", "shell"]).code(5).stderr_contains("touch pwned");
    assert!(!env.exists("pwned"));
}
