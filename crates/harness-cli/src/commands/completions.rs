//! `harness completions SHELL`

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap_complete::Shell;

use super::args;
use crate::{
    environment::Environment,
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
};

/// Print a shell completion script, or install it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness completions --install         # for the shell in $SHELL
  harness completions zsh --install
  harness completions bash > /etc/bash_completion.d/harness")]
pub(crate) struct Args {
    /// The shell [default: the one in $SHELL, with --install or --uninstall]
    #[arg(value_enum)]
    shell: Option<Shell>,
    /// Write the script to the place where the shell looks for it, and print that place
    #[arg(long, conflicts_with = "uninstall")]
    install: bool,
    /// Remove what --install wrote
    #[arg(long)]
    uninstall: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let is_about_files = args.install || args.uninstall;
    let shell = args.shell.or_else(|| Shell::from_env().filter(|_| is_about_files));
    let shell = shell.ok_or_else(|| {
        Failure::usage("no shell was named").hint("name one: bash, zsh, fish, elvish or powershell")
    })?;
    if !is_about_files {
        invocation.out.raw(&script(shell))?;
        return Ok(ExitCode::Done);
    }
    let path = place(&invocation.env, shell)?;
    if args.uninstall {
        let removed = remove(&path)?;
        let what = if removed { "removed" } else { "there is no" };
        invocation.out.line(format_args!("{what} {}", path.display()))?;
        return Ok(ExitCode::Done);
    }
    write(&path, &script(shell))?;
    invocation.out.line(format_args!("wrote {}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("/")).display();
    invocation.out.line(match shell {
        Shell::Zsh => format!(
            "add this to ~/.zshrc, before compinit, if it is not there: fpath=({folder} $fpath)"
        ),
        _ => "it is used by every new shell".to_owned(),
    })?;
    Ok(ExitCode::Done)
}

fn script(shell: Shell) -> Vec<u8> {
    // The generator panics when its writer fails. A write to memory does not fail.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "harness", &mut script);
    script
}

/// Returns the file that the shell reads by itself.
fn place(env: &Environment, shell: Shell) -> Result<PathBuf> {
    let no_home = || {
        Failure::config("HOME is not set to an absolute path")
            .hint("set HOME to your home directory")
    };
    let (base, file) = match shell {
        Shell::Bash => (env.data_home(), "bash-completion/completions/harness"),
        Shell::Zsh => (env.data_home(), "zsh/site-functions/_harness"),
        Shell::Fish => (env.config_home(), "fish/completions/harness.fish"),
        other => {
            let what = format!("{other} has no place for the completions of a program");
            return Err(Failure::usage(what).hint(format!(
                "print them, and load them in its profile: `harness completions {other}`"
            )));
        }
    };
    base.map(|base| base.join(file)).ok_or_else(no_home)
}

/// Writes a file of the user's own. Folders are created.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder.and_then(|()| fs::write(path, bytes)).map_err(|why| Failure::file("write", path, &why))
}

/// Removes a file. Returns whether there was one.
fn remove(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(Failure::file("remove", path, &why)),
    }
}
