//! README.md and ARCHITECTURE.md stay true: commands, modules, links, and the tour.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use regex::Regex;

use crate::{
    environment::TestEnvironment,
    page::{Page, code, repository},
};

/// Returns the commands that a help page lists, such as `task claim`.
fn commands(env: &TestEnvironment, before: &[&str]) -> BTreeSet<String> {
    let help = env.run(before.iter().chain(&["--help"])).success();
    let mut found = BTreeSet::new();
    let mut listing = false;
    for line in help.output().lines() {
        if !line.starts_with(' ') && line.ends_with(':') {
            // The first page has groups of commands, the others have one list.
            let others = ["Options:", "Exit codes:"];
            listing = line == "Commands:" || before.is_empty() && !others.contains(&line);
        }
        let name = line.strip_prefix("  ").filter(|rest| listing && !rest.starts_with(' '));
        let Some(name) = name.and_then(|rest| rest.split(' ').next()) else { continue };
        let mut words = before.to_vec();
        words.push(name);
        let nested = commands(env, &words);
        if nested.is_empty() {
            found.insert(words.join(" "));
        }
        found.extend(nested);
    }
    found
}

#[test]
fn the_table_of_commands_has_every_command_and_no_other() {
    let env = TestEnvironment::new();
    let named = Page::open("README.md").named("## Commands");
    let named: BTreeSet<_> =
        named.iter().map(|name| name.strip_prefix("harness ").unwrap().to_owned()).collect();
    assert_eq!(named, commands(&env, &[]));
}

/// Replaces text that differs between runs, or that belongs to the reader.
fn steady(text: &str, root: &Path) -> String {
    let text = text.replace(root.to_str().unwrap(), "/home/you/shop");
    let time = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").unwrap();
    let text = time.replace_all(&text, "TIME");
    let hash = Regex::new(r"(base=|commit )[0-9a-f]{7}\b").unwrap();
    hash.replace_all(&text, "${1}HASH").into_owned()
}

/// A shell runs each `$ command` of the tour, and its output is the one below it. A line that ends
/// in `…` is only the beginning of the output.
#[test]
fn the_tour_is_what_happens() {
    let env = TestEnvironment::new();
    let binary = Path::new(env!("CARGO_BIN_EXE_harness")).parent().unwrap();
    let path = env::join_paths(
        [binary.to_owned()].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap())),
    );
    let env = env.variable("PATH", path.unwrap());
    env.git(["init", "--quiet"]);
    env.git(["commit", "--quiet", "--allow-empty", "--message", "start"]);
    let tour: String = Page::open("README.md").blocks("console tour").concat();
    let mut steps = 0;
    for step in tour.split("$ ").skip(1) {
        let (command, shown) = step.split_once('\n').unwrap();
        let merged = format!("exec 2>&1\n{command}");
        let output = env.program("sh").args(["-c", &merged]).output().unwrap();
        let said = steady(&String::from_utf8(output.stdout).unwrap(), env.root());
        let shown = steady(shown.trim_end(), env.root());
        let agree = said.lines().count() == shown.lines().count()
            && said.lines().zip(shown.lines()).all(|(said, shown)| {
                shown.strip_suffix('…').map_or(said == shown, |start| said.starts_with(start))
            });
        assert!(agree, "$ {command}\n--- shown\n{shown}\n--- said\n{said}");
        steps += 1;
    }
    assert!(steps > 10, "{steps} steps");
}

/// Returns the directories that the code map describes, each with the paths that it names.
fn code_map() -> Vec<(PathBuf, BTreeSet<String>)> {
    let page = Page::open("ARCHITECTURE.md");
    let headings: Vec<_> = page.text.lines().filter(|line| line.starts_with("### `")).collect();
    let described = headings.into_iter().map(|heading| {
        let folder = code(heading).remove(0);
        (repository().join(folder), page.named(heading).into_iter().collect())
    });
    described.collect()
}

#[test]
fn the_code_map_names_what_exists() {
    for (folder, named) in code_map() {
        for name in named {
            assert!(folder.join(&name).exists(), "{} has no {name}", folder.display());
        }
    }
}

#[test]
fn the_code_map_names_every_module_of_the_product() {
    let map = code_map();
    for krate in ["harness-core", "harness", "harness-cli"] {
        let folder = repository().join("crates").join(krate).join("src");
        let (_, named) = map.iter().find(|(described, _)| *described == folder).unwrap();
        for entry in fs::read_dir(&folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let listed = named.iter().any(|path| path.split('/').next() == Some(&name));
            assert!(name == "lib.rs" || listed, "{krate}/src/{name} is not in the code map");
        }
    }
}

#[test]
fn the_architecture_fits_its_page() {
    assert!(Page::open("ARCHITECTURE.md").text.lines().count() <= 260);
}

/// Collects all Rust code of the repository.
fn sources(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_promise_about_security_names_tests_that_exist() {
    let mut code = String::new();
    sources(&repository().join("crates"), &mut code);
    let page = Page::open("docs/SECURITY.md");
    let rows =
        page.text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    let mut named = 0;
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for test in tests.split(", ") {
            let test = test.trim_matches('`');
            assert!(code.contains(&format!("fn {test}()")), "{test} of {row}");
            named += 1;
        }
    }
    assert!(named > 60, "{named} tests");
}

#[test]
fn paths_of_the_repository_exist() {
    let mut pages: Vec<PathBuf> = Vec::new();
    for folder in ["", "docs", "docs/adr", "docs/agents"] {
        let entries = fs::read_dir(repository().join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|e| e == "md")));
    }
    let path =
        Regex::new(r"`((?:crates|xtask|docs|examples|schema|plugin|\.ci)/[\w./-]+)`").unwrap();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for found in path.captures_iter(&text) {
            let target = repository().join(&found[1]);
            assert!(target.exists(), "{}: {}", page.display(), &found[1]);
        }
    }
}
