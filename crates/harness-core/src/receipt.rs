//! The record of a completion: what was judged, by which check, and what it said.
//!
//! One file each, `.harness/receipts/<task>.<epoch>.json`, written before the completion it is about:
//! one without a completion is harmless, the other way round does not happen.

use serde::{Deserialize, Serialize};

use crate::{CommitId, Epoch, Flag, TaskId, Timestamp, TreeId, WorkerId, check::Baseline};

/// The `version` of a receipt.
pub const VERSION: u32 = 1;
/// How much of the output is kept; all of it is in the hash.
pub const TAIL_BYTES: usize = 4096;

/// What a completion rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// [`VERSION`]
    pub version: u32,
    /// What was completed.
    pub task: TaskId,
    /// In which claim.
    pub epoch: Epoch,
    /// By whom.
    pub worker: WorkerId,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// What the claim started from; `None` without git.
    pub base: Option<CommitId>,
    /// The commit that holds the work.
    pub commit: Option<CommitId>,
    /// The tree that was judged: of that commit, or of a client's work that is in no commit yet.
    pub tree: Option<TreeId>,
    /// The check that passed; `None` for a completion on the worker's word.
    pub check: Option<CheckRecord>,
    /// What the check said before any work; `None` where nobody asked.
    pub baseline: Option<Baseline>,
    /// The protected files that the attempt touched.
    #[serde(default)]
    pub protected: Vec<String>,
    /// The files of the judged tree that the commit does not hold in this form, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<String>,
    /// What a person should look at although the check passed.
    #[serde(
        default,
        deserialize_with = "crate::flag::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub flags: Vec<Flag>,
    /// Who worked; `None` where a client did and did not say.
    pub agent: Option<String>,
    /// How many contexts it took, where we know.
    pub iterations: Option<u32>,
    /// Input and output together, where we know.
    pub tokens: Option<u64>,
    /// In US dollars, where we know.
    pub cost_usd: Option<f64>,
    /// When it was written.
    pub time: Timestamp,
}

impl Receipt {
    /// What to say where the work tree was judged, and not what its commit holds.
    pub fn of_no_commit(&self) -> Option<String> {
        if self.uncommitted.is_empty() {
            return None;
        }
        let files = crate::protect::named(&self.uncommitted);
        Some(format!("the work tree was judged, and not the commit, which does not hold: {files}"))
    }
}

/// One run of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRecord {
    /// To the letter.
    pub command: String,
    /// How long it might have taken.
    pub timeout_seconds: u64,
    /// Whether it ran in a clean checkout of the commit, not in the work tree.
    pub clean: bool,
    /// 0.
    pub exit_code: i32,
    /// In milliseconds.
    pub duration_ms: u64,
    /// All bytes that it wrote.
    pub output_bytes: u64,
    /// Of all of them, in hexadecimal.
    pub output_sha256: String,
    /// Their end; what is no UTF-8 is replaced.
    pub output_tail: String,
}

impl CheckRecord {
    /// The last [`TAIL_BYTES`] as text.
    pub fn tail(output: &[u8]) -> String {
        let start = output.len().saturating_sub(TAIL_BYTES);
        let mut tail = &output[start..];
        // Not the rest of a character that was cut.
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
