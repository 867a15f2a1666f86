//! The invariants of the loops over contexts, judged by the rows and by the actions of agents.

use harness_core::{
    Iteration, Run, Timestamp,
    agent::{End, FailureKind, StoppedBy, Usage},
    command::RunStep,
    run::{Ending, RunStatus, StopReason},
};

use super::{
    books::{Books, For, Rows},
    stage::State,
};
use harness::store::Runs as _;

type Verdict = Result<(), (&'static str, String)>;

/// One turn and two blank ones. Each of the blank ones starts afresh once if its context is gone.
const TURNS_MAX: u32 = 5;

/// The number of moments after which an interrupt must have been processed. Anything that was about
/// to start may start before that.
const HEARD_WITHIN: u64 = 2;

fn broken(checker: &'static str, what: String) -> Verdict {
    Err((checker, what))
}

/// Judges a durable step of a run.
pub(super) fn after_step(state: &State, step: &RunStep, before: &Rows, after: &Rows) -> Verdict {
    if state.lies.rows_forged {
        return Ok(());
    }
    iterations_are_counted_once(state, after)?;
    status_and_reason_agree(&after.run)?;
    sums_agree(state, after)?;
    match step {
        RunStep::Begin { number, .. } => begun(*number, before, after),
        RunStep::Spend(_) => budget_stops_at_one_event(before),
        RunStep::End { ending, .. } => an_end_is_an_end(state, *ending, after),
        RunStep::Stop(StopReason::Complete) if is_a_loop(&after.run) => {
            complete_means_promised(state, after)
        }
        _ => Ok(()),
    }
}

/// A run over the ledger has no contexts of its own.
fn is_a_loop(run: &Run) -> bool {
    run.objective.is_some() || run.task.is_some()
}

fn iterations_are_counted_once(state: &State, rows: &Rows) -> Verdict {
    let name = "iterations_are_counted_once";
    let numbers: Vec<u32> = rows.iterations.iter().map(|i| i.number).collect();
    if !numbers.iter().copied().eq(0..u32::try_from(numbers.len()).unwrap_or(u32::MAX)) {
        return broken(name, format!("its iterations are {numbers:?}"));
    }
    let (count, last) = (rows.run.iteration_count, numbers.last().copied().unwrap_or(0));
    if count != last {
        return broken(name, format!("the count is {count}, the last iteration {last}"));
    }
    let known = state.books.accounts.get(&rows.run.id).map_or(0, |account| account.count);
    if count < known || count > known + 1 {
        return broken(name, format!("the count went from {known} to {count}"));
    }
    let open = |i: &&Iteration| i.ended_at.is_none();
    match rows.iterations.iter().find(open) {
        Some(open) if open.number != last => {
            broken(name, format!("iteration {} was left open", open.number))
        }
        _ => Ok(()),
    }
}

fn status_and_reason_agree(run: &Run) -> Verdict {
    let (status, reason) = (run.status, run.stop_reason);
    let agree = match reason {
        Some(reason) => reason.status() == status && run.lease.is_none() && run.wake_at.is_none(),
        None => matches!(status, RunStatus::Running | RunStatus::WaitingForHuman),
    };
    if agree {
        return Ok(());
    }
    broken("status_and_reason_agree", format!("{status}, and its reason is {reason:?}"))
}

/// Compares to a millionth of a dollar, because sums of the same parts in another order differ by
/// less.
fn same(a: Usage, b: Usage) -> bool {
    let cost = |usage: Usage| usage.cost_usd.unwrap_or_default();
    (a.input_tokens, a.output_tokens) == (b.input_tokens, b.output_tokens)
        && (cost(a) - cost(b)).abs() < 1e-6
}

fn sum(parts: impl Iterator<Item = Usage>) -> Usage {
    parts.fold(Usage::default(), |mut sum, part| {
        sum += part;
        sum
    })
}

/// The sums of iterations and run agree, those of attempts and the run that pays, and those of
/// agents.
fn sums_agree(state: &State, rows: &Rows) -> Verdict {
    let name = "sums_agree";
    if !is_a_loop(&rows.run) {
        return Ok(());
    }
    let (run, iterations) = (rows.run.usage, sum(rows.iterations.iter().map(|i| i.usage)));
    if !same(run, iterations) {
        return broken(name, format!("the run has {run:?}, its iterations {iterations:?}"));
    }
    let heard = state.books.accounts.get(&rows.run.id).map_or(run, |account| account.heard);
    if !same(run, heard) {
        return broken(name, format!("the run has {run:?}, its agents told {heard:?}"));
    }
    if rows.run.task.is_none() {
        return Ok(());
    }
    let all = state.runs.runs().unwrap_or_default();
    let attempts = sum(all.iter().filter(|run| run.task.is_some()).map(|run| run.usage));
    let paid = sum(all.iter().filter(|run| run.task.is_none()).map(|run| run.usage));
    if same(paid, attempts) {
        return Ok(());
    }
    broken("the_parent_pays", format!("it has {paid:?}, its attempts {attempts:?}"))
}

fn begun(number: u32, before: &Rows, after: &Rows) -> Verdict {
    if after.run.iteration_count != number {
        let what = format!("{number} was begun, the count is {}", after.run.iteration_count);
        return broken("iterations_are_counted_once", what);
    }
    let most = after.run.limits.max_iterations;
    let again = before.iterations.last().is_some_and(|last| last.number == number);
    if number > most && !again {
        let what = format!("context {number} was begun, and {most} restarts are allowed");
        return broken("restarts_are_bounded", what);
    }
    Ok(())
}

fn used_up(run: &Run) -> bool {
    let cost = run.usage.cost_usd.unwrap_or_default();
    let tokens = run.usage.input_tokens + run.usage.output_tokens;
    run.limits.max_cost_usd.is_some_and(|most| cost >= most)
        || run.limits.max_tokens.is_some_and(|most| tokens >= most)
}

/// The event that exhausts the budget is the last one: the agent is stopped before the next.
fn budget_stops_at_one_event(before: &Rows) -> Verdict {
    match used_up(&before.payer) {
        false => Ok(()),
        true => {
            let what = format!("{:?} of {:?}", before.payer.usage, before.payer.limits);
            broken("budget_stops_at_one_event", format!("more was spent after {what}"))
        }
    }
}

/// The limit of starts of a context without an end.
const STARTS: u32 = 3;

/// An iteration does not end with a limit, a stop by harness, or an agent that cannot run.
fn an_end_is_an_end(state: &State, ending: Ending, rows: &Rows) -> Verdict {
    let account = state.books.accounts.get(&rows.run.id);
    let end = account.and_then(|account| account.last_end.clone());
    let starts = rows.iterations.last().map_or(0, |last| last.starts);
    if ending == Ending::Crashed && starts >= STARTS && account.is_none_or(|a| a.turns == 0) {
        return Ok(());
    }
    let right = match &end {
        Some(End::Finished { .. }) => ending == Ending::Finished,
        Some(End::CutShort { .. }) => ending == Ending::CutShort,
        Some(End::OutOfContext) => ending == Ending::OutOfContext,
        Some(End::Refused) => ending == Ending::Refused,
        Some(End::Failed { kind, .. }) => match kind {
            FailureKind::Crashed => ending == Ending::Crashed,
            FailureKind::Network => ending == Ending::Network,
            FailureKind::Protocol => ending == Ending::Protocol,
            FailureKind::NotFound | FailureKind::Auth | FailureKind::Config => false,
        },
        Some(End::Stopped { by: StoppedBy::Stall | StoppedBy::Timeout }) => {
            ending == Ending::Silent
        }
        Some(End::Limited { .. } | End::Stopped { .. }) | None => false,
    };
    match right {
        true => Ok(()),
        false => broken("a_limit_burns_no_iteration", format!("{end:?} ended it as {ending}")),
    }
}

/// The rule of `promise_match = "line"`, for a promise of one word.
fn is_promise(text: &str, promise: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    words(text).last().is_some_and(|last| last == promise)
        || text.lines().any(|line| words(line) == [promise])
        || text.contains(&format!("<promise>{promise}</promise>"))
}

/// The last context gave the promise. For an objective, its check and all gates passed too.
fn complete_means_promised(state: &State, rows: &Rows) -> Verdict {
    let last = rows.iterations.last();
    let finished = last.is_some_and(|last| last.ending == Some(Ending::Finished));
    let account = state.books.accounts.get(&rows.run.id).cloned().unwrap_or_default();
    // Use the text of the agent, not the stored one.
    let kept = match &account.last_end {
        Some(End::Finished { final_text, .. }) => {
            account.promised || is_promise(final_text, "TASK_COMPLETE")
        }
        _ => false,
    };
    if !finished || !kept {
        let what = format!("its last context ended with {:?}", account.last_end);
        return broken("complete_means_promised", what);
    }
    if rows.run.task.is_some() {
        return Ok(());
    }
    if let Some(verify) = rows.run.verify.as_ref().filter(|v| !state.books.passed.contains(*v)) {
        return broken("complete_means_verified", format!("{verify:?} did not pass after it"));
    }
    for phase in &state.ledger.head().phases {
        let gate = phase.gate.as_ref().map(|gate| &gate.command);
        let really = gate.is_none_or(|gate| state.books.passed.contains(gate));
        if phase.passed_at.is_none() || !really {
            return broken("complete_means_gates_passed", format!("not that of {}", phase.name));
        }
    }
    Ok(())
}

/// Judges the start of an agent.
pub(super) fn at_start(state: &State, of: &For, now: Timestamp, cancelled: bool) -> Verdict {
    let name = "an_agent_works_in_an_open_iteration";
    let Some(rows) = state.rows(&of.run) else {
        return broken(name, "there is no such run".into());
    };
    if state.lies.rows_forged {
        return Ok(());
    }
    let open = rows.iterations.last().filter(|last| last.ended_at.is_none()).map(|i| i.number);
    if open != Some(of.iteration) || rows.run.status != RunStatus::Running {
        let what = format!("of the rows {open:?} is open, and the run is {}", rows.run.status);
        return broken(name, what);
    }
    let starts = rows.iterations.last().map_or(0, |last| last.starts);
    if starts > STARTS {
        return broken("starts_are_bounded", format!("it was started {starts} times"));
    }
    if used_up(&rows.payer) || rows.payer.deadline.is_some_and(|deadline| deadline <= now) {
        let what = format!("{:?} of {:?} at {now}", rows.payer.usage, rows.payer.limits);
        return broken("no_agent_without_budget", what);
    }
    let account = state.books.accounts.get(&of.run).cloned().unwrap_or_default();
    if account.turns > TURNS_MAX {
        return broken("turns_are_bounded", format!("{} in one context", account.turns));
    }
    if let Some(until) = account.limited.get(&of.agent).filter(|until| **until > now) {
        return broken("limits_are_waited_out", format!("at {now}, limited until {until}"));
    }
    if let Some(wake_at) = rows.run.wake_at {
        let what = format!("it works, and its row waits until {wake_at}");
        return broken("who_works_does_not_wait", what);
    }
    if state.moments_since_interrupt() > HEARD_WITHIN && !cancelled {
        return broken("an_interrupt_is_heard", "an agent was started after it".into());
    }
    Ok(())
}

/// Judges the end of a process. Only one that died, or was stopped twice, may have lost reports of
/// agents.
pub(super) fn at_close(books: &Books, lossless: bool) -> Verdict {
    for (run, account) in &books.accounts {
        let (told, heard) = (account.told, account.heard);
        let lost = told.input_tokens < heard.input_tokens || (lossless && !same(told, heard));
        if lost {
            let what = format!("{run}: agents told {told:?}, and {heard:?} is stored");
            return broken("sums_agree", what);
        }
    }
    Ok(())
}
