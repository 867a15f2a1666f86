//! The names of the refs of harness on a server.

use harness_core::{Epoch, TaskId};

use crate::workspace::{
    rescue::PREFIX,
    shared::{self, TOKENS},
};

/// The place of our refs on the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Names {
    /// Below `refs/harness/`, where no clone fetches them by itself.
    #[default]
    Hidden,
    /// Below `refs/heads/harness/`, on a server that refuses other refs.
    Branches,
}

impl Names {
    pub(super) const ALL: [Self; 2] = [Self::Hidden, Self::Branches];

    fn place(self, reference: String) -> String {
        match (self, reference.strip_prefix("refs/harness/")) {
            (Self::Branches, Some(name)) => format!("refs/heads/harness/{name}"),
            (Self::Hidden, _) | (Self::Branches, None) => reference,
        }
    }

    /// Returns the ref that fences the landing of a task of a ledger.
    pub(super) fn token(self, ledger: Option<&str>, task: &TaskId) -> String {
        self.place(match ledger {
            Some(ledger) => format!("{TOKENS}{ledger}/{task}"),
            None => shared::land_token(task),
        })
    }

    /// Returns the ref of the announced result of an attempt or, before there is one, of the last
    /// snapshot of its tree.
    pub(super) fn work(self, task: &TaskId, epoch: Epoch) -> String {
        self.place(shared::work_ref(task, epoch))
    }

    /// Returns the ref of the original work of a result that is announced on top of others.
    pub(super) fn original(self, task: &TaskId, epoch: Epoch) -> String {
        self.place(shared::work_ref(task, epoch)) + ORIGINAL
    }

    /// Returns the pattern of the refs of all attempts.
    pub(super) fn works(self) -> String {
        self.place("refs/harness/work/*".to_owned())
    }

    /// Returns the beginning of the tokens of all tasks of a ledger.
    pub(super) fn tokens(self, ledger: Option<&str>) -> String {
        self.place(match ledger {
            Some(ledger) => format!("{TOKENS}{ledger}/"),
            None => TOKENS.to_owned(),
        })
    }

    /// Returns the attempt to which a ref of [`Names::work`] or [`Names::original`] belongs.
    pub(super) fn attempt_of(reference: &str) -> Option<(TaskId, Epoch)> {
        let (_, name) = reference.split_once("harness/work/")?;
        let (task, epoch) = name.strip_suffix(ORIGINAL).unwrap_or(name).rsplit_once('.')?;
        Some((TaskId::parse(task).ok()?, Epoch(epoch.parse().ok()?)))
    }

    /// Returns the task to which a token of a ledger belongs.
    pub(super) fn token_of(ledger: Option<&str>, reference: &str) -> Option<TaskId> {
        let name = Self::ALL.iter().find_map(|n| reference.strip_prefix(&n.tokens(ledger)))?;
        TaskId::parse(name).ok()
    }
}

/// The end of the name of a ref with the original work of a result.
const ORIGINAL: &str = "-original";
/// The pattern of all rescues.
pub(super) const RESCUES: &str = "refs/harness/rescue/*";

/// Returns the task of a rescue.
pub(super) fn task_of_rescue(reference: &str) -> Option<TaskId> {
    let (task, _) = reference.strip_prefix(PREFIX)?.split_once('/')?;
    TaskId::parse(task).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_attempt() {
        let (task, epoch) = (TaskId::parse("t.1").unwrap(), Epoch(7));
        for names in Names::ALL {
            for reference in [names.work(&task, epoch), names.original(&task, epoch)] {
                assert_eq!(Names::attempt_of(&reference), Some((task.clone(), epoch)));
            }
            for ledger in [None, Some("shop")] {
                let token = names.token(ledger, &task);
                assert_eq!(Names::token_of(ledger, &token), Some(task.clone()), "{token}");
                assert_eq!(Names::token_of(Some("blog"), &token), None);
            }
        }
        assert_eq!(Names::Hidden.token(None, &task), "refs/harness/land/t.1");
        assert_eq!(Names::Branches.token(Some("a"), &task), "refs/heads/harness/land/a/t.1");
        assert_eq!(Names::attempt_of("refs/heads/main"), None);
    }
}
