//! `land = "pr"`: results land on a branch of the run, and at the end a command opens a pull request.

use std::time::Duration;

use harness::{
    clock::{Clock as _, SystemClock},
    core::{Ledger, Run, RunId, Task, task::Status},
    shell::{Cancel, Exit, Script, Shell as _, SystemShell},
    store::PullRequest,
    workspace::{GitWorkspace, Workspace as _},
};

use crate::{
    environment::Environment,
    failure::{Failure, Result},
    paint::{visible, warn},
    root::StateRoot,
};

/// The command that opens a pull request where `gh` is installed.
const DEFAULT: &str = "git push --quiet origin {branch} && gh pr create --head {branch} \
                       --base {target} --title {title} --body {body}";
/// The time limit of the command.
const LIMIT: Duration = Duration::from_secs(600);
/// The number of lines of a failed command that are shown.
const LINES: usize = 10;

/// Returns the branch on which the results of a run land.
pub(super) fn branch(run: &RunId) -> String {
    format!("harness/run-{run}")
}

/// The results of a run, to be opened as a pull request.
pub(super) struct Proposal<'a> {
    pub(super) root: &'a StateRoot,
    pub(super) env: &'a Environment,
    pub(super) workspace: &'a GitWorkspace,
    /// The command of the configuration.
    pub(super) command: Option<&'a str>,
    pub(super) run: &'a Run,
    pub(super) ledger: &'a Ledger,
    /// The branch that is to get the results.
    pub(super) target: &'a str,
}

/// The end of a proposal with results.
pub(super) enum Proposed {
    /// The pull request has this address.
    Opened { url: String },
    /// The results are on this branch only.
    Unopened { branch: String, why: &'static str },
}

impl Proposed {
    /// Returns the address for programs.
    pub(super) fn url(&self) -> Option<&str> {
        match self {
            Self::Opened { url } => Some(url),
            Self::Unopened { .. } => None,
        }
    }

    /// Returns the text for people.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Opened { url } => format!("in {url}"),
            Self::Unopened { branch, why } => format!("on {branch}; {why}"),
        }
    }
}

impl Proposal<'_> {
    /// Opens a pull request, if there are results. A failure is a warning, because the results are on
    /// the branch.
    pub(super) fn open(&self) -> Option<Proposed> {
        let branch = branch(&self.run.id);
        match self.workspace.commits_ahead(&branch, Some(self.target)) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(why) => {
                warn(&why.to_string());
                return None;
            }
        }
        let Some(template) = self.template() else {
            let why = "there is no command that opens a pull request";
            return Some(Proposed::Unopened { branch, why });
        };
        match self.run_command(&branch, template) {
            Ok(Some(url)) => Some(Proposed::Opened { url }),
            Ok(None) => {
                let why = "the command that opens a pull request printed no address";
                Some(Proposed::Unopened { branch, why })
            }
            Err(failure) => {
                warn(&failure.error);
                Some(Proposed::Unopened { branch, why: "no pull request was opened" })
            }
        }
    }

    fn template(&self) -> Option<&str> {
        self.command.or_else(|| self.has_gh().then_some(DEFAULT))
    }

    fn has_gh(&self) -> bool {
        let path = self.env.get("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join("gh").is_file())
    }

    fn run_command(&self, branch: &str, template: &str) -> Result<Option<String>> {
        let script = Script {
            command: filled(template, branch, self.target, &self.title(), &self.body()),
            directory: self.workspace.top_level().to_owned(),
            timeout: LIMIT,
            environment: vec![(
                "HARNESS_STATE_ROOT".to_owned(),
                self.root.path().display().to_string(),
            )],
        };
        let ran = SystemShell::default().run_until(&script, &Cancel::new()?)?;
        let output = String::from_utf8_lossy(&ran.tail);
        if ran.exit != Exit::Code(0) {
            let lines: Vec<&str> = output.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
            let text = format!("the pull request could not be opened: {}", visible(&last));
            return Err(Failure::error(text));
        }
        let target = self.target.to_owned();
        let now = SystemClock.now();
        let mut opened = PullRequest::new(self.run.id.clone(), branch.to_owned(), target, now);
        opened.url = address(&output);
        opened.store(self.root.path())?;
        Ok(opened.url)
    }

    fn landed(&self) -> impl Iterator<Item = &Task> {
        self.ledger.tasks().filter(|task| {
            let since = task.completed_at().is_some_and(|at| at >= self.run.created_at);
            task.status() == Status::Completed && since
        })
    }

    fn title(&self) -> String {
        match (&self.ledger.head().goal, self.landed().count()) {
            (Some(goal), _) => goal.lines().next().unwrap_or_default().to_owned(),
            (None, 1) => self.landed().map(|task| task.title.clone()).collect(),
            (None, count) => format!("{count} tasks by harness"),
        }
    }

    fn body(&self) -> String {
        let task = |task: &Task| {
            let check = task.check().map(|check| format!(" (`{check}` passed)"));
            format!("- {}: {}{}", task.id, task.title, check.unwrap_or_default())
        };
        self.landed().map(task).collect::<Vec<_>>().join("\n")
    }
}

/// Replaces the placeholders, each by one word of the shell, in one pass: text of tasks is not looked
/// at again.
fn filled(template: &str, branch: &str, target: &str, title: &str, body: &str) -> String {
    let values = [("{branch}", branch), ("{target}", target), ("{title}", title), ("{body}", body)];
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        match values.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                text.push_str(&quoted(value));
                rest = &rest[name.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text + rest
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\0', "").replace('\'', r"'\''"))
}

/// Returns the last line that is an address.
fn address(output: &str) -> Option<String> {
    let mut lines = output.lines().map(str::trim);
    let is_address = |line: &&str| {
        let rest = line.strip_prefix("https://").or_else(|| line.strip_prefix("http://"));
        rest.is_some_and(|rest| !rest.is_empty()) && !line.contains(char::is_whitespace)
    };
    lines.rfind(is_address).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_words_of_the_shell_and_text_of_tasks_stays_text() {
        let text = filled("x {title} {other} {body}{branch} {", "b", "t", "it's {body} $(id)", "B");
        assert_eq!(text, r"x 'it'\''s {body} $(id)' {other} 'B''b' {");
    }

    #[test]
    fn the_last_line_that_is_an_address_counts() {
        let output =
            "Creating\nhttps://a.example/1\n https://a.example/2 \nhttps://two words\ndone\n";
        assert_eq!(address(output).as_deref(), Some("https://a.example/2"));
        assert_eq!(address("https://\nnothing"), None);
    }
}
