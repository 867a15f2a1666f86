//! `harness rescue …`

use std::path::{Path, PathBuf};

use harness::workspace::{GitWorkspace, Rescue, Workspace, WorkspaceError};
use harness_core::TaskId;
use serde_json::json;

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::visible,
    render::Table,
    repository::{self, short},
    root::StateRoot,
};

/// List and restore work that rollbacks saved
///
/// Before a rollback, everything that would vanish (commits, changes, new files) is saved as a
/// commit under refs/harness/rescue/TASK/ATTEMPT. Without a name, the commands use the latest.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness rescue list
  harness rescue show task-002
  harness rescue restore task-002/1
  harness rescue restore task-002 --branch salvage
  harness rescue restore task-002 --to /tmp/salvage")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List what was saved, oldest first
    List {
        /// Only rescues of this task
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a rescue holds
    Show {
        /// TASK or TASK/ATTEMPT [default: the latest]
        name: Option<String>,
    },
    /// Write the files of a rescue into the work tree
    ///
    /// Where later commits changed a file as well, the two are merged. Refused if that would
    /// overwrite a change of yours, or if the same lines were changed: then --branch or --to help.
    Restore {
        /// TASK or TASK/ATTEMPT [default: the latest]
        name: Option<String>,
        /// Only make a branch of this name that holds it; the work tree stays as it is
        #[arg(long, value_name = "NAME")]
        branch: Option<String>,
        /// Write the files into this directory, which is empty or not there, and not into the work tree
        #[arg(long, value_name = "DIR", conflicts_with = "branch")]
        to: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let workspace = invocation.workspace(&root)?;
    match args.command {
        Command::List { name, json } => list(invocation, &workspace, name.as_deref(), json),
        Command::Show { name } => {
            let rescue = find(&workspace, name.as_deref())?;
            let shown = workspace.show(&rescue)?;
            let out = &mut invocation.out;
            let name = short(&rescue);
            out.line(format_args!("{name}  {}  {}", rescue.when, visible(&rescue.subject)))?;
            out.line(visible(shown.trim_end()))?;
            Ok(ExitCode::Done)
        }
        Command::Restore { name, branch, to, json } => {
            let rescue = find(&workspace, name.as_deref())?;
            let task = short(&rescue).rsplit_once('/').map(|(task, _)| task);
            invocation.permit_rescue(&root, task)?;
            let files = match (&branch, &to) {
                (Some(branch), _) => {
                    workspace.branch_of_rescue(&rescue, branch)?;
                    Vec::new()
                }
                (None, Some(directory)) => workspace.copy_rescue(&rescue, directory)?,
                (None, None) => workspace.restore(&rescue)?,
            };
            if json {
                let mut answer = json!({ "rescue": rescue.reference, "files": files });
                if let Some(branch) = branch {
                    answer["branch"] = branch.into();
                }
                invocation.out.document(&answer)?;
                return Ok(ExitCode::Done);
            }
            if let Some(branch) = branch {
                let name = visible(&branch);
                invocation.out.line(format_args!("{name} holds {}", short(&rescue)))?;
            }
            for file in &files {
                invocation.out.line(visible(file))?;
            }
            Ok(ExitCode::Done)
        }
    }
}

fn list(
    invocation: &mut Invocation,
    workspace: &GitWorkspace,
    name: Option<&str>,
    json: bool,
) -> Result<ExitCode> {
    let task = name.map(TaskId::parse).transpose()?;
    let rescues = workspace.rescues(task.as_ref())?;
    if json {
        let row = |r: &Rescue| {
            json!({ "name": short(r), "ref": r.reference, "commit": r.commit, "when": r.when,
                    "subject": r.subject })
        };
        let rows: Vec<_> = rescues.iter().map(row).collect();
        invocation.out.document(&json!({ "rescues": rows }))?;
        return Ok(ExitCode::Done);
    }
    if rescues.is_empty() {
        match &task {
            Some(task) => eprintln!("nothing was rescued of {task}"),
            None => eprintln!("nothing was rescued yet"),
        }
    }
    let mut table = Table::default();
    for rescue in &rescues {
        let when = rescue.when.to_string();
        table.row([short(rescue), rescue.commit.short(), &when, &rescue.subject]);
    }
    invocation.out.table(&table)?;
    Ok(ExitCode::Done)
}

/// Returns the latest rescue with this name.
fn find(workspace: &GitWorkspace, name: Option<&str>) -> Result<Rescue> {
    let rescues = workspace.rescues(None)?;
    let named = |r: &Rescue| {
        name.is_none_or(|name| {
            let of = short(r);
            of == name || of.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let found = rescues.into_iter().rfind(named);
    found.ok_or_else(|| match name {
        Some(name) => Failure::error(format!("there is no rescue {name}"))
            .hint("`harness rescue list` shows all rescues"),
        None => Failure::error("nothing has been rescued here"),
    })
}

impl Invocation {
    /// Opens the git work tree of the root. Content filters are programs that the repository names,
    /// so they run only if it is trusted.
    pub(crate) fn workspace(&self, root: &StateRoot) -> Result<GitWorkspace> {
        self.workspace_of(root, root.path())
    }

    /// Opens the work tree that contains `directory` in the same way.
    pub(crate) fn workspace_of(&self, root: &StateRoot, directory: &Path) -> Result<GitWorkspace> {
        repository::workspace(&self.env, root, directory)
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        let text = error.to_string();
        match error {
            WorkspaceError::NotARepository { .. } => {
                Self::config(text).hint("create one with `git init` and a first commit")
            }
            WorkspaceError::NoCommits => {
                Self::config(text).hint("create one: `git commit --allow-empty -m start`")
            }
            WorkspaceError::NoGit => Self::config(text).hint("install git"),
            WorkspaceError::Unsafe { hint, .. } => Self::config(text).hint(hint),
            WorkspaceError::Locked { .. } => Self::config(text)
                .hint("wait for the running git command; if there is none, remove that file"),
            WorkspaceError::CannotUndo { ways: [undo, keep], .. } => {
                Self::config(text).hint(undo).hint(keep)
            }
            WorkspaceError::WouldOverwrite { .. } => {
                Self::error(text)
                    .hint("they have changes that are in no commit: commit or move them first")
                    .hint("`harness rescue restore --branch NAME` leaves them alone, and so does --to DIR")
            }
            WorkspaceError::Conflicts { .. } => Self::error(text)
                .hint("`harness rescue restore --branch NAME` makes a branch to merge by hand")
                .hint("`harness rescue restore --to DIR` writes its files somewhere else"),
            WorkspaceError::Io(why) => Self::from(why),
            WorkspaceError::NoSuchCommit { .. }
            | WorkspaceError::WrongWorktree { .. }
            | WorkspaceError::NotDescendant { .. }
            | WorkspaceError::HeadMoved { .. }
            | WorkspaceError::Unreachable { .. }
            | WorkspaceError::Git { .. } => Self::error(text),
            // The library may add variants.
            _ => Self::error(text),
        }
    }
}
