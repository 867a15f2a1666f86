//! Runs `bd` and `gh`, and returns what they print.

use std::{path::Path, time::Duration};

use harness::shell::{Exit, Script, Shell as _, SystemShell};

use crate::failure::{Failure, Result};

/// A program of a service may be slow, but not forever.
const LIMIT: Duration = Duration::from_secs(300);

/// Returns the standard output of a program. The shell keeps only the end of what a program prints,
/// so the output goes to a file.
pub(super) fn output(program: &Path, arguments: &[&str], directory: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let printed = folder.path().join("output");
    let words = std::iter::once(program.to_string_lossy().into_owned())
        .chain(arguments.iter().map(|argument| (*argument).to_owned()));
    let words: Vec<String> = words.map(|word| quoted(&word)).collect();
    let script = Script {
        command: format!("exec {} >{}", words.join(" "), quoted(&printed.to_string_lossy())),
        directory: directory.to_owned(),
        timeout: LIMIT,
        environment: vec![
            ("GH_PROMPT_DISABLED".to_owned(), "1".to_owned()),
            ("GH_NO_UPDATE_NOTIFIER".to_owned(), "1".to_owned()),
            ("NO_COLOR".to_owned(), "1".to_owned()),
        ],
    };
    let ran = SystemShell::default().run(&script)?;
    let said = String::from_utf8_lossy(&ran.tail);
    let said = said.trim();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let line = std::iter::once(&*name).chain(arguments.iter().copied());
    let line: String = line.collect::<Vec<_>>().join(" ").chars().take(120).collect();
    match ran.exit {
        Exit::Code(0) => super::texts::bounded(&printed),
        Exit::Code(code) => Err(Failure::error(format!("`{line}` failed (exit {code}): {said}"))),
        Exit::TimedOut => {
            Err(Failure::error(format!("`{line}` took more than {} s", LIMIT.as_secs())))
        }
        Exit::Signal(signal) => {
            Err(Failure::error(format!("`{line}` was killed by signal {signal}")))
        }
        Exit::Cancelled => Err(Failure::error(format!("`{line}` was cancelled"))),
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\0', "").replace('\'', r"'\''"))
}
