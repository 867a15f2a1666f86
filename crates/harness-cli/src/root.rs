//! The state root: the directory that contains the ledger and all other files of harness.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use harness::{
    home::{Home, Outside, folder::Folder},
    project::Backing,
    store::{
        disk::{Disk as _, RealDisk},
        postgres::DatabaseAccess,
    },
    workspace::glance,
};

use crate::{
    config::names_database,
    environment::Environment,
    failure::{Failure, Result},
};

pub(crate) const LEDGER: &str = Home::LEDGER;
pub(crate) const PIN: &str = "HARNESS_STATE_ROOT";

/// The number of parents of an agent's directory that a hook searches for a ledger.
const HOOK_PARENTS: usize = 8;

/// Returns how the database of a root is reached, or why it may not be.
pub(crate) type ReachDatabase = fn(&Environment, &Path) -> Result<DatabaseAccess, String>;

static REACH: OnceLock<ReachDatabase> = OnceLock::new();

/// Sets how databases are reached, which needs to know what the user trusts, and so the roots.
pub(crate) fn reach_databases_by(reach: ReachDatabase) {
    // The first one stays.
    _ = REACH.set(reach);
}

/// Returns where the ledger of a root is kept. Nothing is connected before it is used.
fn backing(env: &Environment, root: &Path) -> Backing {
    if !names_database(root) {
        return Backing::files();
    }
    let (env, root) = (env.clone(), root.to_owned());
    Backing::database(move || match REACH.get() {
        Some(reach) => reach(&env, &root),
        None => Err("this process cannot reach a database".to_owned()),
    })
}

/// A canonical path, and where its ledger is kept. It is found once per command and passed on, so that
/// nothing else searches, and so that all parts of a command share one connection.
#[derive(Debug, Clone)]
pub(crate) struct StateRoot {
    path: PathBuf,
    backing: Backing,
}

impl StateRoot {
    fn of(env: &Environment, path: PathBuf) -> Self {
        let backing = backing(env, &path);
        Self { path, backing }
    }

    /// Returns the root at a canonical path, with the files in it.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), backing: Backing::files() }
    }

    /// Returns the root of a ledger that exists, or that left traces. That is the pin in
    /// HARNESS_STATE_ROOT, or else the nearest directory with one from HARNESS_WORKTREE or `start`
    /// upward.
    pub(crate) fn discover(env: &Environment, start: &Path) -> Result<Self> {
        if let Some(pinned) = env.path(PIN) {
            let root = pinned_root(pinned)?;
            // A wrong pin must never select another ledger, so nothing else is searched.
            return if is_root(env, &root) {
                Ok(Self::of(env, root))
            } else {
                Err(empty_pin(pinned))
            };
        }
        let start = canonical(start)?;
        let worktree = named_worktree(env);
        let mut from = worktree.iter().chain([&start]);
        let found = from.find_map(|start| above(start, usize::MAX, |d| is_root(env, d)));
        found.map(|root| Self::of(env, root)).ok_or_else(|| {
            Failure::error(format!("no {LEDGER} in {} or above", start.display()))
                .hint("create one with `harness init`")
        })
    }

    /// Returns the name of the project for people: that of its directory.
    pub(crate) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or("harness")
    }

    /// Returns the place where `init` creates a ledger: the pin, else the top level of the git work
    /// tree around HARNESS_WORKTREE or `start`, else that directory.
    pub(crate) fn for_init(env: &Environment, start: &Path) -> Result<Self> {
        if let Some(pinned) = env.path(PIN) {
            return Ok(Self::of(env, pinned_root(pinned)?));
        }
        let start = named_worktree(env).map_or_else(|| canonical(start), Ok)?;
        let top = start.ancestors().find(|directory| glance::is_work_tree(directory));
        Ok(Self::of(env, top.unwrap_or(&start).to_owned()))
    }

    /// Returns the root that a daemon serves, with or without a ledger: the one in its arguments,
    /// else the one that it finds from its work tree.
    pub(crate) fn to_serve(
        env: &Environment,
        told: Option<&Path>,
        worktree: &Path,
    ) -> Result<Self> {
        if let Some(told) = told {
            return Ok(Self::of(env, canonical(told)?));
        }
        match env.path(PIN) {
            Some(pinned) => Ok(Self::of(env, pinned_root(pinned)?)),
            None => Self::discover(env, worktree).or_else(|_| Self::for_init(env, worktree)),
        }
    }

    /// Returns the root that a hook is about: the pin, the project of the agent, or the agent's
    /// directory. The last two may be below the root, but not far. A pin without a ledger is no
    /// error here, because an agent's hooks are called in every project.
    pub(crate) fn for_hook(env: &Environment, cwd: Option<&Path>, start: &Path) -> Option<Self> {
        let pinned = env.path(PIN).and_then(|pinned| pinned.canonicalize().ok());
        if let Some(root) = pinned.filter(|root| holds_ledger(root)) {
            return Some(Self::of(env, root));
        }
        let bases = [env.path("CLAUDE_PROJECT_DIR"), Some(cwd.unwrap_or(start))];
        bases
            .into_iter()
            .flatten()
            .filter_map(|base| base.canonicalize().ok())
            .find_map(|base| above(&base, 1 + HOOK_PARENTS, holds_ledger))
            .map(|root| Self::of(env, root))
    }

    /// Returns the root for matters of a session, which needs no ledger: without a ledger it is the
    /// place where `init` would create one. An agent may change its directory, so the project that
    /// it was started in comes first.
    pub(crate) fn for_session(env: &Environment, cwd: Option<&Path>, start: &Path) -> Option<Self> {
        Self::for_hook(env, cwd, start).or_else(|| {
            let start = env.path("CLAUDE_PROJECT_DIR").or(cwd).unwrap_or(start);
            Self::for_init(env, start).ok()
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns where its ledger is kept.
    pub(crate) fn backing(&self) -> &Backing {
        &self.backing
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        Home::of(&self.path).ledger()
    }

    /// Returns the paths of its files.
    pub(crate) fn home(&self) -> Home<'_> {
        Home::of(&self.path)
    }

    /// Returns a directory below `.harness`, and creates it if it is missing. `.harness` contains
    /// its own `.gitignore`, so that nothing in it makes a work tree dirty.
    pub(crate) fn own_directory(&self, name: &str) -> Result<PathBuf> {
        RealDisk::open(&self.path)?.ensure_home()?;
        let directory = Home::of(&self.path).folder().join(name);
        Folder::ours(&directory)?;
        Ok(directory)
    }
}

/// Returns the nearest of `count` directories from `start` upward that is a root. A ledger that is
/// checked out in the tree of a worker marks none. The root is above that tree, or in the main tree.
fn above(start: &Path, count: usize, is: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let tree = glance::worker_tree(start);
    let outside = |directory: &&Path| tree.is_none_or(|tree| !directory.starts_with(tree));
    let main = tree.and_then(|_| glance::in_main_tree(start));
    let of_main = main.iter().flat_map(|main| main.ancestors());
    let mut all = start.ancestors().filter(outside).take(count).chain(of_main);
    all.find(|directory| is(directory)).map(Path::to_owned)
}

/// Returns the work tree of a worker, if it exists.
fn named_worktree(env: &Environment) -> Option<PathBuf> {
    env.path("HARNESS_WORKTREE")?.canonicalize().ok()
}

fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|why| {
        Failure::config(format!("the state root {} cannot be used: {why}", path.display()))
    })
}

fn pinned_root(pinned: &Path) -> Result<PathBuf> {
    canonical(pinned).map_err(|failure| Failure {
        error: format!("{PIN}: {}", failure.error),
        ..failure.hint("name a directory that exists, or unset the variable")
    })
}

/// Returns whether there is a ledger, or a harness.toml that says in which database it is. A link or
/// another kind of file still marks the root: a search further up would find another ledger, and
/// opening this one reports the problem.
fn holds_ledger(directory: &Path) -> bool {
    fs::symlink_metadata(Home::of(directory).ledger()).is_ok() || names_database(directory)
}

/// Returns whether there is a ledger, or a trace of a lost one: its backup or its journal. A search
/// further up would find another ledger.
fn is_root(env: &Environment, directory: &Path) -> bool {
    holds_ledger(directory)
        || fs::symlink_metadata(Home::of(directory).backup()).is_ok()
        || Outside::of_journal(directory, env.state_home().ok().as_deref())
            .is_some_and(|folder| folder.has_journal())
}

fn empty_pin(pinned: &Path) -> Failure {
    Failure::config(format!("{PIN} is {}, but there is no {LEDGER} there", pinned.display()))
        .hint("create one with `harness init`, or unset the variable")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    #[test]
    fn the_nearest_ledger_upward_marks_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let deep = top.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        let nowhere = Environment::default();
        assert_eq!(StateRoot::discover(&nowhere, &deep).unwrap_err().kind, Kind::Error);
        fs::write(top.join(LEDGER), "{}").unwrap();
        assert_eq!(StateRoot::discover(&nowhere, &deep).unwrap().path(), top);
        fs::write(top.join("a").join(LEDGER), "{}").unwrap();
        assert_eq!(StateRoot::discover(&nowhere, &deep).unwrap().path(), top.join("a"));
    }

    #[test]
    fn a_wrong_pin_never_works_on_another_ledger() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(LEDGER), "{}").unwrap();
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let env = Environment::of(&[(PIN, empty.to_str().unwrap())]);
        assert_eq!(StateRoot::discover(&env, dir.path()).unwrap_err().kind, Kind::Config);
        assert_eq!(
            StateRoot::for_init(&env, dir.path()).unwrap().path(),
            empty.canonicalize().unwrap()
        );
    }

    #[test]
    fn init_takes_the_top_of_the_work_tree() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        let init = || StateRoot::for_init(&Environment::default(), &top.join("a/b")).unwrap();
        assert_eq!(init().path(), top.join("a/b"));
        // Some sandboxes leave an empty one, for example in /tmp.
        fs::create_dir(top.join(".git")).unwrap();
        assert_eq!(init().path(), top.join("a/b"));
        fs::write(top.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
        assert_eq!(init().path(), top);
        fs::write(top.join("a/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(init().path(), top.join("a"));
    }

    #[test]
    fn a_link_in_place_of_our_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/tmp", dir.path().join(".harness")).unwrap();
        let root = StateRoot::at(dir.path());
        let failure = root.own_directory("workers").unwrap_err();
        assert!(failure.error.contains(".harness is a symbolic link"), "{failure}");
    }
}
