//! The description of the run that `--resume` continues.

use harness::{
    clock::{Clock as _, SystemClock},
    core::Run,
    store::is_gone,
};

use crate::{paint::one_line, task_line::Span, tool_line::cut};

/// The number of characters of an objective that are shown.
const OBJECTIVE_CHARS: usize = 60;

/// Returns a text such as `resuming 01a1e2e3-… "Port the parser" (failed 12 min ago)`.
pub(super) fn words(run: &Run) -> String {
    let what = match &run.objective {
        Some(objective) => format!("{:?}", cut(&one_line(objective), OBJECTIVE_CHARS)),
        None => "the tasks of the ledger".to_owned(),
    };
    let cut_off = run.lease.as_ref().is_some_and(|lease| is_gone(&lease.owner));
    let state = match run.stop_reason {
        _ if cut_off && !run.status.is_over() => "interrupted".to_owned(),
        Some(reason) if run.status.as_str() != reason.as_str() => {
            format!("{}: {reason}", run.status)
        }
        Some(_) | None => run.status.to_string(),
    };
    let ago = Span(SystemClock.now().since(run.updated_at));
    format!("resuming {} {what} ({state} {ago} ago)", run.id)
}
