//! The result of `git status`, read in one process.

use harness_core::CommitId;

use super::{
    TreeStatus, WorkspaceError,
    git::{Git, failed},
    object::commit_id,
    own::OwnFiles,
    path::{RepoPath, records},
};

/// One look at HEAD, index and work tree, except our own files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    /// The commit of HEAD; `None` in a repository without commits.
    pub(super) head: Option<CommitId>,
    /// The branch; `None` if HEAD is detached.
    pub(super) branch: Option<String>,
    pub(super) changed: Vec<Changed>,
    /// Untracked files that are not ignored.
    pub(super) untracked: Vec<RepoPath>,
    /// Nested repositories that are not submodules. They are work trees of their own, and are
    /// neither saved nor committed nor cleaned.
    pub(super) nested: Vec<RepoPath>,
    /// Tracked files of ours that differ.
    pub(super) ours: Vec<RepoPath>,
}

/// A tracked path that differs between HEAD, index and work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) path: RepoPath,
    pub(super) staged: Staged,
    /// `true` if the work tree differs from the index.
    pub(super) in_work_tree: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Staged {
    No,
    Content,
    Deletion,
    Unmerged,
}

impl Look {
    pub(super) fn take(git: &Git, own: &OwnFiles) -> Result<Self, WorkspaceError> {
        let call = git.read("status").args(["--porcelain=v2", "-z", "--branch", "--no-renames"]);
        let call = call.args(["--untracked-files=all", "--ignore-submodules=dirty"]);
        Self::parse(&call.output()?, own)
    }

    /// Reads the output of `git status --porcelain=v2 -z --branch --no-renames`.
    pub(super) fn parse(output: &[u8], own: &OwnFiles) -> Result<Self, WorkspaceError> {
        let mut look = Self {
            head: None,
            branch: None,
            changed: Vec::new(),
            untracked: Vec::new(),
            nested: Vec::new(),
            ours: Vec::new(),
        };
        for record in records(output) {
            look.record(record, own).ok_or_else(|| {
                let shown = String::from_utf8_lossy(record);
                failed("status", format!("unexpected output: {shown}").as_bytes())
            })?;
        }
        Ok(look)
    }

    fn record(&mut self, record: &[u8], own: &OwnFiles) -> Option<()> {
        let (kind, rest) = (record.first()?, record.get(2..)?);
        match kind {
            b'#' => self.header(std::str::from_utf8(rest).ok()?)?,
            b'?' => match rest.strip_suffix(b"/") {
                Some(folder) if !own.own(folder) => self.nested.push(RepoPath::new(folder)),
                None if !own.own(rest) => self.untracked.push(RepoPath::new(rest)),
                Some(_) | None => {}
            },
            b'1' => self.tracked(rest, 8, own)?,
            b'u' => self.tracked(rest, 10, own)?,
            _ => return None,
        }
        Some(())
    }

    fn header(&mut self, header: &str) -> Option<()> {
        match header.split_once(' ') {
            Some(("branch.oid", "(initial)")) => {}
            Some(("branch.oid", id)) => self.head = Some(commit_id(id).ok()?),
            Some(("branch.head", "(detached)")) => {}
            Some(("branch.head", name)) => self.branch = Some(name.to_owned()),
            Some(_) | None => {}
        }
        Some(())
    }

    /// Parses `XY` and further fields, `fields` in all, of which the last is the path.
    fn tracked(&mut self, rest: &[u8], fields: usize, own: &OwnFiles) -> Option<()> {
        let path = rest.splitn(fields, |byte| *byte == b' ').nth(fields - 1)?;
        if own.own(path) {
            self.ours.push(RepoPath::new(path));
            return Some(());
        }
        let staged = match (fields, rest.first()?) {
            (10, _) => Staged::Unmerged,
            (_, b'.') => Staged::No,
            (_, b'D') => Staged::Deletion,
            (_, _) => Staged::Content,
        };
        let in_work_tree = staged == Staged::Unmerged || *rest.get(1)? != b'.';
        self.changed.push(Changed { path: RepoPath::new(path), staged, in_work_tree });
        Some(())
    }

    pub(super) fn commit(&self) -> Result<CommitId, WorkspaceError> {
        self.head.clone().ok_or(WorkspaceError::NoCommits)
    }

    /// Returns the changes in the work tree that the index does not have.
    pub(super) fn unstaged(&self) -> impl Iterator<Item = &RepoPath> {
        let changed = self.changed.iter().filter(|changed| changed.in_work_tree);
        changed.map(|changed| &changed.path).chain(&self.untracked)
    }

    /// Returns paths for which the index has contents that neither HEAD nor the work tree has.
    /// There are none during a conflict: an unmerged index is not a tree, and its contents are
    /// files of commits.
    pub(super) fn only_staged(&self) -> Vec<RepoPath> {
        if self.changed.iter().any(|changed| changed.staged == Staged::Unmerged) {
            return Vec::new();
        }
        let only = self.changed.iter().filter(|c| c.staged == Staged::Content && c.in_work_tree);
        only.map(|changed| changed.path.clone()).collect()
    }

    pub(super) fn status(&self) -> TreeStatus {
        let nested = self.nested.iter().map(|folder| format!("{}/", folder.shown()));
        TreeStatus {
            changed: self.changed.iter().map(|changed| changed.path.shown()).collect(),
            untracked: self.untracked.iter().map(RepoPath::shown).chain(nested).collect(),
        }
    }
}
