//! Each kind that is read from files.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{OPENSPEC, openspec};
use crate::environment::TestEnvironment;

fn world() -> TestEnvironment {
    TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w")
}

fn list(env: &TestEnvironment) -> String {
    env.run(["task", "list"]).success().output().to_owned()
}

#[test]
fn an_openspec_change_is_found_and_brought_and_brought_again() {
    let env = openspec();
    let ran = env.run(["import"]).success();
    assert_snapshot!(ran.output(), @r"
    Imported 3 tasks from openspec: 3 added, 0 updated, 0 unchanged, 0 kept as they are
    1 task without a check: add-x-1.1; `harness import … --validate 'COMMAND'` gives one to all of them
    ");
    assert_snapshot!(list(&env), @r"
    add-x-1.1  pending    P1  0/3  Add the file (`test -f one`)
    add-x-1.2  completed  P1  0/3  Done before
    add-x-2.1  pending    P1  0/3  Write the rest
    ");
    let task = env.task(0);
    let path = "openspec/changes/add-x/tasks.md";
    assert_eq!(task["source"], json!({ "kind": "openspec", "path": path, "key": "1.1" }));
    let text = task["instructions"].as_str().unwrap();
    assert!(text.contains("openspec/changes/add-x/proposal.md"), "{text}");
    assert_eq!(env.task(2)["depends_on"], json!(["add-x-1.1", "add-x-1.2"]));
    env.run(["import"]).success().stdout_contains("0 added, 0 updated, 2 unchanged, 1 kept");
    env.write(path, OPENSPEC.replace("the rest", "all the rest") + "- [ ] 2.2 One more\n");
    let again = env.run(["import", "--json", "--validate", "true"]).success().json();
    assert_eq!(again["added"], json!(["add-x-2.2"]));
    assert_eq!(again["updated"], json!(["add-x-1.1", "add-x-2.1"]));
    assert_eq!(again["kept"], json!(["add-x-1.2"]));
    assert_eq!(again["without_check"], json!([]));
    assert_eq!(env.task(0)["validation"]["command"], "true");
    assert_eq!(env.task(2)["title"], "Write all the rest");
}

#[test]
fn a_dry_run_prints_a_plan_that_can_be_imported() {
    let env = openspec();
    let plan = env.run(["import", "--dry-run"]).success().raw().to_owned();
    assert!(!env.exists("harness-tasks.json"), "nothing is made");
    env.write("plan.md", &plan);
    env.run(["plan", "check", "plan.md"]).success().stdout_contains("3 tasks");
    env.run(["plan", "import", "plan.md"]).success();
    assert_eq!(env.task(1)["status"], "completed");
    env.run(["import"]).success().stdout_contains("0 added, 0 updated, 2 unchanged, 1 kept");
    let value = env.run(["import", "--dry-run", "--json"]).success().json();
    assert_eq!(value["tasks"]["add-x-1.2"]["completed"], true);
}

#[test]
fn spec_kit_task_master_stories_and_features_are_found_by_their_paths() {
    let env = world();
    let tasks = "## Phase 1: Setup\n- [ ] T001 Begin\n- [ ] T002 [P] Go on (depends on T001)\n";
    env.write("specs/001-login/tasks.md", tasks).write("specs/001-login/spec.md", "x");
    env.run(["import"]).success().stdout_contains("Imported 2 tasks from speckit: 2 added");
    assert_eq!(env.task(1)["depends_on"], json!(["001-login-T001"]));

    let env = world();
    let tasks = json!({
        "master": { "tasks": [{ "id": 1, "title": "One", "status": "done" }] },
        "next": { "tasks": [{ "id": "1", "title": "Two", "priority": "high",
            "subtasks": [{ "id": 1, "title": "Part", "testStrategy": "Validate: `true`" }] }] },
    });
    env.write(".taskmaster/tasks/tasks.json", tasks.to_string());
    env.write(".taskmaster/state.json", r#"{"currentTag": "next"}"#);
    env.run(["import"]).success().stdout_contains("Imported 2 tasks from taskmaster");
    assert_eq!(env.task(0)["validation"]["command"], "true");
    assert_eq!(env.task(1)["depends_on"], json!(["next-1.1"]));
    env.run(["import", "--tag", "master"]).success().stdout_contains("1 added");
    env.run(["import", "--tag", "none"]).code(1).stderr_contains("the tags are master, next");

    let env = world();
    let story =
        json!({ "id": "US-1", "title": "A story", "acceptanceCriteria": ["a"], "passes": false });
    env.write("scripts/ralph/prd.json", json!({ "userStories": [story] }).to_string());
    env.run(["import"]).success().stdout_contains("Imported 1 task from prd: 1 added");

    let env = world();
    let features = json!([{ "category": "style", "description": "It is blue", "steps": ["look"], "passes": false }]);
    env.write("feature_list.json", features.to_string());
    env.run(["import", "--validate", "true"]).success().stdout_contains("from features: 1 added");
    assert_eq!(env.task(0)["id"], "feature-001");
    assert_eq!(env.task(0)["validation"]["command"], "true");
}

#[test]
fn markdown_is_a_plan_or_a_checklist() {
    let env = world();
    let plan =
        "# P\n\n### Task 1: A\n- [ ] **Step 1**\nRun: `make a`\nExpected: PASS\n\n### Task 2: B\n";
    env.write("docs/p.md", plan).write("TODO.md", "# T\n\n- [ ] One\n  - [ ] Part\n- [x] Two\n");
    env.run(["import", "docs/p.md"]).success().stdout_contains("Imported 2 tasks from plan");
    assert_eq!(env.task(0)["validation"]["command"], "make a");
    env.run_in("docs", ["import", "../TODO.md"])
        .success()
        .stdout_contains("3 tasks from checklist");
    assert_eq!(env.task(2)["source"]["path"], "TODO.md");
    assert_eq!(env.task(2)["depends_on"], json!(["TODO-2"]));
    env.run(["import", "docs/p.md", "--from", "checklist"]).success().stdout_contains("1 added");
}

#[test]
fn what_cannot_be_imported_says_why_and_changes_nothing() {
    let env = world();
    env.run(["import"]).code(1).stderr_contains("there is nothing that can be imported");
    env.run(["import", "nothing.md"]).code(1).stderr_contains("File not found: nothing.md");
    env.write("empty.md", "# Nothing\n");
    env.run(["import", "empty.md"])
        .code(1)
        .stderr_contains("there are no tasks in empty.md, read as checklist");
    env.write("prd.json", "{\"userStories\": [\n{\"id\": 1}]}");
    let words = "prd.json:2: `title` is required, but missing or empty";
    env.run(["import"]).code(1).stderr_contains(words).stderr_contains("--from KIND");
    env.write("prd.json", "{\"userStories\": [{\"id\": 1,");
    env.run(["import"]).code(1).stderr_contains("prd.json:1: it is not JSON");
    env.write("feature_list.json", "[]");
    let several = "has tasks of several tools: prd, features";
    env.run(["import"]).code(1).stderr_contains(several).stderr_contains("--from KIND");
    env.run(["import", "--from", "features"])
        .code(1)
        .stderr_contains("no tasks in feature_list.json, read as features");
    env.run(["import", "--from", "jira"]).code(2).stderr_contains("openspec, beads");
    env.run(["import", "--from", "gh"]).code(2).stderr_contains("gh:OWNER/REPO");
    env.run(["import", "gh:nothing"]).code(2).stderr_contains("is not gh:OWNER/REPO");
    env.write("x.bin", "x")
        .run(["import", "x.bin"])
        .code(1)
        .stderr_contains("does not show which tool it is of");
    env.write("t.md", "- [ ] a\n");
    env.run(["import", "t.md", "--tag", "x"]).code(2).stderr_contains("--tag is for taskmaster");
    env.run(["import", "t.md", "--label", "x"]).code(2).stderr_contains("--label is for beads");
    env.run(["import", "t.md", "--validate", " "]).code(2).stderr_contains("is empty");
    env.write("latin.md", b"- [ ] caf\xe9\n")
        .run(["import", "latin.md"])
        .code(1)
        .stderr_contains("UTF-8");
    let circle = r#"{"userStories": [{"id": "a", "title": "A", "dependsOn": ["b"]},
        {"id": "b", "title": "B", "dependsOn": ["a"]}]}"#;
    env.write("prd.json", circle);
    env.run(["import", "prd.json"]).code(1).stderr_contains("Cycle detected at a");
    assert!(!env.exists("harness-tasks.json") && !env.exists(".harness"));
}

#[test]
fn a_project_may_be_called_like_a_folder_of_a_tool() {
    let env = world();
    env.write("openspec/openspec/changes/a/tasks.md", "- [ ] 1.1 One\n");
    env.write("specs/specs/001-a/tasks.md", "- [ ] T001 One\n");
    env.write("other/openspec/changes/b/tasks.md", "- [ ] 1.1 Two\n");
    for (folder, kind) in [
        ("openspec", "openspec"),
        ("specs", "speckit"),
        ("other/openspec", "openspec"),
        ("other/openspec/changes", "openspec"),
        ("other/openspec/changes/b", "openspec"),
    ] {
        let found = env.run(["import", folder, "--dry-run"]).success();
        assert!(
            found.raw().contains(&format!("\"kind\": \"{kind}\"")),
            "{folder}: {}",
            found.raw()
        );
    }
}

#[test]
fn a_source_that_is_no_text_with_tasks_is_refused_with_the_reason() {
    let env = world();
    env.write("empty.md", "").write("prd.json", "\n").write("folder/a.md", "- [ ] a\n");
    env.run(["import", "empty.md"]).code(1).stderr_contains("nothing to import: empty.md is empty");
    env.run(["import", "prd.json"]).code(1).stderr_contains("prd.json is empty");
    env.run(["import", "folder", "--from", "taskmaster"])
        .code(1)
        .stderr_contains("there is nothing of taskmaster in")
        .stderr_contains("looked for .taskmaster/tasks/tasks.json, tasks/tasks.json, tasks.json;");
    env.run(["import", "folder", "--from", "checklist"])
        .code(1)
        .stderr_contains("name the file: `harness import FILE`");
    env.run(["import", "/dev/null"]).code(1).stderr_contains("is neither a file nor a folder");
    let long: String = (0..40_000).map(|n| format!("- [ ] Item {n}\n")).collect();
    env.write("long.md", long);
    env.run(["import", "long.md"]).code(1).stderr_contains("40000 tasks have");
    assert!(!env.exists("harness-tasks.json") && !env.exists(".harness"));
}

#[test]
fn a_task_that_is_done_elsewhere_or_gone_is_named() {
    let env = openspec();
    env.run(["import"]).success();
    let path = "openspec/changes/add-x/tasks.md";
    env.write(path, OPENSPEC.replace("[ ] 1.1", "[x] 1.1").replace("- [ ] 2.1", "- no 2.1"));
    env.run(["import"])
        .success()
        .stderr_contains("done at the source, but not completed here: add-x-1.1")
        .stderr_contains("no longer at the source: add-x-2.1");
    assert_eq!(env.task(0)["status"], "pending");
}

#[test]
fn an_agent_may_not_import() {
    let env = openspec().variable("CLAUDECODE", "1");
    env.run(["import"])
        .code(1)
        .stderr_contains("only the operator may import tasks of another tool");
    env.run(["import", "--dry-run"]).success();
}

#[test]
fn a_daemon_imports_too_and_a_ledger_is_written_in_every_form() {
    let env = openspec().with_daemon();
    env.run(["import"]).success().stdout_contains("3 added");
    env.run(["import"]).success().stdout_contains("2 unchanged, 1 kept");
    for (form, file) in [
        ("plan", "again.md"),
        ("prd", "prd.json"),
        ("checklist", "list.md"),
        ("taskmaster", "tasks.json"),
        ("beads", "issues.jsonl"),
    ] {
        let text = env.run(["export", "--to", form]).success().raw().to_owned();
        let other = world();
        other.write(file, text + "\n");
        let brought = other.run(["import", file, "--json"]).success().json();
        assert_eq!(brought["added"].as_array().unwrap().len(), 3, "{form}");
        let ledger: Value = serde_json::from_str(&other.read("harness-tasks.json")).unwrap();
        let done = |task: &&Value| task["status"] == "completed";
        let tasks = ledger["tasks"].as_array().unwrap();
        assert_eq!(tasks.iter().filter(done).count(), 1, "{form}");
        assert!(ledger.to_string().contains("test -f two"), "{form}");
    }
    env.run(["export", "--to", "jira"]).code(2).stderr_contains("plan, prd, checklist");
    env.run(["export", "--to", "checklist"]).success().stderr_contains("dependencies are left out");
}
