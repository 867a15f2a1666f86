//! The name of a ledger in its database.

use std::fmt;

use crate::BadName;

/// The name of a ledger among those of one database.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LedgerName(String);

impl LedgerName {
    const RULE: &'static str =
        "1 to 64 letters, digits, `-`, `_` and `.`, not starting with `.` or `-`";

    /// Checks `text`. The error contains the rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let good = (1..=64).contains(&text.len())
            && !text.starts_with(['.', '-'])
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        match good {
            true => Ok(Self(text.to_owned())),
            false => Err(BadName { what: "ledger name", given: text.to_owned(), rule: Self::RULE }),
        }
    }

    /// Returns a name that is made from the name of a directory. Other characters become `-`.
    pub fn of_directory(directory: &str) -> Self {
        let kept = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let name: String = directory.chars().take(64).map(kept).collect();
        let name = name.trim_start_matches(['.', '-']);
        Self(if name.is_empty() { "ledger".to_owned() } else { name.to_owned() })
    }

    /// Returns the text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LedgerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn names_are_checked_and_made_from_directories() {
        for good in ["shop", "a.b-c_9", &"x".repeat(64)] {
            assert_eq!(LedgerName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "-x", ".x", "a b", "a/b", "ä", &"x".repeat(65)] {
            assert!(LedgerName::parse(bad).is_err(), "{bad:?}");
        }
        for (directory, name) in [("my shop", "my-shop"), (".config", "config"), ("日本", "ledger")]
        {
            assert_eq!(LedgerName::of_directory(directory).as_str(), name);
        }
    }
}
