//! The prompts of agents, from templates that a project may replace.
//!
//! The same inputs give the same bytes: a prompt contains no time, no id of a run and no number of
//! a session. Text that an agent or a program wrote is quoted as data before a template receives
//! it, so that a replaced template cannot forget to quote it.
//!
//! Nothing here decides which prompt is due, nor reads the answer of an agent.

mod about;
mod artifacts;
mod given;
#[cfg(test)]
mod tests;

use std::path::Path;

use harness_core::{machine::iterate::Nudge, quote::one_line};
use minijinja::{Environment, UndefinedBehavior, Value, syntax::SyntaxConfig};

pub use about::{About, Again, Means, TaskBrief, Why};
pub use artifacts::artifacts;

/// The limit of a rendered prompt. No model would read a longer one.
const WRITTEN_BYTES_MAX: usize = 1024 * 1024;
/// The limit of steps of a template, so that none runs forever.
const FUEL: u64 = 1_000_000;

/// The kind of a prompt.
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

    /// Returns the name of its template, below `.harness/prompts`.
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
    /// The templates of the project, by the same names.
    given: Environment<'static>,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The text for the agent.
    pub text: String,
    /// The reason why the project's own template is not used, if there is one.
    pub warning: Option<String>,
}

impl Prompts {
    /// Returns the templates of the program.
    pub fn built_in() -> Self {
        let mut built_in = environment();
        for kind in Kind::ALL {
            // A test renders each of them, so this cannot fail.
            let added = built_in.add_template(kind.file(), kind.built_in());
            debug_assert!(added.is_ok(), "{added:?}");
        }
        Self { built_in, given: environment() }
    }

    /// Returns the same with the files
    /// `<root>/.harness/prompts/{objective,continuation,task,retry}.md`.
    ///
    /// A template that cannot be used is replaced by the built-in one, with a warning that names it
    /// and the reason. `root` must be canonical.
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

    /// Renders the prompt for the first context of a run with an objective.
    pub fn objective(&self, about: &About) -> Written {
        self.write(Kind::Objective, about.values(), about)
    }

    /// Renders the prompt for every later context. For a task, the objective is
    /// [`TaskBrief::objective`].
    pub fn continuation(&self, about: &About, again: &Again) -> Written {
        self.write(Kind::Continuation, again.values(about), about)
    }

    /// Renders the prompt for the first context of the first attempt at a task.
    pub fn task(&self, about: &About, task: &TaskBrief) -> Written {
        self.write(Kind::Task, task.values(about), about)
    }

    /// Renders the prompt for the first context of a later attempt, with the results of earlier
    /// ones.
    pub fn retry(&self, about: &About, task: &TaskBrief) -> Written {
        self.write(Kind::Retry, task.values(about), about)
    }

    /// Returns the prompt of a context that is asked to continue after its last turn.
    pub fn nudge(&self, about: &About, why: Nudge) -> String {
        let why = match why {
            Nudge::Blank => "Your last turn ended without a message. Go on with the work.",
            Nudge::Mention => {
                "Your last message mentions the words of completion within other text, which does \
                 not count. If work is left, go on with it."
            }
        };
        format!(
            "{why} When all of it is done, and you have checked that it is, end your last message \
             with exactly this, on a line of its own:\n\n    {}\n",
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
            // This happens only if a value is too long for any template. The prompt is then only
            // the user's text.
            Err(why) => {
                let text = format!("{}\n\n    {}\n", about.objective, about.promise_line());
                let why = format!("the built-in {} cannot be used: {why}", kind.file());
                Written { text, warning: warning.or(Some(why)) }
            }
        }
    }
}

/// Creates an environment in which an undefined name is an error, because a prompt with a gap is
/// worse than the built-in one.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    // The default delimiters are valid.
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment
}

/// Returns the text with one newline at its end, or the reason why there is none.
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
