//! The harness.toml that `init` writes: the settings that were found and tried, and those that
//! follow from them.

use std::{fs, io::Write as _, path::Path};

use harness_core::project::{Advice, ProjectCheck, Trial};
use serde_json::{Value, json};

use super::{
    in_git,
    project::{Consent, Offer},
    trial::trial,
};
use crate::{
    config::template,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::warn,
    root::StateRoot,
    trust::Trust,
    would_run::WouldRun,
};

const FILE: &str = harness::home::Home::CONFIG;

/// The result of an offer.
pub(super) struct Settled {
    offer: Offer,
    trial: Trial,
    advice: Advice,
}

impl Settled {
    /// Tries the check if the user agreed to it, and writes the settings.
    pub(super) fn settle(
        invocation: &Invocation,
        root: &StateRoot,
        tree: &Path,
        offer: Offer,
        done: &mut Vec<String>,
    ) -> Result<Self> {
        let trial = match (&offer.check, &offer.consent) {
            (Some(check), Consent::Given) => trial(invocation, root, tree, check)?,
            (Some(_), Consent::Refused { why }) => Trial::Skipped { why: (*why).to_owned() },
            (None, _) => Trial::Skipped { why: String::new() },
        };
        let settled = Self { advice: trial.advice(), offer, trial };
        done.extend(settled.lines());
        let path = root.path().join(FILE);
        match write(&path, &settled.text()) {
            Ok(()) => {
                let rest = if in_git(root.path()) { ": commit it with the project" } else { "" };
                done.push(format!("wrote {FILE}{rest}"));
                Trust::grant_made(&invocation.env, root, &WouldRun::settings(root));
                // Only editors need it.
                template::write_schema(root.path()).unwrap_or_else(|why| warn(&why.error));
            }
            // The ledger exists and works without the settings.
            Err(why) => warn(&why.error),
        }
        Ok(settled)
    }

    /// Returns whether tasks that are added without a check get one.
    pub(super) fn has_check(&self) -> bool {
        self.offer.check.is_some() && self.advice.usable
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Advice { usable, clean, why } = &self.advice;
        if let Some(check) = &self.offer.check {
            let (command, file) = (&check.command, check.shown_by);
            lines.push(match usable {
                true => {
                    format!("found `{command}` ({file}): it checks tasks added without --validate")
                }
                false => format!("found `{command}` ({file}), but it is not used: {why}"),
            });
            if *usable {
                let place = if *clean { "a clean checkout" } else { "the work tree" };
                lines.push(format!("{why}: tasks are judged in {place}"));
            }
            if !self.offer.others.is_empty() {
                lines.push(format!("also found, but not used: {}", self.offer.others.join(", ")));
            }
        }
        if !self.offer.protected.is_empty() {
            let globs = self.offer.protected.join(" ");
            lines.push(format!("attempts that change the tests are flagged: {globs}"));
        }
        lines
    }

    fn text(&self) -> String {
        let mut text = template::schema_line();
        text += "# Made by `harness init`. `harness config` shows every setting and where it \
                 comes from.\n";
        if !self.offer.protected.is_empty() {
            text += "\n# The tests. An attempt that changes one of them is flagged; with\n\
                     # protect = \"refuse\" it fails.\n";
            text += &format!("protected = {}\n", list(&self.offer.protected));
        }
        if let Some(check) = &self.offer.check {
            text += &self.validation(check);
        }
        text
    }

    fn validation(&self, check: &ProjectCheck) -> String {
        let Advice { usable, clean, why } = &self.advice;
        let off = |on: &bool| if *on { "" } else { "# " };
        let mut text = format!(
            "\n[validation]\n# The check of tasks that are added without --validate. Found by {}.\n",
            check.shown_by
        );
        if !usable {
            text += &comment(&format!("Switched off: {why}."));
        }
        text += &format!("{}command = {}\n", off(usable), quoted(&check.command));
        text += "# Judge a clean checkout of each commit instead of the work tree.\n";
        text += &match (usable, clean) {
            (false, _) => comment("Switched off, as the check is."),
            (true, true) => comment(&format!("Tried: {why}.")),
            (true, false) => comment(&format!("Switched off: {why}.")),
        };
        text += &format!("{}clean = true\n", off(clean));
        if !check.link.is_empty() {
            text += "# What a clean checkout gets as links, because git does not hold it.\n";
            text += &format!("link = {}\n", list(&check.link));
        }
        text
    }

    pub(super) fn document(&self) -> Value {
        let check = self.offer.check.as_ref().map(|check| {
            let (work_tree, clean) = match &self.trial {
                Trial::Skipped { .. } => (None, None),
                Trial::WorkTree { work_tree, .. } => (Some(work_tree), None),
                Trial::Both { work_tree, clean, .. } => (Some(work_tree), Some(clean)),
            };
            let ended = |run: &harness_core::project::TrialRun| {
                let why = run.verdict.complaint();
                json!({ "passed": why.is_none(), "why": why, "seconds": run.seconds })
            };
            json!({
                "command": check.command,
                "shown_by": check.shown_by,
                "others": self.offer.others,
                "used": self.advice.usable,
                "clean": self.advice.clean,
                "why": self.advice.why,
                "work_tree": work_tree.map(ended),
                "clean_checkout": clean.map(ended),
            })
        });
        json!({ "check": check, "protected": self.offer.protected })
    }
}

/// Writes the file. A file that another process created meanwhile is left alone.
fn write(path: &Path, text: &str) -> Result<()> {
    let made = fs::OpenOptions::new().write(true).create_new(true).open(path);
    made.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|why| Failure::file("write", path, &why))
}

/// Formats the text as a comment with lines of limited length.
fn comment(text: &str) -> String {
    const WIDTH: usize = 98;
    let mut lines = String::new();
    let mut line = "#".to_owned();
    for word in text.split_whitespace() {
        if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &line;
            lines.push('\n');
            line = "#".to_owned();
        }
        line.push(' ');
        line += word;
    }
    lines + &line + "\n"
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn list(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}
