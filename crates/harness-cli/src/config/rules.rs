//! The keys for the strictness of judging, in the form of the machines.

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

/// Returns the paths of harness's own settings, relative to the top of the work tree, in which
/// `root` may be a folder.
fn own_settings(root: &Path) -> Vec<String> {
    let top = root.ancestors().find(|directory| glance::is_work_tree(directory));
    let below = top.and_then(|top| root.strip_prefix(top).ok()).unwrap_or(Path::new(""));
    let sources = [Source::Settings, Source::InitScript, Source::Prompts];
    let paths = sources.iter().filter_map(|source| source.path());
    paths.map(|path| below.join(path).to_string_lossy().into_owned()).collect()
}

impl Config {
    /// Returns the rules in `root`, unless a task sets others. Files that harness itself reads
    /// there are always protected, because an attempt that changes them chooses how the next ones
    /// are judged.
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

    /// Returns the same for a new claim, with the content of harness's own settings.
    pub(crate) fn settings(&self, root: &Path) -> Result<Settings> {
        let mut rules = self.rules(root)?;
        rules.protected = rules.protected.holding(own_contents(root));
        Ok(Settings { rules, unchecked: self.unchecked(), bring: self.validation.bring() })
    }

    /// Returns whether agents of a run may add tasks.
    pub(crate) fn adding(&self) -> Adding {
        if self.tasks.agents_may_add { Adding::Allowed } else { Adding::Forbidden }
    }

    /// Returns whether a task without a check can be completed.
    pub(crate) fn unchecked(&self) -> Unchecked {
        if self.require_validation { Unchecked::Forbidden } else { Unchecked::Allowed }
    }
}
