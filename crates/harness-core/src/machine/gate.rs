//! The gate at the end of a phase: its check, then a person where one has to agree. What passed is
//! recorded; what did not is in the log and tried again another time.

use super::{Input, Machine, Next};
use crate::{
    Category, Command, RunId, Timestamp,
    agent::StoppedBy,
    check::Verdict,
    command::{Note, OfRun, PassGate, RunStep},
    ledger::{self, Phase},
    run::Owner,
};

/// What a gate asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Its check, in the work tree.
    Check(ledger::Gate),
    /// A person is asked whether the phase may pass.
    Approve {
        /// Its name.
        phase: String,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The check ended.
    Checked {
        /// What it says.
        verdict: Verdict,
        /// The end of its output.
        output: String,
    },
    /// The person answered.
    Answered {
        /// The phase may pass.
        approved: bool,
        /// In their words.
        words: String,
        /// Who that was, where it is known.
        by: Option<String>,
    },
    /// Nobody can be asked, or the question was taken back.
    Unanswered,
}

/// What a gate came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateEnd {
    /// And that is recorded.
    Passed,
    /// And that is in the log.
    Closed {
        /// One line.
        why: String,
        /// What the check or the person said.
        output: String,
    },
    /// Somebody stopped it: it says nothing.
    Interrupted,
}

/// The run that waits at the gate, so that its row says what for.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// Which.
    pub run: RunId,
    /// Who drives it.
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
    /// Who approved.
    by: Option<String>,
    waiting: Option<Waiting>,
    state: State,
}

type Step = Next<Effect, GateEnd>;

impl Gate {
    /// Of a phase that has not passed.
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
        let (phase, by) = (self.phase.name.clone(), self.by.take());
        self.commit(State::Passing, Command::PassGate(PassGate { phase, by }))
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

    /// The row says that nobody is waited for any more, then what was answered has its effect.
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
            // The phase is gone from the ledger, or the run is somebody else's.
            Input::Refused(why) => {
                Next::Done(GateEnd::Closed { why: why.to_string(), output: String::new() })
            }
            Input::Interrupt => Next::Cancel(StoppedBy::User),
            Input::Told(_) | Input::Tick => Next::Wait,
        }
    }
}
