//! The gate of a phase that was tried and stayed closed, stored for people to read.

use std::{io, path::Path};

use harness::{
    core::{Timestamp, ledger::Phase},
    home::{Home, file_name, folder::Folder},
};
use serde::{Deserialize, Serialize};

/// The limit of the stored file. The files that harness writes are far smaller.
const BYTES_MAX: u64 = 1024 * 1024;
/// The number of lines of its output that are shown to people.
const SHOWN_LINES: usize = 10;

/// A gate that stayed closed when it was last tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClosedGate {
    /// The name of the phase.
    pub phase: String,
    /// The time of the attempt.
    pub time: Timestamp,
    /// One line for people.
    pub why: String,
    /// The end of the output of its check, or the text of the person who refused.
    pub output: String,
}

impl ClosedGate {
    /// Creates the record of a gate that was just tried.
    pub fn new(phase: String, time: Timestamp, why: String, output: String) -> Self {
        Self { phase, time, why, output }
    }

    /// Reads the record in `root`. A file that cannot be parsed counts as none.
    pub fn read(root: &Path) -> io::Result<Option<Self>> {
        let Some(folder) = Folder::find(&Home::of(root).folder())? else { return Ok(None) };
        let bytes = folder.read_small(file_name(Home::GATE), BYTES_MAX)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Replaces the record in `root`.
    pub(super) fn keep(&self, root: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self)?;
        Folder::ours(&Home::of(root).folder())?.put(file_name(Home::GATE), text.as_bytes())
    }

    /// Returns whether the ledger still waits for this gate.
    #[must_use]
    pub fn is_current(&self, phases: &[Phase]) -> bool {
        phases.iter().any(|phase| phase.name == self.phase && phase.passed_at.is_none())
    }

    /// Returns the last lines of the output that are not blank.
    #[must_use]
    pub fn last_lines(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.output.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_closed_gate_printed_is_kept_until_it_passes() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(ClosedGate::read(root.path()).unwrap(), None);
        let output: String = (0..30).map(|n| format!("line {n}\n\n")).collect();
        let time = Timestamp::from_seconds(7);
        let gate = ClosedGate::new("Plan".into(), time, "exit code 1".into(), output);
        gate.keep(root.path()).unwrap();
        let kept = ClosedGate::read(root.path()).unwrap().unwrap();
        assert_eq!(kept, gate);
        let lines = kept.last_lines();
        assert_eq!((lines.len(), lines[0], lines[9]), (10, "line 20", "line 29"));
        let phase = |passed_at| Phase {
            name: "Plan".into(),
            gate: None,
            approve: false,
            passed_at,
            held: None,
        };
        assert!(kept.is_current(&[phase(None)]));
        assert!(!kept.is_current(&[phase(Some(time))]) && !kept.is_current(&[]));
    }
}
