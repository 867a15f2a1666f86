//! Which variables of the caller's environment an agent gets to see.

use std::ffi::OsString;

/// A list of names, each with at most one `*` at its beginning or end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    patterns: Vec<String>,
}

/// What every agent needs to work as it would in the user's terminal. Proxies are written both ways:
/// curl, for one, takes `http_proxy` in small letters only.
const BASE: &str = "PATH HOME USER SHELL LANG LC_* TERM TMPDIR XDG_* SSH_AUTH_SOCK GIT_* *_PROXY \
                    *_proxy SSL_CERT_* NODE_EXTRA_CA_CERTS HARNESS_*";
const CLAUDE: &str = "ANTHROPIC_* CLAUDE_* DISABLE_* AWS_* GOOGLE_*";
const CODEX: &str = "OPENAI_* CODEX_*";

impl Allowed {
    /// Enough to work as in the user's terminal, without the keys of any model.
    #[must_use]
    pub fn base() -> Allowed {
        Allowed { patterns: BASE.split_ascii_whitespace().map(str::to_owned).collect() }
    }

    /// The base, and what Claude Code reads: its own, and those of the clouds that it can be
    /// reached by.
    #[must_use]
    pub fn claude() -> Allowed {
        Allowed::base().and(CLAUDE.split_ascii_whitespace())
    }

    /// The base, `OPENAI_*` and `CODEX_*`.
    #[must_use]
    pub fn codex() -> Allowed {
        Allowed::base().and(CODEX.split_ascii_whitespace())
    }

    /// More of them: what `[agents.NAME] env` lists.
    #[must_use]
    pub fn and<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Allowed {
        self.patterns.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Large and small letters differ.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| matches(pattern, name))
    }

    /// Those of `variables` that are on the list. A name that is no UTF-8 is on none.
    pub fn filter(
        &self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        variables
            .into_iter()
            .filter(|(name, _)| name.to_str().is_some_and(|name| self.allows(name)))
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
    }
}
