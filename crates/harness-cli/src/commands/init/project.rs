//! The parts of the project that `init` finds and offers: its check, and its tests as protected
//! files.

use std::path::Path;

use harness::{home::folder::Folder, workspace::glance};
use harness_core::project::{MANIFESTS, ProjectCheck, ProjectFiles};

use super::Args;
use crate::{
    failure::Result,
    paint::visible,
    prompt::{Answer, Audience, confirm_or},
};

/// The limit of a manifest. Larger files are not written by people.
const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;
/// The number of files that are searched for tests.
const FILES_MAX: usize = 100_000;

/// The settings that the user agreed to.
pub(super) struct Offer {
    pub(super) check: Option<ProjectCheck>,
    /// Other commands that could be the check.
    pub(super) others: Vec<String>,
    pub(super) protected: Vec<String>,
    pub(super) consent: Consent,
}

/// Whether the code of the repository may be run to try the check.
pub(super) enum Consent {
    Given,
    Refused { why: &'static str },
}

/// Reads the names of the work tree, and asks. Returns `None` if there is nothing to offer.
pub(super) fn offer(tree: &Path, args: &Args, audience: Audience) -> Result<Option<Offer>> {
    let project = look(tree);
    let mut checks = project.checks().into_iter();
    let (check, others) = (checks.next(), checks.map(|check| check.command).collect());
    let mut offer =
        Offer { check, others, protected: project.tests(), consent: unasked(args, audience) };
    if audience == Audience::Person {
        ask(&mut offer, args)?;
    }
    Ok((offer.check.is_some() || !offer.protected.is_empty()).then_some(offer))
}

/// Returns the consent without a question. Without a terminal `init` uses its defaults, but only
/// `--yes` agrees to run code of the repository then.
fn unasked(args: &Args, audience: Audience) -> Consent {
    match (args.no_try, args.yes, audience) {
        (true, _, _) => Consent::Refused { why: "it was not tried (--no-try)" },
        (false, true, _) => Consent::Given,
        (false, false, Audience::Nobody) => Consent::Refused {
            why: "it was not tried, because running it was not agreed to (`--yes` agrees)",
        },
        (false, false, Audience::Person) => Consent::Refused { why: "it was not tried" },
    }
}

fn ask(offer: &mut Offer, args: &Args) -> Result<()> {
    if let Some(check) = &offer.check {
        let command = visible(&check.command);
        let question = format!(
            "Found `{command}` ({}). Let it check tasks that are added without a check?",
            check.shown_by
        );
        if confirm_or(&question, Answer::Yes)? == Answer::No {
            offer.check = None;
        } else if !args.no_try {
            let question = format!(
                "Try `{command}` now, here and in a clean checkout? It runs code of this repository."
            );
            if confirm_or(&question, Answer::Yes)? == Answer::Yes {
                offer.consent = Consent::Given;
            }
        }
    }
    if !offer.protected.is_empty() {
        let globs = visible(&offer.protected.join(" "));
        let question = format!("Flag attempts that change the tests ({globs})?");
        if confirm_or(&question, Answer::Yes)? == Answer::No {
            offer.protected.clear();
        }
    }
    Ok(())
}

/// Returns names and manifests at the top, and the files that git does not ignore. Only git is run,
/// and unreadable files count as missing.
fn look(tree: &Path) -> ProjectFiles {
    let Ok(folder) = Folder::open(tree) else { return ProjectFiles::default() };
    let names = folder.names().unwrap_or_default().into_iter().collect();
    let text = |name: &str| {
        let bytes = folder.read_small(name, MANIFEST_BYTES_MAX).ok().flatten()?;
        Some((name.to_owned(), String::from_utf8_lossy(&bytes).into_owned()))
    };
    let texts = MANIFESTS.into_iter().filter_map(text).collect();
    ProjectFiles { names, texts, files: glance::files(tree, FILES_MAX) }
}
