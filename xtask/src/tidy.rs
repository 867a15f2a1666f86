//! `cargo xtask tidy`: house rules that no compiler checks.

use std::{fs, path::PathBuf, process::Command};

use crate::{
    layers, manifests,
    run::{Done, root},
    words,
};

const FILE_LINES: usize = 500;
const TEST_FILE_LINES: usize = 900;
const ARCHITECTURE_LINES: usize = 260;
const MAIN_LINES: usize = 20;

/// Crates that use `Home` for the paths of a root's files, and the module that defines them.
const OUTSIDE_HOME: [&str; 2] = ["crates/harness/src/", "crates/harness-cli/src/"];
const HOME: &str = "crates/harness/src/home/";
/// Texts that would build a path of our files by hand.
const OUR_PATHS: [&str; 3] = ["join(\".harness", "join(\"harness-", "join(\"harness."];

pub(crate) fn tidy() -> Done {
    let mut complaints = Vec::new();
    let (mut sources, mut others) = (Vec::new(), Vec::new());
    for path in tracked_files()? {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        let name = path.to_string_lossy().into_owned();
        sizes(&name, &text, &mut complaints);
        contents(&name, &text, &mut complaints);
        complaints.extend(words::complaints(&name, &text));
        if name.ends_with(".rs") {
            sources.push((name, text));
        } else {
            others.push((name, text));
        }
    }
    complaints.extend(layers::complaints(&sources));
    complaints.extend(manifests::complaints(&others));
    if complaints.is_empty() {
        eprintln!("tidy: nothing to say");
        return Ok(());
    }
    Err(format!("{} things are untidy:\n  {}", complaints.len(), complaints.join("\n  ")))
}

fn tracked_files() -> Result<Vec<PathBuf>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map_err(|e| format!("git ls-files: {e}"))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(names.split('\0').filter(|n| !n.is_empty()).map(PathBuf::from).collect())
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

fn sizes(name: &str, text: &str, complaints: &mut Vec<String>) {
    // The list of modules is the layout, not code.
    let lines = text.lines().filter(|line| !line.starts_with("mod ")).count();
    let most = match name {
        "ARCHITECTURE.md" => ARCHITECTURE_LINES,
        "crates/harness-cli/src/main.rs" => MAIN_LINES,
        _ if !name.ends_with(".rs") => return,
        _ if is_test(name) => TEST_FILE_LINES,
        _ => FILE_LINES,
    };
    if lines > most {
        complaints.push(format!("{name}: {lines} lines, {most} at most: a noun is missing"));
    }
}

fn contents(name: &str, text: &str, complaints: &mut Vec<String>) {
    let core = name.starts_with("crates/harness-core/src/");
    let product = name.ends_with(".rs") && !is_test(name) && !name.starts_with("xtask/");
    // These are concatenated so that this file does not complain about itself.
    let sleeps = ["thread::sl", "eep("].concat();
    let homes = ["/wo", "rk/"].concat();
    let tests_from = text.lines().position(|line| line == "#[cfg(test)]").unwrap_or(usize::MAX);
    let asks_home =
        OUTSIDE_HOME.iter().any(|folder| name.starts_with(folder)) && !name.starts_with(HOME);
    for (n, line) in text.lines().enumerate() {
        let mut complain = |what: &str| complaints.push(format!("{name}:{}: {what}", n + 1));
        let code = line.trim_start();
        if code.starts_with("//") && !code.starts_with("///") && !code.starts_with("//!") {
            continue;
        }
        let impure =
            ["std::fs", "std::process", "std::net", "std::thread", "SystemTime", "Instant"];
        if core && impure.iter().any(|word| line.contains(word)) {
            complain("harness-core decides; it does nothing and reads no clock");
        }
        if is_test(name) && line.contains(&sleeps) {
            complain("a test waits for a condition, it does not sleep");
        }
        if asks_home
            && product
            && n < tests_from
            && OUR_PATHS.iter().any(|part| line.contains(part))
        {
            complain("where our files are is known to `Home` alone");
        }
        if product && (line.contains("todo!(") || line.contains("unimplemented!(")) {
            complain("unfinished");
        }
        if line.starts_with(&homes)
            || line.contains(&format!(" {homes}"))
            || line.contains(&format!("\"{homes}"))
        {
            complain("a path of some machine");
        }
    }
    if name.ends_with(".rs") && !text.ends_with('\n') {
        complaints.push(format!("{name}: no newline at the end"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_home_puts_the_path_of_a_file_of_ours_together() {
        let text = "fn f(root: &Path) -> PathBuf {\n    root.join(\".harness/lock\")\n}\n";
        let tested = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        let complaints = |name: &str, text: &str| {
            let mut found = Vec::new();
            contents(name, text, &mut found);
            found
        };
        let found = complaints("crates/harness/src/store/file.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/harness/src/store/file.rs:2: "), "{found:?}");
        for name in ["crates/harness/src/home/root.rs", "crates/harness-sim/src/world.rs"] {
            assert_eq!(complaints(name, text), Vec::<String>::new());
        }
        assert_eq!(complaints("crates/harness/src/store/file.rs", &tested), Vec::<String>::new());
    }
}
