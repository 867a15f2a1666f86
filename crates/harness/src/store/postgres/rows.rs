//! Values of rows.

use tokio_postgres::{Row, types::FromSqlOwned};

use super::{DatabaseError, error::Trouble};

/// Returns a column. A wrong type is a bug of this program, or somebody changed the schema.
pub(super) fn get<T: FromSqlOwned>(row: &Row, at: usize) -> Result<T, Trouble> {
    row.try_get(at).map_err(|why| {
        let server = "the database".to_owned();
        DatabaseError::Refused { server, why: why.to_string() }.into()
    })
}

/// Returns a count that is never negative.
pub(super) fn count(row: &Row, at: usize) -> Result<u64, Trouble> {
    Ok(u64::try_from(get::<i64>(row, at)?).unwrap_or_default())
}

/// Returns a count for a column.
pub(super) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a text for a column. PostgreSQL has no NUL in a text.
pub(super) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
