//! The pages of the documentation: what they show happens, their links lead somewhere, and the
//! messages that they explain exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use regex::Regex;

use crate::{
    environment::TestEnvironment,
    page::{Page, code, repository},
};

/// Returns all pages of the repository, by their paths in it.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["docs", "examples", "plugin"].map(|name| repository().join(name)).into();
    let top = fs::read_dir(repository()).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(top.filter(|path| path.extension().is_some_and(|end| end == "md")));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Returns the lines outside of fenced blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            None if ticks.len() >= 3 => fence = Some(ticks),
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None => lines.push(line),
        }
    }
    lines
}

/// Returns the anchors of a page, as forges and mdBook make them from headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let times = seen.entry(anchor.clone()).or_default();
        *times += 1;
        if *times == 1 { anchor } else { format!("{anchor}-{}", *times - 1) }
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_page_and_to_a_heading_in_it() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let code = Regex::new(r"`[^`]*`").unwrap();
    let mut dead = Vec::new();
    let mut checked = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(repository()).unwrap().display().to_string();
        for line in prose(&text) {
            // A link may have code as its text, but code does not hold links.
            let line = code.replace_all(line, |found: &regex::Captures<'_>| {
                if found[0].contains("](") { String::new() } else { found[0].to_owned() }
            });
            for found in link.captures_iter(&line) {
                let target = &found[1];
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                checked += 1;
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let file = match path {
                    "" => page.clone(),
                    path => page.parent().unwrap().join(path),
                };
                if !file.is_file() {
                    dead.push(format!("{name}: {target} is no file"));
                } else if !anchor.is_empty()
                    && !anchors(&fs::read_to_string(&file).unwrap()).contains(anchor)
                {
                    dead.push(format!("{name}: {target}: there is no such heading"));
                }
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    assert!(checked > 150, "{checked} links");
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let summary = Page::open("docs/SUMMARY.md").text;
    let links: Vec<_> =
        summary.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    let listed: Vec<PathBuf> = links
        .iter()
        .map(|link| repository().join("docs").join(link).canonicalize().expect(link))
        .collect();
    for page in pages() {
        let times = listed.iter().filter(|listed| **listed == page).count();
        let name = page.strip_prefix(repository()).unwrap().display().to_string();
        let expected = usize::from(name != "docs/SUMMARY.md" && !name.starts_with("plugin/"));
        assert_eq!(times, expected, "{name}");
    }
}

/// Replaces text that differs between runs, or that belongs to the reader.
fn steady(text: &str, root: &Path) -> String {
    let mut text = text.replace(root.to_str().unwrap(), "/home/you/shop");
    for (pattern, instead) in [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r"(base=|commit )[0-9a-f]{7}\b", "${1}HASH"),
        (r"  [0-9a-f]{7}  ", "  HASH  "),
        (r"pid=\d+", "pid=N"),
        (r"\d+ m?s  ", "N s  "),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, instead).into_owned();
    }
    text
}

/// Compares an output with what a page shows. A line that ends in `…` is only a beginning, and a
/// line of `…` stands for any number of lines.
fn agrees(said: &str, shown: &str) -> bool {
    fn lines_agree(said: &[&str], shown: &[&str]) -> bool {
        match (said, shown) {
            (_, ["…"]) => true,
            ([], []) => true,
            (_, ["…", rest @ ..]) => {
                (0..=said.len()).any(|skipped| lines_agree(&said[skipped..], rest))
            }
            ([said, more @ ..], [shown, rest @ ..]) => {
                let fits = shown.strip_suffix('…').map_or(said == shown, |at| said.starts_with(at));
                fits && lines_agree(more, rest)
            }
            _ => false,
        }
    }
    let lines = |text: &str| text.trim_end().lines().map(str::to_owned).collect::<Vec<_>>();
    let (said, shown) = (lines(said), lines(shown));
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    lines_agree(&said, &shown)
}

/// A shell runs each `$ command` of the tours in `docs/`, each page in a repository of its own.
#[test]
fn the_tours_of_the_pages_are_what_happens() {
    let mut steps = 0;
    for page in pages().into_iter().filter(|page| page.starts_with(repository().join("docs"))) {
        let text = fs::read_to_string(&page).unwrap();
        let tour = Page { text }.blocks("console tour").concat();
        if tour.is_empty() {
            continue;
        }
        let env = TestEnvironment::with_git();
        let binary = Path::new(env!("CARGO_BIN_EXE_harness")).parent().unwrap().to_owned();
        let others = env::var_os("PATH").unwrap();
        let path = env::join_paths([binary].into_iter().chain(env::split_paths(&others))).unwrap();
        let env = env.variable("PATH", path);
        for step in tour.split("$ ").skip(1) {
            let (command, shown) = step.split_once('\n').unwrap();
            let merged = format!("exec 2>&1\n{command}");
            let output = env.program("sh").args(["-c", &merged]).output().unwrap();
            let said = steady(&String::from_utf8(output.stdout).unwrap(), env.root());
            let shown = steady(shown, env.root());
            let page = page.display();
            assert!(
                agrees(&said, &shown),
                "{page}\n$ {command}\n--- shown\n{shown}\n--- said\n{said}"
            );
            steps += 1;
        }
    }
    assert!(steps > 10, "{steps} steps");
}

/// Collects all Rust code of the product, with the joints of texts over several lines removed.
fn sources() -> String {
    let mut folders: Vec<PathBuf> = ["harness-core", "harness", "harness-cli"]
        .map(|name| repository().join("crates").join(name).join("src"))
        .into();
    let mut code = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                code.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let joint = Regex::new(r"\\\n\s*").unwrap();
    joint.replace_all(&code, "").replace('`', "")
}

#[test]
fn every_message_that_is_explained_exists() {
    let source = sources();
    let page = Page::open("docs/troubleshooting.md");
    let mut messages = 0;
    for heading in page.text.lines().filter(|line| line.starts_with("## ")) {
        for row in page.rows(heading) {
            for message in code(&row[0]) {
                // Values stand where the source has a placeholder.
                let message =
                    message.replace("harness-tasks.json", "…").replace("HARNESS_STATE_ROOT", "…");
                for part in message.split('…').map(str::trim).filter(|part| part.len() > 3) {
                    assert!(source.contains(part), "no {part:?} of {message:?} in the source");
                }
                messages += 1;
            }
        }
    }
    assert!(messages > 50, "{messages} messages");
}

#[test]
fn the_library_page_shows_the_smallest_example() {
    let page = Page::open("docs/library.md");
    let example = Page::open("crates/harness/examples/hello.rs").text;
    for line in page.block("rust").lines() {
        assert!(example.lines().any(|there| there == line), "{line}");
    }
}
