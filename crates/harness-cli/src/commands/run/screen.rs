//! What a run shows on standard error: the lines of its log as they are written, how far it is, and
//! what it uses.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use harness::{
    Envelope, Event, Observer, Transaction,
    core::{Run, agent::Usage},
};

use super::view::View;
use crate::paint::visible;

pub(super) struct Screen {
    view: Arc<View>,
    row: Run,
    used: Mutex<Usage>,
    /// What to warn of when an agent reports tokens and no money, by its name.
    moneyless: Mutex<HashMap<String, String>>,
}

impl Screen {
    pub(super) fn new(view: Arc<View>, row: &Run, moneyless: HashMap<String, String>) -> Self {
        let used = Mutex::new(row.usage);
        Self { view, row: row.clone(), used, moneyless: Mutex::new(moneyless) }
    }

    fn used(&self, by: &str, usage: Usage) {
        if usage.cost_usd.is_none() && usage.tokens() > 0 {
            let mut moneyless = self.moneyless.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(warning) = moneyless.remove(by) {
                self.view.warning(&warning);
            }
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used += usage;
        self.view.used(&against(&used, &self.row));
    }
}

impl Observer for Screen {
    fn committed(&self, transaction: &Transaction<'_>) {
        transaction.warnings.iter().for_each(|warning| self.view.warning(warning));
        if self.view.is_live() {
            transaction.look(|ledger| self.view.refresh(ledger));
        }
        self.view.lines(&visible(transaction.log));
    }

    fn event(&self, envelope: &Envelope) {
        match &envelope.event {
            Event::AgentUsage { input_tokens, output_tokens, cost_usd, .. } => {
                let agent = envelope.context.agent.as_ref().map_or("", |agent| &agent.name);
                let (input_tokens, output_tokens) = (*input_tokens, *output_tokens);
                self.used(agent, Usage { input_tokens, output_tokens, cost_usd: *cost_usd });
            }
            // For a task, the log reports it.
            Event::RunIteration { iteration, max_iterations, .. }
                if self.row.objective.is_some() =>
            {
                self.view.context((*iteration).into(), (*max_iterations).into());
            }
            Event::HarnessComplete { .. } => self.view.end(),
            _ => {}
        }
    }
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
