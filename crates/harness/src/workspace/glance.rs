//! A glance at the repository, for those who only note where it stands: one git process each, and
//! no answer where there is no repository.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use harness_core::CommitId;

use super::git::{Access, Call};

/// HEAD of the repository that `directory` lies in.
pub fn head(directory: &Path) -> Option<CommitId> {
    let said = rev_parse(directory, &["--verify", "--quiet", "HEAD^{commit}"])?;
    CommitId::parse(std::str::from_utf8(&said).ok()?).ok()
}

/// The top of the work tree that `directory` lies in.
pub fn top_level(directory: &Path) -> Option<PathBuf> {
    rev_parse(directory, &["--show-toplevel"]).map(|said| OsString::from_vec(said).into())
}

fn rev_parse(directory: &Path, words: &[&str]) -> Option<Vec<u8>> {
    let call = Call::anywhere(directory, Access::Read, "rev-parse");
    let call = words.iter().fold(call, |call, word| call.arg(*word));
    let ran = call.run().ok().filter(|ran| ran.code == Some(0))?;
    let mut said = ran.stdout;
    if said.last() == Some(&b'\n') {
        said.pop();
    }
    Some(said)
}
