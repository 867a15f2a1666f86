//! Selects the variables of the caller's environment that an agent receives.

use std::{
    ffi::OsString,
    sync::{PoisonError, RwLock},
};

use harness_core::variables::DATABASE_URL;

/// Names of variables that agents and commands do not get. An environment belongs to the whole process.
static WITHHELD: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Lets neither agents nor commands of this process get these variables from now on, whatever their
/// settings allow. `HARNESS_DATABASE_URL` is always withheld.
pub fn withhold(names: &[&str]) {
    let mut withheld = WITHHELD.write().unwrap_or_else(PoisonError::into_inner);
    for name in names {
        if !withheld.iter().any(|known| known == name) {
            withheld.push((*name).to_owned());
        }
    }
}

/// Returns whether a variable is withheld from agents and commands.
pub(crate) fn is_withheld(name: &str) -> bool {
    let withheld = WITHHELD.read().unwrap_or_else(PoisonError::into_inner);
    name == DATABASE_URL || withheld.iter().any(|known| known == name)
}

/// A list of names, each with at most one `*` at its start or end, and variables with fixed values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    patterns: Vec<String>,
    given: Vec<(String, String)>,
}

/// The variables that every agent needs to work as in the user's terminal. Proxies are listed in
/// both spellings, because curl, for example, accepts `http_proxy` in lower case only.
const BASE: &str = "PATH HOME USER SHELL LANG LC_* TERM TMPDIR XDG_* SSH_AUTH_SOCK GIT_* *_PROXY \
                    *_proxy SSL_CERT_* NODE_EXTRA_CA_CERTS HARNESS_* TRACEPARENT";
const CLAUDE: &str = "ANTHROPIC_* CLAUDE_* DISABLE_* AWS_* GOOGLE_*";
/// The time zone is needed to read the times at which Codex reports the end of a limit.
const CODEX: &str = "OPENAI_* CODEX_* TZ";

impl Allowed {
    /// Enough to work as in the user's terminal, without the keys of any model.
    #[must_use]
    pub fn base() -> Allowed {
        let patterns = BASE.split_ascii_whitespace().map(str::to_owned).collect();
        Allowed { patterns, given: Vec::new() }
    }

    /// The base and the variables of Claude Code: its own, and those of the clouds through which it
    /// can be reached.
    #[must_use]
    pub fn claude() -> Allowed {
        Allowed::base().and(CLAUDE.split_ascii_whitespace())
    }

    /// The base, `OPENAI_*`, `CODEX_*` and `TZ`.
    #[must_use]
    pub fn codex() -> Allowed {
        Allowed::base().and(CODEX.split_ascii_whitespace())
    }

    /// Adds patterns, as in `[agents.NAME] env`. `NAME=value` sets that value.
    #[must_use]
    pub fn and<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Allowed {
        for pattern in patterns.into_iter().map(Into::into) {
            match pattern.split_once('=') {
                Some((name, value)) => self.given.push((name.to_owned(), value.to_owned())),
                None => self.patterns.push(pattern),
            }
        }
        self
    }

    /// Returns whether the name is on the list. The comparison is case-sensitive.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| matches(pattern, name))
    }

    /// Returns those of `variables` that are on the list, and those with fixed values. A name that
    /// is not UTF-8 is on no list.
    pub fn filter(
        &self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let is_given = |name: &str| self.given.iter().any(|(given, _)| given == name);
        let passes = |name: &str| self.allows(name) && !is_given(name) && !is_withheld(name);
        let given = self.given.iter().map(|(name, value)| (name.into(), value.into()));
        variables
            .into_iter()
            .filter(|(name, _)| name.to_str().is_some_and(passes))
            .chain(given)
            .collect()
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(prefix), _) => name.starts_with(prefix),
        (None, Some(suffix)) => name.ends_with(suffix),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_names_pass() {
        for (name, base, claude, codex) in [
            ("PATH", true, true, true),
            ("PATHS", false, false, false),
            ("LC_ALL", true, true, true),
            ("XDG_CONFIG_HOME", true, true, true),
            ("HTTPS_PROXY", true, true, true),
            ("no_proxy", true, true, true),
            ("GIT_AUTHOR_NAME", true, true, true),
            ("HARNESS_TASK_ID", true, true, true),
            ("ANTHROPIC_API_KEY", false, true, false),
            ("OPENAI_API_KEY", false, false, true),
            ("DATABASE_PASSWORD", false, false, false),
            ("LD_PRELOAD", false, false, false),
            ("", false, false, false),
        ] {
            assert_eq!(Allowed::base().allows(name), base, "{name}");
            assert_eq!(Allowed::claude().allows(name), claude, "{name}");
            assert_eq!(Allowed::codex().allows(name), codex, "{name}");
        }
        let more = Allowed::base().and(["GEMINI_*", "MY_ONE"]);
        assert!(more.allows("GEMINI_API_KEY") && more.allows("MY_ONE") && !more.allows("MY_ONES"));
        let kept = more.filter([("MY_ONE".into(), "1".into()), ("MY_TWO".into(), "2".into())]);
        assert_eq!(kept, [(OsString::from("MY_ONE"), OsString::from("1"))]);
        let given = Allowed::base().and(["MY_ONE=a=b", "HOME=/elsewhere"]);
        let kept = given.filter([("HOME".into(), "/home".into()), ("MY_ONE".into(), "1".into())]);
        let expected = [("MY_ONE", "a=b"), ("HOME", "/elsewhere")];
        assert_eq!(kept, expected.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn the_address_of_a_database_is_no_agents_business() {
        let variables = || [(OsString::from(DATABASE_URL), OsString::from("postgres://me:pw@db"))];
        assert!(Allowed::base().filter(variables()).is_empty());
        assert!(Allowed::base().and([DATABASE_URL]).filter(variables()).is_empty());
    }
}
