//! The row that the arguments describe: a new one, or the changes of a stored one.

use harness::{
    clock::{Clock, SystemClock},
    core::{Run, command::Anew, run::RunLimits},
    process::Redactor,
    project::new_run_id,
};

use super::Args;
use crate::config::Config;

/// Upper bound for `--max-iterations`; anything above is a typo.
const ITERATIONS_MAX: u32 = 1_000_000;

/// Parses a promise, which must not be empty.
pub(super) fn promise(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a promise must not be empty".to_owned()),
        trimmed if trimmed.contains(['\n', '\r']) => Err("a promise must be one line".to_owned()),
        trimmed => Ok(trimmed.to_owned()),
    }
}

/// Parses an amount of dollars.
pub(in crate::commands) fn amount(text: &str) -> Result<f64, String> {
    let good = |value: &f64| value.is_finite() && *value > 0.0 && *value < 1e9;
    let value = text.trim_start_matches('$').parse().ok().filter(good);
    value.ok_or_else(|| "an amount of US dollars above 0, such as 5.00".to_owned())
}

pub(super) fn iterations(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| *count <= ITERATIONS_MAX);
    count.ok_or_else(|| format!("a number from 0 to {ITERATIONS_MAX}"))
}

pub(in crate::commands) fn tokens(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| (1..=1 << 53).contains(count));
    count.ok_or_else(|| "a number of tokens above 0".to_owned())
}

pub(in crate::commands) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "a length of time such as 90s, 30m, 8h or 2d, or a number of seconds".to_owned();
    let duration = crate::config::Duration::parse(text).ok_or_else(wrong)?;
    let seconds = duration.0.as_secs();
    if seconds <= 10 * 366 * 86_400 { Ok(seconds) } else { Err(wrong()) }
}

/// Returns a new row.
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
        ..Run::queued(new_run_id(), SystemClock.now())
    }
}

/// Returns the changes of a resume: those that were given as arguments.
pub(super) fn anew(args: &Args) -> Anew {
    Anew {
        agent: args
            .agent
            .clone()
            .or_else(|| args.agent_command.as_ref().map(|command| format!("command: {command}"))),
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
    }
}
