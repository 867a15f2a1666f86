//! The context of every command: its output, its environment, and the request that ends a wait.

use crate::{
    config::{Config, Overrides},
    environment::Environment,
    failure::{Failure, Kind, Result},
    interrupt::Interrupt,
    render::Out,
    root::StateRoot,
};

/// The context of every command. Nothing in it is read or searched for before a command asks.
pub(crate) struct Invocation {
    pub(crate) out: Out,
    pub(crate) env: Environment,
    /// `--plain`: no live view.
    pub(crate) plain: bool,
    /// The request that ends a wait early.
    pub(crate) interrupt: Interrupt,
}

impl Invocation {
    /// Returns the state root of this command.
    pub(crate) fn root(&self) -> Result<StateRoot> {
        StateRoot::discover(&self.env, &working_directory()?)
    }

    /// Does the same for a command that also works without a ledger. It returns the place where
    /// `init` would create one.
    pub(crate) fn root_or_new(&self) -> Result<StateRoot> {
        match self.root() {
            Err(failure) if failure.kind == Kind::Error => {
                StateRoot::for_init(&self.env, &working_directory()?)
            }
            found => found,
        }
    }

    /// Returns the configuration of `root`, with the flags on top of it.
    pub(crate) fn config(&self, root: &StateRoot, flags: Overrides) -> Result<Config> {
        Ok(crate::config::load(&self.env, Some(root.path()), flags)?.config)
    }
}

/// Returns the directory for relative paths and for the search for the root. `-C` has been applied.
pub(crate) fn working_directory() -> Result<std::path::PathBuf> {
    std::env::current_dir()
        .map_err(|why| Failure::error(format!("cannot tell the working directory: {why}")))
}
