//! The state roots that may run programs for this user, and the items that they may run.
//!
//! A repository cannot silently make a machine run things: its ledger, like its Makefile, came from
//! another person. A grant is for a place (its canonical path, device and inode) and a set of
//! items, by their digests. Files that git does not track cannot come by a pull: they are trusted
//! with the place. Tracked ones are asked for, item by item, when they are new. Grants are stored
//! below `$XDG_STATE_HOME`, never in the repository, which could otherwise bring its own.
//!
//! A grant of a version before items has none, so the tracked files of its root are asked for once.

use std::{
    collections::BTreeSet,
    fs, io,
    io::Write,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use harness::{
    clock::{Clock, SystemClock},
    home::{FileStamp, Inode, trust_folder},
    workspace::{CommitHooks, Filters, GitWorkspace, glance},
};
use harness_core::{
    Timestamp,
    role::Role,
    trust::{self, Granted, Item, Source},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    environment::Environment,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::visible,
    prompt::{Answer, Audience, confirm},
    root::StateRoot,
    store::warn,
    would_run::WouldRun,
};

/// The record of one trusted place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) granted_at: Timestamp,
    #[serde(default)]
    items: Granted,
    /// The digest of the trusted git hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hooks: Option<String>,
}

impl Grant {
    fn of(root: &StateRoot) -> Result<Self> {
        let path = root.path();
        if path.to_str().is_none() {
            // The record is JSON. A path that only looks the same would trust too much.
            let path = path.display();
            return Err(Failure::config(format!("{path} is not UTF-8 and cannot be trusted")));
        }
        let place = fs::metadata(path).map_err(|why| Failure::file("look at", path, &why))?;
        Ok(Self {
            path: path.to_owned(),
            device: place.dev(),
            inode: place.ino(),
            granted_at: SystemClock.now(),
            items: Granted::default(),
            hooks: None,
        })
    }

    fn is_of_the_place(&self, other: &Self) -> bool {
        (&self.path, self.inode()) == (&other.path, other.inode())
    }

    fn inode(&self) -> Inode {
        Inode { device: self.device, number: self.inode }
    }

    /// Returns whether the path still leads to the directory of that time.
    pub(crate) fn holds(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|place| Inode::of(&place) == self.inode())
    }
}

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

    /// Returns whether this item may run: it was agreed to, or git does not track its file. The
    /// other items of the root are neither read nor asked for.
    pub(crate) fn covers(&self, root: &StateRoot, item: &Item) -> Result<bool> {
        let Some(granted) = self.granted(root)? else { return Ok(false) };
        if granted.items.contains(item) {
            return Ok(true);
        }
        let sources = trust::sources(std::slice::from_ref(item));
        Ok(tracked(root, &sources).is_empty())
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
        let grant = read(file)?.map(Arc::new);
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
            Some(old) => Grant { items: old.items.clone(), hooks: old.hooks.clone(), ..grant },
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
        // Hooks in the git directory are the user's own, because no pull brings them.
        let found = GitWorkspace::discover(root.path(), root.path(), Filters::Off);
        let hooks = found.ok().and_then(|git| git.commit_hooks().ok().flatten());
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
                grants.extend(read(&path)?);
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

/// Reads a record. An unreadable one grants nothing, but does not stop the other commands, because
/// trusting again replaces it.
fn read(file: &Path) -> Result<Option<Grant>> {
    match fs::read(file) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(Failure::file("read", file, &why)),
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

/// Refuses, or asks the person at the terminal, if something would run that was not agreed to.
pub(crate) fn require(invocation: &Invocation, root: &StateRoot) -> Result<()> {
    let trust = Trust::of_user(&invocation.env)?;
    let would_run = match trust.standing(root)? {
        Standing::Trusted => return Ok(()),
        Standing::Stranger => return Err(refusal(root, &WouldRun::in_root(root)?)),
        Standing::Brought(would_run) => would_run,
    };
    let is_asked = invocation.peer(root).role == Role::Operator
        && Audience::of_this_process() == Audience::Person;
    if !is_asked {
        return Err(news(root, &would_run));
    }
    match ask(
        &format!("{} brings commands that you have not reviewed yet", root.path().display()),
        &would_run,
    )? {
        Answer::Yes => trust.grant(root, &would_run.items),
        Answer::No => Err(Failure::config("not trusted; nothing was done")),
    }
}

/// Does the same for the one item that is about to run.
pub(crate) fn require_item(invocation: &Invocation, root: &StateRoot, item: &Item) -> Result<()> {
    if Trust::of_user(&invocation.env)?.covers(root, item)? {
        return Ok(());
    }
    require(invocation, root)
}

/// Does the same for a process without a person at its terminal.
pub(crate) fn require_silently(trust: &Trust, root: &StateRoot, item: &Item) -> Result<()> {
    if trust.covers(root, item)? {
        return Ok(());
    }
    match trust.standing(root)? {
        Standing::Trusted => Ok(()),
        Standing::Stranger => Err(refusal(root, &WouldRun::in_root(root)?)),
        Standing::Brought(would_run) => Err(news(root, &would_run)),
    }
}

/// Shows what the repository brought beside a new ledger, and asks for it if there is a person to
/// ask. The command has done its work, so a no, or a missing home, is no failure.
pub(crate) fn offer_what_was_brought(
    invocation: &Invocation,
    root: &StateRoot,
    audience: Audience,
) -> Result<()> {
    let Ok(trust) = Trust::of_user(&invocation.env) else { return Ok(()) };
    let Ok(Standing::Brought(would_run)) = trust.standing(root) else { return Ok(()) };
    let introduction = "The repository also brings commands that would run here";
    match audience {
        Audience::Person if invocation.peer(root).role == Role::Operator => {
            match ask(introduction, &would_run)? {
                Answer::Yes => trust.grant(root, &would_run.items)?,
                Answer::No => warn("it is not trusted, so `harness run` will ask again"),
            }
        }
        Audience::Person | Audience::Nobody => {
            show(introduction, &would_run)?;
            warn("it is not trusted yet: review it, then run `harness trust`");
        }
    }
    Ok(())
}

/// Asks the question. It goes to standard error together with the items.
pub(crate) fn ask(introduction: &str, would_run: &WouldRun) -> Result<Answer> {
    show(introduction, would_run)?;
    confirm("Let this machine run them?")
}

pub(crate) fn show(introduction: &str, would_run: &WouldRun) -> Result<()> {
    let lines = would_run.lines().join("\n  ");
    writeln!(io::stderr(), "{}\n  {}", visible(introduction), visible(&lines))?;
    Ok(())
}

/// Returns the failure of a command that would run something in an untrusted root.
pub(crate) fn refusal(root: &StateRoot, would_run: &WouldRun) -> Failure {
    let what = would_run.lines().join("\n  ");
    let root = root.path().display();
    Failure::config(format!("{root} is not trusted; it would run\n  {what}"))
        .hint("to let this machine run them: `harness trust`")
}

/// Returns the failure if the place is trusted but got new items since then.
fn news(root: &StateRoot, would_run: &WouldRun) -> Failure {
    let what = would_run.lines().join("\n  ");
    let root = root.path().display();
    Failure::config(format!("{root} brings commands that you have not trusted yet\n  {what}"))
        .hint("to let this machine run them: `harness trust`")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place(name: &str, home: &Path) -> (StateRoot, Trust) {
        let path = home.join(name);
        fs::create_dir_all(&path).unwrap();
        let root = StateRoot::for_init(&Environment::default(), &path).unwrap();
        let env = Environment::of(&[("HOME", home.to_str().unwrap())]);
        (root, Trust::of_user(&env).unwrap())
    }

    #[test]
    fn trust_is_granted_kept_private_and_revoked() {
        let home = tempfile::tempdir().unwrap();
        let (root, trust) = place("repo", home.path());
        assert!(!trust.is_trusted(&root).unwrap());
        trust.grant(&root, &[]).unwrap();
        trust.grant(&root, &[]).unwrap();
        assert!(trust.is_trusted(&root).unwrap());
        assert_eq!(trust.list().unwrap().len(), 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&trust.directory), 0o700);
        assert_eq!(mode(&trust.file(&root)), 0o600);
        trust.revoke(&root).unwrap();
        trust.revoke(&root).unwrap();
        assert!(!trust.is_trusted(&root).unwrap());
    }

    #[test]
    fn what_was_granted_before_items_were_known_is_of_the_place() {
        let home = tempfile::tempdir().unwrap();
        let (root, trust) = place("repo", home.path());
        trust.grant(&root, &[]).unwrap();
        let file = trust.file(&root);
        let mut old: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert!(old.as_object_mut().unwrap().remove("items").is_some());
        fs::write(&file, old.to_string()).unwrap();
        fs::write(root.path().join("harness.toml"), "notify = 'true'\n").unwrap();
        assert!(trust.is_trusted(&root).unwrap(), "git tracks nothing here");
    }

    #[test]
    fn a_directory_put_in_its_place_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let (root, trust) = place("repo", home.path());
        trust.grant(&root, &[]).unwrap();
        fs::rename(root.path(), home.path().join("moved")).unwrap();
        fs::create_dir(root.path()).unwrap();
        assert!(!trust.is_trusted(&root).unwrap());
        assert!(!trust.list().unwrap()[0].holds());
    }

    #[test]
    fn a_broken_record_grants_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (root, trust) = place("repo", home.path());
        trust.grant(&root, &[]).unwrap();
        fs::write(trust.file(&root), "{").unwrap();
        assert!(!trust.is_trusted(&root).unwrap());
    }

    #[test]
    fn a_refusal_says_what_would_run() {
        let home = tempfile::tempdir().unwrap();
        let (root, _) = place("repo", home.path());
        let task = harness_core::TaskId::numbered(1);
        let would_run = WouldRun::of_edit(&harness_core::command::Edit {
            validation_command: Some("make test".into()),
            ..harness_core::command::Edit::nothing(task)
        });
        let failure = refusal(&root, &would_run);
        assert!(failure.error.ends_with("it would run\n  checks:\n    make test"), "{failure}");
    }
}
