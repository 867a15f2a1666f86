//! The real disk under the file store: its steps, and obstacles to them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs, io,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::Command,
};

use harness::{
    home::folder::{DiskError, Intruder},
    store::disk::{Disk, File, RealDisk},
};

struct Root {
    _folder: tempfile::TempDir,
    path: PathBuf,
    disk: RealDisk,
}

impl Root {
    fn new() -> Root {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        let disk = RealDisk::open(&path).unwrap();
        disk.ensure_home().unwrap();
        Root { _folder: folder, path, disk }
    }

    fn at(&self, file: File) -> PathBuf {
        self.path.join(file.path())
    }

    fn text(&self, file: File) -> String {
        fs::read_to_string(self.at(file)).unwrap()
    }

    fn write(&self, text: &str) {
        self.disk.keep_backup().unwrap();
        self.disk.write_tmp(&[text.as_bytes()]).unwrap();
        self.disk.publish().unwrap();
        self.disk.sync_root().unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn intruder<T: std::fmt::Debug>(result: io::Result<T>, name: &str) -> Intruder {
    let error = result.unwrap_err();
    match DiskError::of(&error) {
        Some(DiskError::Intruder { name: found, what }) if found == name => *what,
        _ => panic!("{error:?}"),
    }
}

#[test]
fn a_write_replaces_the_ledger_and_keeps_the_one_before() {
    let root = Root::new();
    assert_eq!(root.disk.identity(File::Ledger).unwrap(), None);
    assert_eq!(root.disk.read(File::Ledger).unwrap(), None);
    root.write("one");
    assert!(!root.at(File::Backup).exists());
    let (bytes, one) = root.disk.read(File::Ledger).unwrap().unwrap();
    assert_eq!(bytes, b"one");
    assert_eq!(root.disk.identity(File::Ledger).unwrap(), Some(one));
    root.write("two");
    assert_ne!(root.disk.identity(File::Ledger).unwrap(), Some(one));
    root.write("three");
    assert_eq!((root.text(File::Ledger), root.text(File::Backup)), ("three".into(), "two".into()));
    assert!(!root.at(File::Tmp).exists());
}

#[test]
fn the_ledger_keeps_its_mode() {
    let root = Root::new();
    root.write("one");
    assert_eq!(mode(&root.at(File::Ledger)) & !0o644, 0);
    fs::set_permissions(root.at(File::Ledger), fs::Permissions::from_mode(0o600)).unwrap();
    root.write("two");
    assert_eq!(mode(&root.at(File::Ledger)), 0o600);
}

#[test]
fn links_at_the_names_that_are_replaced_go_and_what_is_behind_stays() {
    let root = Root::new();
    root.write("one");
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("precious");
    fs::write(&target, "precious").unwrap();
    symlink(&target, root.at(File::Tmp)).unwrap();
    symlink(&target, root.at(File::Backup)).unwrap();
    root.write("two");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!((root.text(File::Ledger), root.text(File::Backup)), ("two".into(), "one".into()));
    assert!(fs::symlink_metadata(root.at(File::Backup)).unwrap().is_file());

    assert!(Command::new("mkfifo").arg(root.at(File::Tmp)).status().unwrap().success());
    root.write("three");
    assert_eq!(root.text(File::Ledger), "three");

    fs::create_dir(root.at(File::Tmp)).unwrap();
    let what = intruder(root.disk.write_tmp(&[b"four"]), "harness-tasks.json.tmp");
    assert_eq!(what, Intruder::Directory);
}

#[test]
fn a_link_at_any_other_name_is_an_error_that_names_it() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("precious");
    for file in [File::Ledger, File::Log, File::Marker, File::Trajectory] {
        fs::write(&target, "precious").unwrap();
        let root = Root::new();
        root.disk.write_tmp(&[b"x"]).unwrap();
        symlink(&target, root.at(file)).unwrap();
        let name = file.path();
        let disk = &root.disk;
        assert_eq!(intruder(disk.identity(file), name), Intruder::Symlink);
        assert_eq!(intruder(disk.read(file), name), Intruder::Symlink);
        assert_eq!(intruder(disk.append(file, b"x"), name), Intruder::Symlink);
        assert_eq!(intruder(disk.sync(file), name), Intruder::Symlink);
        assert_eq!(intruder(disk.tail(file, 9), name), Intruder::Symlink);
        assert_eq!(intruder(disk.read_from(file, 0), name), Intruder::Symlink);
        match file {
            File::Ledger => {
                assert_eq!(intruder(disk.publish(), name), Intruder::Symlink);
                assert_eq!(intruder(disk.keep_backup(), name), Intruder::Symlink);
                assert_eq!(intruder(disk.write_tmp(&[b"x"]), name), Intruder::Symlink);
            }
            File::Marker => {
                assert_eq!(intruder(disk.make_marker(), name), Intruder::Symlink);
            }
            File::Backup
            | File::Tmp
            | File::Log
            | File::Trajectory
            | File::Lock
            | File::Journal => {}
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert!(root.at(file).is_symlink());
    }
    let root = Root::new();
    symlink(&target, root.at(File::Log)).unwrap();
    assert_eq!(
        root.disk.append(File::Log, b"x").unwrap_err().to_string(),
        "harness-progress.txt is a symbolic link; harness never follows one — remove it"
    );
}

#[test]
fn special_files_are_errors_and_hang_nobody() {
    for file in [File::Ledger, File::Log, File::Trajectory, File::Marker] {
        let root = Root::new();
        let path = root.at(file);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(intruder(root.disk.read(file), file.path()), Intruder::Fifo);
        assert_eq!(intruder(root.disk.append(file, b"x"), file.path()), Intruder::Fifo);
        fs::remove_file(&path).unwrap();
        let _socket = UnixListener::bind(&path).unwrap();
        assert_eq!(intruder(root.disk.read(file), file.path()), Intruder::Socket);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(intruder(root.disk.append(file, b"x"), file.path()), Intruder::Directory);
    }
}

#[test]
fn home_is_private_and_ignored_and_never_a_link() {
    let root = Root::new();
    let home = root.path.join(".harness");
    assert_eq!(mode(&home), 0o700);
    assert_eq!(fs::read_to_string(home.join(".gitignore")).unwrap(), "*\n");
    fs::write(home.join(".gitignore"), "mine").unwrap();
    root.disk.ensure_home().unwrap();
    assert_eq!(fs::read_to_string(home.join(".gitignore")).unwrap(), "mine");

    let outside = tempfile::tempdir().unwrap();
    fs::remove_dir_all(&home).unwrap();
    symlink(outside.path(), &home).unwrap();
    let disk = &root.disk;
    assert_eq!(intruder(disk.ensure_home(), ".harness"), Intruder::Symlink);
    assert_eq!(intruder(disk.append(File::Trajectory, b"x"), ".harness"), Intruder::Symlink);
    assert_eq!(intruder(disk.archive("x", b"x"), ".harness"), Intruder::Symlink);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    fs::remove_file(&home).unwrap();
    fs::write(&home, "").unwrap();
    assert_eq!(intruder(disk.ensure_home(), ".harness"), Intruder::RegularFile);
}

#[test]
fn a_log_grows_at_its_end() {
    let root = Root::new();
    for file in [File::Log, File::Trajectory] {
        assert_eq!(root.disk.size(file).unwrap(), 0);
        assert_eq!(root.disk.tail(file, 10).unwrap(), b"");
        assert_eq!(root.disk.read_from(file, 0).unwrap(), b"");
        root.disk.append(file, b"first\n").unwrap();
        root.disk.append(file, b"second\n").unwrap();
        root.disk.sync(file).unwrap();
        assert_eq!(root.disk.size(file).unwrap(), 13);
        assert_eq!(root.disk.read_from(file, 6).unwrap(), b"second\n");
        assert_eq!(root.disk.read_from(file, 99).unwrap(), b"");
        assert_eq!(root.disk.tail(file, 4).unwrap(), b"ond\n");
        assert_eq!(root.disk.tail(file, 99).unwrap(), b"first\nsecond\n");
    }
}

#[test]
fn the_archive_overwrites_nothing() {
    let root = Root::new();
    assert_eq!(root.disk.archive("ledger.corrupt", b"one").unwrap(), "ledger.corrupt");
    assert_eq!(root.disk.archive("ledger.corrupt", b"two").unwrap(), "ledger.corrupt-2");
    let folder = root.path.join(".harness/archive");
    symlink("/dev/null", folder.join("ledger.corrupt-3")).unwrap();
    assert_eq!(root.disk.archive("ledger.corrupt", b"three").unwrap(), "ledger.corrupt-4");
    assert_eq!(fs::read_to_string(folder.join("ledger.corrupt")).unwrap(), "one");
    for bad in ["", "..", "a/b", ".hidden"] {
        assert_eq!(root.disk.archive(bad, b"").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn the_marker_may_be_there_already() {
    let root = Root::new();
    root.disk.make_marker().unwrap();
    root.disk.make_marker().unwrap();
    assert!(root.at(File::Marker).exists());
}

#[test]
fn a_backup_is_the_old_file_itself_where_links_are_possible() {
    let root = Root::new();
    root.write("one");
    let before = fs::metadata(root.at(File::Ledger)).unwrap().ino();
    root.write("two");
    assert_eq!(fs::metadata(root.at(File::Backup)).unwrap().ino(), before);
}

/// `/sys` accepts no new files, not even from root.
#[cfg(target_os = "linux")]
#[test]
fn a_root_that_can_not_be_written_keeps_its_kind_and_names_the_file() {
    let disk = RealDisk::open(Path::new("/sys")).unwrap();
    for (result, name) in [
        (disk.write_tmp(&[b"x"]), "harness-tasks.json.tmp"),
        (disk.append(File::Log, b"x"), "harness-progress.txt"),
        (disk.make_marker(), ".harness-active"),
        (disk.ensure_home(), ".harness"),
    ] {
        let error = result.unwrap_err();
        let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
        assert!(kinds.contains(&error.kind()), "{error:?}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let error = RealDisk::open(Path::new("/no/such/root")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

/// A file may not grow beyond the limit, which is similar to a full disk but needs no mount. The
/// limit applies to a process, so the test runs in one of its own.
#[cfg(target_os = "linux")]
#[test]
fn a_write_that_fails_in_the_middle_leaves_nothing_half() {
    const ROOT: &str = "HARNESS_TEST_DISK_ROOT";
    let Ok(path) = std::env::var(ROOT) else {
        let root = Root::new();
        root.write("one");
        root.disk.append(File::Log, b"line\n").unwrap();
        // `ulimit -f` counts blocks of 512 or 1024 bytes. Without a handler, XFSZ would kill the
        // process.
        let status = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "a_write_that_fails_in_the_middle_leaves_nothing_half"])
            .env(ROOT, &root.path)
            .status()
            .unwrap();
        assert!(status.success());
        return;
    };
    let disk = RealDisk::open(Path::new(&path)).unwrap();
    let large = vec![b'x'; 64 * 1024];
    let error = disk.write_tmp(&[&large]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    assert!(error.to_string().contains("harness-tasks.json.tmp"), "{error}");
    assert!(!Path::new(&path).join(File::Tmp.path()).exists());
    assert_eq!(disk.read(File::Ledger).unwrap().unwrap().0, b"one");
    disk.append(File::Log, &large).unwrap_err();
    assert_eq!(disk.read_from(File::Log, 0).unwrap(), b"line\n");
}
