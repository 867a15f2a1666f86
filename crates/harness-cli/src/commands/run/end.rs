//! The end of a run: the exit code, the report to programs, the summary for people and the pull
//! request.

use std::{sync::Arc, time::Instant};

use harness::{
    core::{Iteration, Ledger, Run, Stop, machine::session::Alerts, run::StopReason},
    flows::ClosedGate,
};

use super::{
    Chosen,
    crew::Footing,
    notify,
    pull_request::{Proposal, Proposed},
    session::Ran,
    stop::{self, RunReport},
    summary::Summary,
    view::View,
};
use crate::{
    config::Notify, exit::ExitCode, failure::Result, invocation::Invocation, paint::one_line,
    root::StateRoot, view_sources,
};

/// What the report about a run is made from, besides its result.
pub(super) struct RunEnd<'a> {
    pub(super) root: &'a StateRoot,
    pub(super) chosen: &'a Chosen<'a>,
    pub(super) view: &'a Arc<View>,
    /// The branch that was checked out when the run began.
    pub(super) branch: Option<String>,
    /// The branch of a pull request; `None` if this process proposes none.
    pub(super) target: Option<String>,
    pub(super) started: Instant,
}

impl RunEnd<'_> {
    /// Reports the end to everybody, and returns the exit code or the reason of a failure.
    pub(super) fn report(&self, invocation: &mut Invocation, ran: Ran) -> Result<ExitCode> {
        let Ran { stop, run, outlets } = ran;
        let crashed = Stop::because(StopReason::Crashed);
        let (mut stop, broken) = stop.map_or_else(|why| (crashed, Some(why)), |stop| (stop, None));
        let ledger = invocation.look_or_restore(self.root)?;
        if Alerts::of(&ledger).grew_since(&Alerts::of(self.chosen.ledger)) {
            stop.alert();
        }
        let proposal = self.propose(invocation, &run, &ledger)?;
        let report = RunReport {
            stop: &stop,
            broken: broken.as_ref(),
            ledger: &ledger,
            scope: self.chosen.scope,
            run: &run,
            proposal: proposal.as_ref(),
        };
        let code = self.tell(invocation, &report)?;
        self.view.summary(&self.summary(invocation, &report));
        outlets.close(&report);
        match broken.or_else(|| stop::failure(&stop)) {
            Some(failure) => Err(failure),
            None => Ok(code),
        }
    }

    /// Opens a pull request with the results, if the run was asked to.
    fn propose(
        &self,
        invocation: &Invocation,
        run: &Run,
        ledger: &Ledger,
    ) -> Result<Option<Proposed>> {
        let Some(target) = self.target.as_deref().filter(|_| self.chosen.footing.proposes()) else {
            return Ok(None);
        };
        let proposal = Proposal {
            root: self.root,
            env: &invocation.env,
            workspace: &invocation.workspace(self.root)?,
            command: self.chosen.config.parallel.pr.as_deref(),
            run,
            ledger,
            target,
        };
        Ok(proposal.open())
    }

    /// Reports the end of the run: to the command of `notify`, and as a document.
    fn tell(&self, invocation: &mut Invocation, report: &RunReport<'_>) -> Result<ExitCode> {
        if let Some(Notify::Command(command)) = &self.chosen.config.notify {
            notify::notify(command, self.root.path(), &report.event());
        }
        if self.chosen.args.json {
            invocation.out.document(&report.document())?;
        }
        Ok(report.code())
    }

    fn summary(&self, invocation: &Invocation, report: &RunReport<'_>) -> Vec<String> {
        let Chosen { ledger: before, footing, .. } = *self.chosen;
        let ledger = report.ledger;
        let summary = Summary {
            report,
            account: &self.view.account(),
            before,
            iterations: &iterations(self.root, report.run),
            branch: landed_on(footing, ledger).or(self.branch.as_deref()),
            ahead: view_sources::ahead(invocation, self.root, &ledger.head().session_config),
            seconds: self.started.elapsed().as_secs(),
            crew: footing.flags(),
        };
        let mut lines = summary.lines();
        if report.stop.reason == StopReason::Gate {
            lines.splice(1..1, self.output_of_gate());
        }
        lines
    }

    /// Returns the end of the output of the gate that stopped the run.
    fn output_of_gate(&self) -> Vec<String> {
        let gate = ClosedGate::read(self.root.path()).ok().flatten();
        let lines = gate.iter().flat_map(ClosedGate::last_lines);
        lines.map(|line| format!("    | {}", one_line(line))).collect()
    }
}

/// Returns the contexts of an objective. An unreadable database is reported elsewhere.
fn iterations(root: &StateRoot, run: &Run) -> Vec<Iteration> {
    let store = root.look_at_runs().ok().flatten();
    store.and_then(|store| store.iterations(&run.id).ok()).unwrap_or_default()
}

/// Returns the branch on which the results of workers are.
fn landed_on<'a>(footing: &Footing, ledger: &'a Ledger) -> Option<&'a str> {
    match footing {
        Footing::Alone => None,
        Footing::Together(_) => ledger.head().session_config.landing_branch(),
    }
}
