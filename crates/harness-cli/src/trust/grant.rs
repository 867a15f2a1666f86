//! The record of one trusted place.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use harness::{
    clock::{Clock as _, SystemClock},
    home::Inode,
    store::postgres::Durability,
};
use harness_core::{Timestamp, trust::Granted};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Failure, Result},
    root::StateRoot,
};

/// The record of one trusted place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) granted_at: Timestamp,
    #[serde(default)]
    pub(super) items: Granted,
    /// The digest of the trusted git hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hooks: Option<String>,
    /// The addresses of the trusted git remotes, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) remotes: BTreeMap<String, String>,
    /// The trusted ledger in a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ledger: Option<TrustedLedger>,
}

/// A ledger in a database that this user trusts as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrustedLedger {
    /// The server, the database and the name of the ledger.
    pub(crate) identity: String,
    /// Whether the user accepted a server that may lose confirmed changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unsafe_durability: bool,
}

impl TrustedLedger {
    pub(crate) fn durability(&self) -> Durability {
        if self.unsafe_durability { Durability::Unsafe } else { Durability::Required }
    }
}

impl Grant {
    pub(super) fn of(root: &StateRoot) -> Result<Self> {
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
            remotes: BTreeMap::new(),
            ledger: None,
        })
    }

    pub(super) fn is_of_the_place(&self, other: &Self) -> bool {
        (&self.path, self.inode()) == (&other.path, other.inode())
    }

    fn inode(&self) -> Inode {
        Inode { device: self.device, number: self.inode }
    }

    /// Returns whether the path still leads to the directory of that time.
    pub(crate) fn holds(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|place| Inode::of(&place) == self.inode())
    }

    /// Reads a record. An unreadable one grants nothing, but does not stop the other commands, because
    /// trusting again replaces it.
    pub(super) fn read(file: &Path) -> Result<Option<Self>> {
        match fs::read(file) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(Failure::file("read", file, &why)),
        }
    }
}
