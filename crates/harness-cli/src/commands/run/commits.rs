//! How a run makes its commits: hooks and signatures.

use harness::workspace::{CommitPolicy, GitWorkspace, Signing};
use harness_core::trust::{HookSetting, HookUse};

use crate::{
    config::Git,
    failure::{Failure, Result},
    invocation::Invocation,
    root::StateRoot,
    trust::Trust,
};

/// Returns the policy of the configuration, and prints once what the commits of this run leave out.
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
    let setting = if git.hooks { HookSetting::Run } else { HookSetting::Bypass };
    let trusted = Trust::of_user(&invocation.env)?.hooks(root)?;
    let (names, folder) = (found.names.join(", "), found.folder.display());
    let refused = |what: &str| {
        let error = format!("the git hooks in {folder} {what}: {names}");
        Failure::config(error).hint("look at them, then run `harness trust`")
    };
    match HookUse::of(setting, Some(&found.digest), trusted.as_deref()) {
        HookUse::Absent => Ok(CommitPolicy { hooks: None, signing }),
        HookUse::Bypassed => {
            eprintln!(
                "note: commits of this run bypass the git hooks ({names}); set `hooks = true` in [git] \
                 of harness.toml to run them"
            );
            Ok(CommitPolicy { hooks: None, signing })
        }
        HookUse::Run(digest) => Ok(CommitPolicy { hooks: Some(digest), signing }),
        HookUse::Untrusted => Err(refused("are not trusted yet")),
        HookUse::Changed => Err(refused("changed since you trusted them")),
    }
}
