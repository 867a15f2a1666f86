//! `harness man`

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::args;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
};

/// Print the manual page, or write one page per command
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness man --install           # then: man harness, man harness-run
  harness man | man -l -
  harness man --dir /usr/share/man/man1")]
pub(crate) struct Args {
    /// Write one page per command into this directory, which is created if needed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["install", "uninstall"])]
    dir: Option<PathBuf>,
    /// Write the pages to the place where `man` looks for those of a user, and print that place
    #[arg(long, conflicts_with = "uninstall")]
    install: bool,
    /// Remove what --install wrote
    #[arg(long)]
    uninstall: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    if args.uninstall {
        let folder = place(invocation)?;
        let removed = remove(&folder)?;
        let folder = folder.display();
        invocation.out.line(format_args!("removed {removed} pages from {folder}"))?;
        return Ok(ExitCode::Done);
    }
    let folder = if args.install { Some(place(invocation)?) } else { args.dir };
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(args::command()).render(&mut page)?;
        invocation.out.raw(&page)?;
        return Ok(ExitCode::Done);
    };
    fs::create_dir_all(&folder)
        .and_then(|()| clap_mangen::generate_to(args::command(), &folder))
        .map_err(|why| Failure::file("write the manual to", &folder, &why))?;
    if args.install {
        invocation.out.line(format_args!("wrote the pages to {}", folder.display()))?;
        invocation.out.line("read them with `man harness` and `man harness-run`")?;
    }
    Ok(ExitCode::Done)
}

fn place(invocation: &Invocation) -> Result<PathBuf> {
    invocation.env.data_home().map(|data| data.join("man/man1")).ok_or_else(|| {
        Failure::config("HOME is not set to an absolute path")
            .hint("set HOME to your home directory")
    })
}

/// Removes the pages of this program. Returns how many there were.
fn remove(folder: &Path) -> Result<usize> {
    let is_ours =
        |name: &str| name == "harness.1" || (name.starts_with("harness-") && name.ends_with(".1"));
    let entries = match fs::read_dir(folder) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries.map_err(|why| Failure::file("read", folder, &why))?,
    };
    let mut removed = 0;
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_ours) {
            let path = entry.path();
            fs::remove_file(&path).map_err(|why| Failure::file("remove", &path, &why))?;
            removed += 1;
        }
    }
    Ok(removed)
}
