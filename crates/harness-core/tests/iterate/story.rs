//! A loop with its clock, and short texts for its steps.

use harness_core::{
    Command, Iteration, Refusal, Reply, Run, RunId, Stop, Timestamp,
    agent::{AgentEvent, End, FailureKind, StoppedBy, Usage},
    check::Verdict,
    command::{Note, OfRun, RunStep},
    machine::{
        Input, Machine, Next, gate,
        iterate::{Brief, Cause, Effect, Ended, Iterate, Nudge, Purse, Rules, Turn},
    },
    promise::Match,
    run::{Ending, Owner, RunLimits, RunStatus},
};

/// The start of the clock.
pub(crate) const START: i64 = 1000;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

pub(crate) fn owner() -> Owner {
    Owner { host: "here".into(), pid: 7, started: "1".into() }
}

pub(crate) fn run() -> Run {
    Run {
        status: RunStatus::Running,
        objective: Some("write it".into()),
        agent: "a".into(),
        workspace: "/w".into(),
        completion_promise: "DONE".into(),
        limits: RunLimits { max_iterations: 10, ..RunLimits::default() },
        ..Run::queued(RunId::of_bits(1), at(START))
    }
}

/// A brief with ten restarts, no budget, no check and one agent.
pub(crate) fn brief() -> Brief {
    Brief {
        run: run(),
        iterations: Vec::new(),
        by: Some(owner()),
        purse: Purse::default(),
        rules: Rules {
            promise_match: Match::Line,
            stall_limit: 3,
            waits: true,
            restarts: true,
            prices: vec![None],
            names: vec!["claude".into(), "codex".into()],
            lease_seconds: 300,
            until: None,
            transcripts: "t".into(),
        },
        phases: Vec::new(),
        afresh: false,
    }
}

/// The same brief with a change.
pub(crate) fn brief_with(change: impl FnOnce(&mut Brief)) -> Brief {
    let mut brief = brief();
    change(&mut brief);
    brief
}

/// Returns the row of an iteration that ended and changed something.
pub(crate) fn past(number: u32, ending: Ending, words: &str) -> Iteration {
    let failed = ending.is_failure();
    Iteration {
        ended_at: Some(at(START)),
        ending: Some(ending),
        detail: failed.then(|| words.to_owned()),
        final_text: (!failed).then(|| words.to_owned()),
        mark_before: Some(format!("{number} before")),
        mark_after: Some(format!("{number} after")),
        ..Iteration::begun(number, at(START))
    }
}

pub(crate) fn idle(number: u32) -> Iteration {
    let past = past(number, Ending::Finished, "not yet");
    Iteration { mark_after: past.mark_before.clone(), ..past }
}

pub(crate) fn finished(text: &str) -> End {
    End::Finished { final_text: text.into(), usage: Usage::default() }
}

pub(crate) fn failed(kind: FailureKind) -> End {
    End::Failed { kind, detail: "boom".into() }
}

pub(crate) fn limited(until: Option<i64>) -> End {
    End::Limited { until: until.map(at) }
}

pub(crate) fn stopped(by: StoppedBy) -> End {
    End::Stopped { by }
}

pub(crate) fn worked(end: End) -> Input<Ended> {
    Input::Ended(Ended::Worked(end))
}

pub(crate) fn looked(mark: &str) -> Input<Ended> {
    Input::Ended(Ended::Looked { head: None, mark: Some(mark.into()) })
}

pub(crate) fn verified(verdict: Verdict, output: &str) -> Input<Ended> {
    Input::Ended(Ended::Verified { verdict, output: output.into() })
}

pub(crate) fn gated(end: gate::GateEnd) -> Input<Ended> {
    Input::Ended(Ended::Gated(end))
}

pub(crate) fn woke(kicked: bool) -> Input<Ended> {
    Input::Ended(Ended::Woke { kicked })
}

pub(crate) fn ok() -> Input<Ended> {
    Input::Committed(Reply::Noted)
}

pub(crate) fn usage(input_tokens: u64, cost_usd: Option<f64>) -> Usage {
    Usage { input_tokens, output_tokens: 0, cost_usd }
}

pub(crate) fn used(tokens: u64, cost_usd: Option<f64>) -> Input<Ended> {
    Input::Told(AgentEvent::Usage(usage(tokens, cost_usd)))
}

/// The store's reply to a report of usage, which contains the total.
pub(crate) fn spent(tokens: u64, cost_usd: Option<f64>) -> Input<Ended> {
    Input::Committed(Reply::Spent(usage(tokens, cost_usd)))
}

pub(crate) fn taken() -> Input<Ended> {
    Input::Refused(Refusal::RunTaken { run: RunId::of_bits(1), host: "there".into(), pid: 8 })
}

fn cause(cause: &Cause) -> String {
    match cause {
        Cause::First => "first".into(),
        Cause::NoPromise => "no promise".into(),
        Cause::OnlyMentioned => "only mentioned".into(),
        Cause::VerifyFailed(output) => format!("verify: {output}"),
        Cause::Failed(why) => format!("failed: {why}"),
        Cause::OutOfContext => "out of context".into(),
        Cause::GateClosed { phase, output } => format!("gate {phase}: {output}"),
        Cause::NextPhase(name) => format!("phase {name}"),
    }
}

fn turn(turn: &Turn) -> String {
    let mut said = format!("work {} {}", turn.number, cause(&turn.cause));
    if let Some(kept) = &turn.kept {
        said += &format!(" in {} after {}", kept.session, kept.used.tokens());
        if turn.nudge == Nudge::Mention {
            said += " for a mention";
        }
    }
    if turn.agent > 0 {
        said += &format!(" agent {}", turn.agent);
    }
    said + &by(turn.until)
}

fn by(until: Option<Timestamp>) -> String {
    until.map(|until| format!(" until {}", until.seconds())).unwrap_or_default()
}

fn step(step: &RunStep) -> String {
    match step {
        RunStep::Begin { number, .. } => format!("begin {number}"),
        RunStep::End { ending, detail, .. } => {
            let detail = detail.as_ref().map(|d| format!(": {d}")).unwrap_or_default();
            format!("end {ending}{detail}")
        }
        RunStep::Spend(usage) => {
            let cost = usage.cost_usd.map(|c| format!(" for {c}")).unwrap_or_default();
            format!("spend {}{cost}", usage.tokens())
        }
        RunStep::WaitUntil(Some(until)) => format!("wait until {}", until.seconds()),
        RunStep::WaitUntil(None) => "wake".into(),
        RunStep::Stop(reason) => format!("stop {reason}"),
        RunStep::Session(id) => format!("session {id}"),
        RunStep::Beat { lease_seconds } => format!("beat {lease_seconds}"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn said(next: &Next<Effect, Stop>) -> String {
    match next {
        Next::Commit(command) => match &**command {
            Command::Run(of_run) => step(&of_run.step),
            Command::Note(Note::Warning { message, .. }) => format!("warn: {message}"),
            other => format!("{other:?}"),
        },
        Next::Start(Effect::Look) => "look".into(),
        Next::Start(Effect::Work(t)) => turn(t),
        Next::Start(Effect::Gate { phase, until }) => format!("gate {}{}", phase.name, by(*until)),
        Next::Start(Effect::Verify { command, until }) => format!("verify {command}{}", by(*until)),
        Next::Start(Effect::Sleep { until }) => format!("sleep until {}", until.seconds()),
        Next::Wait => "wait".into(),
        Next::Cancel(cause) => format!("cancel {cause:?}"),
        Next::Done(stop) => format!("done {stop}"),
    }
}

/// The machine and its clock.
pub(crate) struct Loop {
    machine: Iterate,
    now: i64,
    /// A counter that makes each look return something new.
    looks: u32,
}

impl Loop {
    pub(crate) fn new(brief: Brief) -> Self {
        Self { machine: Iterate::new(brief), now: START, looks: 0 }
    }

    /// Starts in the middle of the first context.
    #[track_caller]
    pub(crate) fn at_work(brief: Brief) -> Self {
        Self::new(brief).tell(Input::Begin, "look").begins(0, "first")
    }

    /// Moves the clock.
    pub(crate) fn after(mut self, seconds: i64) -> Self {
        self.now += seconds;
        self
    }

    /// Passes an input to the machine and compares its step.
    #[track_caller]
    pub(crate) fn tell(mut self, input: Input<Ended>, expected: &str) -> Self {
        let next = self.machine.step(at(self.now), input.clone());
        assert_eq!(said(&next), expected, "told {input:?}");
        self
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    pub(crate) fn next(&mut self, input: Input<Ended>) -> Next<Effect, Stop> {
        self.machine.step(at(self.now), input)
    }

    /// Returns the full command of a step.
    pub(crate) fn step_of(&mut self, input: Input<Ended>) -> OfRun {
        match self.next(input) {
            Next::Commit(command) => match *command {
                Command::Run(of_run) => *of_run,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn fresh(&mut self) -> Input<Ended> {
        self.looks += 1;
        looked(&format!("look {}", self.looks))
    }

    /// Expects a look, the start of the iteration and the start of its agent.
    #[track_caller]
    pub(crate) fn begins(mut self, number: u32, cause: &str) -> Self {
        let look = self.fresh();
        self.tell(look, &format!("begin {number}")).tell(ok(), &format!("work {number} {cause}"))
    }

    /// Expects the record of the end, then the next iteration, which starts from the same look.
    #[track_caller]
    pub(crate) fn goes_on(self, number: u32, cause: &str) -> Self {
        self.tell(ok(), &format!("begin {number}")).tell(ok(), &format!("work {number} {cause}"))
    }

    /// Ends the context after a while with a change, and compares the record of the end.
    #[track_caller]
    pub(crate) fn ends(mut self, end: End, recorded: &str) -> Self {
        self.now += 10;
        let look = self.fresh();
        self.tell(worked(end), "look").tell(look, &format!("end {recorded}"))
    }

    /// Ends the context without a promise, and expects the next one.
    #[track_caller]
    pub(crate) fn restarts(self, number: u32) -> Self {
        self.ends(finished("not yet"), "finished").goes_on(number, "no promise")
    }

    /// Expects the stored end of the run.
    #[track_caller]
    pub(crate) fn ends_as(self, reason: &str, detail: &str) {
        self.tell(ok(), &format!("done {reason}: {detail}"));
    }
}
