//! Telemetry of a daemon, for a trusted root only. An untrusted root cannot choose a port, and
//! nothing of it is sent.

use std::sync::{Mutex, PoisonError};

use crate::{
    config::{self, Overrides},
    environment::Environment,
    paint::warn,
    root::StateRoot,
    trust::Trust,
};
use harness::{
    Observer, Transaction,
    process::Redactor,
    telemetry::{self, Telemetry},
};

/// Starts to send when there is a fact to send and the root is trusted by then.
pub(super) struct Emitter {
    env: Environment,
    root: StateRoot,
    secrets: Redactor,
    started: Mutex<Option<Telemetry>>,
}

impl Emitter {
    /// Returns `None` if telemetry is switched off.
    pub(super) fn new(env: &Environment, root: &StateRoot, secrets: &Redactor) -> Option<Self> {
        let is_off = env.get("HARNESS_ACP").is_some_and(|value| value == "off");
        (!is_off).then(|| Self {
            env: env.clone(),
            root: root.clone(),
            secrets: secrets.clone(),
            started: Mutex::default(),
        })
    }

    fn start(&self) -> Option<Telemetry> {
        let trusted = Trust::of_user(&self.env).and_then(|trust| trust.is_trusted(&self.root));
        if !trusted.unwrap_or(false) {
            return None;
        }
        let loaded = config::load(&self.env, Some(self.root.path()), Overrides::default()).ok()?;
        let wanted = loaded.config.telemetry;
        if !wanted.daemon {
            return None;
        }
        let telemetry =
            Telemetry::start(wanted.port, self.secrets.clone(), Box::new(super::serve::say));
        telemetry.inspect_err(|why| warn(&format!("telemetry is off: {why}"))).ok()
    }
}

impl Observer for Emitter {
    fn committed(&self, transaction: &Transaction<'_>) {
        if !transaction.facts.iter().any(|fact| telemetry::object(fact).is_some()) {
            return;
        }
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if started.is_none() {
            *started = self.start();
        }
        if let Some(telemetry) = &*started {
            telemetry.committed(transaction);
        }
    }

    fn end(&self) {
        if let Some(telemetry) = &*self.started.lock().unwrap_or_else(PoisonError::into_inner) {
            telemetry.end();
        }
    }
}
