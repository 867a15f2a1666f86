//! Converts a ledger into a plan. The plan describes the tasks, but not what happened to them.

use super::{Plan, PlanPhase, PlanTask, PlanValidation};
use crate::{
    Ledger, Task,
    ledger::Phase,
    task::{CHECK_TIMEOUT_SECONDS, MAX_ATTEMPTS, Priority},
};

impl Plan {
    /// Returns the plan that an import would create these tasks from. The warnings name everything
    /// that a plan cannot express.
    pub fn of_ledger(ledger: &Ledger) -> Self {
        let mut tasks: Vec<&Task> = ledger.tasks().collect();
        // The order in a plan is the order of work. Tasks that came without a plan follow at the
        // end.
        tasks.sort_by_key(|t| t.order.unwrap_or(u64::MAX));
        let mut warnings = Vec::new();
        for task in &tasks {
            if let Priority::Unknown(text) = &task.priority {
                let id = &task.id;
                warnings.push(format!("tasks.{id}.priority: a plan has no {text:?}, left out"));
            }
            for missing in task.depends_on.iter().filter(|d| !ledger.contains(d)) {
                warnings.push(format!("Missing dependency: {missing} (in {})", task.id));
            }
        }
        Self {
            goal: ledger.head().goal.clone().unwrap_or_default(),
            tasks: tasks.into_iter().map(|t| (t.id.clone(), PlanTask::of_task(t))).collect(),
            phases: (!ledger.head().phases.is_empty())
                .then(|| ledger.head().phases.iter().map(PlanPhase::of_phase).collect()),
            warnings,
        }
    }
}

impl PlanPhase {
    fn of_phase(phase: &Phase) -> Self {
        Self {
            name: phase.name.clone(),
            gate: phase.gate.as_ref().map(|gate| gate.command.clone()),
            gate_timeout_seconds: phase.gate.as_ref().and_then(|gate| gate.timeout_seconds),
            approve: phase.approve,
        }
    }
}

impl PlanTask {
    /// Leaves out fields with the ledger's default values.
    fn of_task(task: &Task) -> Self {
        Self {
            description: task.title.clone(),
            dependencies: task.depends_on.clone(),
            timeout_seconds: task.timeout_seconds.filter(|seconds| *seconds > 0),
            instructions: task.instructions.clone(),
            role: task.role.clone(),
            requires: task.requires.clone(),
            priority: match &task.priority {
                Priority::P1 | Priority::Unknown(_) => None,
                known @ (Priority::P0 | Priority::P2) => Some(known.name().to_owned()),
            },
            validation: task.check().map(|command| PlanValidation {
                command: command.to_owned(),
                timeout_seconds: Some(task.validation.timeout_seconds)
                    .filter(|seconds| *seconds > 0 && *seconds != CHECK_TIMEOUT_SECONDS),
                clean: task.validation.clean,
                baseline: task.validation.baseline,
            }),
            cleanup: task.cleanup.clone(),
            protected: task.protected.clone(),
            phase: task.phase.clone(),
            max_attempts: Some(task.max_attempts).filter(|n| *n > 0 && *n != MAX_ATTEMPTS),
            source: task.source.as_deref().cloned(),
            completed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Command, Timestamp,
        command::{Import, ImportMode, decide},
        ledger::Head,
    };

    #[test]
    fn a_plan_that_was_imported_is_exported_as_it_was() {
        let text = Plan::template();
        let plan = Plan::parse(&text).unwrap();
        let now = Timestamp::default();
        let mut ledger = Ledger::new(Head::new(now), Vec::new()).unwrap();
        let import = Import { plan: plan.clone(), mode: ImportMode::IfFinished, by: None };
        let change = decide(&ledger, now, &Command::Import(import)).unwrap();
        ledger.put_in(&change);
        let mut exported = Plan::of_ledger(&ledger);
        assert_eq!(Plan::parse(&exported.to_markdown()).unwrap(), exported);
        // The default time limit of a check is not repeated.
        assert_eq!(exported.tasks[0].validation.as_ref().unwrap().timeout_seconds, None);
        exported.tasks[0].validation.as_mut().unwrap().timeout_seconds = Some(300);
        assert_eq!(exported, plan);
    }
}
