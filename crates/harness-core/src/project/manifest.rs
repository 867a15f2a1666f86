//! One function for each kind of project. It returns the check that the files indicate, if any.

use serde_json::Value;

use super::{ProjectCheck, ProjectFiles};

pub(super) fn just(project: &ProjectFiles) -> Option<ProjectCheck> {
    let files = ["justfile", "Justfile", ".justfile"];
    let file = files.into_iter().find(|name| has_recipe(project.text(name)))?;
    Some(ProjectCheck::of("just test", file))
}

/// Returns whether there is a recipe `test` that needs no arguments.
fn has_recipe(text: &str) -> bool {
    headers(text).any(|(header, _)| {
        let mut words = header.split_whitespace();
        let optional = |word: &str| word.contains('=') || word.starts_with('*');
        matches!(words.next(), Some("test" | "@test")) && words.all(optional)
    })
}

pub(super) fn make(project: &ProjectFiles) -> Option<ProjectCheck> {
    let files = ["GNUmakefile", "makefile", "Makefile"];
    let has_target = |text: &str| {
        headers(text).any(|(header, _)| header.split_whitespace().any(|target| target == "test"))
    };
    let file = files.into_iter().find(|name| has_target(project.text(name)))?;
    Some(ProjectCheck::of("make test", file))
}

/// Returns the text before and after the colon of lines that are not a recipe, comment or
/// assignment.
fn headers(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_header = |line: &&str| !line.starts_with([' ', '\t', '#', '.']);
    text.lines().filter(is_header).filter_map(|line| {
        let (header, rest) = line.split_once(':')?;
        (!rest.trim_start_matches(':').starts_with('=')).then_some((header, rest))
    })
}

pub(super) fn cargo(project: &ProjectFiles) -> Option<ProjectCheck> {
    project.has("Cargo.toml").then(|| ProjectCheck::of("cargo test", "Cargo.toml"))
}

pub(super) fn node(project: &ProjectFiles) -> Option<ProjectCheck> {
    let package: Value = serde_json::from_str(project.text("package.json")).ok()?;
    let script = package["scripts"]["test"].as_str()?;
    // The script that `npm init` writes always fails.
    if script.trim().is_empty() || script.contains("no test specified") {
        return None;
    }
    let manager = package["packageManager"].as_str().unwrap_or_default();
    let uses = |name: &str, locks: &[&str]| {
        manager.starts_with(name) || locks.iter().any(|lock| project.has(lock))
    };
    let command = if uses("pnpm@", &["pnpm-lock.yaml"]) {
        "pnpm test"
    } else if uses("yarn@", &["yarn.lock"]) {
        "yarn test"
    } else if uses("bun@", &["bun.lock", "bun.lockb"]) {
        // `bun test` would run Bun's own test runner and not the script.
        "bun run test"
    } else {
        "npm test"
    };
    // The packages of a workspace are links from node_modules into the work tree. Through them, a
    // clean checkout would judge files that are in no commit.
    let leads_back = !package["workspaces"].is_null() || project.has("pnpm-workspace.yaml");
    let link = match project.has("node_modules") && !leads_back {
        true => vec!["node_modules".to_owned()],
        false => Vec::new(),
    };
    Some(ProjectCheck { link, ..ProjectCheck::of(command, "package.json") })
}

pub(super) fn go(project: &ProjectFiles) -> Option<ProjectCheck> {
    project.has("go.mod").then(|| ProjectCheck::of("go test ./...", "go.mod"))
}

pub(super) fn python(project: &ProjectFiles) -> Option<ProjectCheck> {
    let shown_by = python_tests(project)?;
    let command = if project.has("uv.lock") {
        "uv run pytest"
    } else if project.has("poetry.lock") {
        "poetry run pytest"
    } else if project.has(".venv") {
        ".venv/bin/python -m pytest"
    } else {
        "pytest"
    };
    Some(ProjectCheck::of(command, shown_by))
}

/// Returns the file that indicates the use of pytest.
fn python_tests(project: &ProjectFiles) -> Option<&'static str> {
    if project.has("pytest.ini") {
        return Some("pytest.ini");
    }
    let mentioning = [
        ("pyproject.toml", "pytest"),
        ("setup.cfg", "[tool:pytest]"),
        ("tox.ini", "[pytest]"),
        ("requirements.txt", "pytest"),
        ("requirements-dev.txt", "pytest"),
        ("dev-requirements.txt", "pytest"),
        ("requirements-test.txt", "pytest"),
    ];
    let mentions = mentioning.into_iter().find(|(name, word)| project.text(name).contains(word));
    if let Some((name, _)) = mentions {
        return Some(name);
    }
    let is_test = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"))
    };
    if !project.files.iter().any(is_test) {
        return None;
    }
    ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"]
        .into_iter()
        .find(|name| project.has(name))
}

pub(super) fn gradle(project: &ProjectFiles) -> Option<ProjectCheck> {
    project.has("gradlew").then(|| ProjectCheck::of("./gradlew test", "gradlew"))
}

pub(super) fn maven(project: &ProjectFiles) -> Option<ProjectCheck> {
    let command = if project.has("mvnw") { "./mvnw test" } else { "mvn test" };
    project.has("pom.xml").then(|| ProjectCheck::of(command, "pom.xml"))
}

pub(super) fn mix(project: &ProjectFiles) -> Option<ProjectCheck> {
    project.has("mix.exs").then(|| ProjectCheck::of("mix test", "mix.exs"))
}
