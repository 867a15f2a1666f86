//! The branch on which results of several workers land.

use std::fmt;

use harness_core::ledger::SessionConfig;
use serde::Serialize;

use crate::workspace::shared::LANDED_BRANCH;

/// The branch on which results land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TargetCard {
    /// The target.
    pub branch: String,
    /// The branch on which results land in its place, because the tree of the user must not be
    /// touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landed_branch: Option<String>,
    /// The number of commits that the user's branch lacks; `None` if that is not known, or if results
    /// land on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u32>,
}

impl TargetCard {
    /// Returns the target of a ledger. `ahead` is the number of commits that the branch of
    /// [`detached`](Self::detached) has and the branch of the user has not.
    pub fn of(config: &SessionConfig, ahead: Option<u32>) -> Option<Self> {
        let branch = config.target_branch.clone()?;
        let mut card = Self { branch, landed_branch: config.landed_branch.clone(), ahead: None };
        if card.detached().is_some() {
            card.ahead = ahead;
        }
        Some(card)
    }

    /// Returns the branch from which the user has to take the results.
    #[must_use]
    pub fn detached(&self) -> Option<&str> {
        let own = Some(self.branch.as_str()).filter(|branch| *branch == LANDED_BRANCH);
        self.landed_branch.as_deref().or(own)
    }

    /// Returns the sentence for people about results that they have to take; `None` if they have
    /// them.
    #[must_use]
    pub fn hint(&self) -> Option<TargetHint<'_>> {
        let branch = self.detached()?;
        (self.ahead != Some(0)).then_some(TargetHint { branch })
    }
}

/// The sentence about results that the user has to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetHint<'a> {
    branch: &'a str,
}

impl fmt::Display for TargetHint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { branch } = self;
        write!(f, "Results are on {branch}; take them with: git merge {branch}")
    }
}
