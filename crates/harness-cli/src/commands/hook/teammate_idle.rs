//! `teammate-idle`: a member of a team reports that it has nothing to do. While the ledger has
//! tasks, it has.

use super::{
    Answer,
    outlook::{Outlook, identities, named},
    payload::Payload,
    project::Project,
};
use crate::environment::Environment;

pub(super) fn answer(env: &Environment, project: &Project<'_>, payload: &Payload) -> Answer {
    // A teammate cannot fix a ledger. The hook at the stop of the session reports the problem.
    let Ok(ledger) = project.ledger() else { return Answer::silent() };
    let outlook = Outlook::of(&ledger);
    let me = identities(env, payload, &["teammate_name"]);
    if let Some(mine) = outlook.of_workers(&me).first() {
        return Answer::go_on(&format!(
            "HARNESS: you still have a task in progress, go on with it: {}",
            named(mine)
        ));
    }
    match outlook.next().filter(|_| outlook.has_open()) {
        Some(next) => Answer::go_on(&format!(
            "HARNESS: {} pending + {} retryable tasks are left, claim one (`harness task claim`); \
             next: {}",
            outlook.ready.len(),
            outlook.retryable.len(),
            named(next)
        )),
        None => Answer::silent(),
    }
}
