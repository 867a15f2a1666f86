//! Which state roots this user lets run things.
//!
//! A repository can not silently make a machine run things: its ledger, like its Makefile, came
//! from somebody else. Trust is of a place (its canonical path, device and inode), so a directory
//! that was replaced by another is not trusted, while later edits of the ledger do not end it. It
//! is kept below `$XDG_STATE_HOME`, never in the repository, which could else bring its own.

use std::{
    fs, io,
    io::Write,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use harness::clock::{Clock, SystemClock};
use harness_core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    environment::Environment,
    failure::{Failure, Result},
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
}

impl Grant {
    fn of(root: &StateRoot) -> Result<Self> {
        let path = root.path();
        if path.to_str().is_none() {
            // The record is JSON, and one that only looks like the path would trust too much.
            let path = path.display();
            return Err(Failure::config(format!("{path} is not UTF-8 and can not be trusted")));
        }
        let place = fs::metadata(path).map_err(|why| Failure::file("look at", path, &why))?;
        Ok(Self {
            path: path.to_owned(),
            device: place.dev(),
            inode: place.ino(),
            granted_at: SystemClock.now(),
        })
    }

    fn is_of_the_place(&self, other: &Self) -> bool {
        (&self.path, self.device, self.inode) == (&other.path, other.device, other.inode)
    }

    /// Whether the directory of that time is still the one under that path.
    pub(crate) fn holds(&self) -> bool {
        fs::metadata(&self.path)
            .is_ok_and(|place| (place.dev(), place.ino()) == (self.device, self.inode))
    }
}

/// The grants of this user.
#[derive(Debug)]
pub(crate) struct Trust {
    directory: PathBuf,
}

impl Trust {
    pub(crate) fn of_user(env: &Environment) -> Result<Self> {
        Ok(Self { directory: env.state_home()?.join("harness/trust") })
    }

    pub(crate) fn is_trusted(&self, root: &StateRoot) -> Result<bool> {
        let Some(granted) = read(&self.file(root))? else { return Ok(false) };
        Ok(granted.is_of_the_place(&Grant::of(root)?))
    }

    /// Trusts the root from now on. Repeating it changes nothing but the time.
    pub(crate) fn grant(&self, root: &StateRoot) -> Result<()> {
        let grant = Grant::of(root)?;
        let file = self.file(root);
        let unwritable = |why: io::Error| Failure::file("write", &file, &why);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(unwritable)?;
        // Readable for this user alone, as `tempfile` makes them; a reader never sees half of it.
        let mut made = tempfile::NamedTempFile::new_in(&self.directory).map_err(unwritable)?;
        made.write_all(&serde_json::to_vec(&grant)?).map_err(unwritable)?;
        made.as_file().sync_all().map_err(unwritable)?;
        made.persist(&file).map_err(|failed| unwritable(failed.error))?;
        Ok(())
    }

    /// Trusts a ledger that was just made. It is there by now, so what goes wrong (no home, say) is
    /// told and the command goes on.
    pub(crate) fn grant_made(env: &Environment, root: &StateRoot) {
        if let Err(why) = Self::of_user(env).and_then(|trust| trust.grant(root)) {
            let root = root.path().display();
            warn(&format!("{root} is not trusted to run its commands: {why}"));
        }
    }

    /// Ends trust; that there was none is no error.
    pub(crate) fn revoke(&self, root: &StateRoot) -> Result<()> {
        let file = self.file(root);
        match fs::remove_file(&file) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                Err(Failure::file("remove", &file, &why))
            }
            _ => Ok(()),
        }
    }

    /// All grants, by path.
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

/// A record that can not be read grants nothing, but does not stop the other commands: to trust
/// again replaces it.
fn read(file: &Path) -> Result<Option<Grant>> {
    match fs::read(file) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(Failure::file("read", file, &why)),
    }
}

/// What a command says that would run something in a root that is not trusted.
#[allow(dead_code, reason = "said by the commands that run things")]
pub(crate) fn refusal(root: &StateRoot, would_run: &WouldRun) -> Failure {
    let what = would_run.lines().join("\n  ");
    let root = root.path().display();
    Failure::config(format!("{root} is not trusted; it would run\n  {what}"))
        .hint("if you want this machine to run them: `harness trust`")
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
        trust.grant(&root).unwrap();
        trust.grant(&root).unwrap();
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
    fn a_directory_put_in_its_place_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let (root, trust) = place("repo", home.path());
        trust.grant(&root).unwrap();
        fs::rename(root.path(), home.path().join("moved")).unwrap();
        fs::create_dir(root.path()).unwrap();
        assert!(!trust.is_trusted(&root).unwrap());
        assert!(!trust.list().unwrap()[0].holds());
    }

    #[test]
    fn a_broken_record_grants_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (root, trust) = place("repo", home.path());
        trust.grant(&root).unwrap();
        fs::write(trust.file(&root), "{").unwrap();
        assert!(!trust.is_trusted(&root).unwrap());
    }

    #[test]
    fn a_refusal_says_what_would_run() {
        let home = tempfile::tempdir().unwrap();
        let (root, _) = place("repo", home.path());
        let would_run = WouldRun { validation: vec!["make test".into()], ..WouldRun::default() };
        let failure = refusal(&root, &would_run);
        assert!(failure.error.ends_with("it would run\n  checks:\n    make test"), "{failure}");
    }
}
