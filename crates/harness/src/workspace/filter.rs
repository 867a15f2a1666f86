//! Content filters: programs that a repository's attributes and configuration name (such as LFS).
//!
//! They run only if the user trusts the root. Otherwise they are silenced. A silenced filter would
//! write pointer files into the tree or raw files into commits, so a path that has one is refused
//! before anything is touched.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use super::{
    WorkspaceError,
    git::{Git, failed},
    path::{RepoPath, nul_separated, records},
};

/// Whether the programs behind content filters may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filters {
    /// The root is trusted, and they run.
    Run,
    /// They do not run, and a path that has one is refused.
    Off,
}

/// The programs that configuration files define for the contents of files.
pub(super) struct Drivers {
    /// The names of content filters.
    pub(super) filters: Vec<OsString>,
    /// The keys of merge drivers.
    pub(super) merges: Vec<OsString>,
}

impl Drivers {
    pub(super) fn read(git: &Git) -> Result<Self, WorkspaceError> {
        let keys = keys(git, r"^(filter\..*\.(clean|smudge|process)|merge\..*\.driver)$")?;
        let (filters, merges) = keys.into_iter().partition(|key| key.starts_with(b"filter."));
        Ok(Self {
            filters: driver_names(filters),
            merges: merges.into_iter().map(OsString::from_vec).collect(),
        })
    }
}

/// Returns the drivers that any configuration file defines. They are read again for each operation,
/// because the agent may have added one.
pub(super) fn configured(git: &Git) -> Result<Vec<OsString>, WorkspaceError> {
    Ok(driver_names(keys(git, r"^filter\..*\.(clean|smudge|process)$")?))
}

fn keys(git: &Git, pattern: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
    let call = git.read("config").args(["--null", "--name-only", "--get-regexp"]);
    let ran = call.arg(pattern).run()?;
    match ran.code {
        Some(0) => Ok(records(&ran.stdout).map(<[u8]>::to_vec).collect()),
        Some(1) => Ok(Vec::new()),
        Some(_) | None => Err(failed("config", &ran.stderr)),
    }
}

fn driver_names(keys: Vec<Vec<u8>>) -> Vec<OsString> {
    let mut drivers = BTreeSet::new();
    for name in &keys {
        let inner = name.strip_prefix(b"filter.").unwrap_or(name);
        if let Some(dot) = inner.iter().rposition(|byte| *byte == b'.') {
            drivers.insert(OsString::from_vec(inner[..dot].to_vec()));
        }
    }
    drivers.into_iter().collect()
}

/// Refuses if a silenced driver is responsible for one of `paths`. `source` is the tree whose
/// attributes count; `None` for those of the work tree.
pub(super) fn refuse_silenced<'a>(
    git: &Git,
    source: Option<&str>,
    paths: impl IntoIterator<Item = &'a RepoPath>,
) -> Result<(), WorkspaceError> {
    if git.silenced.is_empty() {
        return Ok(());
    }
    let input = nul_separated(paths);
    if input.is_empty() {
        return Ok(());
    }
    let mut call = git.read("check-attr");
    if let Some(source) = source {
        call = call.arg(format!("--source={source}"));
    }
    let output = call.args(["-z", "--stdin", "filter"]).input(input).output()?;
    let fields: Vec<_> = output.split(|byte| *byte == 0).collect();
    for record in fields.chunks_exact(3) {
        if git.silenced.iter().any(|driver| driver.as_bytes() == record[2]) {
            let (path, driver) = (RepoPath::new(record[0]), RepoPath::new(record[2]));
            return Err(WorkspaceError::Unsafe {
                what: format!(
                    "{} goes through the content filter {}, which runs only in a trusted root",
                    path.shown(),
                    driver.shown()
                ),
                hint: "look at `git config --get-regexp ^filter`, then: harness trust".to_owned(),
            });
        }
    }
    Ok(())
}
