//! What becomes of a file: all changes are known before the first is made.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use similar::TextDiff;

use crate::failure::{Failure, Result};

/// The content of a file, `None` where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: PathBuf,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Change {
    /// What is done to the file; `None`: nothing.
    pub(super) fn action(&self) -> Option<&'static str> {
        match (&self.before, &self.after) {
            (before, after) if before == after => None,
            (None, _) => Some("made"),
            (_, None) => Some("removed"),
            _ => Some("changed"),
        }
    }

    /// As `git apply` and people read it. `name` is what the file is called there.
    pub(super) fn diff(&self, name: &Path) -> String {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        let diff = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
        let side = |letter, text: Option<&str>| match text {
            Some(_) => format!("{letter}/{}", name.display()),
            None => "/dev/null".to_owned(),
        };
        diff.unified_diff().header(&side('a', before), &side('b', after)).to_string()
    }

    /// Puts the new content in place at once, or nothing of it. Directories above are made, and
    /// those that are left empty below `base` removed.
    pub(super) fn apply(&self, base: &Path) -> Result<()> {
        if self.action().is_none() {
            return Ok(());
        }
        let unwritable = |why: io::Error| Failure::file("write", &self.path, &why);
        if read(&self.path)? != self.before {
            return Err(Failure::error(format!("{} changed meanwhile", self.path.display()))
                .hint("run it again"));
        }
        match &self.after {
            Some(text) => self.put(text).map_err(unwritable),
            None => {
                fs::remove_file(&self.path)
                    .map_err(|why| Failure::file("remove", &self.path, &why))?;
                let above = self.path.ancestors().skip(1);
                let within = above.take_while(|path| *path != base && path.starts_with(base));
                // The first one that is not empty ends it.
                within.map(fs::remove_dir).take_while(io::Result::is_ok).for_each(drop);
                Ok(())
            }
        }
    }

    /// A file that is a link is written where it leads, and keeps its mode.
    fn put(&self, text: &str) -> io::Result<()> {
        let is_there = self.before.is_some();
        let target = if is_there { self.path.canonicalize()? } else { self.path.clone() };
        let directory = target.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        let mut made = tempfile::Builder::new().prefix(".harness-").tempfile_in(directory)?;
        made.write_all(text.as_bytes())?;
        let mode = match is_there {
            true => fs::metadata(&target)?.permissions(),
            false => std::os::unix::fs::PermissionsExt::from_mode(0o644),
        };
        made.as_file().set_permissions(mode)?;
        made.as_file().sync_all()?;
        made.persist(&target).map_err(|failed| failed.error)?;
        Ok(())
    }
}

/// The text of a file, `None` where there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Failure::config(format!("{} is not UTF-8", path.display()))
                .hint("nothing was changed; mend the file first")),
        },
        Err(why) if why.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(path) {
            Err(_) => Ok(None),
            Ok(_) => Err(Failure::config(format!("{} is a link to nothing", path.display()))
                .hint("nothing was changed; remove the link, or make what it leads to")),
        },
        Err(why) => Err(Failure::file("read", path, &why)),
    }
}
