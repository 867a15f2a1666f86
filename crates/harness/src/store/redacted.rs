//! A store that no secret enters: the single gate on the way to ledger, backup, log, trajectory and
//! every observer of a change.

use harness_core::{Command, Ledger, Refusal, Timestamp, command::Text};

use super::{Applied, AppliedOnce, NewsSince, Store, StoreError, TransactionId};
use crate::process::Redactor;

/// A wrapper of another store, which receives only commands without the known secrets.
pub struct Redacted<S> {
    store: S,
    secrets: Redactor,
}

impl<S> Redacted<S> {
    /// Keeps `secrets` out of `store`.
    pub fn new(store: S, secrets: Redactor) -> Self {
        Self { store, secrets }
    }
}

impl<S: Store> Store for Redacted<S> {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        let hidden = Hidden::of(commands, &self.secrets);
        let applied = match hidden.rest() {
            Some(rest) => self.store.apply(now, &rest)?,
            None => Applied::default(),
        };
        Ok(hidden.answers(applied))
    }

    fn apply_once(
        &mut self,
        now: Timestamp,
        of: &TransactionId,
        commands: &[Command],
    ) -> Result<AppliedOnce, StoreError> {
        let hidden = Hidden::of(commands, &self.secrets);
        let applied = match hidden.rest() {
            Some(rest) => self.store.apply_once(now, of, &rest)?,
            None => AppliedOnce::Now(Applied::default()),
        };
        Ok(match applied {
            AppliedOnce::Now(applied) => AppliedOnce::Now(hidden.answers(applied)),
            AppliedOnce::Before => AppliedOnce::Before,
        })
    }

    fn news(&mut self, since: Option<&str>) -> Result<NewsSince, StoreError> {
        self.store.news(since)
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        self.store.ledger()
    }
}

/// Commands without secrets, and the refusals of those that cannot be without.
struct Hidden(Vec<Result<Command, Refusal>>);

impl Hidden {
    fn of(commands: &[Command], secrets: &Redactor) -> Self {
        Self(commands.iter().map(|command| redacted(command.clone(), secrets)).collect())
    }

    /// Returns the commands that may be applied; `None` if all were refused.
    fn rest(&self) -> Option<Vec<Command>> {
        let rest: Vec<_> = self.0.iter().filter_map(|c| c.as_ref().ok()).cloned().collect();
        (!rest.is_empty() || self.0.is_empty()).then_some(rest)
    }

    /// Returns the answers to all commands, from those to the accepted ones.
    fn answers(self, mut applied: Applied) -> Applied {
        let places: Vec<_> = (0..self.0.len()).filter(|n| self.0[*n].is_ok()).collect();
        for (of, _) in &mut applied.archived {
            *of = places.get(*of).copied().unwrap_or(*of);
        }
        let mut answers = std::mem::take(&mut applied.replies).into_iter();
        let all = self.0.into_iter().map(|command| match command {
            Ok(_) => answers.next(),
            Err(refusal) => Some(Err(refusal)),
        });
        applied.replies = all.flatten().collect();
        applied
    }
}

/// Returns the command without secrets. A command line that contains one is refused, because with a
/// mark in its place it would do something else.
pub fn redacted(mut command: Command, secrets: &Redactor) -> Result<Command, Refusal> {
    let mut holds = None;
    command.texts(&mut |text| match text {
        Text::Words(words) => {
            if let std::borrow::Cow::Owned(hidden) = secrets.text(words) {
                *words = hidden;
            }
        }
        Text::Line { what, line } => holds = holds.take().or(refused(what, line, secrets)),
    });
    holds.map_or(Ok(command), Err)
}

/// Returns the reason why an edited ledger cannot be worked on: one of its command lines contains a
/// secret, which would get into logs, receipts and prompts.
pub fn secret_in(ledger: &Ledger, secrets: &Redactor) -> Option<Refusal> {
    ledger.command_lines().find_map(|(what, line)| refused(what, line, secrets))
}

/// Does the same for one line.
pub fn refused(what: &'static str, line: &str, secrets: &Redactor) -> Option<Refusal> {
    secrets.find(line).map(|variable| Refusal::Secret { what: what.into(), variable })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use harness_core::{
        Reply, TaskId,
        command::{Add, Edit, Note},
    };

    use super::*;
    use crate::{
        clock::{Clock, SystemClock},
        store::{Created, FileStore, Locking, lock::Wait},
    };

    fn add(id: &str, title: &str, check: &str) -> Command {
        let task = TaskId::parse(id).unwrap();
        let fields = Edit { validation_command: Some(check.into()), ..Edit::nothing(task.clone()) };
        Command::Add(Add { id: Some(task), title: title.into(), fields })
    }

    #[test]
    fn words_are_redacted_and_lines_refused_each_at_its_place() {
        let root = tempfile::tempdir().unwrap();
        let locking = Locking::Each(Wait::For(Duration::from_secs(5)));
        let mut store = FileStore::open(root.path(), locking).unwrap();
        assert_eq!(store.create(SystemClock.now()).unwrap(), Created::New);
        let secrets = Redactor::from_environment([("API_KEY".into(), "very-secret-1".into())]);
        let mut store = Redacted::new(store, secrets);
        let warning = Note::Warning { task: None, message: "it said very-secret-1".into() };
        let commands = [
            add("a", "use very-secret-1", "true"),
            add("b", "b", "curl -H very-secret-1 x"),
            Command::Reset,
            Command::Note(warning),
        ];
        let applied = store.apply(SystemClock.now(), &commands).unwrap();
        let refusal = Refusal::Secret { what: "the check".into(), variable: "API_KEY".into() };
        assert_eq!(applied.replies[0], Ok(Reply::Task(TaskId::parse("a").unwrap())));
        assert_eq!(applied.replies[1], Err(refusal.clone()));
        assert_eq!(applied.replies.len(), 4);
        assert_eq!(applied.archived[0].0, 2, "the reset is the third");
        assert!(!format!("{:?}", applied.facts).contains("very-secret-1"));
        let alone = store.apply(SystemClock.now(), &commands[1..2]).unwrap();
        assert_eq!(alone.replies, [Err(refusal)]);
        let hash = crate::home::root_hash(&root.path().canonicalize().unwrap());
        _ = std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"));
    }
}
