//! One change of the record of runs. It has an id that is stored with it, so that it takes effect once: if
//! its connection is lost at the end, or if it is sent again under the same id.

use std::time::Instant;

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::{
    DatabaseError, PostgresRuns,
    change::operation,
    error::Trouble,
    wire::{BEGIN, Link, Step},
};

/// Changes of a ledger's runs follow one another by this lock.
pub(super) const LOCK: &str = "SELECT 1 FROM harness.book WHERE ledger = $1 FOR UPDATE";
const TOOK_EFFECT: &str = "SELECT 1 FROM harness.operation WHERE ledger = $1 AND id = $2";

/// A value that is passed to the server.
pub(super) type Value = Box<dyn ToSql + Sync + Send>;
/// A statement with its values.
pub(super) struct Statement {
    pub(super) sql: &'static str,
    pub(super) by: Vec<(Value, Type)>,
}

/// The name of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// It has none, and is asked for once.
    New,
    /// It has this one, under which it may have been made before, and under which it may be asked for
    /// again after an error.
    Given(Uuid),
}

/// Whether a change was made before, under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Before,
    NotYet,
}

/// A change on its way.
struct Change<'a, D> {
    ledger: i64,
    id: Uuid,
    name: Name,
    decide: &'a D,
}

impl PostgresRuns {
    /// Runs one change. `decide` reads what it needs under the lock, and returns the answer with the
    /// statements that make it true.
    pub(super) fn write<T>(
        &self,
        decide: impl Fn(&mut Link, i64) -> Result<(T, Vec<Statement>), Trouble>,
    ) -> Result<T, DatabaseError> {
        self.write_as(Name::New, |link, ledger, _| decide(link, ledger))
    }

    /// Does the same with a change that has a name. If it was made before, `decide` returns only the
    /// answer.
    pub(super) fn write_as<T>(
        &self,
        name: Name,
        decide: impl Fn(&mut Link, i64, Made) -> Result<(T, Vec<Statement>), Trouble>,
    ) -> Result<T, DatabaseError> {
        let id = match name {
            Name::New => Uuid::now_v7(),
            Name::Given(id) => id,
        };
        let change = Change { ledger: self.shared.ledger(), id, name, decide: &decide };
        let mut link = self.shared.side();
        let until = link.until();
        let (mut in_doubt, mut in_doubt_until) = (None::<T>, None::<Instant>);
        loop {
            let tried = match in_doubt.take() {
                Some(answer) => change.settle(&mut link, answer, &mut in_doubt),
                None => change.attempt(&mut link, &mut in_doubt),
            };
            let why = match tried {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => continue,
                Err(Trouble::Said(error)) => {
                    // A transaction may still be open.
                    link.close();
                    return Err(link.placed(error));
                }
                Err(Trouble::Lost(why)) => why,
            };
            link.close();
            if in_doubt.is_none() {
                link.pause_until(until, why)?;
                continue;
            }
            let until = *in_doubt_until.get_or_insert_with(|| link.until());
            let server = link.access.server();
            let unknown = |_| DatabaseError::OutcomeUnknown { server, why: why.clone() };
            match name {
                Name::New => link.pause_in_doubt(until, why.clone()).map_err(unknown)?,
                // The caller asks again under the same name.
                Name::Given(_) => link.pause_until(until, why.clone()).map_err(unknown)?,
            }
        }
    }
}

impl<T, D> Change<'_, D>
where
    D: Fn(&mut Link, i64, Made) -> Result<(T, Vec<Statement>), Trouble>,
{
    /// Locks the runs, and returns whether the change was made before.
    fn enter(&self, link: &mut Link) -> Result<Made, Trouble> {
        let mut steps =
            vec![Step::Plain(BEGIN), Step::With(LOCK, vec![(&self.ledger, Type::INT8)])];
        if let Name::Given(_) = self.name {
            steps.push(self.took_effect());
        }
        let found = link.all(&steps)?;
        let is_stored = found.get(2).is_some_and(|rows| !rows.is_empty());
        Ok(if is_stored { Made::Before } else { Made::NotYet })
    }

    fn took_effect(&self) -> Step<'_> {
        Step::With(TOOK_EFFECT, vec![(&self.ledger, Type::INT8), (&self.id, Type::UUID)])
    }

    fn attempt(&self, link: &mut Link, in_doubt: &mut Option<T>) -> Result<Option<T>, Trouble> {
        let made = self.enter(link)?;
        let (answer, statements) = (self.decide)(link, self.ledger, made)?;
        if statements.is_empty() {
            link.all(&[Step::Plain("ROLLBACK")])?;
            return Ok(Some(answer));
        }
        let mut steps: Vec<Step<'_>> = Vec::with_capacity(statements.len() + 2);
        for statement in &statements {
            let by = statement.by.iter().map(|(value, kind)| {
                let value: &(dyn ToSql + Sync) = &**value;
                (value, kind.clone())
            });
            steps.push(Step::With(statement.sql, by.collect()));
        }
        let (version, replies) = (-1_i64, "[]".to_owned());
        steps.push(operation(&self.ledger, &self.id, &version, &replies));
        steps.push(Step::Plain("COMMIT"));
        match link.all(&steps) {
            Ok(_) => Ok(Some(answer)),
            Err(Trouble::Lost(why)) => {
                *in_doubt = Some(answer);
                Err(Trouble::Lost(why))
            }
            Err(said) => Err(said),
        }
    }

    /// Finds out whether a change whose connection was lost took effect. Returns `None` if it did not.
    fn settle(
        &self,
        link: &mut Link,
        answer: T,
        in_doubt: &mut Option<T>,
    ) -> Result<Option<T>, Trouble> {
        let found = link.all(&[
            Step::Plain(BEGIN),
            Step::With(LOCK, vec![(&self.ledger, Type::INT8)]),
            self.took_effect(),
            Step::Plain("ROLLBACK"),
        ]);
        match found {
            Ok(rows) if rows[2].is_empty() => Ok(None),
            Ok(_) => Ok(Some(answer)),
            Err(trouble) => {
                *in_doubt = Some(answer);
                Err(Trouble::Lost(trouble.in_doubt()))
            }
        }
    }
}
