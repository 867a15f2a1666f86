//! Checks of the log and the receipts against the journal.

use harness::store::{Origin, Witness};
use harness_core::task::Status;

use super::finding::Finding;
use crate::{
    commands::verify::foreign_lines, invocation::Invocation, paint::one_line, root::StateRoot,
};

pub(super) fn check(invocation: &Invocation, root: &StateRoot) -> Vec<Finding> {
    const CHECK: &str = "records";
    let witness = match Witness::of(root.path(), invocation.state_home().as_deref()) {
        Ok(Some(witness)) => witness,
        // Nothing was written yet, or an older harness wrote it.
        Ok(None) => return Vec::new(),
        Err(why) => {
            let fix = "the next successful change starts a new one";
            return vec![Finding::warn(CHECK, format!("the journal cannot be read: {why}"), fix)];
        }
    };
    let mut findings = Vec::new();
    let ledger = root.snapshot().ok();
    let completed = ledger.iter().flat_map(|ledger| ledger.tasks());
    for task in completed.filter(|task| task.status() == Status::Completed) {
        let Some(epoch) = task.epoch else { continue };
        match witness.receipt(root.path(), &task.id, epoch) {
            Ok(Origin::Foreign) => findings.push(Finding::warn(
                CHECK,
                format!("the receipt of {} was not written by harness", task.id),
                format!(
                    "look at .harness/receipts/{}.{epoch}.json; `harness verify` does not count it",
                    task.id
                ),
            )),
            Ok(Origin::Harness | Origin::Missing) | Err(_) => {}
        }
    }
    for line in foreign_lines(root, Some(&witness)) {
        let what = format!("a line of the log was not written by harness: {}", one_line(&line));
        findings.push(Finding::warn(
            CHECK,
            what,
            "it looks like a line of harness; find out what wrote it",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "the log and the receipts were written by harness"));
    }
    findings
}
