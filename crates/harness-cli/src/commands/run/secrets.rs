//! What may stand in no file, stream or prompt of a run.

use std::ffi::OsString;

use harness::process::Redactor;

use crate::config::Config;

/// The caller's secrets, and those that the configuration gives to agents: whose they are does not
/// matter, since one agent's output is the next one's prompt.
pub(super) fn known(config: &Config) -> Redactor {
    let entries = config.agents.values().flat_map(|agent| &agent.env);
    let given = entries.filter_map(|entry| entry.split_once('='));
    let given = given.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Redactor::from_environment(std::env::vars_os().chain(given))
}
