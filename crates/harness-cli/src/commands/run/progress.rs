//! What a run uses and which context it is in, as its agents tell it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::view::View;
use harness::{
    Envelope, Event, Hub,
    core::{Run, agent::Usage},
    hub::Subscription,
};

/// Follows the agents of a run until both are dropped. `moneyless`: what to say of an agent that tells
/// of tokens and no money, by its name.
pub(super) fn follow(
    hub: &Hub,
    view: &Arc<View>,
    row: &Run,
    moneyless: HashMap<String, String>,
) -> [Subscription; 2] {
    let moneyless = Mutex::new(moneyless);
    let used = Arc::new(Mutex::new(row.usage));
    let paid = row.clone();
    let shown = Arc::clone(view);
    let usage = hub.subscribe("agent:usage", move |envelope: &Envelope| {
        let Event::AgentUsage { input_tokens, output_tokens, cost_usd, .. } = &envelope.event
        else {
            return;
        };
        if cost_usd.is_none() && input_tokens + output_tokens > 0 {
            let agent = envelope.context.agent.as_ref().map_or("", |agent| &agent.name);
            let mut moneyless = moneyless.lock().unwrap_or_else(PoisonError::into_inner);
            // Once.
            if let Some(warning) = moneyless.remove(agent) {
                shown.warning(&warning);
            }
        }
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        *used += Usage {
            input_tokens: *input_tokens,
            output_tokens: *output_tokens,
            cost_usd: *cost_usd,
        };
        shown.used(&against(&used, &paid));
    });
    let view = Arc::clone(view);
    let of_objective = row.objective.is_some();
    let contexts = hub.subscribe("run:iteration", move |envelope: &Envelope| {
        let Event::RunIteration { iteration, max_iterations, .. } = envelope.event else { return };
        // Of a task, the log says what happens.
        if of_objective {
            view.context(iteration.into(), max_iterations.into());
        }
    });
    [usage, contexts]
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
