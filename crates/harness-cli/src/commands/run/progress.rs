//! What a run uses and which context it is in, as its agents tell it.

use std::sync::{Arc, Mutex, PoisonError};

use harness::{
    Envelope, Event, Hub,
    core::{Run, agent::Usage},
    hub::Subscription,
    store::Runs,
};

use super::view::View;

/// Follows the agents of a run until both are dropped.
pub(super) fn follow(
    hub: &Hub,
    view: &Arc<View>,
    runs: &Arc<dyn Runs>,
    row: &Run,
) -> [Subscription; 2] {
    let used = Arc::new(Mutex::new(row.usage));
    let [row, id] = [row.clone(), row.clone()];
    let shown = Arc::clone(view);
    let usage = hub.subscribe("agent:usage", move |envelope: &Envelope| {
        let Event::AgentUsage { input_tokens, output_tokens, cost_usd, .. } = &envelope.event
        else {
            return;
        };
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        *used += Usage {
            input_tokens: *input_tokens,
            output_tokens: *output_tokens,
            cost_usd: *cost_usd,
        };
        shown.used(&against(&used, &row));
    });
    // Once in a context, so that the look into the record costs nothing.
    let (view, runs) = (Arc::clone(view), Arc::clone(runs));
    let starts = hub.subscribe("agent:start", move |_: &Envelope| {
        if let (Some(_), Ok(Some(run))) = (&id.objective, runs.run(&id.id)) {
            view.context(run.iteration_count, run.limits.max_iterations);
        }
    });
    [usage, starts]
}

fn against(used: &Usage, row: &Run) -> String {
    let most = row.limits.max_tokens.map(|most| format!("/{most}")).unwrap_or_default();
    let mut text = format!("{}{most} tokens", used.tokens());
    if let Some(cost) = used.cost_usd {
        let most = row.limits.max_cost_usd.map(|most| format!("/{most:.2}")).unwrap_or_default();
        text += &format!(", ${cost:.2}{most}");
    }
    text
}
