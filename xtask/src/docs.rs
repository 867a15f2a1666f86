//! What is generated: `docs/cli.md` from the help of the binary, `docs/configuration.md` and
//! `schema/` from its schema and from PROTOCOL.md, `plugin/` from what it installs. The site is made
//! from all pages.

use std::{fmt::Write as _, fs, path::PathBuf, process::Command};

use crate::{
    page::Page,
    plugin, recording, reference,
    run::{Done, cargo, root, run},
    schema, site,
};

const HEAD: &str = "# Commands\n\nMade by `cargo xtask docs` from `harness --help`; do not edit.\n";

pub(crate) fn docs(arguments: &[&str]) -> Done {
    match arguments {
        [] => write(),
        ["--check"] => check(),
        ["--site"] => check().and_then(|()| site::build()),
        _ => Err("usage: cargo xtask docs [--check | --site]".into()),
    }
}

fn write() -> Done {
    for (name, text) in generated()? {
        let path = root().join(&name);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = folder.and_then(|()| fs::write(&path, text));
        written.map_err(|why| format!("{}: {why}", path.display()))?;
    }
    Ok(())
}

fn check() -> Done {
    let generated = generated()?;
    let differs = |(name, text): &&(String, String)| {
        fs::read_to_string(root().join(name)).ok().as_ref() != Some(text)
    };
    let stale: Vec<_> = generated.iter().filter(differs).map(|(name, _)| name.as_str()).collect();
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("{} would be different now: run `cargo xtask docs`", stale.join(", ")))
}

/// Returns the path and the text of each generated file.
fn generated() -> Result<Vec<(String, String)>, String> {
    run(cargo().args(["build", "--quiet", "--package", "harness-supervisor-cli"]))?;
    let mut commands = HEAD.to_owned();
    help(&mut Vec::new(), &mut commands)?;
    let config = said(&["config", "--schema"])?;
    let parsed = serde_json::from_str(&config).map_err(|why| format!("config --schema: {why}"))?;
    let protocol = Page::open("PROTOCOL.md")?;
    let examples = Page::open("crates/harness-cli/src/config/example.toml")?;
    let lists = Page::open("crates/harness-cli/src/config/example-notify.toml")?;
    let mut files = vec![
        ("docs/cli.md".to_owned(), commands),
        (
            "docs/configuration.md".to_owned(),
            reference::page(&parsed, &examples, &lists, &protocol)?,
        ),
        ("schema/harness.schema.json".to_owned(), config),
    ];
    let recording = Page::open("docs/demo.txt")?;
    files.push(("docs/demo.svg".to_owned(), recording::svg(&recording.text)));
    let schemas = schema::of_protocol(&protocol)?;
    files.extend(schemas.into_iter().map(|(name, text)| (format!("schema/{name}"), text)));
    files.extend(plugin::files(&program())?);
    Ok(files)
}

/// Returns the program that was built for this.
pub(crate) fn program() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("debug/harness")
}

/// Returns what the program prints.
fn said(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program())
        .args(arguments)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .output()
        .map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn help(words: &mut Vec<String>, text: &mut String) -> Done {
    let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = said(&arguments)?;
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let name =
        ["harness".to_owned()].iter().chain(words.iter()).cloned().collect::<Vec<_>>().join(" ");
    let _ = write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim());
    for command in subcommands(&help) {
        words.push(command);
        self::help(words, text)?;
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
