//! `harness purge`

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use harness::{
    home::{Home, Outside, git_directory},
    store::{
        StoreError,
        lock::{StateLock, Wait},
    },
    workspace::{OWN_FILES, OWN_FOLDER},
};
use harness_core::role::Operation;
use serde_json::json;

use super::{
    init::{self, IGNORED},
    install,
};
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::{Invocation, working_directory},
    paint::{one_line, visible},
    prompt::{Answer, Audience, confirm},
    root::StateRoot,
    trust::Trust,
};

/// Remove everything that harness keeps in this project
///
/// Removes the ledger, its backup, the log, .harness with receipts, transcripts and the archive,
/// the journal in the git directory, saved work under refs/harness, this project's entries in your
/// state directory, and what `harness install` wrote into the project's settings. Your own files
/// stay: harness.toml, harness-init.sh, commits and branches. This cannot be undone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness purge
  harness purge --yes")]
pub(crate) struct Args {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns the names of all files of harness in a state root.
fn names() -> impl Iterator<Item = &'static str> {
    OWN_FILES.into_iter().chain([OWN_FOLDER])
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let here = working_directory()?;
    let root = invocation.root().or_else(|_| StateRoot::for_init(&invocation.env, &here))?;
    invocation.permit(&root, Operation::Purge)?;
    let path = root.path().to_owned();
    let home = Home::of(&path);
    let others = other_roots(&path);
    let refs = if others == 0 { refs(&path)? } else { Vec::new() };
    ask(&args, &root, refs.len())?;
    let there: Vec<&str> =
        names().filter(|name| fs::symlink_metadata(path.join(name)).is_ok()).collect();
    crate::host::make_way(&root, &crate::host::places(&invocation.env))?;
    let acquired = StateLock::acquire(&path, Wait::No).map_err(StoreError::Lock)?;
    let mut removed: Vec<String> = install::purge(&invocation.env)?;
    if !refs.is_empty() {
        remove_refs(&path, &refs)?;
        removed.push(format!("{} under refs/harness", count(refs.len(), "reference")));
    }
    removed.extend(ignore_rules(&path)?);
    for name in names() {
        // The lock is in .harness, so this folder may exist only because we took the lock.
        if remove(&path.join(name))? && there.contains(&name) {
            removed.push(name.to_owned());
        }
    }
    // The folder is removed only if it is empty.
    _ = fs::remove_dir(home.state());
    if let Some(folder) = Outside::of_journal(&path, None) {
        removed.extend(folder.remove()?.then(|| shown(&folder)));
        _ = folder.path().parent().map(fs::remove_dir);
    }
    if let Some(state_home) = invocation.state_home() {
        let folder = Outside::of_root(&path, &state_home);
        removed.extend(folder.remove()?.then(|| shown(&folder)));
        Trust::of_user(&invocation.env)?.revoke(&root)?;
    }
    drop(acquired);
    _ = fs::remove_file(home.lock_guard());
    report(invocation, &args, &path, &removed)
}

fn report(
    invocation: &mut Invocation,
    args: &Args,
    root: &Path,
    removed: &[String],
) -> Result<ExitCode> {
    let root = root.to_string_lossy();
    if args.json {
        invocation.out.document(&json!({ "root": root, "removed": removed }))?;
        return Ok(ExitCode::Done);
    }
    if removed.is_empty() {
        invocation.out.line(format_args!("{} has no files of harness", one_line(&root)))?;
        return Ok(ExitCode::Done);
    }
    invocation.out.line(format_args!("removed from {}", one_line(&root)))?;
    for what in removed {
        invocation.out.line(format_args!("  {}", one_line(what)))?;
    }
    Ok(ExitCode::Done)
}

fn ask(args: &Args, root: &StateRoot, refs: usize) -> Result<()> {
    if args.yes {
        return Ok(());
    }
    let place = root.path().display();
    if Audience::of_this_process() == Audience::Nobody {
        return Err(Failure::usage(format!("this removes all files of harness from {place}"))
            .hint("pass --yes to confirm"));
    }
    let tasks = root.snapshot().map_or(0, |ledger| ledger.len());
    let text = format!(
        "This removes the ledger of {place} ({}), its log, receipts and transcripts, and {} of \
         saved work.",
        count(tasks, "task"),
        count(refs, "reference"),
    );
    writeln!(io::stderr(), "{}", visible(&text))?;
    match confirm("Remove all of it?")? {
        Answer::Yes => Ok(()),
        Answer::No => Err(Failure::error("nothing was removed")),
    }
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn shown(folder: &Outside) -> String {
    folder.path().display().to_string()
}

fn remove(path: &Path) -> Result<bool> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(false) };
    let removed = if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map(|()| true).map_err(|why| Failure::file("remove", path, &why))
}

/// Returns how many other state roots share the repository, and with it the references.
fn other_roots(root: &Path) -> usize {
    let Some((_, git)) = git_directory(root) else { return 0 };
    let own = Outside::of_journal(root, None).map(|folder| folder.path());
    let entries = fs::read_dir(git.join("harness")).into_iter().flatten().flatten();
    entries.filter(|entry| Some(entry.path()) != own && entry.path().is_dir()).count()
}

fn refs(root: &Path) -> Result<Vec<String>> {
    if !init::in_git(root) {
        return Ok(Vec::new());
    }
    let said = init::git(root, &["for-each-ref", "--format=%(refname)", "refs/harness"])?;
    Ok(said.lines().map(str::to_owned).collect())
}

fn remove_refs(root: &Path, refs: &[String]) -> Result<()> {
    let mut command = Command::new("git");
    let command = command.args(["update-ref", "--stdin"]).current_dir(root);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let lines: String = refs.iter().map(|name| format!("delete {name}\n")).collect();
    if let Some(mut input) = child.stdin.take() {
        input.write_all(lines.as_bytes())?;
    }
    match child.wait()?.success() {
        true => Ok(()),
        false => Err(Failure::error("git could not remove the references under refs/harness")),
    }
}

/// Removes the lines that `init` wrote from the ignore files of git.
fn ignore_rules(root: &Path) -> Result<Vec<String>> {
    let mut files: Vec<PathBuf> = vec![root.join(".gitignore")];
    if init::in_git(root) {
        files.push(root.join(init::git(root, &["rev-parse", "--git-path", "info/exclude"])?));
    }
    let mut changed = Vec::new();
    for file in files {
        let plain = fs::symlink_metadata(&file).is_ok_and(|found| found.is_file());
        let Some(text) = plain.then(|| fs::read_to_string(&file).ok()).flatten() else { continue };
        let ours = |line: &&str| *line == "# harness" || IGNORED.contains(line);
        if !text.lines().any(|line| ours(&line)) {
            continue;
        }
        let rest: String =
            text.lines().filter(|line| !ours(line)).map(|line| format!("{line}\n")).collect();
        let written = match rest.trim().is_empty() && file.ends_with(".gitignore") {
            true => fs::remove_file(&file),
            false => fs::write(&file, rest),
        };
        written.map_err(|why| Failure::file("write", &file, &why))?;
        changed.push(format!("ignore rules in {}", file.display()));
    }
    Ok(changed)
}
