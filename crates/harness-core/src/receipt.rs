//! The record of a completion: the judged work, the check, and the result of the check.
//!
//! Each receipt is one file, `.harness/receipts/<task>.<epoch>.json`. It is written before the
//! completion that it proves. A receipt without a completion is harmless, and a completion without
//! its receipt does not happen.

use serde::{Deserialize, Serialize};

use crate::{CommitId, Epoch, Flag, TaskId, Timestamp, TreeId, WorkerId, check::Baseline};

/// The `version` of a receipt.
pub const VERSION: u32 = 1;
/// The number of output bytes that are kept. The hash covers all of them.
pub const TAIL_BYTES: usize = 4096;

/// The evidence for a completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// [`VERSION`]
    pub version: u32,
    /// The completed task.
    pub task: TaskId,
    /// The epoch of the claim.
    pub epoch: Epoch,
    /// The worker that completed it.
    pub worker: WorkerId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The commit that the claim started from; `None` without git.
    pub base: Option<CommitId>,
    /// The commit that holds the work.
    pub commit: Option<CommitId>,
    /// The tree that was judged: that of the commit, or of a client's work that is in no commit
    /// yet.
    pub tree: Option<TreeId>,
    /// The check that passed; `None` for a completion without a check.
    pub check: Option<CheckRecord>,
    /// The result of the check before any work; `None` if it was not run.
    pub baseline: Option<Baseline>,
    /// The protected files that the attempt touched.
    #[serde(default)]
    pub protected: Vec<String>,
    /// The tests that the work changed, protected or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// The files of the judged tree that the commit does not hold in this form, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<String>,
    /// Points that a person should look at although the check passed.
    #[serde(
        default,
        deserialize_with = "crate::flag::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub flags: Vec<Flag>,
    /// The name of the agent; `None` if a client worked and did not report one.
    pub agent: Option<String>,
    /// The number of contexts, if it is known.
    pub iterations: Option<u32>,
    /// Input and output tokens together, if they are known.
    pub tokens: Option<u64>,
    /// The cost in US dollars, if it is known.
    pub cost_usd: Option<f64>,
    /// The time at which the receipt was written.
    pub time: Timestamp,
}

impl Receipt {
    /// Returns the remark for people if the work tree was judged, and not its commit.
    pub fn of_no_commit(&self) -> Option<String> {
        if self.uncommitted.is_empty() {
            return None;
        }
        let files = crate::protect::named(&self.uncommitted);
        Some(format!(
            "the work tree was judged, not the commit, which lacks these changes: {files}"
        ))
    }
}

/// One run of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRecord {
    /// The exact command line.
    pub command: String,
    /// The time limit of the check.
    pub timeout_seconds: u64,
    /// `true` if it ran in a clean checkout of the commit, `false` if in the work tree.
    pub clean: bool,
    /// The exit code, which is 0.
    pub exit_code: i32,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The number of bytes that the check wrote.
    pub output_bytes: u64,
    /// The hash of all output bytes, in hexadecimal.
    pub output_sha256: String,
    /// The end of the output. Invalid UTF-8 is replaced.
    pub output_tail: String,
}

impl CheckRecord {
    /// Returns the last [`TAIL_BYTES`] of the output as text.
    pub fn tail(output: &[u8]) -> String {
        let start = output.len().saturating_sub(TAIL_BYTES);
        let mut tail = &output[start..];
        // Skip the rest of a character that was cut.
        while start > 0 && tail.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
            tail = &tail[1..];
        }
        String::from_utf8_lossy(tail).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_cut_between_characters() {
        assert_eq!(CheckRecord::tail(b"ok\n"), "ok\n");
        let long = format!("a{}", "é".repeat(TAIL_BYTES));
        let tail = CheckRecord::tail(long.as_bytes());
        assert!(tail.len() <= TAIL_BYTES && tail.chars().all(|c| c == 'é'));
    }
}
