//! Trust, item by item: the things that a state root would run on this machine, and those that a
//! person has not agreed to yet.
//!
//! This module decides on digests. The caller reads the files, asks git which of them are tracked,
//! and asks the person.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The purpose of an item. Items are shown in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A command that proves that a task is done.
    Check,
    /// A command that runs after a failed attempt.
    Cleanup,
    /// The check at the end of a phase.
    Gate,
    /// `harness-init.sh`, which runs at every session start.
    InitScript,
    /// A key of `harness.toml` that chooses a program, its environment or a port.
    Setting,
    /// A template in `.harness/prompts`.
    Prompt,
    /// A content filter of git.
    Filter,
    /// The instructions of a task. The shell agent runs them.
    Instructions,
}

impl Kind {
    /// All kinds, in order.
    pub const ALL: [Self; 8] = [
        Self::Check,
        Self::Cleanup,
        Self::Gate,
        Self::InitScript,
        Self::Setting,
        Self::Prompt,
        Self::Filter,
        Self::Instructions,
    ];

    /// Returns the word that becomes part of the digest. The same text for another purpose is
    /// therefore another item.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Cleanup => "cleanup",
            Self::Gate => "gate",
            Self::InitScript => "init-script",
            Self::Setting => "setting",
            Self::Prompt => "prompt",
            Self::Filter => "filter",
            Self::Instructions => "instructions",
        }
    }

    /// Returns the source of items of this kind.
    pub const fn source(self) -> Source {
        match self {
            Self::Check | Self::Cleanup | Self::Gate | Self::Instructions => Source::Ledger,
            Self::InitScript => Source::InitScript,
            Self::Setting => Source::Settings,
            Self::Prompt => Source::Prompts,
            Self::Filter => Source::GitConfiguration,
        }
    }
}

/// A file or folder that holds items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `harness-tasks.json`
    Ledger,
    /// `harness.toml`
    Settings,
    /// `harness-init.sh`
    InitScript,
    /// `.harness/prompts`
    Prompts,
    /// The configuration of git, which a pull cannot change.
    GitConfiguration,
}

impl Source {
    /// Returns the path relative to the state root; `None` if it is not a file of the root, so that
    /// git cannot track it.
    pub const fn path(self) -> Option<&'static str> {
        match self {
            Self::Ledger => Some("harness-tasks.json"),
            Self::Settings => Some("harness.toml"),
            Self::InitScript => Some("harness-init.sh"),
            Self::Prompts => Some(".harness/prompts"),
            Self::GitConfiguration => None,
        }
    }
}

/// A digest of an item's content, 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 16]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a digest has 32 hexadecimal digits";
        let mut bytes = [0; 16];
        if text.len() != 32 || !text.is_ascii() {
            return Err(WRONG);
        }
        for (n, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * n..2 * n + 2).ok_or(WRONG)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| WRONG)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// One thing that a root would run on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The purpose.
    pub kind: Kind,
    /// The text that is shown to a person.
    pub shown: String,
    /// The digest of its kind and its whole content.
    pub digest: Digest,
    /// The author of the text.
    pub origin: Origin,
}

/// The author of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The author of the file that holds it.
    File,
    /// `harness import` took it from another tool, so it may be anybody's.
    Import,
}

/// The items of one root that a person agreed to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Granted(BTreeSet<Digest>);

impl Granted {
    /// Adds items. Returns whether at least one of them was new.
    pub fn add<'a>(&mut self, items: impl IntoIterator<Item = &'a Item>) -> bool {
        let before = self.0.len();
        self.0.extend(items.into_iter().map(|item| item.digest));
        self.0.len() > before
    }

    /// Returns whether a person has agreed to this item.
    pub fn contains(&self, item: &Item) -> bool {
        self.0.contains(&item.digest)
    }

    /// Returns the items that nobody has agreed to.
    pub fn missing(&self, items: Vec<Item>) -> Vec<Item> {
        items.into_iter().filter(|item| !self.0.contains(&item.digest)).collect()
    }
}

/// Returns the sources of `items` that git must be asked about.
pub fn sources(items: &[Item]) -> BTreeSet<Source> {
    let sources = items.iter().map(|item| item.kind.source());
    sources.filter(|source| source.path().is_some()).collect()
}

/// Returns the missing items that a pull or an import can have brought. Files that git does not track
/// belong to the user and are trusted with the folder, except for what was imported into them.
pub fn to_ask_for(missing: Vec<Item>, tracked: &BTreeSet<Source>) -> Vec<Item> {
    let is_foreign = |item: &Item| match item.origin {
        Origin::File => tracked.contains(&item.kind.source()),
        Origin::Import => true,
    };
    missing.into_iter().filter(is_foreign).collect()
}

/// What a run does about the commit hooks of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookUse {
    /// There are none.
    Absent,
    /// They are not run, because nobody asked for it.
    Bypassed,
    /// They are run as long as they have this digest.
    Run(String),
    /// They were asked for, and nobody trusted them yet.
    Untrusted,
    /// They were asked for, and they are not the ones that were trusted.
    Changed,
}

impl HookUse {
    /// Decides from the setting, the digest of the hooks that are there and that of the trusted ones.
    pub fn of(setting: HookSetting, found: Option<&str>, trusted: Option<&str>) -> Self {
        match (found, setting, trusted) {
            (None, _, _) => Self::Absent,
            (Some(_), HookSetting::Bypass, _) => Self::Bypassed,
            (Some(found), HookSetting::Run, Some(trusted)) if found == trusted => {
                Self::Run(trusted.to_owned())
            }
            (Some(_), HookSetting::Run, Some(_)) => Self::Changed,
            (Some(_), HookSetting::Run, None) => Self::Untrusted,
        }
    }
}

/// Whether the commits of a run pass the hooks of the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookSetting {
    /// They do not.
    Bypass,
    /// They do.
    Run,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: Kind, n: u8) -> Item {
        Item { kind, shown: n.to_string(), digest: Digest([n; 16]), origin: Origin::File }
    }

    #[test]
    fn only_what_is_new_and_tracked_is_asked_for() {
        let mut granted = Granted::default();
        assert!(granted.add(&[item(Kind::Check, 1)]));
        assert!(!granted.add(&[item(Kind::Check, 1)]));
        let items = [
            item(Kind::Check, 1),
            item(Kind::Gate, 2),
            item(Kind::Setting, 3),
            item(Kind::Filter, 4),
        ];
        let missing = granted.missing(items.to_vec());
        assert_eq!(missing, items[1..]);
        assert_eq!(sources(&missing), [Source::Ledger, Source::Settings].into());
        let asked = to_ask_for(missing.clone(), &[Source::Settings].into());
        assert_eq!(asked, [item(Kind::Setting, 3)]);
        assert!(to_ask_for(missing, &BTreeSet::new()).is_empty());
        let imported = Item { origin: Origin::Import, ..item(Kind::Check, 5) };
        let asked = to_ask_for(vec![item(Kind::Check, 6), imported.clone()], &BTreeSet::new());
        assert_eq!(asked, [imported]);
    }

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let digest = Digest([0xa5; 16]);
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for bad in ["", "a5", &"g".repeat(32), &"é".repeat(16), &"a".repeat(33)] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
        let kept = serde_json::to_string(&Granted([digest].into())).unwrap();
        assert_eq!(kept, format!("[\"{}\"]", "a5".repeat(16)));
    }

    #[test]
    fn only_trusted_hooks_run_and_only_on_request() {
        use HookSetting::{Bypass, Run};
        for (setting, found, trusted, expected) in [
            (Run, None, Some("a"), HookUse::Absent),
            (Bypass, Some("a"), Some("a"), HookUse::Bypassed),
            (Run, Some("a"), Some("a"), HookUse::Run("a".into())),
            (Run, Some("b"), Some("a"), HookUse::Changed),
            (Run, Some("a"), None, HookUse::Untrusted),
        ] {
            assert_eq!(HookUse::of(setting, found, trusted), expected);
        }
    }
}
