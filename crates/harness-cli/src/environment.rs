//! The variables of this process, read in one place so that tests can supply their own.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::failure::{Failure, Result};

/// Variables by name. An empty variable counts as not set, as is usual in shells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(HashMap<OsString, OsString>);

impl Environment {
    pub(crate) fn of_this_process() -> Self {
        Self(std::env::vars_os().filter(|(_, value)| !value.is_empty()).collect())
    }

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        let set = pairs.iter().filter(|(_, value)| !value.is_empty());
        Self(set.map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// Returns the same with this variable set.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut all = self.0.clone();
        all.insert(name.into(), value.into());
        Self(all)
    }

    /// Returns the same with the variables of entries such as `NAME=value`. Other entries change
    /// nothing.
    pub(crate) fn and(&self, entries: &[String]) -> Self {
        let mut all = self.0.clone();
        let set = entries.iter().filter_map(|entry| entry.split_once('='));
        all.extend(set.map(|(name, value)| (name.into(), value.into())));
        Self(all)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Returns the names of all variables that are set and whose names are text.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.0.keys().filter_map(|name| name.to_str().map(str::to_owned))
    }

    pub(crate) fn path(&self, name: &str) -> Option<&Path> {
        self.get(name).map(Path::new)
    }

    /// Returns a variable that must be text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>> {
        let value = self.get(name);
        let text = value.map(|value| {
            value
                .to_str()
                .ok_or_else(|| Failure::config(format!("the variable {name} is not UTF-8")))
        });
        text.transpose()
    }

    /// Returns `~/.config`, or the directory in XDG_CONFIG_HOME; `None` if there is no home. There
    /// is no personal configuration then, which is no error.
    pub(crate) fn config_home(&self) -> Option<PathBuf> {
        self.base("XDG_CONFIG_HOME", ".config")
    }

    /// Returns `~/.local/share`, or the directory in XDG_DATA_HOME; `None` if there is no home.
    pub(crate) fn data_home(&self) -> Option<PathBuf> {
        self.base("XDG_DATA_HOME", ".local/share")
    }

    /// Returns `~/.local/state`, or the directory in XDG_STATE_HOME.
    pub(crate) fn state_home(&self) -> Result<PathBuf> {
        self.base("XDG_STATE_HOME", ".local/state").ok_or_else(|| {
            Failure::config("neither HOME nor XDG_STATE_HOME is set to an absolute path")
                .hint("set HOME to your home directory")
        })
    }

    /// Returns a base directory. Relative paths are ignored, as the XDG specification requires,
    /// because their meaning depends on the working directory.
    fn base(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let absolute = |name| self.path(name).filter(|path| path.is_absolute());
        absolute(variable)
            .map(Path::to_owned)
            .or_else(|| absolute("HOME").map(|home| home.join(below_home)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_directories_follow_xdg_and_ignore_relative_paths() {
        let state = |pairs: &[(&str, &str)]| Environment::of(pairs).state_home();
        assert_eq!(state(&[("HOME", "/h")]).unwrap(), Path::new("/h/.local/state"));
        assert_eq!(state(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]).unwrap(), Path::new("/s"));
        assert_eq!(
            state(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")]).unwrap(),
            Path::new("/h/.local/state")
        );
        assert!(state(&[("HOME", "")]).is_err());
    }
}
