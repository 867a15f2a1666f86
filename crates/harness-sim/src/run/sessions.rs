//! The rules for the sessions of a run, judged by the commands that became durable.

use harness_core::{
    Command, Refusal, Reply,
    command::{Claim, Note},
    task::Via,
};

use super::{Flaw, stage::State};

/// The commands of the current process about its sessions.
#[derive(Debug, Default)]
pub(super) struct SessionBook {
    stage: SessionStage,
    /// The sessions that this process began.
    begun: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SessionStage {
    #[default]
    Closed,
    /// It has a number, and its init script has not passed yet.
    Unprepared,
    Prepared,
    /// There is no number left. Attempts that a killed process left are still recovered.
    WithoutNumber,
}

impl SessionBook {
    /// Returns the answer that a flawed process gives itself, in the place of a commit.
    pub(super) fn skipped(&self, flaw: Flaw, command: &Command) -> Option<Reply> {
        match (flaw, command) {
            (Flaw::SkipsNumber, Command::BeginSession(_)) => Some(Reply::Session { number: 0 }),
            (Flaw::PreparesOnce, Command::Note(Note::HealthCheck { .. })) if self.begun > 1 => {
                Some(Reply::Noted)
            }
            _ => None,
        }
    }
}

impl State {
    /// Follows a command that was answered.
    pub(super) fn follow_session(&mut self, command: &Command, reply: &Result<Reply, Refusal>) {
        let stage = self.sessions.stage;
        let next = match (command, reply.is_ok()) {
            (Command::BeginSession(_), true) => {
                self.sessions.begun += 1;
                let script = self.root.join("harness-init.sh").exists();
                if script { SessionStage::Unprepared } else { SessionStage::Prepared }
            }
            (Command::BeginSession(_), false) => SessionStage::WithoutNumber,
            (Command::EndSession(_), true) => SessionStage::Closed,
            (Command::Note(Note::HealthCheck { passed }), true) => {
                self.belongs_to_session(command);
                let prepared = *passed && stage == SessionStage::Unprepared;
                if prepared { SessionStage::Prepared } else { stage }
            }
            (Command::Adopt(_) | Command::Claim(Claim { via: Via::Run, .. }), true) => {
                self.belongs_to_session(command);
                if stage == SessionStage::Unprepared {
                    self.broken("each_session_prepares", format!("{command:?}"));
                }
                stage
            }
            _ => stage,
        };
        self.sessions.stage = next;
    }

    fn belongs_to_session(&mut self, command: &Command) {
        if self.sessions.stage == SessionStage::Closed {
            self.broken("work_is_in_a_session", format!("{command:?}"));
        }
    }
}
