//! The file that gives the token to programs of the same user.

use std::{
    fs::{self, Permissions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use crate::failure::{Failure, Result};

/// Writes the token to `path`, which only the user may read. A file that is there is replaced as a
/// whole, and no link is followed.
pub(super) fn write(path: &Path, token: &str) -> Result<()> {
    let failed = |why: &std::io::Error| Failure::file("write", path, why);
    let folder = match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => folder,
        None => Path::new("."),
    };
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
        return Err(Failure::error(format!("{} is not a file", path.display())));
    }
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|why| failed(&why))?;
    file.as_file().set_permissions(Permissions::from_mode(0o600)).map_err(|why| failed(&why))?;
    writeln!(file, "{token}").map_err(|why| failed(&why))?;
    file.persist(path).map_err(|why| failed(&why.error))?;
    Ok(())
}
