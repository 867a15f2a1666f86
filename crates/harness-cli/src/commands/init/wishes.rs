//! The wishes of the user for a new ledger: by arguments, or by answers to questions.

use std::{fs, io::Write as _, os::unix::fs::OpenOptionsExt as _};

use super::{Args, Ignore, in_git, is_absent, write_ignore_rules};
use crate::{
    environment::Environment,
    failure::{Failure, Result},
    paint::warn,
    prompt::{Answer, Audience, confirm_or},
    root::StateRoot,
    trust::Trust,
    would_run::WouldRun,
};

const IGNORE_QUESTION: &str = "\
harness keeps its state in harness-tasks.json, harness-progress.txt and .harness/.
Let git ignore these files (in .git/info/exclude)?";

const SCRIPT_QUESTION: &str = "\
A script harness-init.sh would run at the start of every session, to install what checks need.
Write one to fill in?";

const INIT_SCRIPT: &str = "\
#!/bin/sh
# Runs at the start of every harness session, from this directory. Safe to run any number of times.
set -eu

# Install what the project needs, e.g.:
#   npm install --no-audit --silent
# Start what its tests need, e.g.:
#   docker compose up -d --wait db
";

/// The files that a new ledger gets beside it.
pub(super) struct Wishes {
    ignore: Ignore,
    with_script: Answer,
}

impl Wishes {
    pub(super) const NOTHING: Self = Self { ignore: Ignore::Nothing, with_script: Answer::No };

    pub(super) fn of(args: &Args, root: &StateRoot, audience: Audience) -> Result<Self> {
        let ignore = match (args.no_ignore, args.gitignore) {
            (true, _) => Ignore::Nothing,
            (_, true) => Ignore::Shared,
            _ if !in_git(root.path()) => Ignore::Nothing,
            _ => match ask(audience, IGNORE_QUESTION, Answer::Yes)? {
                Answer::Yes => Ignore::Private,
                Answer::No => Ignore::Nothing,
            },
        };
        let with_script = match (is_absent(&root.home().init_script()), args.with_init_script) {
            (false, _) => Answer::No,
            (true, true) => Answer::Yes,
            (true, false) => ask(audience, SCRIPT_QUESTION, Answer::No)?,
        };
        Ok(Self { ignore, with_script })
    }

    /// Writes the files of a ledger that was just created, and trusts it.
    pub(super) fn fulfil(
        self,
        env: &Environment,
        root: &StateRoot,
        done: &mut Vec<String>,
    ) -> Result<()> {
        match write_ignore_rules(root.path(), self.ignore) {
            Ok(written) => done.extend(written),
            // The ledger exists and works, so a failure here would be misleading.
            Err(why) => warn(&format!("git will not ignore these files: {why}")),
        }
        if self.with_script == Answer::Yes {
            let script = root.home().init_script();
            let unwritable = |why| Failure::file("write", &script, &why);
            let made =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(&script);
            made.and_then(|mut f| f.write_all(INIT_SCRIPT.as_bytes())).map_err(unwritable)?;
            done.push("wrote harness-init.sh".into());
        }
        // A ledger that came with the repository does not become trusted by this, nor do the files
        // beside it.
        let made = match self.with_script {
            Answer::Yes => WouldRun::init_script(root),
            Answer::No => WouldRun::default(),
        };
        Trust::grant_made(env, root, &made);
        Ok(())
    }
}

/// Returns whether a repository is to be made where there is none.
pub(super) fn repository(args: &Args, audience: Audience) -> Result<Answer> {
    if args.git {
        return Ok(Answer::Yes);
    }
    ask(audience, "There is no git repository here. Make one?", Answer::No)
}

fn ask(audience: Audience, question: &str, without: Answer) -> Result<Answer> {
    match audience {
        Audience::Person => confirm_or(question, without),
        Audience::Nobody => Ok(without),
    }
}
