//! `harness man`

use std::{fs, path::PathBuf};

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
  harness man | man -l -
  harness man --dir ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write one page per command into this directory, which is created if needed
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    match args.dir {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(args::command()).render(&mut page)?;
            invocation.out.raw(&page)?;
        }
        Some(dir) => {
            fs::create_dir_all(&dir)
                .and_then(|()| clap_mangen::generate_to(args::command(), &dir))
                .map_err(|why| Failure::file("write the manual to", &dir, &why))?;
        }
    }
    Ok(ExitCode::Done)
}
