//! The run that one more worker joins.

use harness::{core::Run, store::this_process};

use super::{Args, Joining, resume::chosen_by};
use crate::{
    commands::runs::run_of_name,
    failure::{Failure, Result},
    root::StateRoot,
};

/// Returns the run in progress that the worker joins; `None` if it is a run of its own. The agent of
/// that run is used, unless the arguments choose one.
pub(super) fn joined(root: &StateRoot, joining: &Joining, args: &mut Args) -> Result<Option<Run>> {
    let mut driven = root.project()?.driven_runs()?;
    if joining.run.is_none() {
        // A run of another machine is joined by its name only.
        let here = this_process().host;
        driven.retain(|run| run.lease.as_ref().is_some_and(|lease| lease.owner.host == here));
    }
    let run = match (&joining.run, driven.len()) {
        (Some(name), _) => run_of_name(&driven, name)?.clone(),
        (None, 0) => return Ok(None),
        (None, 1) => driven.remove(0),
        (None, _) => {
            let ids: Vec<String> = driven.iter().map(|run| run.id.to_string()).collect();
            return Err(Failure::usage(format!(
                "several runs are in progress: {}",
                ids.join(", ")
            ))
            .hint("choose one with --run-id"));
        }
    };
    if chosen_by(args).is_none() {
        args.agent_command.clone_from(&run.agent_command);
        args.agent = run.agent_command.is_none().then(|| run.agent.clone());
    }
    eprintln!("joining run {}", run.id);
    Ok(Some(run))
}
