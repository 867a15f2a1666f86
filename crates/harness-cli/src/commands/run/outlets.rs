//! The programs and people outside that a run reports to: channels of notifications, and a collector
//! of traces.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use harness::{
    Hub, Observers,
    core::{Run, Stats},
    notify::Notifier,
    process::Redactor,
    project::{ActiveRun, RunPart},
    trace::{OtlpExporter, OtlpTerms},
};

use super::{stop::RunReport, view::View};
use crate::{
    config::Config,
    environment::Environment,
    failure::Result,
    notification::{self, Watched},
    otel,
    root::StateRoot,
};

/// The longest wait for the collector at the end of a run.
const TRACES_WITHIN: Duration = Duration::from_secs(1);

/// What is configured of them. Without any, no thread and no HTTP client is started.
#[derive(Clone, Default)]
pub(super) struct Outlets {
    notifier: Option<Arc<Notifier>>,
    exporter: Option<Arc<OtlpExporter>>,
    part: Option<RunPart>,
}

/// The surroundings that they are started in.
pub(super) struct Outside<'a> {
    pub(super) root: &'a StateRoot,
    pub(super) config: &'a Config,
    pub(super) env: &'a Environment,
    pub(super) secrets: &'a Redactor,
    pub(super) view: &'a Arc<View>,
}

impl Outlets {
    pub(super) fn start(outside: &Outside<'_>, run: &ActiveRun, hub: &Hub) -> Result<Self> {
        let Outside { root, config, env, secrets, view } = outside;
        let shown = Arc::clone(view);
        let warn: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(move |text| shown.warning(text));
        let watched = Watched {
            root,
            runs: run.record(),
            hub: hub.clone(),
            secrets: (*secrets).clone(),
            warn: Arc::clone(&warn),
        };
        let notifier = notification::start(config, env, watched)?.map(Arc::new);
        let exporter = match otel::collector(config, env)? {
            Some(collector) => {
                let otel::Collector { endpoint, headers } = collector;
                let terms = OtlpTerms { endpoint, headers, run: run.row().id.clone(), warn };
                Some(Arc::new(OtlpExporter::start(terms)?))
            }
            None => None,
        };
        Ok(Self { notifier, exporter, part: Some(run.part()) })
    }

    /// Adds them to the observers of the run.
    pub(super) fn observe(&self, observers: &mut Observers) {
        if let Some(notifier) = &self.notifier {
            observers.add(notifier.clone());
        }
        if let Some(exporter) = &self.exporter {
            observers.add(exporter.clone());
        }
    }

    /// Reports the end of the run, and sends the rest for a moment. A worker that joined a run does
    /// not report its end. The messages are on their way while the collector is waited for.
    pub(super) fn close(&self, report: &RunReport<'_>) {
        let (begun, is_driver) = (Instant::now(), self.part == Some(RunPart::Driver));
        if let Some(notifier) = self.notifier.as_ref().filter(|_| is_driver) {
            notifier.stopped(report.run, report.stop, Stats::of(report.ledger));
        }
        if let Some(exporter) = &self.exporter {
            let run: Option<&Run> = is_driver.then_some(report.run);
            exporter.close(run, TRACES_WITHIN);
        }
        let Some(notifier) = &self.notifier else { return };
        let left = notifier.close(notification::END_WITHIN.saturating_sub(begun.elapsed()));
        if left > 0 {
            eprintln!("{left} notifications are still waiting: `harness notify list`");
        }
    }
}
