//! The program that the settings files run.

use std::{fs, path::Path};

use harness::home::Inode;

use super::Scope;
use crate::{
    commands::doctor::find_program,
    environment::Environment,
    failure::{Failure, Result},
};

pub(super) struct Program {
    pub(super) name: String,
    /// A warning about it.
    pub(super) warning: Option<String>,
}

/// Chooses the program. Files of a project are shared, so they get a name that works wherever
/// harness is installed. Files of this user alone get the path of this program, if the name leads
/// elsewhere.
pub(super) fn choose(env: &Environment, scope: Scope, told: Option<String>) -> Result<Program> {
    if let Some(name) = told {
        if name.trim().is_empty() {
            return Err(
                Failure::usage("--program is empty").hint("name the program that starts harness")
            );
        }
        return Ok(Program { name, warning: None });
    }
    let this = std::env::current_exe()
        .map_err(|why| Failure::error(format!("cannot find the path of this program: {why}")))?;
    let plain = |warning| Ok(Program { name: "harness".to_owned(), warning });
    let found = find_program(env, "harness");
    let place = |path: &Path| fs::metadata(path).ok().map(|file| Inode::of(&file));
    if found.as_deref().and_then(place) == place(&this) {
        return plain(None);
    }
    let shown = this.display();
    let name = match this.to_str() {
        Some(path) if scope == Scope::User => path.to_owned(),
        _ => {
            let what = match found {
                None => "harness is not on the PATH".to_owned(),
                Some(other) => format!("another harness is on the PATH, {}", other.display()),
            };
            return plain(Some(format!(
                "{what}; the files name `harness`, because they may be shared: put {shown} on the \
                 PATH, or pass --program {shown}"
            )));
        }
    };
    let warning = format!("`harness` on the PATH is another program, so the files name {shown}");
    Ok(Program { name, warning: Some(warning) })
}
