//! The keys that say how strictly work is judged, as the machines want them.

use std::path::Path;

use harness::{
    host::Settings,
    workspace::{glance, own_contents},
};
use harness_core::{
    command::Unchecked,
    machine::attempt::Rules,
    protect::{OnTouch, Protected},
    role::Adding,
    trust::Source,
};

use super::{Config, Protect};
use crate::failure::{Failure, Result};

/// Relative to the top of the work tree, in which `root` may be a folder.
fn own_settings(root: &Path) -> Vec<String> {
    let top = root.ancestors().find(|directory| glance::is_work_tree(directory));
    let below = top.and_then(|top| root.strip_prefix(top).ok()).unwrap_or(Path::new(""));
    let sources = [Source::Settings, Source::InitScript, Source::Prompts];
    let paths = sources.iter().filter_map(|source| source.path());
    paths.map(|path| below.join(path).to_string_lossy().into_owned()).collect()
}

impl Config {
    /// What holds in `root` where a task does not say otherwise. What harness itself reads there is
    /// always protected: an attempt that changes it chooses how the next ones are judged.
    pub(crate) fn rules(&self, root: &Path) -> Result<Rules> {
        let on_touch = match self.protect {
            Protect::Flag => OnTouch::Flag,
            Protect::Refuse => OnTouch::Refuse,
        };
        let protected = Protected::new(&self.protected, on_touch);
        let protected = protected.map_err(|bad| Failure::config(bad.to_string()))?;
        let protected = protected.always(own_settings(root));
        let (clean, baseline) = (self.validation.clean, self.validation.baseline);
        Ok(Rules { clean, baseline, commit_first: self.git.hooks, protected })
    }

    /// The same for a claim that is made now, with what harness's own settings hold.
    pub(crate) fn settings(&self, root: &Path) -> Result<Settings> {
        let mut rules = self.rules(root)?;
        rules.protected = rules.protected.holding(own_contents(root));
        Ok(Settings { rules, unchecked: self.unchecked(), bring: self.validation.bring() })
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
