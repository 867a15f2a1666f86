//! What every command is given: its output, its environment, and what ends a wait.

use crate::{
    config::{Config, Overrides},
    environment::Environment,
    failure::{Failure, Kind, Result},
    interrupt::Interrupt,
    render::Out,
    root::StateRoot,
};

/// What every command is given. Nothing in it was read or searched for before a command asks.
pub(crate) struct Invocation {
    pub(crate) out: Out,
    pub(crate) env: Environment,
    /// `--plain`: no live view.
    pub(crate) plain: bool,
    /// What ends a wait before its time.
    pub(crate) interrupt: Interrupt,
}

impl Invocation {
    /// The state root that this command is about.
    pub(crate) fn root(&self) -> Result<StateRoot> {
        StateRoot::discover(&self.env, &working_directory()?)
    }

    /// The same for what works without a ledger too: then where `init` would make one.
    pub(crate) fn root_or_new(&self) -> Result<StateRoot> {
        match self.root() {
            Err(failure) if failure.kind == Kind::Error => {
                StateRoot::for_init(&self.env, &working_directory()?)
            }
            found => found,
        }
    }

    /// The configuration that holds in `root`, below what the flags say.
    pub(crate) fn config(&self, root: &StateRoot, flags: Overrides) -> Result<Config> {
        Ok(crate::config::load(&self.env, Some(root.path()), flags)?.config)
    }
}

/// Where relative paths start and the search for the root begins. `-C` has been applied.
pub(crate) fn working_directory() -> Result<std::path::PathBuf> {
    std::env::current_dir()
        .map_err(|why| Failure::error(format!("cannot tell the working directory: {why}")))
}
