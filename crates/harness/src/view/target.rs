//! The branch on which results of several workers land.

use std::fmt;

use harness_core::ledger::SessionConfig;
use serde::Serialize;

use super::NextStep;
use crate::workspace::shared::LANDED_BRANCH;

/// The branch on which results land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TargetCard {
    /// The target.
    pub branch: String,
    /// The remote that has it; `None` for a branch of this repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// The branch on which results land in its place, because the tree of the user must not be
    /// touched, or the server refuses them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landed_branch: Option<String>,
    /// The reason for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The number of commits that the user's branch lacks; `None` if that is not known, or if results
    /// land on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u32>,
}

impl TargetCard {
    /// Returns the target of a ledger. `ahead` is the number of commits that the branch of
    /// [`detached`](Self::detached) has and the branch of the user has not.
    pub fn of(config: &SessionConfig, ahead: Option<u32>) -> Option<Self> {
        let mut card = Self {
            branch: config.target_branch.clone()?,
            remote: config.target_remote.clone(),
            landed_branch: config.landed_branch.clone(),
            why: config.landed_why.clone(),
            ahead: None,
        };
        if card.detached().is_some() {
            card.ahead = ahead;
        }
        Some(card)
    }

    /// Returns the branch from which the user has to take the results.
    #[must_use]
    pub fn detached(&self) -> Option<&str> {
        let own = Some(self.branch.as_str());
        let own = own.filter(|branch| *branch == LANDED_BRANCH || self.remote.is_some());
        self.landed_branch.as_deref().or(own)
    }

    /// Returns the sentence for people about results that they have to take; `None` if they have
    /// them.
    #[must_use]
    pub fn hint(&self) -> Option<TargetHint<'_>> {
        let branch = self.detached()?;
        // Those on a branch of a remote are where they belong.
        let is_known = self.remote.is_none() || self.landed_branch.is_some();
        let shown = self.ahead.map_or(is_known, |ahead| ahead > 0);
        shown.then_some(TargetHint { card: self, branch })
    }

    /// Returns the command by which the user takes results from a branch.
    pub(super) fn take(&self, branch: &str) -> NextStep {
        let branch = branch.to_owned();
        match self.remote.clone() {
            Some(remote) => NextStep::Pull { remote, branch },
            None => NextStep::Merge { branch },
        }
    }

    /// Returns the name of a branch for people.
    pub(super) fn shown(&self, branch: &str) -> String {
        match &self.remote {
            Some(remote) => format!("{remote}/{branch}"),
            None => branch.to_owned(),
        }
    }
}

/// The sentence about results that the user has to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetHint<'a> {
    card: &'a TargetCard,
    branch: &'a str,
}

impl fmt::Display for TargetHint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { card, branch } = self;
        write!(f, "Results are on {}", card.shown(branch))?;
        if let (Some(_), Some(why)) = (&card.remote, &card.why) {
            write!(f, " because {why}")?;
        }
        write!(f, "; take them with: {}", card.take(branch))?;
        match (&card.remote, &card.landed_branch) {
            (Some(remote), Some(landed)) => {
                write!(f, ", or merge {landed} into {} on {remote}", card.branch)
            }
            _ => Ok(()),
        }
    }
}
