//! The table `[store]` of `harness.toml`.

use harness_core::database::{DatabaseUrl, LedgerName};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

/// A ledger in a database that several machines share. A `harness.toml` with this table marks a project
/// whose ledger is there and not in a file
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DatabaseStore {
    /// The address of the database, such as postgres://harness@db.example.org/work, without a password;
    /// HARNESS_DATABASE_URL takes precedence and may hold one. Only in a project's harness.toml
    #[serde(deserialize_with = "url")]
    pub(crate) url: Option<String>,
    /// The name of the ledger in the database; none: the name of the repository's top directory. Only in
    /// a project's harness.toml
    #[serde(deserialize_with = "ledger")]
    pub(crate) ledger: Option<String>,
    /// A command that prints the password, if it is neither in HARNESS_DATABASE_URL, PGPASSWORD nor
    /// ~/.pgpass. Only in your own configuration, never in a project's harness.toml
    pub(crate) password_command: Option<String>,
}

impl DatabaseStore {
    /// The keys that describe one project.
    pub(super) const OF_PROJECT: [&str; 2] = ["store.url", "store.ledger"];
    /// The key that is the user's own.
    pub(super) const OF_USER: &str = "store.password_command";
}

/// Checks the address. The error never contains it, because it may hold a password.
fn url<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let Some(text) = Option::<String>::deserialize(d)? else { return Ok(None) };
    DatabaseUrl::configured(&text).map_err(de::Error::custom)?;
    Ok(Some(text))
}

fn ledger<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let Some(text) = Option::<String>::deserialize(d)? else { return Ok(None) };
    LedgerName::parse(&text).map_err(de::Error::custom)?;
    Ok(Some(text))
}
