//! The priority of a task.

/// The priority of a task. P0 comes first. An unknown priority comes last and keeps its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Before all others.
    P0,
    /// The default.
    P1,
    /// After the others.
    P2,
    /// A text that is none of the three.
    Unknown(String),
}

impl Priority {
    /// Returns `None` for a text that is none of the three.
    pub fn known(text: &str) -> Option<Self> {
        match text {
            "P0" => Some(Self::P0),
            "P1" => Some(Self::P1),
            "P2" => Some(Self::P2),
            _ => None,
        }
    }

    /// Returns the text as the ledger has it.
    pub fn name(&self) -> &str {
        match self {
            Self::P0 => "P0",
            Self::P1 => "P1",
            Self::P2 => "P2",
            Self::Unknown(text) => text,
        }
    }

    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::P0 => 0,
            Self::P1 => 1,
            Self::P2 => 2,
            Self::Unknown(_) => 3,
        }
    }
}
