//! The fields of a task as arguments: those of `add` and of `task edit`.

use std::{fs, io::Read, path::Path};

use harness_core::{TaskId, command::Edit};

use crate::{
    config::Duration,
    failure::{Failure, Result},
    store::task_id,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Fields {
    /// P0 (first), P1 or P2
    #[arg(long, short, value_name = "P")]
    pub(crate) priority: Option<String>,
    /// Tasks that must be completed first (repeatable, or separated by commas)
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = dependency)]
    pub(crate) depends_on: Option<Vec<Dependency>>,
    /// The command that proves the task is done, run by `sh -c`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) validate: Option<String>,
    /// Time limit of that command, such as 90s or 5m
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) timeout: Option<u64>,
    /// Time limit of one attempt, such as 30m or 2h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    attempt_timeout: Option<u64>,
    /// Judge a clean checkout of the commit (true) or the work tree (false)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    clean: Option<bool>,
    /// Also run the check before the first attempt
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    baseline: Option<bool>,
    /// Files that an attempt must not change, besides `protected` of harness.toml (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub(crate) protected: Option<Vec<String>>,
    /// Number of attempts before the task has failed for good
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// A command to run after a failed attempt has been rolled back
    #[arg(long, value_name = "COMMAND")]
    cleanup: Option<String>,
    /// Instructions for the agent: a text, @FILE, or - for standard input
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
    /// Only hand the task to workers of this role, or without a role
    #[arg(long)]
    role: Option<String>,
    /// Only hand the task to workers with this label (repeatable, or separated by commas)
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    requires: Option<Vec<String>>,
    /// The phase that the task belongs to
    #[arg(long)]
    phase: Option<String>,
}

/// One id, or nothing: `--depends-on ''` clears the list.
#[derive(Debug, Clone)]
pub(crate) struct Dependency(pub(crate) Option<TaskId>);

fn dependency(text: &str) -> Result<Dependency, String> {
    match text.trim() {
        "" => Ok(Dependency(None)),
        id => task_id(id).map(|id| Dependency(Some(id))),
    }
}

/// A duration as an argument: `90s`, `30m`, `8h`, or a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "expected a duration such as 90s, 30m or 8h, or a number of seconds".to_owned();
    Duration::parse(text).map(|duration| duration.0.as_secs()).ok_or_else(wrong)
}

impl Fields {
    pub(crate) fn any(&self) -> bool {
        let texts = [
            &self.priority,
            &self.validate,
            &self.cleanup,
            &self.instructions,
            &self.role,
            &self.phase,
        ];
        texts.iter().any(|t| t.is_some())
            || self.depends_on.is_some()
            || self.timeout.is_some()
            || self.attempt_timeout.is_some()
            || self.clean.is_some()
            || self.baseline.is_some()
            || self.protected.is_some()
            || self.requires.is_some()
            || self.max_attempts.is_some()
    }

    pub(crate) fn edit(self, task: TaskId, title: Option<String>) -> Result<Edit> {
        let depends_on = self.depends_on.map(|ids| ids.into_iter().filter_map(|d| d.0).collect());
        Ok(Edit {
            task,
            title,
            priority: self.priority,
            depends_on,
            validation_command: self.validate,
            validation_timeout_seconds: self.timeout,
            validation_clean: self.clean,
            validation_baseline: self.baseline,
            protected: self.protected.map(without_empty),
            attempt_timeout_seconds: self.attempt_timeout,
            max_attempts: self.max_attempts,
            cleanup: self.cleanup,
            instructions: self.instructions.map(|text| read_text(&text)).transpose()?,
            role: self.role,
            requires: self.requires.map(without_empty),
            phase: self.phase,
            by: None,
        })
    }
}

/// Leaves out empty texts: `--protected ''` clears the list.
fn without_empty(mut texts: Vec<String>) -> Vec<String> {
    texts.retain(|text| !text.trim().is_empty());
    texts
}

/// Reads the text from `@FILE` or `-`, or returns the text itself.
fn read_text(text: &str) -> Result<String> {
    if text == "-" {
        let mut input = String::new();
        std::io::stdin().lock().read_to_string(&mut input)?;
        return Ok(input);
    }
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(file) => {
            fs::read_to_string(file).map_err(|why| Failure::file("read", Path::new(file), &why))
        }
    }
}
