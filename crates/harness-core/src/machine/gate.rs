//! The gate at the end of a phase: its check, then the approval of a person if one is required. A
//! pass is recorded. A failure is logged, and the gate is tried again later.

use super::{Input, Machine, Next};
use crate::{
    Category, Command, RunId, Timestamp,
    agent::StoppedBy,
    check::Verdict,
    command::{Note, OfRun, PassGate, RunStep},
    ledger::{self, Phase},
    run::Owner,
};

/// An effect that a gate asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Runs its check in the work tree.
    Check(ledger::Gate),
    /// Asks a person whether the phase may pass.
    Approve {
        /// The name of the phase.
        phase: String,
    },
}

/// The result of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The check ended.
    Checked {
        /// The verdict of the check.
        verdict: Verdict,
        /// The end of its output.
        output: String,
    },
    /// A person answered.
    Answered {
        /// `true` if the phase may pass.
        approved: bool,
        /// The answer as text.
        words: String,
        /// The person, if known.
        by: Option<String>,
    },
    /// No person can be asked, or the question was withdrawn.
    Unanswered,
}

/// The end of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateEnd {
    /// The gate passed, and this is recorded.
    Passed,
    /// The gate did not pass, and this is logged.
    Closed {
        /// The reason, in one line.
        why: String,
        /// The output of the check, or the answer of the person.
        output: String,
    },
    /// The gate was stopped, so it has no result.
    Interrupted,
}

/// The run that waits at the gate. Its row records that it waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// The run.
    pub run: RunId,
    /// The process that drives it.
    pub by: Option<Owner>,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Checking,
    Announcing,
    Asking,
    Answered(GateEnd),
    Passing,
    Complaining(GateEnd),
}

/// The machine of one gate.
pub struct Gate {
    phase: Phase,
    /// The person who approved.
    by: Option<String>,
    waiting: Option<Waiting>,
    state: State,
}

type Step = Next<Effect, GateEnd>;

impl Gate {
    /// Creates the machine for a phase that has not passed.
    pub fn new(phase: Phase, waiting: Option<Waiting>) -> Self {
        Self { phase, by: None, waiting, state: State::Checking }
    }

    fn commit(&mut self, state: State, command: Command) -> Step {
        self.state = state;
        Next::Commit(Box::new(command))
    }

    fn human(&self, asked: bool) -> Option<Command> {
        let Waiting { run, by } = self.waiting.clone()?;
        Some(OfRun { run, by, step: RunStep::AskHuman(asked) }.into())
    }

    fn begin(&mut self) -> Step {
        match self.phase.gate.clone() {
            Some(gate) => Next::Start(Effect::Check(gate)),
            None => self.approve(),
        }
    }

    fn approve(&mut self) -> Step {
        if !self.phase.approve {
            return self.pass();
        }
        match self.human(true) {
            Some(command) => self.commit(State::Announcing, command),
            None => self.ask(),
        }
    }

    fn ask(&mut self) -> Step {
        self.state = State::Asking;
        Next::Start(Effect::Approve { phase: self.phase.name.clone() })
    }

    fn pass(&mut self) -> Step {
        let Phase { name: phase, gate, approve: asked, .. } = self.phase.clone();
        let pass = PassGate { phase, gate, asked, by: self.by.take() };
        self.commit(State::Passing, Command::PassGate(pass))
    }

    fn close(&mut self, why: String, output: String) -> Step {
        let message = format!("gate {}: {why}", self.phase.name);
        let note = Note::Problem { task: None, category: Category::TestFail, message };
        self.commit(State::Complaining(GateEnd::Closed { why, output }), Command::Note(note))
    }

    fn ended(&mut self, ended: Ended) -> Step {
        match ended {
            Ended::Checked { verdict: Verdict::Cancelled, .. } => Next::Done(GateEnd::Interrupted),
            Ended::Checked { verdict, output } => match verdict.complaint() {
                None => self.approve(),
                Some(why) => self.close(why, output),
            },
            Ended::Answered { approved: true, by, .. } => {
                self.by = by;
                self.answered(GateEnd::Passed)
            }
            Ended::Answered { approved: false, words, by } => {
                let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
                let why = format!("not approved{by}");
                self.answered(GateEnd::Closed { why, output: words })
            }
            Ended::Unanswered => self.answered(GateEnd::Interrupted),
        }
    }

    /// Records in the row that the run no longer waits for a person, then applies the answer.
    fn answered(&mut self, end: GateEnd) -> Step {
        match self.human(false) {
            Some(command) => self.commit(State::Answered(end), command),
            None => self.after(end),
        }
    }

    fn after(&mut self, end: GateEnd) -> Step {
        match end {
            GateEnd::Passed => self.pass(),
            GateEnd::Closed { why, output } => self.close(why, output),
            GateEnd::Interrupted => Next::Done(GateEnd::Interrupted),
        }
    }

    fn committed(&mut self) -> Step {
        match self.state.clone() {
            State::Announcing => self.ask(),
            State::Answered(end) => self.after(end),
            State::Passing => Next::Done(GateEnd::Passed),
            State::Complaining(end) => Next::Done(end),
            State::Checking | State::Asking => Next::Wait,
        }
    }
}

impl Machine for Gate {
    type Effect = Effect;
    type Ended = Ended;
    type Outcome = GateEnd;

    fn step(&mut self, _: Timestamp, input: Input<Ended>) -> Step {
        match input {
            Input::Begin => self.begin(),
            Input::Ended(ended) => self.ended(ended),
            Input::Committed(_) => self.committed(),
            // The phase is no longer in the ledger or was changed, or another process drives the run.
            Input::Refused(why) => {
                Next::Done(GateEnd::Closed { why: why.to_string(), output: String::new() })
            }
            Input::Interrupt => Next::Cancel(StoppedBy::User),
            Input::Told(_) | Input::Tick | Input::Allowed(_) => Next::Wait,
        }
    }
}
