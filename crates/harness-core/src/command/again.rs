//! The answer to a command that took effect, for a caller that lost it.

use super::{Command, Refusal, Reply, decide};
use crate::{Ledger, Timestamp};

/// Returns the answer to `command`, which became part of `ledger` before; the ledger shows it. Most
/// commands answer a repetition as they answered at first. For the others, the answer is read from
/// their result. Nothing changes.
pub fn answer_again(ledger: &Ledger, now: Timestamp, command: &Command) -> Result<Reply, Refusal> {
    match command {
        Command::Add(add) => {
            let mut same = ledger.tasks().rev().filter(|task| task.title == add.title);
            let added = add.id.clone().or_else(|| same.next().map(|task| task.id.clone()));
            added.map_or_else(
                || decide(ledger, now, command).map(|c| c.reply),
                |id| Ok(Reply::Task(id)),
            )
        }
        Command::BeginSession(_) | Command::EndSession(_) => {
            Ok(Reply::Session { number: ledger.head().session_count })
        }
        Command::Release(release) => Ok(Reply::Task(release.task.clone())),
        Command::Remove(remove) if !ledger.contains(&remove.task) => {
            Ok(Reply::Task(remove.task.clone()))
        }
        other => decide(ledger, now, other).map(|change| change.reply),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{
        Epoch, Holder, TaskId, WorkerId,
        command::{
            Add, AddCheckpoint, Attempts, BeginSession, Claim, Edit, Fail, Note, Release, Remove,
        },
        ledger::Head,
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    /// The answer that is read from the ledger equals the one that got lost.
    #[test]
    fn what_was_answered_is_answered_again() {
        let worker = || WorkerId::recorded("w");
        let holder = |epoch| Holder {
            task: TaskId::numbered(1),
            worker: worker(),
            epoch: Some(Epoch(epoch)),
        };
        let add = |title: &str| {
            let fields = Edit::nothing(TaskId::numbered(0));
            Command::Add(Add { id: None, title: title.into(), fields })
        };
        let checkpoint = Command::Checkpoint(AddCheckpoint {
            holder: holder(1),
            step: 1,
            total: 2,
            description: "half".into(),
            tree: None,
            lease_seconds: 60,
        });
        let fail = Command::Fail(Fail {
            holder: holder(2),
            category: crate::Category::TaskExec,
            message: "no".into(),
            attempts: Attempts::One,
            rolled_back_to: None,
        });
        let release = Release {
            task: TaskId::numbered(1),
            holder: Some(holder(1)),
            reason: "stopped".into(),
        };
        let mut ledger = Ledger::new(Head::new(at(0)), Vec::new()).unwrap();
        for command in [
            Command::BeginSession(BeginSession { pid: 1, max_sessions: None }),
            add("one"),
            add("one"),
            Command::Claim(Claim::new(worker())),
            checkpoint,
            Command::Note(Note::Warning { task: None, message: "look".into() }),
            Command::Release(release),
            Command::Claim(Claim::new(worker())),
            fail,
            Command::Remove(Remove { task: TaskId::numbered(2) }),
        ] {
            let change = decide(&ledger, at(1), &command).unwrap();
            ledger.put_in(&change);
            let again = answer_again(&ledger, at(1), &command).unwrap();
            match (&change.reply, &again) {
                (Reply::Claimed(first), Reply::Claimed(again)) => {
                    assert_eq!((&first.task.id, first.epoch), (&again.task.id, again.epoch));
                }
                (first, again) => assert_eq!(first, again, "{command:?}"),
            }
        }
    }

    /// Every command of a worker, and every answer, can be sent to another process.
    #[test]
    fn commands_and_answers_are_read_as_they_were_sent() {
        let mut ledger = Ledger::new(Head::new(at(0)), Vec::new()).unwrap();
        let fields = Edit { role: Some("r".into()), ..Edit::nothing(TaskId::numbered(0)) };
        let add = Command::Add(Add { id: None, title: "one".into(), fields });
        for command in [add, Command::Claim(Claim::new(WorkerId::recorded("w"))), Command::Upkeep] {
            let text = serde_json::to_string(&command).unwrap();
            assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command, "{text}");
            let change = decide(&ledger, at(1), &command).unwrap();
            ledger.put_in(&change);
            let reply: Result<Reply, Refusal> = Ok(change.reply);
            let text = serde_json::to_string(&reply).unwrap();
            let read: Result<Reply, Refusal> = serde_json::from_str(&text).unwrap();
            assert_eq!(read, reply, "{text}");
            let facts = serde_json::to_value(&change.facts).unwrap();
            assert_eq!(serde_json::from_value::<Vec<crate::Fact>>(facts).unwrap(), change.facts);
        }
        let refusal = Refusal::Secret { what: "the check".into(), variable: "KEY".into() };
        let text = serde_json::to_string(&refusal).unwrap();
        assert_eq!(serde_json::from_str::<Refusal>(&text).unwrap(), refusal);
    }
}
