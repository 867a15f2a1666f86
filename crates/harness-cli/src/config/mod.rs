//! The configuration: what can be set ([`schema`]), where it comes from ([`layers`], [`file`],
//! [`text`]) and how it is shown ([`show`]).
//!
//! The structs in `schema` are the only list of keys. Their defaults say which keys exist, serde
//! checks the values, and their doc comments become the JSON schema. Nothing here is read before a
//! command asks for it.

mod duration;
mod file;
mod key;
mod layers;
mod origin;
mod rules;
mod schema;
pub(crate) mod show;
mod text;

pub(crate) use self::{
    duration::Duration,
    layers::{Loaded, Overrides, files, load},
    origin::Origin,
    schema::{Agent, AgentKind, Config, Git, Keep, PromiseMatch, Protect},
};

/// The JSON schema of `harness.toml` and of the personal `config.toml`.
pub(crate) fn schema() -> schemars::Schema {
    schemars::schema_for!(Config)
}
