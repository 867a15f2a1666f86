//! The ways to open a folder.

use std::{
    io,
    path::{Component, Path},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{Folder, failed, one_component, open_directory, stat_at};
use crate::home::Home;

const HOME: &str = Home::FOLDER;

impl Folder {
    /// Opens a folder of the user, such as a state root. Links on the way to it are the user's too.
    pub fn open(root: &Path) -> io::Result<Self> {
        let name = root.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty());
        let fd = fd.map_err(|e| failed(&name, "open", e.into()))?;
        Ok(Self { fd, path: String::new(), private: false })
    }

    /// Does the same, and only the owner can read the files that are created in it.
    pub fn open_private(root: &Path) -> io::Result<Self> {
        Ok(Self { private: true, path: root.display().to_string(), ..Self::open(root)? })
    }

    /// Opens a folder of ours by its path, `<state root>/.harness/…`. It is created if needed, for
    /// its owner only. From `.harness` on, no link is followed. In a path without `.harness`, only
    /// the last name is ours.
    pub fn ours(path: &Path) -> io::Result<Self> {
        let (root, names) = split(path)?;
        if names.first() != Some(&HOME) {
            let made = std::fs::create_dir_all(root);
            made.map_err(|e| failed(&root.display().to_string(), "make", e))?;
        }
        let mut folder = Self::open(root)?;
        for name in names {
            folder = folder.make_private(name)?;
        }
        Ok(folder)
    }

    /// Does the same without creating anything; `None` if it does not exist.
    pub fn find(path: &Path) -> io::Result<Option<Self>> {
        let (root, names) = split(path)?;
        let mut folder = match Self::open(root) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            folder => folder?,
        };
        for name in names {
            match folder.child(name)? {
                Some(child) => folder = Self { private: true, ..child },
                None => return Ok(None),
            }
        }
        Ok(Some(folder))
    }

    /// Opens a folder in it; `None` if nothing is there.
    pub fn child(&self, name: &str) -> io::Result<Option<Self>> {
        one_component(name)?;
        let path = self.shown(name);
        if stat_at(&self.fd, name, &path)?.is_none() {
            return Ok(None);
        }
        let fd = open_directory(&self.fd, name, &path)?;
        Ok(Some(Self { fd, path, private: self.private }))
    }

    /// Does the same, and creates it if needed.
    pub fn make(&self, name: &str) -> io::Result<Self> {
        self.make_as(name, self.private)
    }

    /// Does the same for its owner only, with all files in it.
    pub fn make_private(&self, name: &str) -> io::Result<Self> {
        self.make_as(name, true)
    }

    fn make_as(&self, name: &str, private: bool) -> io::Result<Self> {
        one_component(name)?;
        let path = self.shown(name);
        let mode = Mode::from_raw_mode(if private { 0o700 } else { 0o777 });
        match rustix::fs::mkdirat(&self.fd, name, mode) {
            Ok(()) => self.sync()?,
            Err(Errno::EXIST) => {}
            Err(e) => return Err(failed(&path, "make", e.into())),
        }
        let fd = open_directory(&self.fd, name, &path)?;
        Ok(Self { fd, path, private })
    }
}

/// Splits a path into the folder of the user and the names below it that are ours.
fn split(path: &Path) -> io::Result<(&Path, Vec<&str>)> {
    let bad = || {
        let why = io::Error::new(io::ErrorKind::InvalidInput, "it is not the path of a directory");
        failed(&path.display().to_string(), "use", why)
    };
    let is_home = |part: &Path| part.file_name().is_some_and(|name| name == HOME);
    let ours = path.ancestors().find(|part| is_home(part)).unwrap_or(path);
    let root = ours.parent().ok_or_else(bad)?;
    let below = path.strip_prefix(root).map_err(|_| bad())?;
    let names = below.components().map(|part| match part {
        Component::Normal(name) => name.to_str().ok_or_else(bad),
        _ => Err(bad()),
    });
    let names = names.collect::<io::Result<Vec<&str>>>()?;
    Ok((if root == Path::new("") { Path::new(".") } else { root }, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_home_on_the_names_are_ours() {
        let parts = |path: &'static str| {
            let (root, names) = split(Path::new(path)).unwrap();
            (root.display().to_string(), names.join(","))
        };
        let is = |root: &str, names: &str| (root.to_owned(), names.to_owned());
        assert_eq!(parts("/a/b/.harness/runs"), is("/a/b", ".harness,runs"));
        assert_eq!(parts("/a/.harness/b/.harness"), is("/a/.harness/b", ".harness"));
        assert_eq!(parts("/a/b"), is("/a", "b"));
        assert_eq!(parts("b"), is(".", "b"));
        assert!(split(Path::new("/")).is_err());
        assert!(split(Path::new("/a/.harness/../b")).is_err());
    }
}
