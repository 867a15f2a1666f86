//! The configuration: its keys ([`schema`]), its sources ([`layers`], [`file`], [`text`]) and its
//! display ([`show`]).
//!
//! The structs in `schema` are the only list of keys. Their defaults show which keys exist, serde
//! checks the values, and their doc comments become the JSON schema. Nothing here is read before a
//! command asks for it.

mod duration;
mod file;
mod fleet;
mod key;
mod layers;
mod notify;
mod origin;
mod rules;
mod schema;
pub(crate) mod show;
mod store;
pub(crate) mod template;
mod text;

use std::path::Path;

use harness::home::Home;

pub(crate) use self::{
    duration::Duration,
    layers::{Loaded, Overrides, files, load},
    notify::{Notify, NotifyChannel, NotifyKind, ValueSource},
    origin::Origin,
    schema::{Agent, AgentKind, Config, Git, Keep, Land, PromiseMatch, Protect},
};

/// The table that says in which database a ledger is.
pub(crate) const STORE: &str = "store";

/// Returns whether the harness.toml of a directory says that its ledger is in a database.
pub(crate) fn names_database(directory: &Path) -> bool {
    file::has_table(&Home::of(directory).config(), STORE)
}

/// Returns the JSON schema of `harness.toml` and of the personal `config.toml`.
pub(crate) fn schema() -> schemars::Schema {
    schemars::schema_for!(Config)
}
