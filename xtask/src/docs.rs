//! `docs/cli.md`, generated from the help of the binary.

use std::{fmt::Write as _, fs, process::Command};

use crate::run::{Done, cargo, root, run};

const HEAD: &str = "# Commands\n\nMade by `cargo xtask docs` from `harness --help`; do not edit.\n";

pub(crate) fn docs(arguments: &[&str]) -> Done {
    run(cargo().args(["build", "--quiet", "--package", "harness-supervisor-cli"]))?;
    let mut text = HEAD.to_owned();
    page(&mut Vec::new(), &mut text)?;
    let path = root().join("docs/cli.md");
    match arguments {
        [] => fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display())),
        ["--check"] if fs::read_to_string(&path).is_ok_and(|old| old == text) => Ok(()),
        ["--check"] => {
            Err("docs/cli.md is not what the binary says: run `cargo xtask docs`".into())
        }
        _ => Err("usage: cargo xtask docs [--check]".into()),
    }
}

fn page(words: &mut Vec<String>, text: &mut String) -> Done {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let output = Command::new(target.join("debug/harness"))
        .args(words.iter())
        .arg("--help")
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .output()
        .map_err(|e| e.to_string())?;
    let help = String::from_utf8_lossy(&output.stdout);
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let name =
        ["harness".to_owned()].iter().chain(words.iter()).cloned().collect::<Vec<_>>().join(" ");
    let _ = write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim());
    for command in subcommands(&help) {
        words.push(command);
        page(words, text)?;
        words.pop();
    }
    Ok(())
}

/// Returns the first word of each line in the sections that list commands. The top page groups them
/// under headings of its own.
fn subcommands(help: &[&str]) -> Vec<String> {
    const OTHERS: [&str; 5] = ["usage", "arguments", "options", "exit", "examples"];
    let mut listed = Vec::new();
    let mut listing = false;
    for line in help {
        if !line.starts_with(' ') && line.ends_with(':') {
            let heading = line.to_lowercase();
            listing = !OTHERS.iter().any(|other| heading.contains(other));
        }
        let indented = line.starts_with("  ") && !line.starts_with("   ");
        if listing
            && indented
            && let Some(word) = line.split_whitespace().next()
            && word != "help"
        {
            listed.push(word.to_owned());
        }
    }
    listed
}
