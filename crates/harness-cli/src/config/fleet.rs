//! The table `[fleet]` of `harness.toml`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results on a branch of a git remote, where several clones and machines meet
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Fleet {
    /// The remote on which results land, such as origin; none: they land in this repository. Its
    /// address is the one that was recorded by `harness trust`
    pub(crate) remote: Option<String>,
    /// The branch of the remote on which they land; none: `[parallel] target`, else the branch that is
    /// checked out
    pub(crate) target: Option<String>,
    /// Minutes between two snapshots of unfinished work on the remote, beside those at checkpoints, so
    /// that another machine can continue it; 0 turns them off
    pub(crate) backup_minutes: u32,
    /// Push rescued work to the remote too
    pub(crate) share_rescue: bool,
}

impl Default for Fleet {
    fn default() -> Self {
        Self { remote: None, target: None, backup_minutes: 10, share_rescue: true }
    }
}
