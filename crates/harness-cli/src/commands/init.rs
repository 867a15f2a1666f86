//! `harness init`

mod database;
mod project;
mod restore;
mod settings;
mod trial;
mod wishes;

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write},
    path::Path,
    process::Command,
};

use harness::{
    clock::{Clock, SystemClock},
    home::{Home, folder::Folder},
    store::Created,
    workspace::glance,
};
use harness_core::role::Operation;
use serde_json::json;

use self::{settings::Settled, wishes::Wishes};
use crate::{
    environment::Environment,
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::{Invocation, working_directory},
    paint::{one_line, warn},
    prompt::{Answer, Audience},
    root::StateRoot,
    trust::{self, Trust},
    would_run::WouldRun,
};

/// Create a ledger in this project
///
/// Creates harness-tasks.json, harness-progress.txt and .harness-active at the top of the git work
/// tree (or in this directory, if there is none), and makes git ignore them. If the project shows
/// how it is tested (Cargo.toml, package.json, a Makefile with a test target and others), init
/// writes a harness.toml: that command becomes the check of tasks that are added without one, and
/// the tests become protected files. Init first tries the check in the work tree and in a clean
/// checkout. This runs code of the repository, so it happens only if you agree or pass --yes. On a
/// terminal init asks; a second init changes nothing. If a ledger was lost, init does not overwrite
/// what is left of it: --restore brings the old one back, --fresh starts over.
///
/// With --database the ledger is in PostgreSQL, where several machines use it. Init creates the tables if
/// they are missing, an empty ledger, and the table [store] of harness.toml, without a password.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness init
  harness init --yes --with-init-script
  harness init --yes --no-try   # take what is found, but run nothing
  harness init --restore        # the ledger is gone or broken: bring it back
  harness init --git            # also `git init` where there is no repository
  harness init --database postgres://harness@db.example.org/work   # for several machines")]
pub(crate) struct Args {
    /// Take the defaults and do not ask
    #[arg(long, short)]
    yes: bool,
    /// Also write a harness-init.sh to fill in: it runs at the start of every session
    #[arg(long)]
    with_init_script: bool,
    /// Write the ignore rules to .gitignore, for everybody, instead of .git/info/exclude
    #[arg(long, conflicts_with = "no_ignore")]
    gitignore: bool,
    /// Do not run the check that was found
    #[arg(long)]
    no_try: bool,
    /// Do not look for a check and tests, and write no harness.toml
    #[arg(long)]
    no_config: bool,
    /// Write no ignore rules
    #[arg(long)]
    no_ignore: bool,
    /// Run `git init` if there is no repository
    #[arg(long)]
    git: bool,
    /// Restore the newest version of the ledger that harness wrote, and archive the present one
    #[arg(long, conflicts_with_all = ["fresh", "git", "with_init_script"])]
    restore: bool,
    /// Archive what is left of a ledger and start over
    #[arg(long)]
    fresh: bool,
    /// Create the ledger in this database, which several machines share; without a URL, in the one that
    /// HARNESS_DATABASE_URL names
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = false)]
    #[arg(conflicts_with_all = ["restore", "fresh"])]
    database: Option<Option<String>>,
    /// The name of the ledger in the database [default: that of the repository's top directory]
    #[arg(long, value_name = "NAME", requires = "database")]
    ledger: Option<String>,
    /// Accept a database that may lose confirmed changes in a crash
    #[arg(long, requires = "database")]
    unsafe_durability: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The files of harness that a repository does not need.
pub(crate) const IGNORED: [&str; 6] = [
    "harness-tasks.json*",
    "harness-progress.txt",
    ".harness-active",
    ".harness-reflect",
    ".harness-stop-counter",
    ".harness/",
];

/// The limit of an ignore file. A program maintains a larger one.
const IGNORE_BYTES_MAX: u64 = 16 * 1024 * 1024;

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let audience = if args.yes { Audience::Nobody } else { Audience::of_this_process() };
    let here = working_directory()?;
    let mut done: Vec<String> = Vec::new();
    let mut root = StateRoot::for_init(&invocation.env, &here)?;
    if args.restore || args.fresh {
        invocation.permit(&root, Operation::Store)?;
    }
    if args.restore {
        return restore::run(invocation, &args, &here);
    }
    invocation.permit(&root, Operation::BeginPlan)?;
    if !in_git(root.path()) && wishes::repository(&args, audience)? == Answer::Yes {
        git(root.path(), &["init", "--quiet"])?;
        done.push("made a git repository".into());
        root = StateRoot::for_init(&invocation.env, &here)?;
    }
    if let Some(url) = &args.database {
        return database::run(invocation, &args, &root, url.as_deref(), done);
    }
    // All questions come first, so that an interrupt during a question leaves nothing half done.
    let existed: Vec<&str> =
        MADE.into_iter().filter(|name| !is_absent(&root.path().join(name))).collect();
    if !args.fresh {
        restore::refuse_to_lose(invocation, &root)?;
    }
    let is_new = is_absent(&root.ledger()) || args.fresh;
    let wishes = if is_new { Wishes::of(&args, &root, audience)? } else { Wishes::NOTHING };
    let tree = invocation.worktree(&root);
    let offer = match is_new && !args.no_config && is_absent(&root.home().config()) {
        true => project::offer(&tree, &args, audience)?,
        false => None,
    };
    let created = match args.fresh {
        true => restore::start_over(invocation, &root, &mut done)?,
        false => invocation.file_store(&root)?.create(SystemClock.now())?,
    };
    if created == Created::Existed && !done.is_empty() && !args.no_ignore {
        // The repository is new, and the ledger is older.
        let ignore = if args.gitignore { Ignore::Shared } else { Ignore::Private };
        done.extend(write_ignore_rules(root.path(), ignore)?);
    }
    if created == Created::New {
        done.push(made_words(&existed));
        wishes.fulfil(&invocation.env, &root, &mut done)?;
        trust::offer_what_was_brought(invocation, &root, trust::BROUGHT, audience)?;
    }
    let settled = match offer.filter(|_| created == Created::New) {
        Some(offer) => Some(Settled::settle(invocation, &root, &tree, offer, &mut done)?),
        None => None,
    };
    report(invocation, &args, &root, created, &done, settled.as_ref())
}

fn report(
    invocation: &mut Invocation,
    args: &Args,
    root: &StateRoot,
    created: Created,
    done: &[String],
    settled: Option<&Settled>,
) -> Result<ExitCode> {
    let path = root.path().to_string_lossy();
    let out = &mut invocation.out;
    if args.json {
        let made = created == Created::New;
        let mut document = json!({ "root": path, "created": made, "done": done });
        if let Some(settled) = settled {
            document["project"] = settled.document();
        }
        out.document(&document)?;
        return Ok(ExitCode::Done);
    }
    let path = one_line(&path);
    match created {
        Created::Existed if done.is_empty() => {
            out.line(format_args!("{path} has a ledger; nothing was changed"))?;
        }
        Created::Existed | Created::New => {
            out.line(format_args!("{path}"))?;
            for line in done {
                out.line(format_args!("  {}", one_line(line)))?;
            }
        }
    }
    if created == Created::New {
        if !in_git(root.path()) {
            out.line(
                "  there is no git repository here: the ledger works, but `harness run` needs one",
            )?;
        }
        out.line(match settled.is_some_and(Settled::has_check) {
            true => "next: harness add \"what is to be done\"",
            false => {
                "next: harness add \"what is to be done\" --validate 'the command that proves it'"
            }
        })?;
    }
    Ok(ExitCode::Done)
}

/// Creates an empty ledger for a command that found none, and says so. It refuses where a ledger was
/// lost, and where there is no git repository.
pub(crate) fn create_empty(invocation: &Invocation, without: Failure) -> Result<StateRoot> {
    let root = StateRoot::for_init(&invocation.env, &working_directory()?)?;
    if !in_git(root.path()) {
        return Err(without);
    }
    invocation.permit(&root, Operation::BeginPlan)?;
    restore::refuse_to_lose(invocation, &root)?;
    let existed: Vec<&str> =
        MADE.into_iter().filter(|name| root.path().join(name).exists()).collect();
    if invocation.file_store(&root)?.create(SystemClock.now())? == Created::New {
        made(&invocation.env, &root);
        eprintln!("{} in {}; git ignores them", made_words(&existed), root.path().display());
    }
    Ok(root)
}

/// Finishes a ledger that was just created without `init`: it is trusted, and git ignores it.
pub(crate) fn made(env: &Environment, root: &StateRoot) {
    Trust::grant_made(env, root, &WouldRun::default());
    let ignore = if in_git(root.path()) { Ignore::Private } else { Ignore::Nothing };
    if let Err(why) = write_ignore_rules(root.path(), ignore) {
        warn(&format!("git will not ignore the files of harness: {why}"));
    }
}

const MADE: [&str; 3] = [Home::LEDGER, Home::LOG, Home::MARKER];

fn made_words(existed: &[&str]) -> String {
    let made: Vec<&str> = MADE.into_iter().filter(|name| !existed.contains(name)).collect();
    match made.split_last() {
        None => "made a new ledger".into(),
        Some((last, [])) => format!("made {last}"),
        Some((last, others)) => format!("made {} and {last}", others.join(", ")),
    }
}

enum Ignore {
    Nothing,
    Private,
    Shared,
}

fn write_ignore_rules(root: &Path, ignore: Ignore) -> Result<Option<String>> {
    let file = match ignore {
        Ignore::Nothing => return Ok(None),
        Ignore::Shared => root.join(".gitignore"),
        // Git is asked for the path, because it differs in a linked work tree.
        Ignore::Private => root.join(git(root, &["rev-parse", "--git-path", "info/exclude"])?),
    };
    let added = add_rules(&file).map_err(|why| {
        let rules = IGNORED.join("  ");
        Failure::error(format!("{}: {why}; add to it yourself: {rules}", file.display()))
    })?;
    let shown = file.strip_prefix(root).unwrap_or(&file);
    Ok(added.then(|| format!("added ignore rules to {}", shown.display())))
}

/// Adds the missing rules, and returns whether there were any. It does not write through a link,
/// because the target is not harness's file.
fn add_rules(file: &Path) -> io::Result<bool> {
    let strange = || io::Error::other("it is not the path of a file");
    let name = file.file_name().and_then(OsStr::to_str).ok_or_else(strange)?;
    let folder = file.parent().ok_or_else(strange)?;
    let folder = match folder.file_name().filter(|name| *name == "info") {
        Some(_) => Folder::open(folder.parent().ok_or_else(strange)?)?.make("info")?,
        None => Folder::open(folder)?,
    };
    let old = folder.read_small(name, IGNORE_BYTES_MAX)?.unwrap_or_default();
    let old = String::from_utf8_lossy(&old);
    let missing: Vec<&str> =
        IGNORED.into_iter().filter(|rule| !old.lines().any(|line| line.trim() == *rule)).collect();
    if missing.is_empty() {
        return Ok(false);
    }
    let glue = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    let added = format!("{glue}# harness\n{}\n", missing.join("\n"));
    folder.open_to_append(name)?.write_all(added.as_bytes())?;
    Ok(true)
}

fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err()
}

pub(crate) fn in_git(path: &Path) -> bool {
    path.ancestors().any(glance::is_work_tree)
}

pub(crate) fn git(directory: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    // The variables of a hook or an alias around this process would point git at another
    // repository.
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("GIT_") && !name.starts_with("GIT_CONFIG_") {
            command.env_remove(variable);
        }
    }
    let output = command
        .args(args)
        .current_dir(directory)
        .output()
        .map_err(|why| Failure::error(format!("cannot run git: {why}")).hint("install git"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::error(format!("git {} failed: {}", args.join(" "), said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
