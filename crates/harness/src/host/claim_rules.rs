//! The rules of a claim: those of the configuration when the claim was made. The worker can edit
//! the configuration meanwhile, and a daemon may end and start again.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use harness_core::{
    Epoch, TaskId,
    command::Unchecked,
    machine::judge::Rules,
    protect::{OnTouch, Protected},
};
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::workspace::Bring;

/// A folder with one small file for each claimed task, outside of the work tree.
#[derive(Debug, Clone)]
pub struct ClaimRules {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    epoch: Epoch,
    clean: bool,
    baseline: bool,
    require_validation: bool,
    protected: Vec<String>,
    #[serde(default)]
    always: Vec<String>,
    #[serde(default)]
    held: Option<BTreeMap<String, String>>,
    refuse: bool,
    #[serde(default)]
    link: Vec<PathBuf>,
    #[serde(default)]
    copy: Vec<PathBuf>,
}

impl ClaimRules {
    /// Opens the folder, which is below the user's state directory, one for each state root.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Stores the rules of a claim that was just made, in place of those of the task's last claim.
    pub fn keep(&self, task: &TaskId, epoch: Epoch, settings: &Settings) -> io::Result<()> {
        // A client commits by itself.
        let Rules { clean, baseline, commit_first: _, protected } = &settings.rules;
        let kept = Kept {
            epoch,
            clean: *clean,
            baseline: *baseline,
            require_validation: settings.unchecked == Unchecked::Forbidden,
            protected: protected.globs().to_vec(),
            always: protected.paths().to_vec(),
            held: protected.held().cloned(),
            refuse: protected.on_touch() == OnTouch::Refuse,
            link: settings.bring.link.clone(),
            copy: settings.bring.copy.clone(),
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut made = tempfile::NamedTempFile::new_in(&self.folder)?;
        made.write_all(&serde_json::to_vec(&kept)?)?;
        made.persist(self.file(task)).map_err(|failed| failed.error)?;
        Ok(())
    }

    /// Returns the rules of this claim; `None` if none were stored.
    pub fn of(&self, task: &TaskId, epoch: Epoch) -> Option<Settings> {
        let kept: Kept = serde_json::from_slice(&fs::read(self.file(task)).ok()?).ok()?;
        if kept.epoch != epoch {
            return None;
        }
        let on_touch = if kept.refuse { OnTouch::Refuse } else { OnTouch::Flag };
        let mut protected = Protected::new(&kept.protected, on_touch).ok()?.always(kept.always);
        if let Some(held) = kept.held {
            protected = protected.holding(held);
        }
        let unchecked =
            if kept.require_validation { Unchecked::Forbidden } else { Unchecked::Allowed };
        let rules =
            Rules { clean: kept.clean, baseline: kept.baseline, commit_first: false, protected };
        let bring = Bring { link: kept.link, copy: kept.copy };
        Some(Settings { rules, unchecked, bring })
    }

    /// Returns a line for the log if other files are protected than at the last claim of the root.
    /// The current list is stored for the next comparison.
    pub fn compare(&self, protected: &Protected) -> io::Result<Option<String>> {
        let file = self.folder.with_file_name("protected.json");
        let now = protected.words();
        let last: Option<String> = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            Err(why) => return Err(why),
        };
        if last.as_ref() == Some(&now) {
            return Ok(None);
        }
        let folder = self.folder.parent().unwrap_or(&self.folder);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut made = tempfile::NamedTempFile::new_in(folder)?;
        made.write_all(&serde_json::to_vec(&now)?)?;
        made.persist(file).map_err(|failed| failed.error)?;
        let changed =
            |last| format!("protected files changed by the configuration: {last:?} -> {now:?}");
        Ok(last.map(changed))
    }

    fn file(&self, task: &TaskId) -> PathBuf {
        self.folder.join(format!("{task}.json"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn rules_are_those_of_one_claim() {
        let folder = tempfile::tempdir().unwrap();
        let rules = ClaimRules::in_folder(&folder.path().join("claims"));
        let protected = Protected::new(&["tests/".to_owned()], OnTouch::Refuse).unwrap();
        let settings = Settings {
            rules: Rules { clean: true, protected, ..Rules::default() },
            unchecked: Unchecked::Forbidden,
            bring: Bring { link: vec!["vendor".into()], copy: vec![".env".into()] },
        };
        let task = TaskId::numbered(1);
        rules.keep(&task, Epoch(3), &settings).unwrap();
        let kept = rules.of(&task, Epoch(3)).unwrap();
        assert!(kept.rules.clean && !kept.rules.baseline);
        assert_eq!(kept.unchecked, Unchecked::Forbidden);
        assert_eq!(kept.bring, settings.bring);
        assert_eq!(kept.rules.protected.on_touch(), OnTouch::Refuse);
        assert_eq!(kept.rules.protected.among(&["tests/a".to_owned()]), ["tests/a"]);
        assert!(rules.of(&task, Epoch(4)).is_none());
    }

    #[test]
    fn another_list_of_protected_files_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let rules = ClaimRules::in_folder(&folder.path().join("root/claims"));
        let list = |globs: &[&str], on_touch| {
            let globs: Vec<_> = globs.iter().map(|glob| (*glob).to_owned()).collect();
            Protected::new(&globs, on_touch).unwrap()
        };
        let strict = list(&["tests/", "ci"], OnTouch::Refuse);
        assert_eq!(rules.compare(&strict).unwrap(), None, "nothing is known before");
        assert_eq!(rules.compare(&strict).unwrap(), None);
        let said = rules.compare(&list(&[], OnTouch::Refuse)).unwrap().unwrap();
        let line = r#"protected files changed by the configuration: "tests/, ci (refuse)" -> """#;
        assert_eq!(said, line);
        assert_eq!(rules.compare(&list(&[], OnTouch::Flag)).unwrap(), None);
    }
}
