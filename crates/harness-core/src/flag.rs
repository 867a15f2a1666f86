//! Flags: points that a person should look at although the attempt may have succeeded. The ledger,
//! receipts, attempt rows, `report` and the wire share this vocabulary.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Something about an attempt that its outcome alone does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flag {
    /// A file of harness was changed from outside while a run held it.
    Edit,
    /// The agent used a command that only the operator may use. It was refused.
    Verb,
    /// The attempt changed the settings of git. They were set back.
    Config,
    /// The attempt changed protected files.
    Protected,
    /// The check itself changed files of the tree that it judged, twice.
    Unstable,
    /// The commit that completed the task is the one that the claim started from.
    NoChange,
    /// Some of the work lies where no commit of this repository can hold it.
    HiddenWork,
    /// The check passed before any work was done.
    GreenBefore,
    /// The task is completed, and harness has no receipt for it.
    Unproven,
}

impl Flag {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Edit,
        Self::Verb,
        Self::Config,
        Self::Protected,
        Self::Unstable,
        Self::NoChange,
        Self::HiddenWork,
        Self::GreenBefore,
        Self::Unproven,
    ];

    /// Returns the word that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Verb => "verb",
            Self::Config => "config",
            Self::Protected => "protected",
            Self::Unstable => "unstable",
            Self::NoChange => "no-change",
            Self::HiddenWork => "hidden-work",
            Self::GreenBefore => "green-before",
            Self::Unproven => "unproven",
        }
    }

    /// Returns `None` for a word that is not a flag.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flag| flag.name() == word)
    }

    /// Returns whether a person must look at a run that raised this flag before it counts as a
    /// success. Such a flag casts doubt on the ledger itself, not only on one attempt.
    pub const fn alarms(self) -> bool {
        match self {
            Self::Edit | Self::Unproven => true,
            Self::Verb
            | Self::Config
            | Self::Protected
            | Self::Unstable
            | Self::NoChange
            | Self::HiddenWork
            | Self::GreenBefore => false,
        }
    }
}

/// Merges the two lists.
#[doc(hidden)]
pub fn together(mut some: Vec<Flag>, others: Vec<Flag>) -> Vec<Flag> {
    others.into_iter().for_each(|flag| raise(&mut some, flag));
    some
}

/// Adds `flag` to a sorted list that holds each flag once.
#[doc(hidden)]
pub fn raise(flags: &mut Vec<Flag>, flag: Flag) {
    if let Err(place) = flags.binary_search(&flag) {
        flags.insert(place, flag);
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Flag {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let word = String::deserialize(d)?;
        Self::parse(&word).ok_or_else(|| serde::de::Error::custom("it is no flag"))
    }
}

/// Reads a list of flags from a file. Words of a newer version are skipped.
#[doc(hidden)]
pub fn list<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Flag>, D::Error> {
    let words = Option::<Vec<String>>::deserialize(d)?.unwrap_or_default();
    let mut flags = Vec::new();
    for flag in words.iter().filter_map(|word| Flag::parse(word)) {
        raise(&mut flags, flag);
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_found_by_its_name() {
        for flag in Flag::ALL {
            assert_eq!(Flag::parse(flag.name()), Some(flag));
        }
        assert_eq!(Flag::parse("other"), None);
    }

    #[test]
    fn a_flag_is_raised_once_and_in_order() {
        let mut flags = Vec::new();
        for flag in [Flag::Unproven, Flag::Edit, Flag::Unproven, Flag::Config] {
            raise(&mut flags, flag);
        }
        assert_eq!(flags, [Flag::Edit, Flag::Config, Flag::Unproven]);
    }

    #[test]
    fn unknown_words_in_a_list_are_passed_over() {
        let mut json = serde_json::Deserializer::from_str(r#"["verb", "later", "edit", "verb"]"#);
        assert_eq!(list(&mut json).unwrap(), [Flag::Edit, Flag::Verb]);
    }
}
