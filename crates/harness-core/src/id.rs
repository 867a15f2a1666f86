//! The names of things. Each is a type of its own, so that a worker cannot be passed for a task.
//! Each name is checked once, where it enters. A [`TaskId`] can therefore be used as a file name, a
//! branch name and an argument of git.

use std::{borrow::Cow, cmp::Ordering, fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a task: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, no `..`, no `.lock` at the end.
///
/// Ids become folder and branch names, hence the limits. They are ordered as a person would order
/// them: `task-2` before `task-10`. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TaskId(Arc<str>);

/// The error for a text that cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a valid {what}: {rule}")]
pub struct BadName {
    /// The noun for the kind of name, for the message.
    pub what: &'static str,
    /// The text, possibly cut.
    pub given: String,
    /// The rule that the text breaks.
    pub rule: &'static str,
}

impl TaskId {
    const RULE: &'static str = "1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit, \
                                without `..` and not ending in `.lock`";

    /// Checks `text`. The error contains the rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        Self::check(text).map(|()| Self(text.into()))
    }

    fn check(text: &str) -> Result<(), BadName> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let good = (1..=64).contains(&text.len())
            && text.bytes().all(plain)
            && text.as_bytes()[0].is_ascii_alphanumeric()
            && !text.contains("..")
            && !text.ends_with(".lock");
        if good { Ok(()) } else { Err(bad("task id", text, Self::RULE)) }
    }

    /// Returns `task-NNN`, the form in which `add` numbers tasks.
    pub fn numbered(n: u64) -> Self {
        Self(format!("task-{n:03}").into())
    }

    /// Returns the number of a `task-NNN` id. A number beyond any realistic count is treated as a
    /// plain name, so that there is always a next number.
    pub fn number(&self) -> Option<u64> {
        let digits = self.0.strip_prefix("task-")?;
        let number =
            if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None };
        number.filter(|n| *n < u64::from(u32::MAX))
    }

    /// Returns the text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn bad(what: &'static str, given: &str, rule: &'static str) -> BadName {
    BadName { what, given: given.chars().take(80).collect(), rule }
}

impl Ord for TaskId {
    fn cmp(&self, other: &Self) -> Ordering {
        natural(&self.0, &other.0).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for TaskId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares runs of digits by value and everything else by byte.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        let (Some(&x), Some(&y)) = (a.first(), b.first()) else { return a.len().cmp(&b.len()) };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (m, rest_a) = digits(a);
            let (n, rest_b) = digits(b);
            match m.len().cmp(&n.len()).then_with(|| m.cmp(n)) {
                Ordering::Equal => (a, b) = (rest_a, rest_b),
                unequal => return unequal,
            }
        } else if x == y {
            (a, b) = (&a[1..], &b[1..]);
        } else {
            return x.cmp(&y);
        }
    }
}

/// The leading digits without their leading zeros, and what follows them.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let start = text[..end].iter().position(|b| *b != b'0').unwrap_or(end);
    (&text[start..end], &text[end..])
}

/// The checked text of a [`TaskId`], borrowed from a file. Nothing is allocated for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IdText<'a>(Cow<'a, str>);

impl<'a> IdText<'a> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_text(self) -> Cow<'a, str> {
        self.0
    }
}

impl From<IdText<'_>> for TaskId {
    fn from(checked: IdText<'_>) -> Self {
        Self(checked.0.into())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for IdText<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(d)?;
        TaskId::check(&text).map_err(serde::de::Error::custom)?;
        Ok(Self(text))
    }
}

/// A text of a file, borrowed from it where nothing in it is escaped. (Serde always copies a `Cow`
/// that is not itself a field.)
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl From<Text<'_>> for String {
    fn from(text: Text<'_>) -> Self {
        text.0.into_owned()
    }
}

/// The id of a worker, which holds claims.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    const RULE: &'static str =
        "1 to 128 characters, no control characters, no `/`, not starting with `.` or `-`";

    /// Checks `text`. The error contains the rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let good = (1..=128).contains(&text.chars().count())
            && !text.starts_with(['.', '-'])
            && !text.chars().any(|c| c.is_control() || c == '/');
        if good { Ok(Self(text.into())) } else { Err(bad("worker id", text, Self::RULE)) }
    }

    /// Accepts the name of a worker from a ledger without a check. People and other programs write
    /// ledgers too, and a name that harness would not assign still identifies the holder of a
    /// claim.
    pub fn recorded(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! object_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks that `text` has 4 to 64 hexadecimal digits.
            pub fn parse(text: &str) -> Result<Self, BadName> {
                let good = (4..=64).contains(&text.len())
                    && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                if good {
                    Ok(Self(text.into()))
                } else {
                    Err(bad($what, text, "4 to 64 lower-case hexadecimal digits"))
                }
            }

            /// Returns the id in the spelling of git.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the first seven digits, for people.
            pub fn short(&self) -> &str {
                self.0.get(..7).unwrap_or(&self.0)
            }
        }
    };
}

object_id!(
    /// The id of a commit. It is always hexadecimal, so it can never be taken for an option or a
    /// ref.
    CommitId, "commit id"
);
object_id!(
    /// The id of a git tree.
    TreeId, "tree id"
);

macro_rules! text_traits {
    ($($name:ident),*) => { $(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
    )* };
}
text_traits!(TaskId, WorkerId, CommitId, TreeId);

macro_rules! checked_deserialize {
    ($($name:ident),*) => { $(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    )* };
}
checked_deserialize!(TaskId, CommitId, TreeId);

impl<'de> Deserialize<'de> for WorkerId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Self::recorded(&std::borrow::Cow::<'de, str>::deserialize(d)?))
    }
}

/// The fencing number of a claim. The ledger's counter only grows, so of two claims of one task
/// the later one has the larger epoch, across replaced and reset ledgers too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The largest value of a database column. No ledger counts that far, but an edit by hand may.
    const MAX: u64 = i64::MAX.unsigned_abs();

    /// Returns the next epoch. The value saturates at the largest one that can be stored.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1).min(Self::MAX))
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let n = u64::deserialize(d)?;
        if n <= Self::MAX {
            Ok(Self(n))
        } else {
            Err(serde::de::Error::custom(format!("{n} is too large for an epoch")))
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ids_are_names_that_git_and_file_systems_take() {
        for good in ["a", "task-001", "A.b_c-9", &"x".repeat(64)] {
            assert!(TaskId::parse(good).is_ok(), "{good}");
        }
        let long = "x".repeat(65);
        for bad in ["", "-a", ".a", "a..b", "a.lock", "a/b", "a b", "é", "a\n", "a\0", &long] {
            assert!(TaskId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn task_ids_sort_as_people_count() {
        let mut ids = ["task-10", "task-2", "task-02", "task-1a", "task-1", "b", "a9", "a10"]
            .map(|t| TaskId::parse(t).unwrap());
        ids.sort();
        let sorted: Vec<_> = ids.iter().map(TaskId::as_str).collect();
        assert_eq!(sorted, ["a9", "a10", "b", "task-1", "task-1a", "task-02", "task-2", "task-10"]);
    }

    #[test]
    fn commits_cannot_be_options() {
        assert!(CommitId::parse("def5678").is_ok());
        for bad in ["", "abc", "HEAD", "--help", "ABCDEF", "g000000"] {
            assert!(CommitId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
