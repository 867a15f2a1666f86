//! The scripts in `examples/` do what they show.

use std::{fs, path::Path};

use crate::{environment::TestEnvironment, page::repository};

/// Returns a world in which a shell finds this program.
fn stage() -> TestEnvironment {
    let env = TestEnvironment::new();
    let binary = Path::new(env!("CARGO_BIN_EXE_harness")).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap();
    let path = [binary].into_iter().chain(std::env::split_paths(&others));
    env.variable("PATH", std::env::join_paths(path).unwrap())
}

/// Runs an example in the project, and returns its output.
#[track_caller]
fn example(env: &TestEnvironment, name: &str) -> String {
    let script = repository().join("examples").join(name);
    let mut command = env.program("sh");
    let ran = env.ran(command.arg(script).arg(env.root()).output().unwrap()).success();
    ran.output().to_owned()
}

#[track_caller]
fn subjects(env: &TestEnvironment, expected: &[&str]) {
    let log = env.git(["log", "--format=%s", "--reverse"]);
    let mut landed: Vec<_> = log.lines().collect();
    let mut expected = expected.to_vec();
    landed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(landed, expected);
    assert_eq!(env.git(["status", "--porcelain"]), "");
}

#[test]
fn a_python_package() {
    let env = stage();
    let python = env.program("python3").arg("--version").output();
    if !python.is_ok_and(|said| said.status.success()) {
        eprintln!("python3 does not work here: examples/python-package.sh was not run");
        return;
    }
    let said = example(&env, "python-package.sh");
    assert!(said.contains("slugify/1"), "{said}");
    assert!(said.contains("2 of 2 hold"), "{said}");
    subjects(
        &env,
        &[
            "A package with tests and without code",
            "slugify: Write slugify",
            "command: Offer it as a command",
        ],
    );
    assert_eq!(env.task(0)["attempts"], 2);
}

#[test]
fn a_web_page() {
    let env = stage();
    let said = example(&env, "web-page.sh");
    assert!(said.contains("gate: sh check-links.sh (limit 10 min); passed"), "{said}");
    assert!(env.read("index.html").contains("style.css"));
    subjects(
        &env,
        &[
            "A check for the links",
            "index: Write the front page, with a link to the list",
            "list: Write the list of teas",
            "style: Give both pages a style sheet",
        ],
    );
}

#[test]
fn a_data_job() {
    let env = stage();
    example(&env, "data-job.sh");
    assert_eq!(env.read("report.txt"), "north 200 10083\nsouth 200 10083\nwest 200 10046\n");
    subjects(
        &env,
        &[
            "The raw data",
            "north: Sum up north",
            "south: Sum up south",
            "west: Sum up west",
            "report: Write the report",
        ],
    );
}

#[test]
fn every_example_is_in_the_list_and_has_a_test() {
    let list = fs::read_to_string(repository().join("examples/README.md")).unwrap();
    let tests = include_str!("examples.rs");
    for entry in fs::read_dir(repository().join("examples")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".sh") {
            assert!(list.contains(&format!("]({name})")), "{name} is not in the list");
            assert!(tests.contains(&format!("\"{name}\"")), "{name} has no test");
        }
    }
}
