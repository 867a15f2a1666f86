//! The keys that say how strictly work is judged, as the machines want them.

use harness_core::{
    command::Unchecked,
    machine::attempt::Rules,
    protect::{OnTouch, Protected},
    role::Adding,
};

use super::{Config, Protect};
use crate::failure::{Failure, Result};

impl Config {
    /// What holds where a task does not say otherwise.
    pub(crate) fn rules(&self) -> Result<Rules> {
        let on_touch = match self.protect {
            Protect::Flag => OnTouch::Flag,
            Protect::Refuse => OnTouch::Refuse,
        };
        let protected = Protected::new(&self.protected, on_touch);
        let protected = protected.map_err(|bad| Failure::config(bad.to_string()))?;
        let (clean, baseline) = (self.validation.clean, self.validation.baseline);
        Ok(Rules { clean, baseline, protected })
    }

    /// Whether agents of a run may add tasks.
    pub(crate) fn adding(&self) -> Adding {
        if self.tasks.agents_may_add { Adding::Allowed } else { Adding::Forbidden }
    }

    /// What the word of a worker is worth for a task without a check.
    pub(crate) fn unchecked(&self) -> Unchecked {
        if self.require_validation { Unchecked::Forbidden } else { Unchecked::Allowed }
    }
}
