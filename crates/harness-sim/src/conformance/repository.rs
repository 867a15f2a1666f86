//! A real repository in a temporary folder, cut off from the machine's git configuration.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use harness::workspace::{Filters, GitWorkspace, Workspace, shared::SharedRepository};
use harness_core::CommitId;

use super::workspace::Fixture;

/// Opens a repository with the implementation under test, as a process of its own.
pub type OpenShared = fn(&Repository) -> Box<dyn SharedRepository>;

pub struct Repository {
    folder: Arc<tempfile::TempDir>,
    /// The canonical top level.
    pub root: PathBuf,
    pub(super) open_shared: Option<OpenShared>,
}

impl Repository {
    /// Creates `main` with one commit: `a.txt`, `b.txt`, `.gitignore`.
    pub fn new() -> Self {
        Self::with_options(&[])
    }

    /// Does the same as [`Repository::new`], with more options for `git init`.
    pub fn with_options(options: &[&str]) -> Self {
        let repository = Self::empty(options);
        repository.write("a.txt", "a");
        repository.write("b.txt", "b");
        repository.write(".gitignore", "*.log\n");
        repository.git(["add", "-A"]);
        Fixture::commit(&repository, "first");
        repository
    }

    /// Creates a repository without commits.
    pub fn empty(options: &[&str]) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let root = folder.path().canonicalize().unwrap().join("repo");
        fs::create_dir(&root).unwrap();
        let repository = Self { folder, root, open_shared: None };
        repository.git(["init", "--quiet", "--initial-branch=main"].iter().chain(options));
        repository.git(["config", "user.name", "User"]);
        repository.git(["config", "user.email", "user@example.org"]);
        repository
    }

    /// Does the same as [`Repository::new`], for several workers.
    pub fn shared_by(open: OpenShared) -> Self {
        Self { open_shared: Some(open), ..Self::new() }
    }

    /// Returns the same repository, seen from another of its work trees.
    pub fn in_tree(&self, tree: &Path) -> Self {
        Self { folder: Arc::clone(&self.folder), root: tree.to_owned(), ..*self }
    }

    /// Returns the path of a folder beside the repository, which is removed with it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Runs git for the setup. It must succeed.
    pub fn git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let ran = self.command(&self.root).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim_end().to_owned()
    }

    /// Runs git for the setup. It may fail, for example with a conflict.
    pub fn try_git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> bool {
        self.command(&self.root).args(arguments).output().unwrap().status.success()
    }

    pub fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new("git");
        let names = std::env::vars_os().map(|(name, _)| name);
        for name in names.filter(|name| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(name);
        }
        command.current_dir(directory).env("HOME", self.folder.path());
        command.env("XDG_CONFIG_HOME", self.folder.path()).env("LC_ALL", "C");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command.env("GIT_EDITOR", "true");
        command
    }

    pub fn open(&self, filters: Filters) -> GitWorkspace {
        let git = GitWorkspace::discover(&self.root, &self.root, filters).unwrap();
        git.recording_in(self.beside("claims"))
    }

    fn tree(&self, treeish: &str) -> BTreeMap<String, String> {
        let names = self.git(["ls-tree", "-r", "-z", "--name-only", treeish]);
        let names = names.split('\0').filter(|name| !name.is_empty());
        names
            .map(|name| {
                let file = format!("{treeish}:{name}");
                let text = self.command(&self.root).args(["show", &file]).output().unwrap().stdout;
                (name.to_owned(), String::from_utf8_lossy(&text).into_owned())
            })
            .collect()
    }
}

impl Default for Repository {
    fn default() -> Self {
        Self::new()
    }
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name() == Some(OsStr::new(".git")) {
            continue;
        }
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            files.insert(name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        }
    }
}

impl Fixture for Repository {
    fn workspace(&self) -> Box<dyn Workspace> {
        Box::new(self.open(Filters::Off))
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn remove(&self, path: &str) {
        let file = self.root.join(path);
        fs::remove_file(&file).unwrap();
        // The model has no folders, so no empty one is left here.
        let above = file.ancestors().skip(1).take_while(|folder| *folder != self.root);
        let _ = above.map(fs::remove_dir).take_while(Result::is_ok).count();
    }

    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        if self.root.is_dir() {
            collect(&self.root, &self.root, &mut files);
        }
        files
    }

    fn stage(&self, path: &str) {
        self.git(["add", "-f", "-A", "--", path]);
    }

    fn unstage(&self, path: &str) {
        self.git(["rm", "--cached", "-q", "-f", "--ignore-unmatch", "--", path]);
    }

    fn commit_as(&self, committer: &str, message: &str) -> CommitId {
        let mut command = self.command(&self.root);
        command.env("GIT_COMMITTER_NAME", committer);
        let made = command.args(["commit", "--quiet", "--allow-empty", "-m", message]).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        CommitId::parse(&self.git(["rev-parse", "HEAD"])).unwrap()
    }

    fn create_branch(&self, name: &str) {
        self.git(["switch", "--quiet", "-c", name]);
    }

    fn detach(&self) {
        self.git(["checkout", "--quiet", "--detach"]);
    }

    fn current_branch(&self) -> Option<String> {
        Some(self.git(["branch", "--show-current"])).filter(|name| !name.is_empty())
    }

    fn tip(&self, branch: &str) -> Option<CommitId> {
        let name = format!("refs/heads/{branch}");
        let found = self.git(["for-each-ref", "--format=%(objectname)", &name]);
        CommitId::parse(&found).ok()
    }

    fn committed(&self, commit: &CommitId) -> BTreeMap<String, String> {
        self.tree(commit.as_str())
    }

    fn stash(&self, subject: &str) {
        let tree = self.git(["write-tree"]);
        let index = self.git(["commit-tree", "-p", "HEAD", "-m", "index", &tree]);
        let commit = self.git(["commit-tree", "-p", "HEAD", "-p", &index, "-m", subject, &tree]);
        self.git(["stash", "store", "-m", subject, &commit]);
    }

    fn staged(&self) -> Vec<String> {
        self.git(["ls-files"]).lines().map(str::to_owned).collect()
    }

    fn landed(&self, task: &str) -> Option<CommitId> {
        let name = format!("refs/harness/landed/{task}");
        let found = self.git(["for-each-ref", "--format=%(objectname)", &name]);
        CommitId::parse(&found).ok()
    }

    fn configure(&self, key: &str, value: &str) {
        self.git(["config", key, value]);
    }

    fn setting(&self, key: &str) -> Option<String> {
        let found = self.command(&self.root).args(["config", "--get", key]).output().unwrap();
        let text = String::from_utf8_lossy(&found.stdout).trim_end().to_owned();
        found.status.success().then_some(text)
    }

    fn exclude(&self, rules: &str) {
        fs::create_dir_all(self.root.join(".git/info")).unwrap();
        fs::write(self.root.join(".git/info/exclude"), rules).unwrap();
    }

    fn assume_unchanged(&self, path: &str) {
        self.git(["update-index", "--assume-unchanged", "--", path]);
    }
}
