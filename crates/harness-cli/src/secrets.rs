//! The secrets that must not get into a file, stream or prompt of ours.

use std::ffi::OsString;

use harness::process::{Redactor, name_secrets};

use crate::{
    config::{self, Config, Notify, Origin, Overrides},
    invocation::Invocation,
    otel,
    root::StateRoot,
    trust::Trust,
};

/// Returns the caller's secrets, and those that the configuration gives to agents. All agents share
/// them, because one agent's output is the next one's prompt.
pub(crate) fn known(config: &Config) -> Redactor {
    let of_channels = config.notify.iter().flat_map(Notify::variables).map(str::to_owned);
    let of_collector = [otel::HEADERS.to_owned()];
    let names = config.secrets.names.iter().cloned().chain(of_channels).chain(of_collector);
    let names = names.collect();
    name_secrets(names, config.secrets.except.clone());
    let entries = config.agents.values().flat_map(|agent| &agent.env);
    let given = entries.filter_map(|entry| entry.split_once('='));
    let given = given.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Redactor::from_environment(std::env::vars_os().chain(given))
}

impl Invocation {
    /// Returns the secrets that a command on `root` must not let through. Neither a broken
    /// configuration nor an untrusted repository removes any of them.
    pub(crate) fn secrets(&self, root: &StateRoot) -> Redactor {
        let loaded = config::load(&self.env, Some(root.path()), Overrides::default());
        let Ok(mut loaded) = loaded else { return known(&Config::default()) };
        let origin = loaded.origins.get("secrets.except");
        if matches!(origin, Some(Origin::Project { .. })) {
            let trusted = Trust::of_user(&self.env).and_then(|trust| trust.is_trusted(root));
            if !trusted.unwrap_or(false) {
                loaded.config.secrets.except.clear();
            }
        }
        known(&loaded.config)
    }
}
