//! A clean checkout of a commit. Files that are in no commit cannot make a check pass there.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use harness_core::CommitId;

use super::{
    WorkspaceError,
    evidence::must_be_commit,
    git::Git,
    object::{GITLINK, list_tree},
    path::{RepoPath, records},
};

/// A folder with the files of one commit and nothing else. It is removed when it is dropped.
pub struct Checkout {
    path: PathBuf,
    remove: Option<Box<dyn FnOnce() + Send>>,
}

impl Checkout {
    /// Creates the value. `remove` is called once, when it is no longer needed.
    pub fn new(path: PathBuf, remove: impl FnOnce() + Send + 'static) -> Self {
        Self { path, remove: Some(Box::new(remove)) }
    }

    /// Returns its top level.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for Checkout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkout").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        if let Some(remove) = self.remove.take() {
            remove();
        }
    }
}

/// Files that a check needs and git does not hold, as paths from the top level of the work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bring {
    /// Paths that are linked, so that the check uses the originals.
    pub link: Vec<PathBuf>,
    /// Paths that are copied, so that the check has its own.
    pub copy: Vec<PathBuf>,
}

/// The prefix of the folder in the system's temporary folder. Its lock shows that a process uses
/// it.
pub(super) const PREFIX: &str = "harness-checkout-";
pub(super) const LOCK: &str = "lock";

/// Creates a checkout with its own git directory. It shares the objects and has the refs, the URLs
/// of remotes and the submodules. It has nothing of the remaining configuration, of `info` and of
/// `hooks`.
pub(super) fn checkout(
    git: &Git,
    commit: &CommitId,
    bring: &Bring,
) -> Result<Checkout, WorkspaceError> {
    must_be_commit(git, commit)?;
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
    let lock = File::create(folder.path().join(LOCK))?;
    lock.lock()?;
    let path = folder.path().canonicalize()?.join("tree");
    fs::create_dir(&path)?;
    let (git_dir, common_dir, objects) = (git.git_dir.clone(), git.common_dir(), git.objects());
    let source = Source { git_dir, common_dir, objects };
    populate(git, &source, &path, commit.as_str())?;
    for (paths, how) in [(&bring.link, How::Link), (&bring.copy, How::Copy)] {
        for relative in paths.iter().filter(|path| is_plain(path)) {
            bring_in(how, &git.top_level.join(relative), &path.join(relative))?;
        }
    }
    let remove = move || {
        let place = folder.path().to_owned();
        if let Err(why) = folder.close() {
            tracing::warn!(path = %place.display(), %why, "a checkout was not removed");
        }
        drop(lock);
    };
    Ok(Checkout::new(path, remove))
}

/// A repository whose objects are used.
struct Source {
    git_dir: PathBuf,
    common_dir: PathBuf,
    objects: PathBuf,
}

fn populate(
    git: &Git,
    source: &Source,
    top_level: &Path,
    commit: &str,
) -> Result<(), WorkspaceError> {
    let own = top_level.join(".git");
    for folder in ["objects/info", "refs/heads", "info"] {
        fs::create_dir_all(own.join(folder))?;
    }
    let mut objects = source.objects.as_os_str().as_bytes().to_vec();
    objects.push(b'\n');
    fs::write(own.join("objects/info/alternates"), objects)?;
    fs::write(own.join("HEAD"), format!("{commit}\n"))?;
    let shallow = source.common_dir.join("shallow");
    if shallow.is_file() {
        fs::copy(shallow, own.join("shallow"))?;
    }
    let theirs = Git {
        top_level: top_level.to_owned(),
        git_dir: source.git_dir.clone(),
        silenced: Vec::new(),
        settings: Vec::new(),
        memory: Arc::default(),
        aside: None,
    };
    let format = "--format=%(objectname) %(refname)";
    let refs = theirs.read("for-each-ref").arg(format).output()?;
    let mut packed = b"# pack-refs with: sorted \n".to_vec();
    packed.extend(refs);
    fs::write(own.join("packed-refs"), packed)?;
    fs::write(own.join("config"), config(&theirs, source, commit, &git.silenced)?)?;
    let ours = Git { git_dir: own, memory: Arc::default(), ..theirs };
    let call = ours.write("reset").args(["--quiet", "--hard"]);
    call.env("GIT_LFS_SKIP_SMUDGE", "0").output()?;
    submodules(git, &ours, source, commit)
}

/// Returns the minimal configuration for git, with the remotes and the filters that may run here.
fn config(
    theirs: &Git,
    source: &Source,
    commit: &str,
    silenced: &[OsString],
) -> Result<Vec<u8>, WorkspaceError> {
    const SHA256: usize = 64;
    let mut text = b"[core]\n\trepositoryformatversion = 1\n\tbare = false\n".to_vec();
    if commit.len() == SHA256 {
        text.extend(b"[extensions]\n\tobjectFormat = sha256\n");
    }
    let call = theirs.read("config").args(["--local", "--null", "--get-regexp"]);
    let ran = call.arg(r"^(remote\..*\.url|filter\..*\.(clean|smudge|process|required))$").run()?;
    for setting in records(&ran.stdout) {
        let Some((key, value)) = split(setting) else { continue };
        let silent = silenced.iter().any(|driver| {
            key.strip_prefix(b"filter.".as_slice())
                .and_then(|rest| rest.strip_prefix(driver.as_bytes()))
                .is_some_and(|rest| rest.starts_with(b"."))
        });
        if !silent {
            text.extend(setting_lines(key, value));
        }
    }
    let lfs = source.common_dir.join("lfs");
    if lfs.is_dir() {
        text.extend(setting_lines(b"lfs.storage", lfs.as_os_str().as_bytes()));
    }
    Ok(text)
}

fn split(setting: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = setting.iter().position(|byte| *byte == b'\n')?;
    Some((&setting[..end], &setting[end + 1..]))
}

/// Formats `[section "subsection"]` and `key = "value"`.
fn setting_lines(key: &[u8], value: &[u8]) -> Vec<u8> {
    let first = key.iter().position(|byte| *byte == b'.').unwrap_or(0);
    let last = key.iter().rposition(|byte| *byte == b'.').unwrap_or(0);
    let escape = |text: &[u8]| -> Vec<u8> {
        text.iter()
            .flat_map(|byte| match byte {
                b'"' | b'\\' => vec![b'\\', *byte],
                b'\n' => b"\\n".to_vec(),
                byte => vec![*byte],
            })
            .collect()
    };
    let mut lines = b"[".to_vec();
    lines.extend(&key[..first]);
    if last > first {
        lines.extend(b" \"");
        lines.extend(escape(&key[first + 1..last]));
        lines.push(b'"');
    }
    lines.extend(b"]\n\t");
    lines.extend(&key[last + 1..]);
    lines.extend(b" = \"");
    lines.extend(escape(value));
    lines.extend(b"\"\n");
    lines
}

/// Checks out the submodules that the repository has locally.
fn submodules(git: &Git, ours: &Git, source: &Source, commit: &str) -> Result<(), WorkspaceError> {
    if !ours.top_level.join(".gitmodules").is_file() {
        return Ok(());
    }
    let call = ours.read("config").args(["--file", ".gitmodules", "--null", "--get-regexp"]);
    let ran = call.arg(r"^submodule\..*\.path$").run()?;
    let links = list_tree(ours, commit, &[])?;
    for setting in records(&ran.stdout) {
        let Some((key, path)) = split(setting) else { continue };
        let name = &key[b"submodule.".len()..key.len() - b".path".len()];
        let link = links.get(&RepoPath::new(path)).filter(|entry| entry.mode == GITLINK);
        let below = Path::new(OsStr::from_bytes(name));
        let (Some(link), true) = (link, is_plain(below)) else { continue };
        let modules = source.common_dir.join("modules").join(below);
        let place = ours.top_level.join(OsStr::from_bytes(path));
        if !modules.join("objects").is_dir() || !place.is_dir() {
            continue;
        }
        let objects = modules.join("objects");
        let inner = Source { git_dir: modules.clone(), common_dir: modules, objects };
        let (git_dir, memory) = (inner.git_dir.clone(), Arc::default());
        let known = Git { git_dir, memory, ..ours.clone() };
        let there = known.read("cat-file").args(["-e", &link.object]).run()?;
        if there.code == Some(0) {
            populate(git, &inner, &place, &link.object)?;
        }
    }
    Ok(())
}

/// Returns whether the path stays below its start.
fn is_plain(path: &Path) -> bool {
    !path.as_os_str().is_empty()
        && path.components().all(|part| matches!(part, Component::Normal(name) if name != ".git"))
}

#[derive(Clone, Copy)]
enum How {
    Link,
    Copy,
}

/// Brings in one path. A missing source is skipped, and an existing target stays.
fn bring_in(how: How, from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from).is_err() || fs::symlink_metadata(to).is_ok() {
        return Ok(());
    }
    if let Some(above) = to.parent() {
        fs::create_dir_all(above)?;
    }
    match how {
        How::Link => symlink(from, to),
        How::Copy => copy(from, to),
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if !found.is_dir() {
        // A pipe or a device has no content to copy.
        return if found.is_file() { fs::copy(from, to).map(drop) } else { Ok(()) };
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
