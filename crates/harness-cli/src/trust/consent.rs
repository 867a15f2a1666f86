//! The consent of a person to what would run: the question, and the refusal without it.

use std::io::{self, Write as _};

use harness_core::{role::Role, trust::Item};

use super::{Standing, Trust};
use crate::{
    failure::{Failure, Result},
    interrupt::Interrupt,
    invocation::Invocation,
    paint::{visible, warn},
    prompt::{Answer, Audience, confirm},
    root::StateRoot,
    would_run::WouldRun,
};

/// Refuses, or asks the person at the terminal, if something would run that was not agreed to.
pub(crate) fn require(invocation: &Invocation, root: &StateRoot) -> Result<()> {
    let trust = Trust::of_user(&invocation.env)?;
    let would_run = match trust.standing(root)? {
        Standing::Trusted => return Ok(()),
        Standing::Stranger => return Err(refusal(root, &WouldRun::in_root(root)?)),
        Standing::Brought(would_run) => would_run,
    };
    // The terminal of a web server is not the place where its user looks.
    let is_asked = invocation.peer(root).role == Role::Operator
        && !matches!(invocation.interrupt, Interrupt::Page(_))
        && Audience::of_this_process() == Audience::Person;
    if !is_asked {
        return Err(news(root, &would_run));
    }
    match ask(
        &format!("{} brings commands that you have not reviewed yet", root.path().display()),
        &would_run,
    )? {
        Answer::Yes => trust.grant(root, &would_run.items),
        Answer::No => Err(Failure::config("not trusted; nothing was done")),
    }
}

/// Does the same for the one item that is about to run.
pub(crate) fn require_item(invocation: &Invocation, root: &StateRoot, item: &Item) -> Result<()> {
    if Trust::of_user(&invocation.env)?.covers(root, item)? {
        return Ok(());
    }
    require(invocation, root)
}

/// Does the same for a process without a person at its terminal.
pub(crate) fn require_silently(trust: &Trust, root: &StateRoot, item: &Item) -> Result<()> {
    if trust.covers(root, item)? {
        return Ok(());
    }
    match trust.standing(root)? {
        Standing::Trusted => Ok(()),
        Standing::Stranger => Err(refusal(root, &WouldRun::in_root(root)?)),
        Standing::Brought(would_run) => Err(news(root, &would_run)),
    }
}

/// What came with a repository, as the introduction of what it would run.
pub(crate) const BROUGHT: &str = "The repository also brings commands that would run here";

/// Shows what the repository brought beside a new ledger, or what an import brought, and asks for it
/// if there is a person to ask. The command has done its work, so a no, or a missing home, is no failure.
pub(crate) fn offer_what_was_brought(
    invocation: &Invocation,
    root: &StateRoot,
    introduction: &str,
    audience: Audience,
) -> Result<()> {
    let Ok(trust) = Trust::of_user(&invocation.env) else { return Ok(()) };
    let Ok(Standing::Brought(would_run)) = trust.standing(root) else { return Ok(()) };
    match audience {
        Audience::Person if invocation.peer(root).role == Role::Operator => {
            match ask(introduction, &would_run)? {
                Answer::Yes => trust.grant(root, &would_run.items)?,
                Answer::No => warn("it is not trusted, so `harness run` will ask again"),
            }
        }
        Audience::Person | Audience::Nobody => {
            show(introduction, &would_run)?;
            warn("it is not trusted yet: review it, then run `harness trust`");
        }
    }
    Ok(())
}

/// Asks the question. It goes to standard error together with the items.
pub(crate) fn ask(introduction: &str, would_run: &WouldRun) -> Result<Answer> {
    show(introduction, would_run)?;
    confirm("Let this machine run them?")
}

pub(crate) fn show(introduction: &str, would_run: &WouldRun) -> Result<()> {
    let lines = would_run.lines().join("\n  ");
    writeln!(io::stderr(), "{}\n  {}", visible(introduction), visible(&lines))?;
    Ok(())
}

/// Returns the failure of a command that would run something in an untrusted root.
pub(super) fn refusal(root: &StateRoot, would_run: &WouldRun) -> Failure {
    let what = would_run.lines().join("\n  ");
    let root = root.path().display();
    Failure::config(format!("{root} is not trusted; it would run\n  {what}"))
        .hint("to let this machine run them: `harness trust`")
}

/// Returns the failure if the place is trusted but got new items since then.
fn news(root: &StateRoot, would_run: &WouldRun) -> Failure {
    let what = would_run.lines().join("\n  ");
    let root = root.path().display();
    Failure::config(format!("{root} brings commands that you have not trusted yet\n  {what}"))
        .hint("to let this machine run them: `harness trust`")
}
