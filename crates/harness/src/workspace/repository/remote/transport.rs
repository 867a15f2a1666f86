//! The calls that reach the server of a remote.
//!
//! They use a git directory of their own, which exists for one call, over the objects of the
//! repository. So the configuration of the user counts, and that of the repository does not: an agent
//! or a stranger may have written it, and it can name programs, servers and proxies.

use std::{collections::BTreeMap, fs, time::Duration};

use harness_core::CommitId;

use super::push::{Pushed, Update};
use crate::workspace::{
    WorkspaceError,
    git::{Call, Git, Ran, failed},
    index::PrivateIndex,
};

/// The time limit for a list of refs.
const LIST_LIMIT: Duration = Duration::from_secs(60);
/// The time limit for objects that are fetched or pushed.
const OBJECTS_LIMIT: Duration = Duration::from_secs(600);

/// A remote: its name in the repository, and the address that the user trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAddress {
    /// The name.
    pub name: String,
    /// The address.
    pub url: String,
}

impl RemoteAddress {
    /// Returns the remote, unless its name or address could be read as something else.
    pub fn new(name: &str, url: &str) -> Result<Self, WorkspaceError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let good = !name.is_empty() && !name.starts_with('-') && name.chars().all(plain);
        if !good || name.contains("..") {
            return Err(WorkspaceError::Unsafe {
                what: format!("{name:?} cannot be the name of a remote"),
                hint: "use the name that `git remote` prints, for example `origin`".to_owned(),
            });
        }
        if url.is_empty() || url.starts_with('-') || url.contains(char::is_control) {
            return Err(WorkspaceError::Unsafe {
                what: format!("the remote {name} has no address that git can use"),
                hint: format!("git remote set-url {name} <address>, then `harness trust`"),
            });
        }
        Ok(Self { name: name.to_owned(), url: url.to_owned() })
    }

    /// Returns the address without a name and a password.
    pub fn shown(&self) -> String {
        match self.credentials() {
            Some(secret) => self.url.replacen(secret, "", 1),
            None => self.url.clone(),
        }
    }

    /// Returns what stands before the host in an address of the form `scheme://user:password@host`.
    fn credentials(&self) -> Option<&str> {
        let (_, rest) = self.url.split_once("://")?;
        let host = rest.split('/').next()?;
        let end = host.rfind('@')?;
        rest.get(..=end)
    }
}

/// The way to the server of a remote.
#[derive(Debug)]
pub(super) struct Transport {
    git: Git,
    pub(super) remote: RemoteAddress,
}

/// The refs of a server, by their full names.
pub(super) type Listed = BTreeMap<String, CommitId>;

impl Transport {
    pub(super) fn new(git: Git, remote: RemoteAddress) -> Self {
        Self { git, remote }
    }

    /// Returns those refs of the server that match one of the patterns.
    pub(super) fn list(&self, patterns: &[String]) -> Result<Listed, WorkspaceError> {
        let own = self.own()?;
        let call = own.call("ls-remote").args(["--quiet", "--refs", &self.remote.url]);
        let ran = self.within(call.args(patterns), LIST_LIMIT)?;
        if ran.code != Some(0) {
            return Err(self.unreachable(&ran.stderr));
        }
        let mut listed = Listed::new();
        for line in String::from_utf8_lossy(&ran.stdout).lines() {
            let parsed = line.split_once('\t');
            let parsed = parsed.and_then(|(id, name)| Some((CommitId::parse(id).ok()?, name)));
            let (commit, name) = parsed.ok_or_else(|| failed("ls-remote", line.as_bytes()))?;
            listed.insert(name.to_owned(), commit);
        }
        Ok(listed)
    }

    /// Fetches refs with everything that they need. Returns their commits now. A ref that is gone by
    /// now is an error.
    pub(super) fn fetch(&self, references: &[String]) -> Result<Listed, WorkspaceError> {
        let mut listed = Listed::new();
        if references.is_empty() {
            return Ok(listed);
        }
        let own = self.own()?;
        let place = |reference: &str| format!("refs/fetched/{}", &reference["refs/".len()..]);
        let call = own.call("fetch").args(["--quiet", "--no-tags", "--no-write-fetch-head"]);
        let call = call.args(["--no-auto-maintenance", "--no-recurse-submodules"]);
        let call = call.arg(&self.remote.url);
        let call = call.args(references.iter().map(|name| format!("+{name}:{}", place(name))));
        let ran = self.within(call, OBJECTS_LIMIT)?;
        if ran.code != Some(0) {
            return Err(self.unreachable(&ran.stderr));
        }
        for reference in references {
            let found = own.call("rev-parse").args(["--verify", &place(reference)]).line()?;
            let commit = CommitId::parse(&found).map_err(|_| failed("fetch", found.as_bytes()))?;
            listed.insert(reference.clone(), commit);
        }
        Ok(listed)
    }

    /// Changes refs of the server, each only if it is as expected, and all of them or none.
    pub(super) fn push(&self, updates: &[Update]) -> Result<Pushed, WorkspaceError> {
        let own = self.own()?;
        let call = own.call("push").args(["--quiet", "--porcelain", "--no-verify"]);
        let call = call.args(["--no-follow-tags", "--no-recurse-submodules"]);
        let call = if updates.len() > 1 { call.arg("--atomic") } else { call };
        let call = call.args(updates.iter().filter_map(Update::lease)).arg(&self.remote.url);
        let ran = self.within(call.args(updates.iter().map(Update::refspec)), OBJECTS_LIMIT)?;
        if ran.code == Some(0) {
            return Ok(Pushed::Done);
        }
        match Pushed::refused(&ran.stdout, &ran.stderr) {
            Some(refused) => Ok(refused),
            None => Err(self.unreachable(&ran.stderr)),
        }
    }

    /// Pushes the large files of a commit by the user's `git lfs`.
    pub(super) fn push_large_files(&self, commit: &CommitId) -> Result<(), WorkspaceError> {
        let own = self.own()?;
        let reference = own.folder.path().join("refs/heads");
        fs::create_dir_all(&reference)?;
        fs::write(reference.join("landing"), format!("{commit}\n"))?;
        let call = own.call("lfs").args(["push", &self.remote.name, "refs/heads/landing"]);
        let ran = self.within(call, OBJECTS_LIMIT)?;
        match ran.code {
            Some(0) => Ok(()),
            Some(_) | None => Err(self.unreachable(&ran.stderr)),
        }
    }

    fn within(&self, call: Call, limit: Duration) -> Result<Ran, WorkspaceError> {
        let ran = call.run_within(limit)?;
        let late = || format!("it took longer than {} s", limit.as_secs());
        ran.ok_or_else(|| self.unreachable(late().as_bytes()))
    }

    fn unreachable(&self, stderr: &[u8]) -> WorkspaceError {
        let detail = match failed("", stderr) {
            WorkspaceError::Git { detail, .. } => detail,
            other => other.to_string(),
        };
        let detail = match self.remote.credentials() {
            Some(secret) => detail.replace(secret, ""),
            None => detail,
        };
        let lines = detail.lines().map(str::trim).filter(|line| !line.is_empty());
        let detail = lines.collect::<Vec<_>>().join(" ");
        WorkspaceError::Unreachable { remote: self.remote.name.clone(), detail }
    }

    /// Creates the git directory of one call.
    fn own(&self) -> Result<OwnDirectory<'_>, WorkspaceError> {
        let folder = PrivateIndex::scratch(&self.git)?;
        let path = folder.path();
        let known = ["refs/heads", "refs/remotes", "refs/harness/remotes"];
        let call = self.git.read("for-each-ref").arg("--format=%(objectname) %(refname)");
        // From these the server knows what need not be sent.
        let refs = call.args(known).output()?;
        let common = self.git.common_dir();
        fs::create_dir(path.join("refs"))?;
        fs::write(path.join("HEAD"), "ref: refs/heads/nothing\n")?;
        fs::write(path.join("packed-refs"), refs)?;
        fs::write(path.join("config"), self.config(&common))?;
        if let Ok(shallow) = fs::read(common.join("shallow")) {
            fs::write(path.join("shallow"), shallow)?;
        }
        Ok(OwnDirectory { folder, git: &self.git })
    }

    fn config(&self, common: &std::path::Path) -> String {
        let format = match self.git.read("rev-parse").arg("--show-object-format").line() {
            Ok(format) if format != "sha1" => {
                format!("\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = {format}\n")
            }
            Ok(_) | Err(_) => "\trepositoryformatversion = 0\n".to_owned(),
        };
        let RemoteAddress { name, url } = &self.remote;
        let large_files = quoted(&common.join("lfs").to_string_lossy());
        format!(
            "[core]\n\tbare = true\n{format}[remote \"{name}\"]\n\turl = {}\n\
             [lfs]\n\tstorage = {large_files}\n",
            quoted(url)
        )
    }
}

/// A git directory for one call. It is removed with the value.
struct OwnDirectory<'a> {
    folder: PrivateIndex,
    git: &'a Git,
}

impl OwnDirectory<'_> {
    fn call(&self, name: &'static str) -> Call {
        let call = Call::over_network(&self.git.top_level, name);
        call.env("GIT_DIR", self.folder.path()).env("GIT_OBJECT_DIRECTORY", self.git.objects())
    }
}

/// Quotes a value of a configuration file.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, shown) in [
            ("https://ann:secret@example.org/a.git", "https://example.org/a.git"),
            ("https://example.org/a@b.git", "https://example.org/a@b.git"),
            ("git@example.org:a.git", "git@example.org:a.git"),
            ("/srv/a.git", "/srv/a.git"),
        ] {
            assert_eq!(RemoteAddress::new("origin", url).unwrap().shown(), shown);
        }
    }

    #[test]
    fn a_name_or_an_address_that_git_would_misread_is_refused() {
        for (name, url) in [
            ("-x", "/srv/a.git"),
            ("", "/srv/a.git"),
            ("a b", "/srv/a.git"),
            ("a\"]", "/srv/a.git"),
            ("../a", "/srv/a.git"),
            ("origin", ""),
            ("origin", "--upload-pack=x"),
            ("origin", "/srv/a\n[core]"),
        ] {
            assert!(RemoteAddress::new(name, url).is_err(), "{name:?} {url:?}");
        }
    }
}
