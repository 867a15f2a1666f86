//! The state roots that may run programs for this user, and the items that they may run.
//!
//! A repository cannot silently make a machine run things: its ledger, like its Makefile, came from
//! another person. A grant is for a place (its canonical path, device and inode) and a set of
//! items, by their digests. Files that git does not track cannot come by a pull: they are trusted
//! with the place. Tracked ones are asked for, item by item, when they are new. Grants are stored
//! below `$XDG_STATE_HOME`, never in the repository, which could otherwise bring its own.
//!
//! A grant of a version before items has none, so the tracked files of its root are asked for once.

mod consent;
mod grant;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use harness::{
    home::{FileStamp, trust_folder},
    workspace::{CommitHooks, Filters, GitWorkspace, glance},
};
use harness_core::{
    role::Role,
    trust::{self, Item, Source},
};
use sha2::{Digest, Sha256};

pub(crate) use self::{
    consent::{
        BROUGHT, ask, offer_what_was_brought, require, require_item, require_silently, show,
    },
    grant::{Grant, TrustedLedger},
};

use crate::{
    environment::Environment,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::warn,
    root::StateRoot,
    would_run::WouldRun,
};

/// The trust of a user in a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    Trusted,
    /// The place is trusted, and git tracks these items that nobody has agreed to.
    Brought(WouldRun),
    /// The place is not trusted.
    Stranger,
}

/// The grants of this user.
#[derive(Debug)]
pub(crate) struct Trust {
    directory: PathBuf,
    /// The record that was read last. A daemon needs it for each completion, and a record has as
    /// many digests as the ledger has commands.
    last: Mutex<Option<(FileStamp, Arc<Grant>)>>,
}

impl Trust {
    pub(crate) fn of_user(env: &Environment) -> Result<Self> {
        let directory = trust_folder(&env.state_home()?);
        Ok(Self { directory, last: Mutex::default() })
    }

    /// Returns whether this item may run: it was agreed to, or git does not track its file and it was
    /// not imported from another tool. The other items of the root are not asked for.
    pub(crate) fn covers(&self, root: &StateRoot, item: &Item) -> Result<bool> {
        let Some(granted) = self.granted(root)? else { return Ok(false) };
        if granted.items.contains(item) {
            return Ok(true);
        }
        let sources = trust::sources(std::slice::from_ref(item));
        Ok(tracked(root, &sources).is_empty() && !WouldRun::imported(root, item))
    }

    /// Returns what may run, and what has to be asked for. Git is used only if something is new.
    pub(crate) fn standing(&self, root: &StateRoot) -> Result<Standing> {
        let Some(granted) = self.granted(root)? else { return Ok(Standing::Stranger) };
        let missing = granted.items.missing(WouldRun::to_compare(root).items);
        let sources = trust::sources(&missing);
        if sources.is_empty() {
            return Ok(Standing::Trusted);
        }
        let items = trust::to_ask_for(missing, &tracked(root, &sources));
        Ok(if items.is_empty() { Standing::Trusted } else { Standing::Brought(WouldRun { items }) })
    }

    pub(crate) fn is_trusted(&self, root: &StateRoot) -> Result<bool> {
        Ok(self.standing(root)? == Standing::Trusted)
    }

    /// Returns whether the place is trusted, whatever it contains. That alone lets nothing run.
    pub(crate) fn is_place_trusted(&self, root: &StateRoot) -> Result<bool> {
        Ok(self.granted(root)?.is_some())
    }

    /// Returns the record, if it is about the present directory.
    fn granted(&self, root: &StateRoot) -> Result<Option<Arc<Grant>>> {
        let Some(granted) = self.read(&self.file(root))? else { return Ok(None) };
        Ok(granted.is_of_the_place(&Grant::of(root)?).then_some(granted))
    }

    fn read(&self, file: &Path) -> Result<Option<Arc<Grant>>> {
        // A record is replaced and never edited, so its identity distinguishes one from the next.
        let found = fs::symlink_metadata(file).ok().map(|found| FileStamp::of(&found));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(found), Some((of, grant))) = (found, &*last)
            && found == *of
        {
            return Ok(Some(Arc::clone(grant)));
        }
        let grant = Grant::read(file)?.map(Arc::new);
        *last = found.zip(grant.clone());
        Ok(grant)
    }

    /// Trusts the place and these items from now on, besides those that were trusted before.
    pub(crate) fn grant(&self, root: &StateRoot, items: &[Item]) -> Result<()> {
        let grant = Grant::of(root)?;
        let file = self.file(root);
        let unwritable = |why: io::Error| Failure::file("write", &file, &why);
        let _turn = self.turn().map_err(unwritable)?;
        let mut grant = match self.granted(root)? {
            Some(old) => Grant { granted_at: grant.granted_at, ..Grant::clone(&old) },
            None => grant,
        };
        grant.items.add(items);
        self.write(&file, &grant).map_err(unwritable)
    }

    /// Trusts these git hooks from now on, and no others. The place is trusted already.
    pub(crate) fn grant_hooks(&self, root: &StateRoot, hooks: &CommitHooks) -> Result<()> {
        self.update(root, |grant| {
            let digest = Some(hooks.digest.clone());
            std::mem::replace(&mut grant.hooks, digest.clone()) != digest
        })
    }

    /// Returns the digest of the trusted git hooks.
    pub(crate) fn hooks(&self, root: &StateRoot) -> Result<Option<String>> {
        Ok(self.granted(root)?.and_then(|grant| grant.hooks.clone()))
    }

    /// Trusts the addresses of these remotes from now on. Others that were trusted before stay.
    pub(crate) fn grant_remotes(
        &self,
        root: &StateRoot,
        remotes: BTreeMap<String, String>,
    ) -> Result<()> {
        self.update(root, |grant| {
            let before = grant.remotes.clone();
            grant.remotes.extend(remotes);
            grant.remotes != before
        })
    }

    /// Returns the trusted address of a remote.
    pub(crate) fn remote(&self, root: &StateRoot, name: &str) -> Result<Option<String>> {
        Ok(self.granted(root)?.and_then(|grant| grant.remotes.get(name).cloned()))
    }

    /// Trusts this ledger in a database from now on, and no other. The place is trusted already.
    pub(crate) fn grant_ledger(&self, root: &StateRoot, ledger: TrustedLedger) -> Result<()> {
        self.update(root, |grant| {
            let ledger = Some(ledger);
            std::mem::replace(&mut grant.ledger, ledger.clone()) != ledger
        })
    }

    /// Returns the trusted ledger in a database, if it is this one.
    pub(crate) fn ledger(&self, root: &StateRoot, identity: &str) -> Result<Option<TrustedLedger>> {
        let trusted = self.granted(root)?.and_then(|grant| grant.ledger.clone());
        Ok(trusted.filter(|trusted| trusted.identity == identity))
    }

    /// Adds items that the user has just made to a place that is trusted already.
    fn add(&self, root: &StateRoot, items: &[Item]) -> Result<()> {
        if items.is_empty() || self.granted(root)?.is_none() {
            return Ok(());
        }
        self.update(root, |grant| grant.items.add(items))
    }

    /// Changes the record of a place that is trusted. `change` returns whether it changed anything.
    fn update(&self, root: &StateRoot, change: impl FnOnce(&mut Grant) -> bool) -> Result<()> {
        let file = self.file(root);
        let unwritable = |why: io::Error| Failure::file("write", &file, &why);
        let _turn = self.turn().map_err(unwritable)?;
        let Some(grant) = self.granted(root)? else { return Ok(()) };
        let mut grant = Grant::clone(&grant);
        if change(&mut grant) {
            self.write(&file, &grant).map_err(unwritable)?;
        }
        Ok(())
    }

    /// Takes the lock, so that two commands that add to one record do not undo each other.
    fn turn(&self) -> io::Result<fs::File> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let lock = self.directory.join("lock");
        let lock = fs::OpenOptions::new().create(true).append(true).open(lock)?;
        lock.lock()?;
        Ok(lock)
    }

    fn write(&self, file: &Path, grant: &Grant) -> io::Result<()> {
        // `tempfile` makes it readable for this user alone, and a reader never sees half of it.
        // Nothing waits for the disk, because a grant that a power cut loses is asked for again.
        let mut made = tempfile::NamedTempFile::new_in(&self.directory)?;
        made.write_all(&serde_json::to_vec(grant)?)?;
        made.persist(file).map_err(|failed| failed.error)?;
        Ok(())
    }

    /// Trusts a ledger that was just created, with the items that its creator put in, but not what
    /// the repository brought beside it. The ledger exists by now, so an error (no home, for
    /// example) is printed and the command goes on.
    pub(crate) fn grant_made(env: &Environment, root: &StateRoot, made: &WouldRun) {
        if let Err(why) = Self::of_user(env).and_then(|trust| trust.grant(root, &made.items)) {
            let root = root.path().display();
            warn(&format!("{root} is not trusted to run its commands: {why}"));
            return;
        }
        // Hooks and remotes in the git directory are the user's own, because no pull brings them.
        let found = GitWorkspace::discover(root.path(), root.path(), Filters::Off).ok();
        let remotes = found.as_ref().and_then(|git| git.remotes().ok()).unwrap_or_default();
        let trust = Self::of_user(env);
        if let Err(why) = trust.and_then(|trust| trust.grant_remotes(root, remotes)) {
            warn(&format!("the git remotes are not trusted yet: {why}"));
        }
        let hooks = found.and_then(|git| git.commit_hooks().ok().flatten());
        if let Some(hooks) = hooks.filter(|hooks| !hooks.in_work_tree)
            && let Err(why) = Self::of_user(env).and_then(|trust| trust.grant_hooks(root, &hooks))
        {
            warn(&format!("the git hooks are not trusted yet: {why}"));
        }
    }

    /// Trusts the items that the user's own command has just put into the ledger. The task exists
    /// by now, so an error here only means that `harness trust` is needed later.
    pub(crate) fn grant_own(invocation: &Invocation, root: &StateRoot, made: &WouldRun) {
        if invocation.peer(root).role != Role::Operator {
            return;
        }
        let trust = Self::of_user(&invocation.env);
        if let Err(why) = trust.and_then(|trust| trust.add(root, &made.items)) {
            warn(&format!("what you added is not trusted yet: {why}"));
        }
    }

    /// Ends trust. It is no error if there was none.
    pub(crate) fn revoke(&self, root: &StateRoot) -> Result<()> {
        let file = self.file(root);
        match fs::remove_file(&file) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                Err(Failure::file("remove", &file, &why))
            }
            _ => Ok(()),
        }
    }

    /// Returns all grants, by path.
    pub(crate) fn list(&self) -> Result<Vec<Grant>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(Failure::file("read", &self.directory, &why)),
        };
        let mut grants = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                grants.extend(Grant::read(&path)?);
            }
        }
        grants.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(grants)
    }

    fn file(&self, root: &StateRoot) -> PathBuf {
        let digest = Sha256::digest(root.path().as_os_str().as_bytes());
        let name: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(name + ".json")
    }
}

/// Returns those of `sources` that git tracks; all of them if git fails.
fn tracked(root: &StateRoot, sources: &BTreeSet<Source>) -> BTreeSet<Source> {
    let paths: Vec<_> = sources.iter().filter_map(|source| source.path()).collect();
    match glance::tracked(root.path(), &paths) {
        None => sources.clone(),
        Some(found) => {
            let is_tracked = |source: &&Source| source.path().is_some_and(|p| found.contains(p));
            sources.iter().filter(is_tracked).copied().collect()
        }
    }
}

#[cfg(test)]
mod tests;
