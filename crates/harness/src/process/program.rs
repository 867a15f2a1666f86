//! Finds programs by their names, without a try at each folder of `PATH` when one is started.

use std::{
    ffi::OsStr,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::PathBuf,
    process::Command,
    sync::OnceLock,
};

/// Returns the program of this name in the folders of `path`. Relative folders are left out, because
/// their meaning depends on the directory, and a repository could bring its own program.
pub(crate) fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|f| f.is_file() && f.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(runs)
}

/// Returns a call of git. Its place is looked up once in the life of the process.
pub(crate) fn git() -> Command {
    static GIT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = GIT.get_or_init(|| find_program("git", &std::env::var_os("PATH")?));
    let Some(path) = found else { return Command::new("git") };
    let mut command = Command::new(path);
    command.arg0("git");
    command
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_an_executable_file_in_an_absolute_folder_is_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        for folder in [&first, &second] {
            fs::create_dir_all(folder.join("folder")).unwrap();
            fs::write(folder.join("plain"), "").unwrap();
        }
        let program = second.join("program");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths([OsStr::new("."), first.as_ref(), second.as_ref()]);
        let path = path.unwrap();
        assert_eq!(find_program("program", &path), Some(program));
        for absent in ["plain", "folder", "absent"] {
            assert_eq!(find_program(absent, &path), None, "{absent}");
        }
        assert_eq!(find_program("src", OsStr::new(".")), None);
    }
}
