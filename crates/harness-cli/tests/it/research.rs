//! `harness research finalize`

use std::{fs, os::unix::fs::symlink, process::Stdio};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::environment::{Ran, TestEnvironment};

const SOURCES: &str = "tasks/t/research_sources.json";
const OVERVIEW: &str = "tasks/t/research_overview.md";

fn world() -> TestEnvironment {
    let env = TestEnvironment::with_git();
    env.run(["init"]).success();
    env
}

fn answer(urls: &[&str]) -> String {
    let found = |url: &&str| json!({ "url": url, "title": format!("Page {url}"), "snippet": "s" });
    json!({ "results": urls.iter().map(found).collect::<Vec<_>>() }).to_string()
}

fn finalize(env: &TestEnvironment) -> Ran {
    env.run(["research", "finalize", "--task", "t"])
}

fn urls(env: &TestEnvironment) -> Vec<String> {
    let kept: Value = serde_json::from_str(&env.read(SOURCES)).unwrap();
    let sources = kept["sources"].as_array().unwrap().iter();
    sources.map(|source| source["url"].as_str().unwrap().to_owned()).collect()
}

/// Returns every file of the project that this command may touch, with its content.
fn files(env: &TestEnvironment) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![env.root().join("search_results"), env.root().join("tasks")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(env.root()).unwrap().display().to_string();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn sources_are_kept_and_their_answers_moved() {
    let env = world();
    env.write("search_results/a.json", answer(&["https://a.org", "https://b.org/?utm_source=x"]));
    env.write("search_results/b.json", answer(&["https://b.org", "https://c.org"]));
    env.write("search_results/notes.txt", "not an answer");
    env.write("search_results/below/c.json", answer(&["https://d.org"]));
    assert_snapshot!(finalize(&env).success().output(), @"
    search_results/a.json -> search_results/processed_json/a.json (2 found)
    search_results/b.json -> search_results/processed_json/b.json (2 found)
    3 new sources, 3 in all: tasks/t/research_overview.md
    ");
    assert_eq!(urls(&env), ["https://a.org", "https://b.org/?utm_source=x", "https://c.org"]);
    assert!(env.read(OVERVIEW).contains("3 sources from 2 files; 1 duplicate left out."));
    assert!(!env.exists("search_results/a.json") && !env.exists("search_results/b.json"));
    assert!(env.exists("search_results/notes.txt") && env.exists("search_results/below/c.json"));
}

#[test]
fn doing_it_twice_adds_nothing_and_loses_nothing() {
    let env = world();
    env.write("search_results/a.json", answer(&["https://a.org"]));
    finalize(&env).success();
    let before = files(&env);
    finalize(&env).success().stdout("0 new sources, 1 in all: tasks/t/research_overview.md");
    assert_eq!(files(&env), before);
    env.write("search_results/b.json", answer(&["https://a.org/", "https://b.org"]));
    finalize(&env).success().stdout_contains("1 new source, 2 in all");
    assert_eq!(urls(&env), ["https://a.org", "https://b.org"]);
    // Another task has its own sources.
    env.write("search_results/c.json", answer(&["https://a.org"]));
    env.run(["research", "finalize", "--task", "other"]).success();
    assert!(env.read("tasks/other/research_overview.md").contains("1 source from 1 file"));
    assert_eq!(urls(&env).len(), 2);
}

#[test]
fn a_name_that_is_taken_gets_a_number() {
    let env = world();
    env.write("search_results/processed_json/a.json", "older");
    for url in ["https://a.org", "https://b.org"] {
        env.write("search_results/a.json", answer(&[url]));
        finalize(&env).success();
    }
    assert_eq!(env.read("search_results/processed_json/a.json"), "older");
    assert!(env.read("search_results/processed_json/a-2.json").contains("https://a.org"));
    assert!(env.read("search_results/processed_json/a-3.json").contains("https://b.org"));
}

#[test]
fn what_is_no_answer_stays_and_is_named() {
    let env = world();
    env.write("search_results/bad.json", "{\"results\": [");
    env.write("search_results/bytes.json", b"\xff\xfe");
    env.write("search_results/empty.json", "{\"results\": []}");
    env.write("search_results/good.json", answer(&["https://a.org"]));
    env.write("elsewhere.json", answer(&["https://secret.org"]));
    symlink("../elsewhere.json", env.root().join("search_results/link.json")).unwrap();
    fs::create_dir(env.root().join("search_results/folder.json")).unwrap();
    assert_snapshot!(finalize(&env).success().errors(), @"
    WARN: search_results/bad.json was not used: it is not JSON: EOF while parsing a list at line 1 column 13
    WARN: search_results/bytes.json was not used: it is not UTF-8
    WARN: search_results/empty.json was not used: it has no source
    WARN: search_results/folder.json was not used: it is a directory; harness needs a file there
    WARN: search_results/link.json was not used: it is a symbolic link; harness never follows one
    ");
    for name in ["bad", "bytes", "empty", "folder", "link"] {
        assert!(env.exists(format!("search_results/{name}.json")), "{name}");
    }
    assert!(env.exists("search_results/processed_json/good.json"));
    assert_eq!(urls(&env), ["https://a.org"]);
}

#[test]
fn without_a_source_nothing_moves_and_nothing_is_made() {
    let env = world();
    finalize(&env).success().stdout("no source found in search_results/");
    assert!(!env.exists("search_results") && !env.exists("tasks"));
    env.write("search_results/a.json", "{}");
    finalize(&env).success().stdout("no source found in search_results/");
    assert!(env.exists("search_results/a.json"));
    assert!(!env.exists("search_results/processed_json") && !env.exists("tasks"));
}

#[test]
fn the_answer_as_a_document() {
    let env = world();
    env.write("search_results/a.json", answer(&["https://a.org"]));
    env.write("search_results/bad.json", "{");
    let ran = env.run(["research", "finalize", "--task", "t", "--json"]).success();
    assert_eq!(
        ran.json(),
        json!({
            "version": 1, "task_id": "t", "added": 1, "sources": 1, "overview": OVERVIEW,
            "moved": [{
                "file": "search_results/a.json",
                "to": "search_results/processed_json/a.json",
                "entries": 1,
            }],
            "stayed": [{
                "file": "search_results/bad.json",
                "why": "is not JSON: EOF while parsing an object at line 1 column 1",
            }],
        })
    );
}

/// Creates each state that a kill can leave behind. The result is that of an undisturbed run.
#[test]
fn a_run_that_was_killed_is_finished_by_the_next() {
    let inbox = [("a", &["https://a.org"][..]), ("b", &["https://b.org", "https://a.org/"])];
    let fresh = || {
        let env = world();
        for (name, urls) in inbox {
            env.write(format!("search_results/{name}.json"), answer(urls));
        }
        env
    };
    let done = fresh();
    finalize(&done).success();
    let expected = files(&done);
    let (sources, overview) = (done.read(SOURCES), done.read(OVERVIEW));

    // Nothing was durable yet: half a file is beside the place of the sources.
    let env = fresh();
    fs::create_dir_all(env.root().join("search_results/processed_json")).unwrap();
    env.write("tasks/t/.research_sources.json.tmp", &sources[..sources.len() / 2]);
    finalize(&env).success();
    assert_eq!(files(&env), expected);

    // The sources are stored, but there is no page, and nothing was moved.
    let env = fresh();
    env.write(SOURCES, &sources);
    finalize(&env).success().stdout_contains("0 new sources, 2 in all");
    assert_eq!(files(&env), expected);

    // The page is from an earlier time.
    let env = fresh();
    env.write(SOURCES, &sources).write(OVERVIEW, "# Research: t\n\nold\n");
    finalize(&env).success();
    assert_eq!(files(&env), expected);

    // One of two files was moved.
    let env = fresh();
    env.write(SOURCES, &sources).write(OVERVIEW, &overview);
    fs::create_dir(env.root().join("search_results/processed_json")).unwrap();
    let path = |name: &str| env.root().join("search_results").join(name);
    fs::rename(path("a.json"), path("processed_json/a.json")).unwrap();
    finalize(&env).success();
    assert_eq!(files(&env), expected);
}

#[test]
fn several_at_once_lose_nothing() {
    let env = world();
    let start = || {
        let mut command = env.harness(["research", "finalize", "--task", "t"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut running = Vec::new();
    for n in 0..8 {
        let url = format!("https://a.org/{n}");
        // The file appears as a whole, as a careful tool would write it.
        env.write("search_results/.tmp", answer(&[&url]));
        let inbox = env.root().join("search_results");
        fs::rename(inbox.join(".tmp"), inbox.join(format!("{n}.json"))).unwrap();
        running.push(start());
    }
    for mut one in running {
        assert!(one.wait().unwrap().success());
    }
    finalize(&env).success();
    let mut found = urls(&env);
    found.sort();
    assert_eq!(found, (0..8).map(|n| format!("https://a.org/{n}")).collect::<Vec<_>>());
    let moved = fs::read_dir(env.root().join("search_results/processed_json")).unwrap().count();
    assert_eq!(moved, 8);
}

#[test]
fn what_is_in_the_way_is_named_and_nothing_is_lost() {
    let env = world();
    env.write("search_results/a.json", answer(&["https://a.org"]));
    env.write(SOURCES, "{ \"mine\": true }");
    finalize(&env).code(5).stderr_contains("tasks/t/research_sources.json: missing field");
    assert_eq!(env.read(SOURCES), "{ \"mine\": true }");
    assert!(env.exists("search_results/a.json"));
    fs::remove_file(env.root().join(SOURCES)).unwrap();
    fs::create_dir(env.root().join("outside")).unwrap();
    symlink("../outside", env.root().join("search_results/processed_json")).unwrap();
    finalize(&env).code(5).stderr_contains("search_results/processed_json is a symbolic link");
    assert!(!env.exists(SOURCES) && env.exists("search_results/a.json"));
    fs::remove_file(env.root().join("search_results/processed_json")).unwrap();
    fs::remove_dir_all(env.root().join("tasks")).unwrap();
    symlink("outside", env.root().join("tasks")).unwrap();
    finalize(&env).code(5).stderr_contains("tasks is a symbolic link");
    assert!(env.exists("search_results/a.json"));
    assert_eq!(fs::read_dir(env.root().join("outside")).unwrap().count(), 0);
}

#[test]
fn an_id_that_is_none_is_wrong_usage() {
    let env = world();
    for id in ["../x", "", "a/b", ".hidden"] {
        let ran = env.run(["research", "finalize", "--task", id]);
        ran.code(2).stderr_contains("is not a valid task id");
    }
    env.run(["research", "finalize"]).code(2);
    let bare = TestEnvironment::new();
    finalize(&bare).code(1).stderr_contains("harness init");
}

#[test]
fn a_worker_in_a_linked_work_tree_has_its_own_inbox() {
    let env = world();
    env.git(["worktree", "add", "--quiet", ".harness/worktrees/w"]);
    env.write("search_results/main.json", answer(&["https://main.org"]));
    env.write(".harness/worktrees/w/search_results/a.json", answer(&["https://a.org"]));
    env.write(".harness/worktrees/w/src/lib.rs", "");
    let root = env.root().to_owned();
    let env = env.variable("HARNESS_STATE_ROOT", root);
    env.run_in(".harness/worktrees/w/src", ["research", "finalize", "--task", "t"]).success();
    assert!(env.exists(".harness/worktrees/w/tasks/t/research_overview.md"));
    assert!(env.exists("search_results/main.json") && !env.exists("tasks"));
}
