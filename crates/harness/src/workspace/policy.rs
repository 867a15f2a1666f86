//! The way in which the commits of attempts are made: with or without the repository's hooks,
//! signed or not.
//!
//! A commit is built in a private index and appears by one compare-and-swap of the branch. So the
//! hooks are not run by `git commit` but one by one around that swap, as git documents them.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use harness_core::{CommitId, TreeId};
use sha2::{Digest, Sha256};

use super::{
    WorkspaceError,
    git::{Call, Git, failed, without_git_variables},
    index::PrivateIndex,
    object::commit_id,
    rescue::commit_with,
};

/// The hooks that git runs around a commit.
const NAMES: [&str; 4] = ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"];
/// The time limit of one hook.
const HOOK_LIMIT: Duration = Duration::from_secs(600);
/// The time limit of a signer. One that waits for a person takes longer.
const SIGNER_LIMIT: Duration = Duration::from_secs(60);
/// The limits for reading a folder of hooks: files, and bytes of each.
const MOST_FILES: usize = 2000;
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The way in which the commits of attempts are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitPolicy {
    /// The digest of the hooks that may run; `None` runs none.
    pub hooks: Option<String>,
    /// Whether commits are signed.
    pub signing: Signing,
}

/// Whether commits are signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Signing {
    /// They are not signed, whatever git's configuration contains.
    #[default]
    Off,
    /// They are signed with the key of git's configuration.
    On,
}

/// The hooks of a repository that git would run around a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitHooks {
    /// The folder from which git takes them.
    pub folder: PathBuf,
    /// Their names, in the order in which git runs them.
    pub names: Vec<&'static str>,
    /// A digest of everything in the folder, and of the files beside it in the work tree.
    pub digest: String,
    /// Whether they are in the work tree, so that a pull can bring them.
    pub in_work_tree: bool,
}

impl CommitHooks {
    /// Returns the hooks; `None` if git would run none.
    pub(super) fn find(git: &Git) -> Result<Option<Self>, WorkspaceError> {
        let folder = folder(git)?;
        let is_there = |name: &&str| is_executable(&folder.join(name));
        let names: Vec<_> = NAMES.into_iter().filter(is_there).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let below = folder.strip_prefix(&git.top_level).ok();
        let below = below.filter(|_| !folder.starts_with(&git.git_dir));
        // A hook manager stores its scripts beside the folder that git knows, as `.husky/_` does.
        let whole = match below.and_then(|below| below.components().next()) {
            Some(first) => git.top_level.join(first),
            None => folder.clone(),
        };
        let digest = digest(&whole)?;
        Ok(Some(Self { in_work_tree: below.is_some(), folder, names, digest }))
    }
}

/// Returns the folder of the hooks in git's configuration.
fn folder(git: &Git) -> Result<PathBuf, WorkspaceError> {
    // The settings that make our own calls safe name another folder, so the configuration files are
    // read.
    let ran = Call::plain(&git.top_level, "config")
        .env("GIT_DIR", &git.git_dir)
        .args(["--type=path", "--get", "core.hooksPath"])
        .run()?;
    let found = String::from_utf8_lossy(&ran.stdout).trim_end_matches('\n').to_owned();
    let folder = match ran.code {
        Some(0) if !found.is_empty() => git.top_level.join(found),
        _ => git.common_dir().join("hooks"),
    };
    Ok(folder.canonicalize().unwrap_or(folder))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns a digest of names, modes and contents. Samples do not count, because git runs none of
/// them.
fn digest(folder: &Path) -> Result<String, WorkspaceError> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if !entry.file_name().to_string_lossy().ends_with(".sample") {
                files.push(entry.path());
            }
            if files.len() + folders.len() > MOST_FILES {
                return Err(too_much(folder));
            }
        }
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        let found = fs::metadata(&file)?;
        if found.len() > MOST_BYTES {
            return Err(too_much(folder));
        }
        let name = file.strip_prefix(folder).unwrap_or(&file).to_string_lossy().into_owned();
        let bytes = fs::read(&file)?;
        digest.update(format!("{name}\0{:o}\0{}\0", found.permissions().mode(), bytes.len()));
        digest.update(&bytes);
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn too_much(folder: &Path) -> WorkspaceError {
    WorkspaceError::Unsafe {
        what: format!("{} holds too much to be a folder of git hooks", folder.display()),
        hint: "set `core.hooksPath` to a folder of its own, or `hooks = false` in [git]".to_owned(),
    }
}

/// A commit and its final tree, because a hook may have added to it.
pub(super) struct Made {
    pub(super) commit: CommitId,
    pub(super) tree: TreeId,
}

impl CommitPolicy {
    /// Creates the commit, which is on no branch yet. `index` contains `tree`.
    pub(super) fn make(
        &self,
        git: &Git,
        tree: &TreeId,
        index: Option<&PrivateIndex>,
        parents: &[CommitId],
        message: &str,
    ) -> Result<Made, WorkspaceError> {
        let Some(hooks) = self.hooks(git)? else {
            let commit = self.signed(git, tree, parents, message, &[])?;
            return Ok(Made { commit, tree: tree.clone() });
        };
        let scratch;
        let index = match index {
            Some(index) => index,
            None => {
                scratch = PrivateIndex::scratch(git)?;
                scratch.read_tree(git, tree.as_str())?;
                &scratch
            }
        };
        hooks.run(git, "pre-commit", Some(index), &[])?;
        let tree = index.write_tree(git)?;
        let file = git.git_dir.join("COMMIT_EDITMSG.harness");
        fs::write(&file, message)?;
        let text = || -> Result<String, WorkspaceError> {
            let name = file.to_string_lossy();
            hooks.run(git, "prepare-commit-msg", Some(index), &[&name, "message"])?;
            hooks.run(git, "commit-msg", Some(index), &[&name])?;
            Ok(fs::read_to_string(&file)?)
        };
        let text = text();
        fs::remove_file(&file)?;
        let commit = self.signed(git, &tree, parents, &text?, &[])?;
        Ok(Made { commit, tree })
    }

    /// Runs the hook that git runs when the branch has the commit. It cannot refuse the commit any
    /// more.
    pub(super) fn after(&self, git: &Git) {
        if let Ok(Some(hooks)) = self.hooks(git) {
            let _ = hooks.run(git, "post-commit", None, &[]);
        }
    }

    /// Returns the existing hooks, if they may run.
    fn hooks(&self, git: &Git) -> Result<Option<CommitHooks>, WorkspaceError> {
        let Some(trusted) = &self.hooks else { return Ok(None) };
        match CommitHooks::find(git)? {
            Some(found) if found.digest == *trusted => Ok(Some(found)),
            Some(CommitHooks { folder, .. }) => Err(WorkspaceError::HookRefused {
                hook: "git hooks".to_owned(),
                detail: format!("{} is not what was trusted", folder.display()),
            }),
            None => Err(WorkspaceError::HookRefused {
                hook: "git hooks".to_owned(),
                detail: "the hooks that were trusted are gone".to_owned(),
            }),
        }
    }

    /// Creates the commit without hooks. `variables` may name its author.
    pub(super) fn signed(
        &self,
        git: &Git,
        tree: &TreeId,
        parents: &[CommitId],
        message: &str,
        variables: &[(&str, String)],
    ) -> Result<CommitId, WorkspaceError> {
        match self.signing {
            Signing::Off => commit_with(git, tree, parents, message, variables),
            Signing::On => {
                let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
                let call = git.write("commit-tree").arg("--gpg-sign").args(parents);
                let call = call.args(["-F", "-", tree.as_str()]).input(message).envs(variables);
                let not_signed = |detail: String| WorkspaceError::NotSigned { detail };
                let Some(ran) = call.run_within(SIGNER_LIMIT)? else {
                    let seconds = SIGNER_LIMIT.as_secs();
                    return Err(not_signed(format!("the signer took longer than {seconds} s")));
                };
                if ran.code != Some(0) {
                    return Err(not_signed(detail(&ran.stderr)));
                }
                commit_id(String::from_utf8_lossy(&ran.stdout).trim_end())
            }
        }
    }
}

impl CommitHooks {
    /// Runs one hook, if it exists, as git would: at the top of the work tree, with the index of
    /// the commit.
    fn run(
        &self,
        git: &Git,
        name: &'static str,
        index: Option<&PrivateIndex>,
        arguments: &[&str],
    ) -> Result<(), WorkspaceError> {
        if !self.names.contains(&name) {
            return Ok(());
        }
        let mut command = Command::new(self.folder.join(name));
        without_git_variables(&mut command);
        command.current_dir(&git.top_level).args(arguments).env("GIT_EDITOR", ":");
        if let Some(index) = index {
            command.env("GIT_INDEX_FILE", index.file());
        }
        let refused =
            |detail: String| WorkspaceError::HookRefused { hook: name.to_owned(), detail };
        let call = Call::of(command, name, &git.top_level);
        let Some(ran) = call.run_within(HOOK_LIMIT)? else {
            return Err(refused(format!("it took longer than {} s", HOOK_LIMIT.as_secs())));
        };
        if ran.code == Some(0) {
            return Ok(());
        }
        let all = [ran.stdout, ran.stderr].concat();
        Err(refused(detail(&all)))
    }
}

/// Returns the end of a program's output.
fn detail(output: &[u8]) -> String {
    match failed("", output) {
        WorkspaceError::Git { detail, .. } => detail,
        other => other.to_string(),
    }
}
