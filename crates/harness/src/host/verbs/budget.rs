//! The budget of the run that this process drives.

use harness_core::{
    Command,
    command::{Code, Note},
};

use super::{super::server::Host, Handled, apply};
use crate::{
    event::Event,
    process::ancestry::Peer,
    project::{RunBudget, RunError},
    protocol::{Answer, BudgetRequest, BudgetView, Refused},
};

/// Changes the budget, if the request has a limit, and answers with the budget as it is then. It
/// holds at once for everything that the run drives.
pub(super) async fn budget(host: &Host, peer: &Peer, request: BudgetRequest) -> Handled {
    let found = host.budget.as_ref().filter(|found| request.is_of(found.run()));
    let Some(found) = found.cloned() else {
        return Err(Refused::new(Code::NoRun, "This process does not drive the run"));
    };
    let change = request.budget();
    if change.is_empty() {
        return Ok(Answer::Budget(BudgetView::from(&blocking(found, RunBudget::read).await?)));
    }
    let row = blocking(found, move |found| found.change(change)).await?;
    host.hub.allow(row.allowance());
    host.hub.emit(Event::RunBudget {
        row_id: row.id.clone(),
        max_cost_usd: row.limits.max_cost_usd,
        max_tokens: row.limits.max_tokens,
        deadline: row.deadline,
    });
    let message = format!("the budget of the run was changed by {}: {change}", peer.author());
    // The budget holds, whatever happens to the log line.
    _ = apply(host, Command::Note(Note::Warning { task: None, message })).await;
    Ok(Answer::Budget(BudgetView::from(&row)))
}

async fn blocking<T: Send + 'static>(
    found: RunBudget,
    act: impl FnOnce(&RunBudget) -> Result<T, RunError> + Send + 'static,
) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(move || act(&found)).await;
    match done {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(RunError::Refused(refusal))) => Err(refusal.into()),
        Ok(Err(why)) => Err(Refused::new(Code::Failed, why.to_string())),
        Err(why) => Err(Refused::new(Code::Failed, why.to_string())),
    }
}
