//! The commit policy of a run: hooks and signatures.

use harness::workspace::{CommitPolicy, GitWorkspace, Signing};

use crate::{
    config::Git,
    failure::{Failure, Result},
    invocation::Invocation,
    root::StateRoot,
    trust::Trust,
};

/// Returns the policy of the configuration. A warning names once what the commits of this run leave
/// out.
pub(super) fn policy(
    invocation: &Invocation,
    root: &StateRoot,
    git: &Git,
    workspace: &GitWorkspace,
) -> Result<CommitPolicy> {
    let signing = if git.sign { Signing::On } else { Signing::Off };
    if !git.sign && workspace.signs() {
        eprintln!(
            "note: git is set to sign commits, and this run does not; set `sign = true` in [git] of \
             harness.toml to sign them"
        );
    }
    let Some(found) = workspace.commit_hooks()? else {
        return Ok(CommitPolicy { hooks: None, signing });
    };
    let names = found.names.join(", ");
    if !git.hooks {
        eprintln!(
            "note: commits of this run bypass the git hooks ({names}); set `hooks = true` in [git] of \
             harness.toml to run them"
        );
        return Ok(CommitPolicy { hooks: None, signing });
    }
    let trusted = Trust::of_user(&invocation.env)?.hooks(root)?;
    if trusted.as_ref() != Some(&found.digest) {
        let folder = found.folder.display();
        let error = match trusted {
            Some(_) => format!("the git hooks in {folder} changed since you trusted them: {names}"),
            None => format!("the git hooks in {folder} are not trusted yet: {names}"),
        };
        return Err(Failure::config(error).hint("look at them, then run `harness trust`"));
    }
    Ok(CommitPolicy { hooks: trusted, signing })
}
