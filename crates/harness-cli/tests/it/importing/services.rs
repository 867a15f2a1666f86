//! Kinds that are read through a program: beads with `bd`, and issues with `gh`. The programs are
//! stand-ins; nothing here talks to a service.

use std::fs;

use serde_json::json;

use super::{complete, stand_in};
use crate::environment::TestEnvironment;

fn world() -> TestEnvironment {
    TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w")
}

const ISSUES: &str = concat!(
    r#"{"id":"bd-1","title":"One","status":"open","priority":1,"acceptance_criteria":"Validate: `true`","labels":["a"]}"#,
    "\n",
    r#"{"id":"bd-2","title":"Two","status":"closed","priority":3}"#,
    "\n",
);

#[test]
fn beads_are_read_from_the_file_without_bd() {
    let env = world();
    env.write(".beads/issues.jsonl", ISSUES);
    env.run(["import"]).success().stdout_contains("Imported 2 tasks from beads: 2 added");
    assert_eq!(
        (&env.task(0)["priority"], &env.task(1)["status"]),
        (&"P0".into(), &"completed".into())
    );
    env.run(["import", "--label", "b"])
        .code(1)
        .stderr_contains("there are no tasks in .beads/issues.jsonl, read as beads");
    env.run(["trust", "--yes"]).success();
    complete(&env, "bd-1");
    let ran = env.run(["import", "--sync"]).success();
    ran.stderr_contains("bd is not on the PATH").stdout_contains("Nothing to mark");
    assert_eq!(env.read(".beads/issues.jsonl"), ISSUES, "the file belongs to bd");
    env.write(".beads/issues.jsonl", "{\"id\":\"bd-1\",\"title\":\"x\"}\n{\"title\":\"y\"}\n");
    let words = ".beads/issues.jsonl:2: `id` is required";
    env.run(["import"]).code(1).stderr_contains(words);
}

#[test]
fn bd_is_asked_and_closes_what_is_completed() {
    let body = format!(
        "case \"$1\" in\nexport) if [ -f closed ]; then printf '%s' '{closed}'; else printf '%s' '{open}'; fi;;\n\
         close) touch closed;;\n*) exit 9;;\nesac",
        open = ISSUES.replace("One", "From bd"),
        closed = ISSUES.replace("\"open\"", "\"closed\""),
    );
    let (env, calls) = stand_in(world(), "bd", &body);
    env.write(".beads/config.yaml", "x").write(".gitignore", "closed\n");
    env.run(["import"]).success();
    assert_eq!(env.task(0)["title"], "From bd");
    env.run(["trust", "--yes"]).success();
    env.run(["import", "--sync"]).success().stdout_contains("Nothing to mark");
    complete(&env, "bd-1");
    env.run(["import", "--sync"])
        .success()
        .stdout_contains("Marked 1 task as done at the source: bd-1");
    env.run(["import", "--sync"]).success().stdout_contains("Nothing to mark");
    let calls = fs::read_to_string(calls).unwrap();
    let closes: Vec<&str> = calls.lines().filter(|line| line.starts_with("close")).collect();
    assert_eq!(closes.len(), 1, "{calls}");
    assert!(
        closes[0].starts_with("close bd-1 --reason Completed by harness as bd-1: its check passed")
    );
}

#[test]
fn gh_lists_issues_with_their_relations_and_closes_what_is_completed() {
    let issues = json!([
        { "number": 3, "title": "Three", "body": "Validate: `true`", "state": "OPEN", "labels": [{ "name": "agent" }],
          "parent": null, "subIssues": [], "blockedBy": [] },
        { "number": 7, "title": "Seven", "body": "", "state": "OPEN", "labels": [{ "name": "P2" }, { "name": "agent" }],
          "parent": null, "subIssues": [], "blockedBy": [{ "number": 3 }] },
    ]);
    let body = format!(
        "case \"$*\" in\n*--json\\ number) if [ -f closed ]; then echo '[{{\"number\":7}}]'; else echo '[{{\"number\":3}},{{\"number\":7}}]'; fi;;\n\
         issue\\ list*) cat <<'END'\n{issues}\nEND\n;;\n\
         issue\\ comment*) ;;\nissue\\ close*) touch closed;;\n*) exit 9;;\nesac"
    );
    let (env, calls) = stand_in(world(), "gh", &body);
    env.write(".gitignore", "closed\n");
    env.run(["import", "gh:octo/app", "--label", "agent"]).success();
    env.run(["import", "gh:octo/app"]).success().stdout_contains("from gh: 0 added");
    assert_eq!(env.task(1)["depends_on"], json!(["gh-3"]));
    assert_eq!(env.task(1)["source"], json!({ "kind": "gh", "path": "octo/app", "key": "7" }));
    env.run(["trust", "--yes"]).success();
    complete(&env, "gh-3");
    env.run(["import", "gh:octo/app", "--sync"])
        .success()
        .stdout_contains("done at the source: gh-3");
    env.run(["import", "gh:octo/app", "--sync"]).success().stdout_contains("Nothing to mark");
    let calls = fs::read_to_string(calls).unwrap();
    assert!(calls.lines().next().unwrap().ends_with("--label agent"), "{calls}");
    let said =
        "issue comment 3 --repo octo/app --body Completed by harness as gh-3: its check passed";
    assert_eq!(calls.matches(said).count(), 1, "{calls}");
    assert_eq!(calls.matches("issue close 3 --repo octo/app --reason completed").count(), 1);
}

#[test]
fn an_older_gh_is_asked_through_the_rest_interface() {
    let body = r#"case "$*" in
issue\ list*) echo 'Unknown JSON field: "parent"' >&2; exit 1;;
*issues?state=open*) echo '[[{"number":1,"title":"One","state":"open","sub_issues_summary":{"total":1}},
 {"number":2,"title":"A pull request","state":"open","pull_request":{}}],
 [{"number":4,"title":"Four","state":"open","body":null,"issue_dependencies_summary":{"blocked_by":1}}]]';;
*issues/1/sub_issues*) echo '[[{"number":4}]]';;
*issues/4/dependencies/blocked_by*) echo '[[{"number":9}]]';;
*) exit 9;;
esac"#;
    let (env, _) = stand_in(world(), "gh", body);
    let ran = env.run(["import", "gh:octo/app"]).success();
    ran.stdout_contains("Imported 2 tasks from gh").stderr_contains("left out 1 pull request");
    assert_eq!(env.task(0)["depends_on"], json!(["gh-4"]));
    let (env, _) = stand_in(world(), "gh", "echo 'not logged in' >&2; exit 4");
    env.run(["import", "gh:octo/app"]).code(1).stderr_contains("failed (exit 4): not logged in");
    assert!(!env.exists("harness-tasks.json"));
}
