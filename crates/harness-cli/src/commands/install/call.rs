//! Parses the command of a hook in a settings file as a shell would.

use std::path::Path;

/// A command `NAME=value … PROGRAM hook HOOK …`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    /// The variables before it, as they are written.
    pub(super) variables: &'a str,
    pub(super) program: String,
    hooks: Vec<String>,
}

impl<'a> Call<'a> {
    pub(super) fn parse(command: &'a str) -> Option<Self> {
        let words = shlex::split(command)?;
        let call = &words[words.iter().position(|word| !is_variable(word))?..];
        let [program, word, hooks @ ..] = call else { return None };
        if word != "hook" || hooks.is_empty() {
            return None;
        }
        let is_call = |at: &usize| shlex::split(&command[*at..]).as_deref() == Some(call);
        let start = command.char_indices().map(|(at, _)| at).find(is_call)?;
        let variables = command[..start].trim();
        Some(Self { variables, program: program.clone(), hooks: hooks.to_vec() })
    }

    /// Returns whether the program can only be harness, whatever its name. No other program has a
    /// hook of this name, while `hook stop` may belong to many.
    pub(super) fn gives_itself_away(&self) -> bool {
        is_named_harness(&self.program) || self.hooks.iter().any(|hook| hook == "self-reflect")
    }

    /// Returns whether it does the same as the other one, apart from variables.
    pub(super) fn does_as(&self, other: &Call<'_>) -> bool {
        (&self.program, &self.hooks) == (&other.program, &other.hooks)
    }
}

fn is_named_harness(program: &str) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "harness")
}

fn is_variable(word: &str) -> bool {
    let is_name = |name: &str| {
        let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_before_the_program_are_set_aside() {
        let variables = |command| Call::parse(command).map(|call| call.variables);
        for (command, set) in [
            ("harness hook stop", ""),
            ("  '/a b/harness'  hook stop", ""),
            ("HARNESS_BIND=1 harness hook stop", "HARNESS_BIND=1"),
            ("A= B='x y'  harness hook stop", "A= B='x y'"),
        ] {
            assert_eq!(variables(command), Some(set), "{command}");
        }
        for command in ["harness hook", "harness status", "A=1", "", "'", "harness 'hook stop'"] {
            assert_eq!(variables(command), None, "{command}");
        }
    }

    #[test]
    fn a_program_is_told_by_its_name_or_by_what_it_is_asked_for() {
        let is_told = |command| Call::parse(command).unwrap().gives_itself_away();
        assert!(is_told("/opt/harness hook gone"));
        assert!(is_told("h2 hook stop self-reflect"));
        assert!(!is_told("h2 hook stop"));
        assert!(!is_told("harness-like hook session-start"));
    }
}
