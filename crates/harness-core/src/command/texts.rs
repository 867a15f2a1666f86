//! The texts of a command, so that all of them can be searched for secrets.

use super::{Command, Edit, Note};
use crate::{Ledger, plan::Plan, task::Status};

const CHECK: &str = "the check";
const CLEANUP: &str = "the cleanup command";
/// The name for the gate of a phase in a message that refuses one of its lines.
pub const GATE: &str = "the gate";

impl Ledger {
    /// Returns every command line that would still be run, with the name of its purpose. A person
    /// may have typed it into the file.
    pub fn command_lines(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let open = self.tasks().filter(|task| task.status() != Status::Completed);
        let of_tasks = open.flat_map(|task| {
            let check = task.validation.command.as_deref().map(|line| (CHECK, line));
            let cleanup = task.cleanup.as_deref().map(|line| (CLEANUP, line));
            check.into_iter().chain(cleanup)
        });
        let gates = self.head().phases.iter().filter(|phase| phase.passed_at.is_none());
        let gates = gates.filter_map(|phase| Some((GATE, phase.gate.as_ref()?.command.as_str())));
        of_tasks.chain(gates)
    }
}

/// One text of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// A text for people and agents. It may be rewritten.
    Words(&'a mut String),
    /// A command line. It must run unchanged, so it can only be accepted or refused.
    Line {
        /// The purpose of the line.
        what: &'static str,
        /// The line.
        line: &'a str,
    },
}

impl Command {
    /// Visits every text that came from outside. Ids, branch names and similar values are not
    /// texts. Commands about runs are skipped, because another store keeps them.
    pub fn texts(&mut self, visit: &mut dyn FnMut(Text<'_>)) {
        match self {
            Self::Add(add) => {
                visit(Text::Words(&mut add.title));
                add.fields.texts(visit);
            }
            Self::Edit(edit) => edit.texts(visit),
            Self::Import(import) => import.plan.texts(visit),
            Self::Adopt(adopt) => visit(Text::Words(&mut adopt.action)),
            Self::Checkpoint(checkpoint) => visit(Text::Words(&mut checkpoint.description)),
            Self::Fail(fail) => visit(Text::Words(&mut fail.message)),
            Self::Retry(retry) => visit(Text::Words(&mut retry.reason)),
            Self::Reopen(reopen) => visit(Text::Words(&mut reopen.reason)),
            Self::Release(release) => visit(Text::Words(&mut release.reason)),
            Self::Note(
                Note::Problem { message, .. }
                | Note::Warning { message, .. }
                | Note::Objective { message, .. },
            ) => {
                visit(Text::Words(message));
            }
            Self::EditPhase(phase) => line(visit, GATE, phase.gate.as_ref()),
            Self::Raise(raise) => visit(Text::Words(&mut raise.message)),
            Self::Note(Note::HealthCheck { .. })
            | Self::Remove(_)
            | Self::Reset
            | Self::Claim(_)
            | Self::Upkeep
            | Self::Renew(_)
            | Self::Intend(_)
            | Self::VoidIntent(_)
            | Self::Landing(_)
            | Self::Evict(_)
            | Self::TakeOver(_)
            | Self::SetMode(_)
            | Self::SetTarget(_)
            | Self::Divert(_)
            | Self::Settle(_)
            | Self::HoldGate(_)
            | Self::Complete(_)
            | Self::BeginSession(_)
            | Self::EndSession(_)
            | Self::PassGate(_)
            | Self::RemovePhase(_)
            | Self::ConfigureSession(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Acknowledge
            | Self::Run(_) => {}
        }
    }
}

fn words(visit: &mut dyn FnMut(Text<'_>), text: &mut Option<String>) {
    if let Some(text) = text {
        visit(Text::Words(text));
    }
}

fn line(visit: &mut dyn FnMut(Text<'_>), what: &'static str, line: Option<&String>) {
    if let Some(line) = line {
        visit(Text::Line { what, line });
    }
}

impl Edit {
    fn texts(&mut self, visit: &mut dyn FnMut(Text<'_>)) {
        words(visit, &mut self.title);
        words(visit, &mut self.instructions);
        line(visit, CHECK, self.validation_command.as_ref());
        line(visit, CLEANUP, self.cleanup.as_ref());
    }
}

impl Plan {
    fn texts(&mut self, visit: &mut dyn FnMut(Text<'_>)) {
        visit(Text::Words(&mut self.goal));
        for task in self.tasks.values_mut() {
            visit(Text::Words(&mut task.description));
            words(visit, &mut task.instructions);
            line(visit, CHECK, task.validation.as_ref().map(|check| &check.command));
            line(visit, CLEANUP, task.cleanup.as_ref());
        }
        for phase in self.phases.iter().flatten() {
            line(visit, GATE, phase.gate.as_ref());
        }
        self.warnings.iter_mut().for_each(|warning| visit(Text::Words(warning)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TaskId, command::Add};

    #[test]
    fn words_can_be_rewritten_and_lines_are_only_shown() {
        let task = TaskId::numbered(1);
        let fields = Edit {
            instructions: Some("i".into()),
            validation_command: Some("v".into()),
            cleanup: Some("c".into()),
            ..Edit::nothing(task)
        };
        let mut command = Command::Add(Add { id: None, title: "t".into(), fields });
        let mut seen = Vec::new();
        command.texts(&mut |text| match text {
            Text::Words(words) => words.push('!'),
            Text::Line { what, line } => seen.push(format!("{what}: {line}")),
        });
        assert_eq!(seen, ["the check: v", "the cleanup command: c"]);
        let Command::Add(add) = command else { panic!("it is another command now") };
        assert_eq!((add.title.as_str(), add.fields.instructions.as_deref()), ("t!", Some("i!")));
    }
}
