//! The row of a run: new, or one that is taken up again.

use harness::{
    clock::{Clock, SystemClock},
    core::{
        Ledger, Run, RunId,
        command::{Anew, OfRun, RunStep, Take},
        run::{Owner, RunLimits, RunStatus, StopReason},
        task::Status,
    },
    process::Redactor,
    store::{RunStore, Runs, is_gone},
};

use super::{super::runs::run_of_name, Args};
use crate::{
    config::Config,
    failure::{Failure, Result},
    root::StateRoot,
};

/// How long the driver of a run on another machine counts as alive.
pub(super) const LEASE_SECONDS: u64 = 300;
/// What nobody means.
const ITERATIONS_MAX: u32 = 1_000_000;

/// A promise that can be kept by somebody.
pub(super) fn promise(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a promise must not be empty".to_owned()),
        trimmed if trimmed.contains(['\n', '\r']) => Err("a promise must be one line".to_owned()),
        trimmed => Ok(trimmed.to_owned()),
    }
}

/// Dollars.
pub(super) fn amount(text: &str) -> Result<f64, String> {
    let good = |value: &f64| value.is_finite() && *value > 0.0 && *value < 1e9;
    let value = text.trim_start_matches('$').parse().ok().filter(good);
    value.ok_or_else(|| "an amount of US dollars above 0, such as 5.00".to_owned())
}

pub(super) fn iterations(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| *count <= ITERATIONS_MAX);
    count.ok_or_else(|| format!("a number from 0 to {ITERATIONS_MAX}"))
}

pub(super) fn tokens(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| (1..=1 << 53).contains(count));
    count.ok_or_else(|| "a number of tokens above 0".to_owned())
}

pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "a length of time such as 90s, 30m, 8h or 2d, or a number of seconds".to_owned();
    let duration = crate::config::Duration::parse(text).ok_or_else(wrong)?;
    let seconds = duration.0.as_secs();
    if seconds <= 10 * 366 * 86_400 { Ok(seconds) } else { Err(wrong()) }
}

/// The stored run that `--resume` means.
pub(super) fn find(root: &StateRoot, id: Option<&str>) -> Result<Run> {
    let none =
        || Failure::error("there is no run to resume").hint("`harness runs list` shows all runs");
    let store = RunStore::look(root.path())?;
    let Some(id) = id else {
        let store = store.ok_or_else(none)?;
        let unfinished = |run: &Run| run.parent.is_none() && run.status != RunStatus::Succeeded;
        return store.runs()?.into_iter().find(unfinished).ok_or_else(none);
    };
    let runs = store.as_ref().map(RunStore::runs).transpose()?.unwrap_or_default();
    let run = run_of_name(&runs, id)?.clone();
    let id = &run.id;
    match (&run.parent, run.status) {
        (Some(parent), _) => Err(Failure::error(format!("run {id} is an attempt of {parent}"))
            .hint(format!("resume that one: `harness run --resume --run-id {parent}`"))),
        (None, RunStatus::Succeeded) => {
            Err(Failure::error(format!("run {id} has succeeded; there is nothing to resume")))
        }
        (None, _) => Ok(run),
    }
}

/// Rows that a killed harness left as running, and that nobody can go on with: attempts that the
/// ledger does not know as claimed, and runs over the ledger, whose work the next one takes up.
pub(super) fn close_stale(store: &RunStore, ledger: &Ledger, row: &Run) -> Result<()> {
    for stale in store.live()? {
        let over = match &stale.task {
            Some(task) => ledger.task(task).is_none_or(|task| {
                task.status() != Status::InProgress || task.epoch != stale.epoch
            }),
            None => {
                let driven = stale.lease.as_ref().is_some_and(|lease| !is_gone(&lease.owner));
                let superseded = stale.objective.is_none() && row.objective.is_none();
                superseded && stale.id != row.id && !driven
            }
        };
        if over {
            let by = stale.lease.map(|lease| lease.owner);
            let step = RunStep::Stop(StopReason::Crashed);
            store.apply(SystemClock.now(), &OfRun { run: stale.id, by, step })??;
        }
    }
    Ok(())
}

/// A row that is about to be opened.
pub(super) fn new(args: &Args, config: &Config, workspace: String, secrets: &Redactor) -> Run {
    let promise = args.completion_promise.as_deref().unwrap_or(Run::PROMISE);
    Run {
        objective: args.objective.as_deref().map(|text| secrets.text(text).into_owned()),
        agent: secrets.text(&super::agent_name(config, args.agent_command.as_deref())).into_owned(),
        agent_command: args.agent_command.clone(),
        verify: args.verify.clone(),
        workspace,
        completion_promise: promise.to_owned(),
        limits: RunLimits {
            max_iterations: args.max_iterations.unwrap_or(config.limits.max_iterations),
            max_cost_usd: args.max_cost.or(config.limits.max_cost),
            max_tokens: args.max_tokens.or(config.limits.max_tokens),
            max_duration_seconds: args
                .max_duration
                .or_else(|| config.limits.max_duration.map(|duration| duration.0.as_secs())),
        },
        ..Run::queued(new_id(), SystemClock.now())
    }
}

/// Sorted by time, so that the newest run is the last.
pub(super) fn new_id() -> RunId {
    RunId::of_bits(uuid::Uuid::now_v7().as_u128())
}

/// Makes it this process's, with what was given anew; as it is stored then.
pub(super) fn take(store: &dyn Runs, run: &Run, owner: &Owner, args: &Args) -> Result<Run> {
    let owner_is_gone = run.lease.as_ref().is_some_and(|lease| is_gone(&lease.owner));
    let anew = match args.resume {
        false => Anew::default(),
        true => Anew {
            agent: args.agent.clone().or_else(|| {
                args.agent_command.as_ref().map(|command| format!("command: {command}"))
            }),
            agent_command: match (&args.agent, &args.agent_command) {
                (_, Some(command)) => Some(Some(command.clone())),
                (Some(_), None) => Some(None),
                (None, None) => None,
            },
            verify: args.verify.clone(),
            completion_promise: args.completion_promise.clone(),
            max_iterations: args.max_iterations,
            max_cost_usd: args.max_cost,
            max_tokens: args.max_tokens,
            max_duration_seconds: args.max_duration,
            parent: None,
        },
    };
    let lease_seconds = LEASE_SECONDS;
    let take = Take { owner: Some(owner.clone()), lease_seconds, owner_is_gone, anew };
    let step = RunStep::Take(take);
    let command = OfRun { run: run.id.clone(), by: Some(owner.clone()), step };
    store.apply(SystemClock.now(), &command)??;
    again(store, run)
}

/// As it is stored now.
pub(super) fn again(store: &dyn Runs, run: &Run) -> Result<Run> {
    let gone = || Failure::error(format!("run {} is gone", run.id));
    store.run(&run.id)?.ok_or_else(gone)
}
