//! The git repository of a root, for commands and views.

use std::path::Path;

use harness::workspace::{Filters, GitWorkspace, Rescue};

use crate::{
    client::settings_folder, environment::Environment, failure::Result, root::StateRoot,
    trust::Trust,
};

const PREFIX: &str = "refs/harness/rescue/";

/// Opens the work tree that contains `directory`. Content filters are programs that the repository
/// names, so they run only if the root is trusted.
pub(crate) fn workspace(
    env: &Environment,
    root: &StateRoot,
    directory: &Path,
) -> Result<GitWorkspace> {
    let trusted = Trust::of_user(env)?.is_place_trusted(root)?;
    let filters = if trusted { Filters::Run } else { Filters::Off };
    let git = GitWorkspace::discover(directory, root.path(), filters)?;
    Ok(git.recording_in(settings_folder(env, root)?))
}

/// Returns the name of a rescue for people: `TASK/ATTEMPT`.
pub(crate) fn short(rescue: &Rescue) -> &str {
    rescue.reference.strip_prefix(PREFIX).unwrap_or(&rescue.reference)
}
