//! The sources of views: the files and the host of a root.

use std::path::Path;

use harness::{
    client::open_questions,
    flows::ClosedGate,
    project::LedgerText,
    protocol::QuestionView,
    store::{RunStore, RunStoreError, Runs as _, is_gone},
    view::{RunHistory, TaskSurroundings, View, ViewInputs},
};
use harness_core::{
    Run, TaskId, Timestamp,
    format::{Glance, TaskGlance},
};

use crate::{
    failure::Result, host::places, invocation::Invocation, log_file, paint::warn, root::StateRoot,
};

/// The number of lines of the log in a view.
const LOG_LINES: usize = 5;

/// The files at one moment, and the answers of the host at that moment.
pub(crate) struct ViewSources<'a> {
    root: &'a StateRoot,
    text: LedgerText,
    log: Vec<String>,
    pub(crate) surroundings: Surroundings,
}

/// The state besides the ledger and the runs.
#[derive(PartialEq, Eq)]
pub(crate) struct Surroundings {
    questions: Vec<QuestionView>,
    gate: Option<ClosedGate>,
}

impl Surroundings {
    /// Reads the state without waiting. A host that does not answer at once counts as one without
    /// questions.
    pub(crate) fn read(invocation: &Invocation, root: &StateRoot) -> Self {
        let is_off = invocation.env.get("HARNESS_DAEMON").is_some_and(|value| value == "off");
        let questions = match is_off {
            true => Vec::new(),
            false => open_questions(root.path(), &places(&invocation.env)),
        };
        // An unreadable file must not prevent the display of the rest.
        Self { questions, gate: ClosedGate::read(root.path()).ok().flatten() }
    }

    pub(crate) fn of_task<'a>(&'a self, record: &'a RunHistory) -> TaskSurroundings<'a> {
        let mut around = TaskSurroundings::new(record);
        around.questions = &self.questions;
        around.gate = self.gate.as_ref();
        around
    }
}

impl<'a> ViewSources<'a> {
    pub(crate) fn read(invocation: &Invocation, root: &'a StateRoot) -> Result<Self> {
        let text = root.snapshot_text()?;
        let log = log_file::last_lines(root.path(), LOG_LINES)?;
        Ok(Self { root, text, log, surroundings: Surroundings::read(invocation, root) })
    }

    pub(crate) fn ledger(&self) -> Result<Glance<'_>> {
        Ok(self.text.glance()?)
    }

    /// Returns the rows that a view of `ledger` needs.
    pub(crate) fn record(&self, ledger: &Glance<'_>) -> RunHistory {
        let claims = ledger.tasks.iter().filter(|task| task.claim.is_some());
        readable(self.root.path(), |store| {
            let mut runs = store.recent()?;
            claims.for_each(|task| take_claim(store, task, &mut runs));
            Ok(runs)
        })
    }

    pub(crate) fn view<'b>(
        &'b self,
        ledger: &'b Glance<'b>,
        record: &'b RunHistory,
        now: Timestamp,
    ) -> View<'b> {
        let mut inputs = ViewInputs::new(self.root.path(), ledger, record);
        inputs.questions = &self.surroundings.questions;
        inputs.gate = self.surroundings.gate.as_ref();
        inputs.log = &self.log;
        View::of(&inputs, now)
    }
}

/// Adds the attempt that a claim belongs to, with its run. A row that cannot be read is left out.
fn take_claim(store: &RunStore, task: &TaskGlance<'_>, runs: &mut Vec<Run>) {
    let epoch = task.claim.as_ref().and_then(|claim| claim.epoch);
    let (Ok(id), Some(epoch)) = (TaskId::parse(&task.id), epoch) else { return };
    let Ok(Some(attempt)) = store.attempt(&id, epoch) else { return };
    if let Some(Ok(Some(parent))) = attempt.parent.as_ref().map(|parent| store.run(parent)) {
        runs.push(parent);
    }
    runs.push(attempt);
}

/// Returns all rows, with the iterations of the attempts at `task`, or of all attempts.
pub(crate) fn whole_record(root: &Path, task: Option<&TaskId>) -> RunHistory {
    let mut iterations = Vec::new();
    let record = readable(root, |store| {
        let runs = store.runs()?;
        let is_wanted = |run: &&Run| match task {
            Some(task) => run.task.as_ref() == Some(task),
            None => run.task.is_some(),
        };
        for run in runs.iter().filter(is_wanted) {
            iterations.push((run.id.clone(), store.iterations(&run.id)?));
        }
        Ok(runs)
    });
    iterations.into_iter().fold(record, |record, (run, rows)| record.with_iterations(run, rows))
}

/// Returns the rows that can be read. An unreadable record must not prevent the display of the
/// rest.
fn readable(
    root: &Path,
    read: impl FnOnce(&RunStore) -> Result<Vec<Run>, RunStoreError>,
) -> RunHistory {
    let runs = RunStore::look(root).and_then(|store| match store {
        Some(store) => read(&store),
        None => Ok(Vec::new()),
    });
    match runs {
        Ok(runs) => RunHistory::of(runs, is_gone),
        Err(why) => {
            warn(&why.to_string());
            RunHistory::default()
        }
    }
}
