//! Hints after a refusal.

use harness_core::{Refusal, plan::PlanError};

/// Returns hints after a text that is no plan.
pub(super) fn after_plan(error: &PlanError) -> Vec<String> {
    match error {
        PlanError::Empty | PlanError::NoBlock => {
            vec!["`harness plan template` shows what a plan looks like".to_owned()]
        }
        PlanError::InvalidJson(_)
        | PlanError::Field { .. }
        | PlanError::MissingDependency { .. }
        | PlanError::Cycle(_) => Vec::new(),
    }
}

pub(super) fn after(refusal: &Refusal) -> Vec<String> {
    let one = |hint: &str| vec![hint.to_owned()];
    match refusal {
        Refusal::NotFound { .. } | Refusal::UnknownDependency { .. } => {
            one("`harness task list` shows all tasks")
        }
        Refusal::NotClaimedBy { task, .. } => {
            vec![format!("`harness task show {task}` shows the worker that holds it")]
        }
        Refusal::InProgress { task, .. } => {
            vec![format!("take it back first: `harness task release {task}`")]
        }
        Refusal::MissingDependency { task, .. } => {
            vec![format!("fix harness-tasks.json: task {task}: depends_on")]
        }
        Refusal::Needed { .. } => {
            one("change their dependencies first: `harness task edit ID --depends-on …`")
        }
        Refusal::NoSuchPhase { .. } => one("`harness plan phases` shows all phases"),
        Refusal::PhaseHasTasks { .. } => one(
            "move them first: `harness task edit ID --phase OTHER`, or `--phase ''` for no phase",
        ),
        Refusal::UnfinishedWork { .. } => vec![
            "--merge keeps the present tasks and adds new ones".to_owned(),
            "--replace archives the ledger and starts from the plan".to_owned(),
        ],
        Refusal::CheckChanged { task } => {
            vec![format!("run it again: `harness task complete --id {task}`")]
        }
        Refusal::NoCheck { task } => {
            vec![format!("give it a check: `harness task edit {task} --validate '…'`")]
        }
        Refusal::RunNotFound { .. } => one("`harness runs list` shows all runs"),
        Refusal::RunTaken { .. } => {
            one("`harness status` shows what it does, `harness abort` stops it")
        }
        Refusal::Paused { .. } => one("`harness resume` starts claiming again"),
        Refusal::Unsettled => one("`harness run` or `harness work` looks for them"),
        Refusal::OnlyOperator { .. } => one("run it in your own terminal"),
        Refusal::RunFinished { .. }
        | Refusal::NotClaimed { .. }
        | Refusal::NotFailed { .. }
        | Refusal::GateChanged { .. }
        | Refusal::Exists { .. }
        | Refusal::Cycle { .. }
        | Refusal::HoldsAnother { .. }
        | Refusal::NotNext { .. }
        | Refusal::NotReady { .. }
        | Refusal::Unchecked { .. }
        | Refusal::Undecided { .. }
        | Refusal::NotInLine { .. }
        | Refusal::GateHeld { .. }
        | Refusal::MaxSessions { .. }
        | Refusal::Secret { .. }
        | Refusal::BadValue(_)
        | Refusal::BadPlan(_) => Vec::new(),
    }
}
