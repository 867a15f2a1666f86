//! A folder for objects and private files, if the git directory cannot be written. The sandbox of an
//! agent may mount it read-only, and work that is judged there need not be committed there.

use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

/// Gone with the value, and with it the objects that were added.
#[derive(Debug)]
pub(super) struct Aside {
    folder: tempfile::TempDir,
}

impl Aside {
    /// Returns `None` if git can write in its own directories.
    pub(super) fn for_read_only(git_dir: &Path, common_dir: &Path) -> io::Result<Option<Self>> {
        let objects = common_dir.join("objects");
        let is_writable = |folder: &Path| access(folder, Access::WRITE_OK).is_ok();
        if is_writable(git_dir) && is_writable(&objects) {
            return Ok(None);
        }
        let folder = tempfile::Builder::new().prefix("harness-objects-").tempdir()?;
        let aside = Self { folder };
        let info = aside.objects().join("info");
        fs::create_dir_all(&info)?;
        let mut theirs = objects.into_os_string().as_bytes().to_vec();
        theirs.push(b'\n');
        fs::write(info.join("alternates"), theirs)?;
        Ok(Some(aside))
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// New objects, and by an alternate those of the repository.
    pub(super) fn objects(&self) -> PathBuf {
        self.folder.path().join("objects")
    }
}
