//! What may be pushed although it is not finished: commits without known secrets, and rescues.

use std::collections::BTreeSet;

use harness_core::CommitId;

use super::{
    RemoteRepository, Sharing,
    names::Names,
    push::{Pushed, Update},
};
use crate::workspace::{
    Rescue, WorkspaceError,
    git::{Git, failed},
    index::PrivateIndex,
    object::list_tree,
    path::RepoPath,
    repository::branch::commit_of,
    rescue::{PREFIX, all, commit_tree, resolve},
    restore::base_of_rescue,
};

/// The size up to which objects are read together.
const TOGETHER: u64 = 16 * 1024 * 1024;
/// The prefix of the refs that show which rescues are on a server.
const SHARED: &str = "refs/harness/shared/";

/// A commit that may be pushed.
pub(super) struct Shareable {
    pub(super) commit: CommitId,
    /// Files that are left out because they hold a secret.
    pub(super) left_out: Vec<String>,
}

impl RemoteRepository {
    /// Returns a commit with the files of `commit` that may be pushed to a server that has `base`. If
    /// one of the objects between them holds a secret, the commits become one without such files.
    /// Returns `None` if even the names of its files do.
    pub(super) fn shareable(
        &self,
        git: &Git,
        commit: &CommitId,
        base: &CommitId,
    ) -> Result<Option<Shareable>, WorkspaceError> {
        let found = self.secrets_between(git, base, commit)?;
        if found.is_empty() {
            return Ok(Some(Shareable { commit: commit.clone(), left_out: Vec::new() }));
        }
        let files = list_tree(git, commit.as_str(), &[])?;
        let before = list_tree(git, base.as_str(), &[])?;
        let secret: Vec<RepoPath> =
            files.into_iter().filter(|(_, e)| found.contains(&e.object)).map(|(p, _)| p).collect();
        let index = PrivateIndex::scratch(git)?;
        index.read_tree(git, commit.as_str())?;
        index.remove(git, &secret)?;
        let old = before.into_iter().filter(|(path, _)| secret.contains(path)).collect();
        index.set(git, &old)?;
        let message = git.read("log").args(["-1", "--format=%B", commit.as_str()]).output()?;
        let message = self.settings.secrets.text(&String::from_utf8_lossy(&message)).into_owned();
        let tree = index.write_tree(git)?;
        let commit = commit_tree(git, &tree, std::slice::from_ref(base), &message)?;
        if !self.secrets_between(git, base, &commit)?.is_empty() {
            return Ok(None);
        }
        let left_out = secret.iter().map(RepoPath::shown).collect();
        Ok(Some(Shareable { commit, left_out }))
    }

    /// Returns the objects that `commit` has and `base` has not and that hold a secret.
    fn secrets_between(
        &self,
        git: &Git,
        base: &CommitId,
        commit: &CommitId,
    ) -> Result<BTreeSet<String>, WorkspaceError> {
        let mut found = BTreeSet::new();
        if self.settings.secrets.is_idle() {
            return Ok(found);
        }
        let call = git.read("rev-list").args(["--objects", "--no-object-names", commit.as_str()]);
        let listed = call.args(["--not", base.as_str()]).output()?;
        let call = git.read("cat-file").arg("--batch-check=%(objectname) %(objectsize)");
        let sizes = call.input(listed).output()?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for line in String::from_utf8_lossy(&sizes).lines() {
            let sized = line.split_once(' ');
            let sized = sized.and_then(|(id, size)| Some((id, size.parse::<u64>().ok()?)));
            // A submodule's commit is not here.
            let Some((id, size)) = sized else { continue };
            if bytes + size > TOGETHER && !batch.is_empty() {
                self.search(git, &std::mem::take(&mut batch), &mut found)?;
                bytes = 0;
            }
            batch.push(id.to_owned());
            bytes += size;
        }
        self.search(git, &batch, &mut found)?;
        Ok(found)
    }

    fn search(
        &self,
        git: &Git,
        ids: &[String],
        found: &mut BTreeSet<String>,
    ) -> Result<(), WorkspaceError> {
        if ids.is_empty() {
            return Ok(());
        }
        let unexpected = || failed("cat-file", b"unexpected output");
        let call = git.read("cat-file").arg("--batch=%(objectname) %(objectsize)");
        let output = call.input(ids.join("\n") + "\n").output()?;
        let mut rest = &output[..];
        while !rest.is_empty() {
            let line = rest.iter().position(|byte| *byte == b'\n').ok_or_else(unexpected)?;
            let header = std::str::from_utf8(&rest[..line]).map_err(|_| unexpected())?;
            let (id, size) = header.split_once(' ').ok_or_else(unexpected)?;
            let size: usize = size.parse().map_err(|_| unexpected())?;
            let contents = rest.get(line + 1..line + 1 + size).ok_or_else(unexpected)?;
            if self.settings.secrets.is_in(contents) {
                found.insert(id.to_owned());
            }
            rest = rest.get(line + size + 2..).ok_or_else(unexpected)?;
        }
        Ok(())
    }

    /// Pushes the rescues of this clone that are not on the server yet. What cannot be pushed now is
    /// tried again the next time.
    pub(super) fn share_rescues(&self) {
        if self.settings.rescues == Sharing::Local {
            return;
        }
        if let Err(why) = self.push_rescues() {
            tracing::warn!(%why, "rescues are not on the server yet");
        }
    }

    fn push_rescues(&self) -> Result<(), WorkspaceError> {
        let git = &self.local.main.git;
        let rescues = all(git, None)?;
        self.forget_marks(git, &rescues)?;
        for rescue in rescues {
            let mark = self.mark_of(&rescue);
            let known = commit_of(git, &mark)?.is_some_and(|commit| commit == rescue.commit);
            if known || self.names() == Names::Branches {
                continue;
            }
            self.share_rescue(git, &rescue)?;
        }
        Ok(())
    }

    /// Removes the marks of rescues that are gone, which would keep their commits.
    fn forget_marks(&self, git: &Git, rescues: &[Rescue]) -> Result<(), WorkspaceError> {
        let known: BTreeSet<_> = rescues.iter().map(|rescue| self.mark_of(rescue)).collect();
        let call = git.read("for-each-ref").arg("--format=%(refname)");
        let marks = call.arg(format!("{SHARED}{}/", self.name())).output()?;
        for mark in String::from_utf8_lossy(&marks).lines().filter(|mark| !known.contains(*mark)) {
            git.write("update-ref").args(["-m", "harness: gc", "-d", mark]).output()?;
        }
        Ok(())
    }

    /// Returns the ref that shows that a rescue is on the server.
    fn mark_of(&self, rescue: &Rescue) -> String {
        let name = rescue.reference.strip_prefix(PREFIX).unwrap_or(&rescue.reference);
        format!("{SHARED}{}/{name}", self.name())
    }

    fn share_rescue(&self, git: &Git, rescue: &Rescue) -> Result<(), WorkspaceError> {
        let base = match base_of_rescue(git, rescue)? {
            Some(base) => Some(base),
            None => resolve(git, &format!("{}^", rescue.commit))?,
        };
        let shareable = match base {
            Some(base) => self.shareable(git, &rescue.commit, &base)?,
            None => None,
        };
        let Some(Shareable { commit, left_out }) = shareable else {
            self.warn(format!("{} stays here: it holds a secret", rescue.reference));
            return self.mark(git, rescue);
        };
        self.warn_left_out(&rescue.reference, &left_out);
        let short = rescue.commit.short();
        let names = [rescue.reference.clone(), format!("{}-{short}", rescue.reference)];
        for name in names {
            match self.transport.push(&[Update::create(&name, &commit)])? {
                Pushed::Done => return self.mark(git, rescue),
                // Another clone has one with this name.
                Pushed::Overtaken => {}
                Pushed::Refused { why } => {
                    self.use_branches(&why);
                    return Ok(());
                }
            }
        }
        self.mark(git, rescue)
    }

    fn mark(&self, git: &Git, rescue: &Rescue) -> Result<(), WorkspaceError> {
        let call = git.write("update-ref").args(["-m", "harness: on the remote"]);
        call.args([&self.mark_of(rescue), rescue.commit.as_str()]).output().map(drop)
    }

    pub(super) fn warn_left_out(&self, of: &str, files: &[String]) {
        if !files.is_empty() {
            let files = files.join(", ");
            self.warn(format!("{of} on {} lacks {files}: a secret is in there", self.name()));
        }
    }
}
