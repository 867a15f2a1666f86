//! The names of traces and spans. They are derived from the run, the task and the epoch of a claim, so
//! that a process that takes up the work of a dead one continues the same trace without any state.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{Epoch, RunId, TaskId};

/// The variable through which a process continues a trace, as the W3C defines it.
pub const TRACEPARENT: &str = "TRACEPARENT";

/// The name of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The name of a span in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// Returns the trace of a run.
    pub fn of_run(run: &RunId) -> Self {
        Self::of("run", run.as_str())
    }

    /// Returns the trace of processes that belong to no run, such as the check of a client's task:
    /// that of their state root.
    pub fn of_root(root: &str) -> Self {
        Self::of("root", root)
    }

    fn of(kind: &str, name: &str) -> Self {
        let hash = digest(&["trace", kind, name]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        // An id of zeros is invalid.
        bytes[15] |= 1;
        Self(bytes)
    }
}

impl SpanId {
    /// Returns the span of a run, or of a state root without one.
    pub fn of_run(trace: TraceId) -> Self {
        Self::of(trace, &["run"])
    }

    /// Returns the span of an attempt.
    pub fn of_attempt(trace: TraceId, task: &TaskId, epoch: Epoch) -> Self {
        Self::of(trace, &["attempt", task.as_str(), &epoch.to_string()])
    }

    /// Returns the span of a context, from 0. `within` is the span of its attempt or of its run.
    pub fn of_iteration(trace: TraceId, within: Self, number: u32) -> Self {
        Self::of(trace, &["iteration", &within.to_string(), &number.to_string()])
    }

    /// Returns the span of something that is recorded by an event with this id.
    pub fn of_event(trace: TraceId, event: &str) -> Self {
        Self::of(trace, &["event", event])
    }

    fn of(trace: TraceId, parts: &[&str]) -> Self {
        let trace = trace.to_string();
        let parts: Vec<&str> = ["span", &trace].into_iter().chain(parts.iter().copied()).collect();
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest(&parts)[..8]);
        bytes[7] |= 1;
        Self(bytes)
    }
}

/// Returns the value of [`TRACEPARENT`] for a child of this span. The trace is sampled.
pub fn traceparent(trace: TraceId, span: SpanId) -> String {
    format!("00-{trace}-{span}-01")
}

fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_work_has_the_same_names_and_other_work_has_others() {
        let trace = TraceId::of_run(&RunId::of_bits(7));
        assert_eq!(trace, TraceId::of_run(&RunId::of_bits(7)));
        assert_ne!(trace, TraceId::of_run(&RunId::of_bits(8)));
        let (one, two) = (TaskId::numbered(1), TaskId::numbered(2));
        let run = SpanId::of_run(trace);
        let first = SpanId::of_attempt(trace, &one, Epoch(1));
        let mut all = vec![
            run,
            first,
            SpanId::of_attempt(trace, &one, Epoch(2)),
            SpanId::of_attempt(trace, &two, Epoch(1)),
            SpanId::of_iteration(trace, first, 0),
            SpanId::of_iteration(trace, first, 1),
            SpanId::of_iteration(trace, run, 0),
            SpanId::of_event(trace, "0"),
        ];
        assert_eq!(first, SpanId::of_attempt(trace, &one, Epoch(1)));
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    /// A change here would break a trace that a crash interrupts during an upgrade.
    #[test]
    fn the_names_do_not_change() {
        let trace = TraceId::of_run(&RunId::of_bits(7));
        let span = SpanId::of_attempt(trace, &TaskId::numbered(1), Epoch(1));
        let header = traceparent(trace, span);
        assert_eq!(header.len(), 55);
        insta::assert_snapshot!(header, @"00-a1b32838c9216db15a873bb90a9e9067-9580b128534dbbff-01");
    }
}
