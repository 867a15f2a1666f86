//! A transaction that a worker of one process of harness asks the host to make.
//!
//! The commands and the answers have the form of the program itself, which other programs do not know
//! and which may change with each version. So a request names its form, and a host of another form
//! refuses the verb as unknown. The worker then writes the files itself.

use std::path::PathBuf;

use harness_core::{Fact, Refusal, Reply, format::LedgerNews};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of the commands and answers of this version. The number grows with every change of a
/// command, an answer or a fact within a version.
pub const TRANSACTION_FORM: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");

/// A transaction of a worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerTransaction {
    /// The form of the commands.
    pub form: String,
    /// The process, by a name that no other process ever has.
    pub by: String,
    /// The number of the transaction, which grows within the process. A number that is not greater
    /// than that of the last transaction with a change is not made again.
    pub number: u64,
    /// The commands, in the named form; none to read only.
    pub commands: Value,
    /// The version of the ledger that the process knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// The answer to a transaction of a worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TransactionAnswer {
    /// `true` if it was made before. There are no replies then.
    pub repeated: bool,
    /// One answer for each command.
    pub replies: Vec<Result<Reply, Refusal>>,
    /// The facts that became true, in order.
    pub facts: Vec<Fact>,
    /// For each command that discarded the ledger: its position, and the path of the archived
    /// ledger relative to the root.
    pub archived: Vec<(usize, PathBuf)>,
    /// Warnings for a person although the change was made.
    pub warnings: Vec<String>,
    /// The text that was appended to the log.
    pub log: String,
    /// The version that the news lead to; `None` if the ledger could not be read.
    pub version: Option<String>,
    /// What changed in the ledger; `None` if the process knows it.
    pub news: Option<LedgerNews>,
}
