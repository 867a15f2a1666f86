//! Notifications of a daemon, for a trusted root only. An untrusted root sends nothing.

use std::sync::{Arc, Mutex, PoisonError};

use harness::{Envelope, Event, Hub, Observer, Transaction, notify::Notifier, process::Redactor};
use harness_core::{Fact, notify::Delivery};

use crate::{
    config::{self, Notify, Overrides},
    environment::Environment,
    failure::Failure,
    notification::{self, END_WITHIN, Watched},
    paint::warn,
    root::StateRoot,
    trust::Trust,
};

/// Starts a notifier when there is something to send and the root is trusted by then.
pub(super) struct Notices {
    env: Environment,
    root: StateRoot,
    secrets: Redactor,
    hub: Hub,
    started: Mutex<Option<Arc<Notifier>>>,
}

impl Notices {
    pub(super) fn new(env: &Environment, root: &StateRoot, secrets: &Redactor, hub: &Hub) -> Self {
        let notices = Self {
            env: env.clone(),
            root: root.clone(),
            secrets: secrets.clone(),
            hub: hub.clone(),
            started: Mutex::default(),
        };
        if notices.has_waiting() {
            _ = notices.notifier();
        }
        notices
    }

    /// Returns whether an earlier process left messages.
    fn has_waiting(&self) -> bool {
        let store = self.root.look_at_runs().ok().flatten();
        let rows = store.and_then(|store| store.outbox().ok()).unwrap_or_default();
        rows.iter().any(|row| row.delivery == Delivery::Waiting)
    }

    fn notifier(&self) -> Option<Arc<Notifier>> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if started.is_none() {
            *started = self.start().map(Arc::new);
        }
        started.clone()
    }

    fn start(&self) -> Option<Notifier> {
        let trusted = Trust::of_user(&self.env).and_then(|trust| trust.is_trusted(&self.root));
        if !trusted.unwrap_or(false) {
            return None;
        }
        let loaded = config::load(&self.env, Some(self.root.path()), Overrides::default()).ok()?;
        if loaded.config.notify.as_ref().is_none_or(|notify: &Notify| notify.channels().is_empty())
        {
            return None;
        }
        let opened = self.root.project().map_err(Failure::from);
        let opened = opened.and_then(|project| Ok(project.runs()?));
        let started = opened.and_then(|runs| {
            let watched = Watched {
                root: &self.root,
                runs,
                hub: self.hub.clone(),
                secrets: self.secrets.clone(),
                warn: Arc::new(warn),
            };
            notification::start(&loaded.config, &self.env, watched)
        });
        started.unwrap_or_else(|why| {
            warn(&format!("notifications are off: {why}"));
            None
        })
    }
}

impl Observer for Notices {
    fn committed(&self, transaction: &Transaction<'_>) {
        if transaction.facts.iter().any(|fact| matches!(fact, Fact::Failed { .. }))
            && let Some(notifier) = self.notifier()
        {
            notifier.committed(transaction);
        }
    }

    fn event(&self, envelope: &Envelope) {
        if matches!(envelope.event, Event::SessionPrompt { .. } | Event::SessionReply { .. })
            && let Some(notifier) = self.notifier()
        {
            notifier.event(envelope);
        }
    }

    fn end(&self) {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(notifier) = started {
            notifier.close(END_WITHIN);
        }
    }
}
