//! Hostile repositories: configuration, file names, links and variables that want to mislead us.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claimed;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::PathBuf,
};

use claimed::{LONG_AGO, claim, exercise, refused, roll_back, script, task};
use harness::workspace::{Filters, GitWorkspace, Sight, Workspace};
use harness_sim::conformance::{repository::Repository, workspace::Fixture};

#[test]
fn nothing_that_a_hostile_repository_names_is_executed() {
    let repository = Repository::new();
    let (trap, mark) = (repository.beside("trap"), repository.beside("sprung"));
    script(&trap, &format!("echo \"$0 $*\" >> '{}'; cat", mark.display()));
    let trap = trap.to_str().unwrap();
    let hooks = repository.root.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    let all = ["pre-commit", "post-commit", "post-checkout", "reference-transaction"];
    for hook in all.iter().chain(&["post-index-change", "commit-msg", "post-rewrite"]) {
        script(&hooks.join(hook), &format!("echo {hook} >> '{}'", mark.display()));
    }
    for key in [
        "alias.log",
        "alias.status",
        "core.alternateRefsCommand",
        "core.askPass",
        "core.editor",
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "credential.helper",
        "diff.evil.command",
        "diff.evil.textconv",
        "diff.external",
        "gpg.program",
        "interactive.diffFilter",
        "merge.evil.driver",
    ] {
        let bang = if key.starts_with("alias") { "!" } else { "" };
        repository.git(["config", key, &format!("{bang}{trap}")]);
    }
    for key in ["commit.gpgSign", "log.showSignature", "tag.gpgSign", "submodule.recurse"] {
        repository.git(["config", key, "true"]);
    }
    fs::write(repository.root.join(".git/info/attributes"), "* diff=evil merge=evil\n").unwrap();
    exercise(&repository);
    assert!(!mark.exists(), "{}", fs::read_to_string(&mark).unwrap());
    repository.write("a.txt", "once more");
    repository.try_git(["diff"]);
    assert!(mark.exists(), "the traps were not set");
}

#[test]
fn content_filters_of_the_agent_do_not_run() {
    for driver in ["evil", "a=b"] {
        let repository = Repository::new();
        let (trap, mark) = (repository.beside("trap"), repository.beside("sprung"));
        script(&trap, &format!("echo ran >> '{}'; cat", mark.display()));
        let base = claim(&repository);
        // It is configured in the attempt, so preflight could not see it.
        for side in ["clean", "smudge"] {
            let key = format!("filter.{driver}.{side}");
            repository.git(["config", &key, trap.to_str().unwrap()]);
        }
        repository.git(["config", &format!("filter.{driver}.required"), "true"]);
        repository.write(".gitattributes", &format!("new.txt filter={driver}\n"));
        repository.write("a.txt", "by the agent");
        repository.write("new.txt", "new");
        let workspace = repository.open(Filters::Off);
        workspace.tree().unwrap();
        workspace.evidence(&task(), &base, LONG_AGO).unwrap();
        workspace.rescue(&task(), 1, &base).unwrap().unwrap();
        refused(workspace.commit(&base, "task-1: title"), "content filter");
        refused(workspace.preflight(), "content filter");
        workspace.rollback(&task(), 1, &base).unwrap();
        assert!(!mark.exists());
        assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
        assert_eq!(repository.read("new.txt"), None);
        let rescue = workspace.rescues(None).unwrap().remove(0);
        repository.try_git(["restore", "--source", &rescue.reference, "--", "."]);
        assert!(mark.exists(), "the trap was not set");
    }
}

#[test]
fn a_filtered_base_is_refused_without_trust_and_right_with_it() {
    let repository = Repository::new();
    repository.git(["config", "filter.upper.clean", "tr a-z A-Z"]);
    repository.git(["config", "filter.upper.smudge", "tr A-Z a-z"]);
    repository.write(".gitattributes", "a.txt filter=upper\n");
    repository.git(["add", "--renormalize", "-A"]);
    repository.git(["add", ".gitattributes"]);
    let commit = Fixture::commit(&repository, "filtered");
    assert_eq!(repository.committed(&commit)["a.txt"], "A");
    refused(repository.open(Filters::Off).preflight(), "content filter");
    let trusted = repository.open(Filters::Run);
    trusted.preflight().unwrap();
    let base = trusted.base(&task(), Sight::Anew).unwrap();
    repository.write("a.txt", "changed");
    refused(repository.open(Filters::Off).rollback(&task(), 1, &base), "content filter");
    assert_eq!(repository.read("a.txt").as_deref(), Some("changed"));
    trusted.rollback(&task(), 1, &base).unwrap();
    assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
    let rescue = trusted.rescues(None).unwrap().remove(0);
    assert_eq!(repository.committed(&rescue.commit)["a.txt"], "CHANGED");
    trusted.restore(&rescue).unwrap();
    assert_eq!(repository.read("a.txt").as_deref(), Some("changed"));
}

fn odd_names() -> Vec<&'static OsStr> {
    let names: [&[u8]; 9] = [
        b"--help",
        b"-rf",
        b"line\nbreak",
        b"tab\tquote\"back\\slash",
        b"\xff\xfe not utf-8",
        b":(exclude)magic",
        b"*.txt",
        b" spaces ",
        b"!bang",
    ];
    names.into_iter().map(OsStr::from_bytes).collect()
}

#[test]
fn file_names_are_data() {
    let repository = Repository::new();
    for name in odd_names() {
        fs::write(repository.root.join(name), "mine").unwrap();
    }
    let base = claim(&repository);
    let folder = repository.root.join(OsStr::from_bytes(b"-\xff\n"));
    fs::create_dir(&folder).unwrap();
    for name in odd_names() {
        fs::write(repository.root.join(name), "changed").unwrap();
        fs::write(folder.join(name), "new").unwrap();
    }
    let reference = roll_back(&repository, &base).unwrap();
    assert!(!folder.exists());
    for name in odd_names() {
        assert_eq!(fs::read(repository.root.join(name)).unwrap(), b"mine");
        fs::remove_file(repository.root.join(name)).unwrap();
    }
    let rescue = repository.workspace().rescues(None).unwrap().remove(0);
    assert_eq!(rescue.reference, reference);
    let written = repository.workspace().restore(&rescue).unwrap();
    assert_eq!(written.len(), 2 * odd_names().len());
    assert_eq!(fs::read(folder.join("--help")).unwrap(), b"new");
    repository.workspace().commit(&base, "task-1: title").unwrap();
    let names = repository.git(["ls-tree", "-r", "-z", "--name-only", "HEAD"]);
    assert_eq!(names.split_terminator('\0').count(), 3 + odd_names().len());
}

#[test]
fn links_modes_and_empty_folders_are_put_back() {
    let repository = Repository::new();
    let at = |name: &str| repository.root.join(name);
    symlink("/nowhere", at("link")).unwrap();
    script(&at("run"), "true");
    fs::create_dir_all(at("empty/inner")).unwrap();
    fs::create_dir_all(at("data")).unwrap();
    repository.write("folder/file", "mine");
    let outside = repository.beside("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "not ours").unwrap();
    let base = claim(&repository);

    fs::remove_file(at("link")).unwrap();
    fs::write(at("link"), "a file now").unwrap();
    fs::set_permissions(at("run"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_dir_all(at("empty")).unwrap();
    repository.write("data/out.txt", "out");
    repository.write("made/by/agent.txt", "new");
    fs::create_dir_all(at("made/for/nothing")).unwrap();
    // Writing through a link that the agent made would change files elsewhere.
    fs::remove_dir_all(at("folder")).unwrap();
    symlink(&outside, at("folder")).unwrap();

    roll_back(&repository, &base);
    assert_eq!(fs::read_link(at("link")).unwrap(), PathBuf::from("/nowhere"));
    assert_ne!(fs::metadata(at("run")).unwrap().permissions().mode() & 0o100, 0);
    assert!(at("empty/inner").is_dir() && at("data").is_dir());
    assert!(!at("made").exists() && !at("data/out.txt").exists());
    assert!(!at("folder").is_symlink());
    assert_eq!(repository.read("folder/file").as_deref(), Some("mine"));
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "not ours");
    assert_eq!(repository.workspace().rescues(None).unwrap().len(), 1);
}

#[test]
fn ignored_files_in_the_way_are_saved() {
    let repository = Repository::new();
    repository.write("notes", "mine");
    let base = claim(&repository);
    repository.remove("notes");
    repository.remove("a.txt");
    repository.write("notes/deep.log", "ignored, one");
    repository.write("a.txt/deep.log", "ignored, two");
    roll_back(&repository, &base);
    assert_eq!(repository.read("notes").as_deref(), Some("mine"));
    assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
    let rescue = repository.workspace().rescues(None).unwrap().remove(0);
    let saved = repository.committed(&rescue.commit);
    assert_eq!(saved["notes/deep.log"], "ignored, one");
    assert_eq!(saved["a.txt/deep.log"], "ignored, two");
}

#[test]
fn repositories_inside_the_work_tree_are_left_alone() {
    let repository = Repository::new();
    let nested = |name: &str| {
        repository.git(["init", "--quiet", name]);
        repository.write(&format!("{name}/file"), "theirs");
    };
    nested("before");
    let base = claim(&repository);
    nested("after/deep");
    repository.write("before/file", "changed");
    repository.write("new.txt", "new");
    roll_back(&repository, &base);
    assert_eq!(repository.read("before/file").as_deref(), Some("changed"));
    assert_eq!(repository.read("after/deep/file").as_deref(), Some("theirs"));
    assert!(repository.root.join("after/deep/.git").is_dir());
    repository.write("new.txt", "new");
    let commit = repository.workspace().commit(&base, "task-1: title").unwrap();
    let names: Vec<_> = repository.committed(&commit).into_keys().collect();
    assert_eq!(names, [".gitignore", "a.txt", "b.txt", "new.txt"]);
}

#[test]
fn a_core_worktree_of_the_agent_misleads_nobody() {
    let repository = Repository::new();
    let elsewhere = repository.beside("home");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("precious"), "precious").unwrap();
    let workspace = repository.workspace();
    let base = workspace.base(&task(), Sight::Anew).unwrap();
    repository.write("new.txt", "new");
    repository.git(["config", "core.worktree", elsewhere.to_str().unwrap()]);
    workspace.rollback(&task(), 1, &base).unwrap();
    assert_eq!(repository.read("new.txt"), None);
    assert!(elsewhere.join("precious").exists());
    assert!(GitWorkspace::discover(&repository.root, &repository.root, Filters::Off).is_err());
}

#[test]
fn variables_of_a_calling_git_do_not_redirect_us() {
    // A process cannot safely change its own environment, so the test starts itself again.
    const MARK: &str = "HARNESS_TEST_REDIRECTED";
    if let Some(root) = std::env::var_os(MARK) {
        let root = PathBuf::from(root);
        let workspace = GitWorkspace::discover(&root, &root, Filters::Off).unwrap();
        let base = workspace.base(&task(), Sight::Anew).unwrap();
        fs::write(root.join("a.txt"), "changed").unwrap();
        workspace.commit(&base, "task-1: title").unwrap();
        return;
    }
    let (repository, other) = (Repository::new(), Repository::new());
    let (before, files) = (other.workspace().head().unwrap(), other.files());
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "variables_of_a_calling_git_do_not_redirect_us"])
        .env(MARK, &repository.root)
        .env("GIT_DIR", other.root.join(".git"))
        .env("GIT_WORK_TREE", &other.root)
        .env("GIT_INDEX_FILE", other.root.join(".git/index"))
        .env("GIT_OBJECT_DIRECTORY", other.root.join(".git/objects"))
        .env("GIT_NAMESPACE", "other")
        .env("GIT_EXTERNAL_DIFF", "false")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.worktree")
        .env("GIT_CONFIG_VALUE_0", &other.root)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert_eq!(other.workspace().head().unwrap(), before);
    assert_eq!(other.files(), files);
    assert_eq!(repository.git(["log", "-1", "--format=%s"]), "task-1: title");
}
