//! The shell of the system: `sh -c`, one pipe for both outputs, one poll loop.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Seek as _, Write as _},
    path::Path,
    time::Duration,
};

use harness_core::variables::OF_A_TASK;

use super::{Cancel, Exit, Ran, Script, Shell, guarded, plain};
use crate::process::{Redactor, guard, is_guard_reachable, program::find_program};

/// The time limit of `command -v`, which looks into a few directories.
const LOOK_UP: Duration = Duration::from_secs(10);

/// Runs commands with `sh`. They run under a guard if the program has called
/// [`guard::init`] and no sandbox forbids it: then nothing that they start outlives them. Otherwise
/// this holds for the processes in their process group.
#[derive(Debug, Clone)]
pub struct SystemShell {
    /// The time between TERM and KILL.
    pub grace: Duration,
    /// The secrets that are removed from the output; `None` for those of the command's environment.
    pub secrets: Option<Redactor>,
    /// Names of inherited variables that commands do not get.
    pub withheld: Vec<String>,
}

impl Default for SystemShell {
    fn default() -> SystemShell {
        SystemShell { grace: Duration::from_secs(5), secrets: None, withheld: Vec::new() }
    }
}

/// The inputs of a script beside its command line, and the treatment of its output.
pub(super) struct Given {
    /// The whole environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) stdin: File,
    /// The time between TERM and KILL.
    pub(super) grace: Duration,
    pub(super) secrets: Redactor,
}

impl Shell for SystemShell {
    fn run(&self, script: &Script) -> io::Result<Ran> {
        self.supervise(script, null()?, None)
    }

    fn run_until(&self, script: &Script, cancel: &Cancel) -> io::Result<Ran> {
        self.supervise(script, null()?, Some(cancel))
    }

    fn lacks(&self, command: &str, directory: &Path) -> bool {
        let Some(word) = plain_first_word(command) else {
            return false;
        };
        // The shell would find it too.
        let path = std::env::var_os("PATH").unwrap_or_default();
        if find_program(word, &path).is_some() {
            return false;
        }
        let look_up = Script {
            command: format!("command -v {word}"),
            directory: directory.to_owned(),
            timeout: LOOK_UP,
            environment: Vec::new(),
        };
        // The shell looks it up by itself and starts nothing that would need a guard.
        let looked =
            null().and_then(|stdin| plain::run(&look_up, self.given(&look_up, stdin), None));
        // If the lookup failed, the command is not known to be missing.
        looked.is_ok_and(|ran| matches!(ran.exit, Exit::Code(code) if code != 0))
    }
}

impl SystemShell {
    /// Does the same as [`Shell::run`], with `input` as standard input. A command that does not
    /// read it is not affected.
    pub fn run_with_input(&self, script: &Script, input: &[u8]) -> io::Result<Ran> {
        let mut file = tempfile::tempfile()?;
        file.write_all(input)?;
        file.rewind()?;
        self.supervise(script, file, None)
    }

    fn supervise(&self, script: &Script, stdin: File, cancel: Option<&Cancel>) -> io::Result<Ran> {
        let given = self.given(script, stdin);
        if guard::is_initialised() && is_guard_reachable() {
            return guarded::run(script, given, cancel);
        }
        plain::run(script, given, cancel)
    }

    fn given(&self, script: &Script, stdin: File) -> Given {
        let environment = environment(script, &self.withheld);
        let secrets = self.secrets.clone();
        let secrets = secrets.unwrap_or_else(|| Redactor::from_environment(environment.clone()));
        Given { environment, stdin, grace: self.grace, secrets }
    }
}

fn null() -> io::Result<File> {
    File::open("/dev/null")
}

/// Returns the whole environment: the inherited variables, and those of the script.
fn environment(script: &Script, withheld: &[String]) -> Vec<(OsString, OsString)> {
    let added = |name: &OsString| script.environment.iter().any(|(other, _)| **other == **name);
    // Harness may be started by the agent of another harness, whose task is not the script's.
    let is_of_a_task = |name: &OsString| OF_A_TASK.iter().any(|other| name == other);
    let is_withheld = |name: &OsString| {
        withheld.iter().any(|other| name == other.as_str())
            || name.to_str().is_some_and(crate::process::is_withheld)
    };
    std::env::vars_os()
        .filter(|(name, _)| !is_of_a_task(name) && !added(name) && !is_withheld(name))
        .chain(script.environment.iter().map(|(name, value)| (name.into(), value.into())))
        .collect()
}

/// Returns the first word, if the shell uses it literally and looks it up in `PATH`.
fn plain_first_word(command: &str) -> Option<&str> {
    let command = command.trim_start();
    let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    let defines_a_function = rest.trim_start().starts_with('(');
    let is_plain = !word.is_empty() && word.chars().all(plain) && !word.starts_with('-');
    (is_plain && !defines_a_function).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_word_can_be_missing() {
        assert_eq!(plain_first_word("  npm test"), Some("npm"));
        assert_eq!(plain_first_word("g++-12\t-v"), Some("g++-12"));
        assert_eq!(plain_first_word("make"), Some("make"));
        for other in [
            "",
            "A=1 make",
            "./run",
            "/bin/x",
            "$X y",
            "\"x\" y",
            "x;y",
            "(x)",
            "{ x; }",
            "! x",
            "~/x",
            "f() { :; }; f",
            "f () { :; }; f",
            "# x",
            "-x",
            "x|y",
            ">f x",
            "naïve",
        ] {
            assert_eq!(plain_first_word(other), None, "{other}");
        }
    }
}
