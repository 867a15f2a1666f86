//! The ledger in the forms of other tools. `harness import` reads each of them.

mod json;
mod markdown;

use crate::{Ledger, Task, Timestamp, task::Status};

macro_rules! forms {
    ($($(#[doc = $doc:literal])+ $name:ident: $word:literal;)+) => {
        /// The form that a ledger is written in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ExportForm {
            $($(#[doc = $doc])+ $name,)+
        }

        impl ExportForm {
            /// All forms.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the word for the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

forms! {
    /// Markdown with `### Task N: title`
    Plan: "plan";
    /// `prd.json`
    Prd: "prd";
    /// A Markdown checklist
    Checklist: "checklist";
    /// `tasks.json` of Task Master
    Taskmaster: "taskmaster";
    /// `issues.jsonl` of beads
    Beads: "beads";
}

impl ExportForm {
    /// Returns `None` for a word that is no form.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|form| form.name() == word)
    }
}

/// A ledger as a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// The text.
    pub text: String,
    /// What the form cannot hold.
    pub warnings: Vec<String>,
}

/// Returns the ledger in another form.
pub fn export(ledger: &Ledger, form: ExportForm, now: Timestamp) -> Exported {
    let mut tasks: Vec<&Task> = ledger.tasks().collect();
    tasks.sort_by_key(|task| task.order.unwrap_or(u64::MAX));
    let goal = ledger.head().goal.as_deref().map(str::trim).filter(|goal| !goal.is_empty());
    let contents = Contents { goal: goal.unwrap_or("Tasks of harness"), tasks, now };
    let mut warnings = contents.lost(form);
    if !ledger.head().phases.is_empty() {
        warnings.push("phases and their gates are left out".to_owned());
    }
    let text = match form {
        ExportForm::Plan => markdown::plan(&contents),
        ExportForm::Checklist => markdown::checklist(&contents),
        ExportForm::Prd => json::prd(&contents),
        ExportForm::Taskmaster => json::taskmaster(&contents),
        ExportForm::Beads => json::beads(&contents),
    };
    Exported { text, warnings }
}

/// What is written, in the order of work.
struct Contents<'a> {
    goal: &'a str,
    tasks: Vec<&'a Task>,
    now: Timestamp,
}

impl Contents<'_> {
    fn lost(&self, form: ExportForm) -> Vec<String> {
        let mut lost = Vec::new();
        let count = |which: &dyn Fn(&Task) -> bool| self.tasks.iter().filter(|t| which(t)).count();
        let waiting = count(&|task| !task.depends_on.is_empty());
        match form {
            ExportForm::Plan if waiting > 0 => {
                lost.push(
                    "dependencies are left out: the tasks of a plan follow each other".to_owned(),
                );
            }
            ExportForm::Checklist if waiting > 0 => {
                lost.push("dependencies are left out: a checklist has none".to_owned());
            }
            ExportForm::Plan
            | ExportForm::Checklist
            | ExportForm::Prd
            | ExportForm::Taskmaster
            | ExportForm::Beads => {}
        }
        for task in self.tasks.iter().filter(|t| t.check().is_some() && check(t).is_none()) {
            lost.push(format!("{}: its check does not fit into one line and is left out", task.id));
        }
        let failed = count(&|task| task.failed_for_good());
        if failed > 0 {
            lost.push(format!("{failed} failed task(s) are written as not done"));
        }
        lost
    }
}

fn is_done(task: &Task) -> bool {
    task.status() == Status::Completed
}

/// Returns the check, if it can stand between backticks.
fn check(task: &Task) -> Option<&str> {
    task.check().map(str::trim).filter(|command| !command.contains(['`', '\n', '\r']))
}

/// Returns the line that an import reads the check from.
fn validate(task: &Task) -> Option<String> {
    check(task).map(|command| format!("Validate: `{command}`"))
}

#[cfg(test)]
mod tests;
