//! What agents are told: the prompts, from templates that a project may replace.
//!
//! The same inputs give the same bytes: there is no time, no id of a run and no number of a session
//! in a prompt. Text that an agent or a program wrote is quoted as data before a template sees it,
//! so that a replaced template cannot forget to.
//!
//! Nothing here decides which prompt is due, nor reads what an agent answers.

mod about;
mod artifacts;
mod given;
#[cfg(test)]
mod tests;

use std::path::Path;

use harness_core::quote::one_line;
use minijinja::{Environment, UndefinedBehavior, Value, syntax::SyntaxConfig};

pub use about::{About, Again, Means, TaskBrief, Why};
pub use artifacts::artifacts;

/// A rendered prompt is not longer; no model would read it.
const WRITTEN_BYTES_MAX: usize = 1024 * 1024;
/// Steps that a template may take, so that none runs for ever.
const FUEL: u64 = 1_000_000;

/// Which prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Objective,
    Continuation,
    Task,
    Retry,
}

/// The names of the templates, below `.harness/prompts`.
pub const TEMPLATES: [&str; 4] =
    [Kind::Objective.file(), Kind::Continuation.file(), Kind::Task.file(), Kind::Retry.file()];

impl Kind {
    const ALL: [Self; 4] = [Self::Objective, Self::Continuation, Self::Task, Self::Retry];

    /// Of its template, below `.harness/prompts`.
    const fn file(self) -> &'static str {
        match self {
            Self::Objective => "objective.md",
            Self::Continuation => "continuation.md",
            Self::Task => "task.md",
            Self::Retry => "retry.md",
        }
    }

    fn built_in(self) -> &'static str {
        match self {
            Self::Objective => include_str!("objective.md"),
            Self::Continuation => include_str!("continuation.md"),
            Self::Task => include_str!("task.md"),
            Self::Retry => include_str!("retry.md"),
        }
    }
}

/// The templates of a project, ready for use.
#[derive(Debug, Clone)]
pub struct Prompts {
    built_in: Environment<'static>,
    /// Those that the project brings, by the same names.
    given: Environment<'static>,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// For the agent.
    pub text: String,
    /// Why it is not made of the project's own template, though there is one.
    pub warning: Option<String>,
}

impl Prompts {
    /// The templates that come with the program.
    pub fn built_in() -> Self {
        let mut built_in = environment();
        for kind in Kind::ALL {
            // A test renders each of them, so that this cannot fail.
            let added = built_in.add_template(kind.file(), kind.built_in());
            debug_assert!(added.is_ok(), "{added:?}");
        }
        Self { built_in, given: environment() }
    }

    /// The same with what is in `<root>/.harness/prompts/{objective,continuation,task,retry}.md`.
    ///
    /// A template that cannot be used is replaced by the built-in one, and a warning says which and
    /// why. `root` is canonical.
    pub fn load(root: &Path) -> (Self, Vec<String>) {
        let mut prompts = Self::built_in();
        let mut warnings = Vec::new();
        for kind in Kind::ALL {
            match given::read(root, kind) {
                Ok(Some(source)) => warnings.extend(prompts.take(kind, source)),
                Ok(None) => {}
                Err(why) => warnings.push(given::refused(kind, &why)),
            }
        }
        (prompts, warnings)
    }

    /// The first context of a run with an objective.
    pub fn objective(&self, about: &About) -> Written {
        self.write(Kind::Objective, about.values(), about)
    }

    /// Every later context, of a task too: then the objective is [`TaskBrief::objective`].
    pub fn continuation(&self, about: &About, again: &Again) -> Written {
        self.write(Kind::Continuation, again.values(about), about)
    }

    /// The first context of the first attempt at a task.
    pub fn task(&self, about: &About, task: &TaskBrief) -> Written {
        self.write(Kind::Task, task.values(about), about)
    }

    /// The first context of a later attempt, with what came of the ones before.
    pub fn retry(&self, about: &About, task: &TaskBrief) -> Written {
        self.write(Kind::Retry, task.values(about), about)
    }

    /// For a context that ended a turn without a word.
    pub fn nudge(&self, about: &About) -> String {
        format!(
            "Your last turn ended without a message. Go on with the work. When all of it is done, \
             and you have checked that it is, end your last message with exactly this, on a line \
             of its own:\n\n    {}\n",
            about.promise_line()
        )
    }

    fn write(&self, kind: Kind, values: Value, about: &About) -> Written {
        let mut warning = None;
        if self.given.get_template(kind.file()).is_ok() {
            match render(&self.given, kind, values.clone()) {
                Ok(text) => return Written { text, warning },
                Err(why) => warning = Some(given::refused(kind, &why)),
            }
        }
        match render(&self.built_in, kind, values) {
            Ok(text) => Written { text, warning },
            // Only if a value is too long for any template: then the user's own words alone.
            Err(why) => {
                let text = format!("{}\n\n    {}\n", about.objective, about.promise_line());
                let why = format!("the built-in {} cannot be used: {why}", kind.file());
                Written { text, warning: warning.or(Some(why)) }
            }
        }
    }
}

/// An undefined name is an error: a prompt with a hole in it is worse than the built-in one.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    // Built of the default delimiters, which are valid.
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment
}

/// The text, with one newline at its end; else why there is none.
fn render(environment: &Environment<'_>, kind: Kind, values: Value) -> Result<String, String> {
    let template = environment.get_template(kind.file());
    let text = template.and_then(|template| template.render(values));
    let text = text.map_err(|why| one_line(&why.to_string()))?;
    if text.trim().is_empty() {
        Err("it gives an empty prompt".to_owned())
    } else if text.len() > WRITTEN_BYTES_MAX {
        Err(format!("it gives a prompt of more than {WRITTEN_BYTES_MAX} bytes"))
    } else {
        Ok(format!("{}\n", text.trim_end()))
    }
}
