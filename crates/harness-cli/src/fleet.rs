//! The remote on which results land: its trusted address, and the repository over it.

use std::{sync::Arc, time::Duration};

use harness::{
    process::Redactor,
    workspace::{
        GitRepository, GitWorkspace, RemoteAddress, RemoteRepository, RemoteSettings, Sharing,
    },
};
use sha2::{Digest as _, Sha256};

use crate::{
    config::Config,
    environment::Environment,
    failure::{Failure, Result},
    paint::warn,
    root::StateRoot,
    trust::Trust,
};

/// The part of a lease for which a landing waits for a server that cannot be reached.
const PATIENCE_PART: u64 = 4;
const PATIENCE_MAX: u64 = 120;

/// What a repository over a remote is made from.
pub(crate) struct FleetTerms<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) root: &'a StateRoot,
    pub(crate) config: &'a Config,
    pub(crate) workspace: &'a GitWorkspace,
    pub(crate) secrets: &'a Redactor,
    pub(crate) lease_seconds: u64,
}

impl FleetTerms<'_> {
    /// Returns the repository whose results land on a remote; `None` if the configuration names none.
    pub(crate) fn repository(&self, local: Arc<GitRepository>) -> Result<Option<RemoteRepository>> {
        let fleet = &self.config.fleet;
        let Some(name) = fleet.remote.as_deref() else { return Ok(None) };
        let address = RemoteAddress::new(name, &self.address(name)?)?;
        let seconds = (self.lease_seconds / PATIENCE_PART).clamp(1, PATIENCE_MAX);
        let settings = RemoteSettings {
            address,
            ledger: self.ledger()?,
            patience: Duration::from_secs(seconds),
            backups: sharing(fleet.backup_minutes > 0),
            rescues: sharing(fleet.share_rescue),
            secrets: self.secrets.clone(),
        };
        Ok(Some(RemoteRepository::new(local, settings)))
    }

    /// Returns a name of the ledger that stays if its file is brought to another clone.
    /// All machines must use the same one.
    fn ledger(&self) -> Result<Option<String>> {
        let created = self.root.snapshot()?.head().created;
        Ok(created.map(|created| {
            let digest = Sha256::digest(created.to_string());
            digest[..4].iter().map(|byte| format!("{byte:02x}")).collect()
        }))
    }

    /// Returns the trusted address of the remote. In a place that is trusted, one that was never
    /// recorded is recorded now.
    fn address(&self, name: &str) -> Result<String> {
        let trust = Trust::of_user(self.env)?;
        let mut found = self.workspace.remotes()?;
        match (trust.remote(self.root, name)?, found.remove(name)) {
            (Some(trusted), now) => {
                if now.is_some_and(|now| now != trusted) {
                    warn(&format!(
                        "the repository has another address for {name} than the one that you \
                         trusted, which is used; `harness trust` takes the new one"
                    ));
                }
                Ok(trusted)
            }
            (None, Some(now)) => {
                let remote = [(name.to_owned(), now.clone())].into();
                trust.grant_remotes(self.root, remote)?;
                Ok(now)
            }
            (None, None) => Err(Failure::config(format!("there is no git remote {name}"))
                .hint(format!("git remote add {name} <address>, or change `[fleet] remote`"))),
        }
    }
}

fn sharing(shared: bool) -> Sharing {
    if shared { Sharing::Shared } else { Sharing::Local }
}
