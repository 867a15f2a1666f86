//! Settings of git that differ from the claim. They are flagged before they are set back. If the
//! process is killed in between, no flag is lost: the next look finds the settings still changed
//! and flags them again.

use super::{Effect, Ended, Finding, Judge, State, Step, tree::Then};
use crate::flag::Flag;

/// The number of times that settings may change while one work is judged.
const MOST_SET_BACKS: u32 = 5;

/// A setting of git that the attempt changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The name under which it counts as a protected file.
    pub name: String,
    /// The text for the log: the old value, the new value, and the command that repeats the change.
    pub message: String,
    /// `true` if it changes what git sees.
    pub sight: bool,
}

impl Judge {
    /// Flags changed settings, each once. Returns those that count as protected files.
    pub(super) fn settings(&mut self, settings: &[Setting]) -> Vec<String> {
        let is_new = |setting: &&Setting| !self.reported.contains(&setting.message);
        let new: Vec<_> = settings.iter().filter(is_new).cloned().collect();
        for setting in &new {
            self.reported.push(setting.message.clone());
            self.flag(Flag::Config, setting.message.clone());
        }
        new.into_iter().filter(|setting| setting.sight).map(|setting| setting.name).collect()
    }

    /// Flags the changed settings, then sets them back, then repeats the effect that found them.
    pub(super) fn changed(&mut self, looked: State, settings: &[Setting]) -> Step {
        // A setting that changed again is reported again.
        self.reported.retain(|message| settings.iter().all(|setting| setting.message != *message));
        let mut protected = self.settings(settings);
        self.set_backs += 1;
        if looked == State::Touching {
            // They are reported together with the files.
            self.sights.append(&mut protected);
        }
        let found = self.protect(protected).or_else(|| {
            (self.set_backs > MOST_SET_BACKS).then(|| Finding::NotKept {
                why: "git's settings change again and again while the work is judged".to_owned(),
            })
        });
        self.go(Then::SetBack { looked: Box::new(looked), found })
    }

    /// Repeats the effect after the settings were set back.
    pub(super) fn set_back(&mut self, looked: State, found: Option<Finding>) -> Step {
        if let Some(finding) = found {
            return Self::found(finding);
        }
        match looked {
            State::Checking => self.check(),
            State::Settling(settling) => self.go(Then::Settle(*settling)),
            State::Keeping { then } => {
                self.start(State::Keeping { then }, Effect::Keep { tree: None })
            }
            State::Touching => self.look_at_files(),
            state => unreachable!("{state:?} looks at no settings"),
        }
    }

    /// Ends after a stop. Changed settings that stay are flagged here, because nothing else reports
    /// them.
    pub(super) fn stopped(&mut self, ended: &Ended) -> Step {
        match ended {
            Ended::Checked { around, .. } => drop(self.settings(&around.settings)),
            Ended::Touched { settings, .. } | Ended::Settled { settings, .. } => {
                drop(self.settings(settings));
            }
            _ => {}
        }
        self.go(Then::Found(Finding::Stopped))
    }
}
