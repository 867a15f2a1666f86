//! Templates of a project, which are checked before they are used.

use std::{collections::BTreeSet, path::Path};

use harness_core::promise::Match;
use minijinja::Value;

use super::{About, Again, Kind, Means, Prompts, TaskBrief, Why, render};
use crate::{
    home::{Home, file_name},
    store::disk::RealDisk,
};

const FOLDER: &str = Home::PROMPTS;
const TEMPLATE_BYTES_MAX: u64 = 256 * 1024;

/// Reads a template; `None` if there is none.
pub(super) fn read(root: &Path, kind: Kind) -> Result<Option<String>, String> {
    let disk = RealDisk::open(root).map_err(|why| why.to_string())?;
    let bytes = disk.kept(file_name(FOLDER), kind.file(), TEMPLATE_BYTES_MAX + 1);
    let Some(bytes) = bytes.map_err(|why| why.to_string())? else { return Ok(None) };
    if bytes.len() as u64 > TEMPLATE_BYTES_MAX {
        return Err(format!("it has more than {TEMPLATE_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8".to_owned())
}

pub(super) fn refused(kind: Kind, why: &str) -> String {
    let file = kind.file();
    format!("{FOLDER}/{file} cannot be used, so the built-in prompt is used: {why}")
}

impl Prompts {
    /// Uses a template if it renders with the smallest and the largest possible content.
    pub(super) fn take(&mut self, kind: Kind, source: String) -> Option<String> {
        let tried = self.given.add_template_owned(kind.file(), source);
        let tried = tried
            .map_err(|why| harness_core::quote::one_line(&why.to_string()))
            .and_then(|()| self.names_are_known(kind))
            .and_then(|()| render(&self.given, kind, least(kind)))
            .and_then(|_| render(&self.given, kind, most(kind)));
        match tried {
            Ok(text) if text.contains(PROMISE) => None,
            // It is the project's own choice, but an agent cannot give a promise that it does not
            // know.
            Ok(_) => Some(format!(
                "{FOLDER}/{} does not contain the promise: use {{{{ promise_line }}}} there",
                kind.file()
            )),
            Err(why) => {
                self.given.remove_template(kind.file());
                Some(refused(kind, &why))
            }
        }
    }

    /// Checks for undefined names, because a branch that no sample enters may contain one too.
    fn names_are_known(&self, kind: Kind) -> Result<(), String> {
        let template = self.given.get_template(kind.file()).map_err(|why| why.to_string())?;
        let values = most(kind);
        let given = values.try_iter().map_err(|why| why.to_string())?;
        let mut known: BTreeSet<String> = given.map(|name| name.to_string()).collect();
        known.extend(self.given.globals().map(|(name, _)| name.to_owned()));
        let unknown = template.undeclared_variables(false).into_iter();
        let unknown: BTreeSet<String> = unknown.filter(|name| !known.contains(name)).collect();
        match unknown.first() {
            None => Ok(()),
            Some(name) => Err(format!("undefined value: `{name}`")),
        }
    }
}

/// A text that no template contains by itself.
const PROMISE: &str = "SAMPLE_PROMISE_OF_HARNESS";

fn about() -> About {
    About {
        objective: "objective".to_owned(),
        promise: PROMISE.to_owned(),
        phase: None,
        artifacts: Vec::new(),
        promise_match: Match::Token,
        means: Means::CommandLine,
    }
}

fn task() -> TaskBrief {
    let (id, title) = ("task-001".to_owned(), "text".to_owned());
    TaskBrief { id, title, attempt: 1, max_attempts: 3, ..TaskBrief::default() }
}

fn least(kind: Kind) -> Value {
    let again = Again { iteration: 1, max_iterations: 10, ..Again::default() };
    values(kind, &about(), &again, &task())
}

fn most(kind: Kind) -> Value {
    let text = || Some("text".to_owned());
    let list = || vec!["text".to_owned()];
    let about = About { phase: text(), artifacts: list(), ..about() };
    let again = Again {
        iteration: 1,
        max_iterations: 10,
        why: Why::Failed("text".to_owned()),
        resumed_state: text(),
        summary: text(),
        verify_failure: text(),
        last_text: text(),
    };
    let task = TaskBrief {
        instructions: text(),
        role: text(),
        check: text(),
        after_step: Some(1),
        checkpoints: vec![(1, 2, "text".to_owned())],
        failures: list(),
        failure_output: text(),
        ..task()
    };
    values(kind, &about, &again, &task)
}

fn values(kind: Kind, about: &About, again: &Again, task: &TaskBrief) -> Value {
    match kind {
        Kind::Objective => about.values(),
        Kind::Continuation => again.values(about),
        Kind::Task | Kind::Retry => task.values(about),
    }
}
