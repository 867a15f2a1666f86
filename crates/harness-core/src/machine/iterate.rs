//! The loop over context windows: one fresh context after the other until the promise is kept or a
//! limit is reached. `table` contains the decisions at each stop of the agent, row by row.
//!
//! ```text
//! look → Begin → work → look → End → (gate) → (verify) → Stop(complete)
//!          ▲        └ blank: same iteration            └─ else: the bounds, then the next one
//!          └───────────────── iteration + 1 ◀──────────────┘
//! ```
//! The look at the end of an iteration serves the next one too, unless something ran in between.
//!
//! A usage limit, a spent budget and an agent that cannot run do not end an iteration. It continues
//! under its number when the run does.

mod limits;
mod past;
mod table;
mod terms;
mod time;

pub use limits::Purse;
pub use past::{Cause, Past};
pub use terms::{Brief, Effect, Ended, Nudge, Rules, Turn};

use super::{Input, Machine, Next};
use crate::{
    Command, CommitId, Refusal, Reply, Run, TaskId, Timestamp,
    agent::{AgentEvent, End, KeptContext, StoppedBy, Usage},
    command::{Note, OfRun, RunStep},
    ledger::Phase,
    run::{Allowance, Ending, Owner, StopReason},
    stop::Stop,
};
use limits::Agents;
use past::STARTS_MAX;

/// The number of blank turns in a row that are ignored.
const BLANKS_MAX: u32 = 2;

#[derive(Debug, Clone, PartialEq)]
enum State {
    Begun,
    Looking,
    Beginning,
    /// A log line names the agent whose work is taken over.
    TakingOver(Turn),
    Working,
    LookingAfter(End),
    Ending,
    Gating,
    Verifying,
    /// First the wake time is stored, then a log line is written, then the run sleeps.
    Storing(Timestamp),
    Telling(Timestamp),
    Sleeping(Timestamp),
    Waking,
    Resting,
    Stopping(Stop),
}

/// Whether the last look at the work is still current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Now,
    Before,
}

/// The machine of a loop.
pub struct Iterate {
    run: Run,
    by: Option<Owner>,
    purse: Purse,
    rules: Rules,
    phases: Vec<Phase>,
    task: Option<TaskId>,
    state: State,
    /// `true` while a command is on its way to the store, beside the effect.
    aside: bool,
    interrupts: u32,
    past: Past,
    agents: Agents,
    /// The number of the current iteration, or of the next one.
    number: u32,
    cause: Cause,
    last_text: Option<String>,
    blanks: u32,
    /// The reason why the context was asked to continue, if it was.
    nudged: Option<Nudge>,
    used_tool: bool,
    /// `true` if the current execution continues a kept context and has produced nothing yet.
    takes_up: bool,
    /// `true` if the budget was changed since the current execution began.
    allowed_anew: bool,
    /// `true` if the agent gave the promise by another way than its final text.
    promised: bool,
    /// The start of the current execution.
    started: Timestamp,
    /// The context of the working agent, if it can be resumed.
    context: Option<KeptContext>,
    head: Option<CommitId>,
    mark: Option<String>,
    /// `Now` if nothing ran and no time was waited since `head` and `mark` were read.
    seen: Seen,
    /// `true` if the mark belongs to an iteration that a crash interrupted.
    begins_again: bool,
    /// The number of starts of the iteration that did not end.
    starts: u32,
}

type Step = Next<Effect, Stop>;

impl Iterate {
    /// Continues from the stored state: no iteration, one that did not end, or one that did.
    pub fn new(brief: Brief) -> Self {
        let Brief { run, iterations, by, purse, rules, phases, afresh } = brief;
        let past = Past::of(&iterations, afresh);
        let open = iterations.last().filter(|last| last.ended_at.is_none());
        let before = open.map_or(iterations.len(), |_| iterations.len() - 1);
        let cause = before.checked_sub(1).map_or(Cause::First, |n| Cause::after(&iterations[n]));
        let last_text = before.checked_sub(1).and_then(|n| iterations[n].final_text.clone());
        let agents = Agents::new(rules.prices.len().max(1), run.id.as_str());
        Self {
            task: run.task.clone(),
            number: open.map_or(run.iteration_count, |open| open.number),
            by,
            purse,
            rules,
            phases,
            state: State::Begun,
            aside: false,
            interrupts: 0,
            past,
            agents,
            cause,
            last_text,
            blanks: 0,
            nudged: None,
            used_tool: false,
            takes_up: false,
            allowed_anew: false,
            promised: false,
            started: Timestamp::default(),
            context: None,
            head: None,
            mark: open.and_then(|open| open.mark_before.clone()),
            seen: Seen::Before,
            begins_again: open.is_some_and(|open| open.mark_before.is_some()),
            starts: open.map_or(0, |open| open.starts),
            run,
        }
    }

    fn start(&mut self, state: State, effect: Effect) -> Step {
        self.state = state;
        self.seen = Seen::Before;
        Next::Start(effect)
    }

    fn of_run(&self, step: RunStep) -> Command {
        OfRun { run: self.run.id.clone(), by: self.by.clone(), step }.into()
    }

    fn commit(&mut self, state: State, step: RunStep) -> Step {
        self.state = state;
        Next::Commit(Box::new(self.of_run(step)))
    }

    fn begin(&mut self, now: Timestamp) -> Step {
        match self.run.wake_at {
            Some(until) if until > now && self.rules.waits => self.log_wait(until),
            Some(until) if until > now => self.limit_holds(until),
            // The wait is over. The row must record that before an agent works.
            Some(until) => self.woke(until, false),
            None => self.take_up(now),
        }
    }

    /// Decides again about an iteration that ended, with the current limits.
    fn take_up(&mut self, now: Timestamp) -> Step {
        if self.starts >= STARTS_MAX {
            return self.never_ended();
        }
        match self.past.last.clone() {
            Some(last) => self.after_end(now, last.0, last.1.unwrap_or_default()),
            None => self.start(State::Looking, Effect::Look),
        }
    }

    /// Records a failed end after too many starts without an end. Otherwise an agent that kills its
    /// supervisor would be started forever, because none of its starts is ever counted as a
    /// failure.
    fn never_ended(&mut self) -> Step {
        let detail = format!("started {} times without an end", self.starts);
        (self.starts, self.begins_again) = (0, false);
        let (ending, detail) = (Ending::Crashed, Some(detail));
        self.past.add(ending, detail.clone(), false, false);
        let (final_text, head, mark) = (None, None, None);
        self.commit(State::Ending, RunStep::End { ending, detail, final_text, head, mark })
    }

    fn begin_iteration(&mut self) -> Step {
        let transcript = Some(format!("{}.{}.log", self.rules.transcripts, self.number));
        let (number, head, mark) = (self.number, self.head.clone(), self.mark.clone());
        self.commit(State::Beginning, RunStep::Begin { number, head, mark, transcript })
    }

    /// Works in a fresh context.
    fn work(&mut self, now: Timestamp) -> Step {
        self.context = None;
        self.nudge(now)
    }

    /// Works again in the kept context, if there is one.
    fn nudge(&mut self, now: Timestamp) -> Step {
        // No agent is started when the budget is spent.
        if self.purse.used_up(now).is_some() {
            return self.spent_up(now);
        }
        if self.is_late(now) {
            return self.time_is_up();
        }
        let before = self.agents.at_work();
        let Some(agent) = self.agents.free(now) else { return self.wait_for_limit(now) };
        if agent != before {
            // The new agent does not have the context of the other one.
            self.context = None;
        }
        (self.started, self.used_tool, self.promised) = (now, false, false);
        self.allowed_anew = false;
        self.takes_up = self.context.is_some();
        let turn = Turn {
            number: self.number,
            cause: self.cause.clone(),
            kept: self.context.clone(),
            nudge: self.nudged.unwrap_or_default(),
            agent,
            until: [self.purse.deadline, self.rules.until].into_iter().flatten().min(),
            last_text: self.last_text.clone(),
            cost_left_usd: self.purse.cost_left_usd(),
        };
        match self.agents.limited_until(before, now) {
            Some(until) if agent != before => {
                let [limited, other] = [before, agent].map(|agent| self.name(agent));
                let message = format!("usage limit of {limited} until {until}: {other} takes over");
                self.warn(State::TakingOver(turn), message)
            }
            _ => self.start(State::Working, Effect::Work(turn)),
        }
    }

    fn name(&self, agent: usize) -> String {
        let name = self.rules.names.get(agent).cloned();
        name.unwrap_or_else(|| format!("agent {}", agent + 1))
    }

    fn warn(&mut self, state: State, message: String) -> Step {
        self.state = state;
        let note = Note::Warning { task: self.task.clone(), message };
        Next::Commit(Box::new(Command::Note(note)))
    }

    fn stop(&mut self, reason: StopReason, detail: impl Into<String>) -> Step {
        self.commit(State::Stopping(Stop::with_words(reason, detail)), RunStep::Stop(reason))
    }

    fn cancelled(&mut self) -> Step {
        self.stop(StopReason::Cancelled, "stopped by a person")
    }

    fn ended(&mut self, now: Timestamp, ended: Ended) -> Step {
        match (self.state.clone(), ended) {
            // A look is not stopped, but nothing begins after it.
            (State::Looking | State::Resting, _) if self.interrupts > 0 => self.cancelled(),
            (State::Looking, Ended::Looked { head, mark }) => {
                self.head = head;
                // An iteration that begins again is compared with the work at its first start.
                if !std::mem::take(&mut self.begins_again) {
                    self.mark = mark;
                }
                self.begin_iteration()
            }
            (State::Working, Ended::Worked(end)) => self.worked(now, end),
            (State::LookingAfter(end), Ended::Looked { head, mark }) => {
                (self.head, self.seen) = (head, Seen::Now);
                self.looked_after(now, &end, mark)
            }
            (State::Gating, Ended::Gated(end)) => self.gated(now, end),
            (State::Verifying, Ended::Verified { verdict, output }) => {
                self.verified(now, verdict, output)
            }
            (State::Sleeping(until), Ended::Woke { kicked }) => self.woke(until, kicked),
            (State::Resting, Ended::Woke { .. }) => self.start(State::Looking, Effect::Look),
            (state, ended) => unreachable!("{ended:?} cannot be the end of {state:?}"),
        }
    }

    fn committed(&mut self, now: Timestamp, reply: &Reply) -> Step {
        if std::mem::take(&mut self.aside) {
            if let Reply::Spent(all) = reply {
                // The usage never decreases, whatever the row contains by now.
                self.purse.spent = self.purse.spent.at_least(*all);
            }
            let over = self.state == State::Working && self.purse.used_up(now).is_some();
            return if over { Next::Cancel(StoppedBy::Budget) } else { Next::Wait };
        }
        match self.state.clone() {
            State::Beginning => {
                self.run.iteration_count = self.number;
                self.work(now)
            }
            State::Ending => match self.past.last.clone() {
                Some((ending, said)) => self.after_end(now, ending, said.unwrap_or_default()),
                None => unreachable!("an iteration that ended is past"),
            },
            State::Storing(until) => self.log_wait(until),
            State::TakingOver(turn) => self.start(State::Working, Effect::Work(turn)),
            State::Telling(until) => self.sleep(until),
            State::Waking => self.waked(now),
            State::Stopping(stop) => Next::Done(stop),
            state => unreachable!("{reply:?} is no answer to {state:?}"),
        }
    }

    /// Another process drives the run, or the row is gone. Nothing more may be stored.
    fn refused(&mut self, refusal: &Refusal) -> Step {
        let detail = refusal.to_string();
        let reason = match refusal {
            Refusal::RunTaken { .. } => StopReason::Cancelled,
            _ => StopReason::Config,
        };
        if std::mem::take(&mut self.aside) {
            self.interrupts += 1;
            return Next::Cancel(StoppedBy::Fenced);
        }
        Next::Done(Stop::with_words(reason, detail))
    }

    fn interrupted(&mut self) -> Step {
        self.interrupts += 1;
        match &self.state {
            State::Stopping(_) => Next::Wait,
            _ if self.interrupts > 1 => self.cancelled(),
            State::Looking | State::LookingAfter(_) => Next::Wait,
            _ => Next::Cancel(StoppedBy::User),
        }
    }

    /// A new budget holds at once. An agent at work is stopped where it is spent already, and a sleep
    /// ends with the time of the run.
    fn allowed(&mut self, now: Timestamp, allowance: Allowance) -> Step {
        self.allowed_anew |= self.purse.allow(allowance);
        let over = self.purse.used_up(now).is_some();
        match self.state {
            State::Working | State::Sleeping(_) if over => Next::Cancel(StoppedBy::Budget),
            _ => Next::Wait,
        }
    }

    fn aside(&mut self, step: RunStep) -> Step {
        self.aside = true;
        Next::Commit(Box::new(self.of_run(step)))
    }

    fn agent_event(&mut self, event: AgentEvent) -> Step {
        match event {
            AgentEvent::Usage(usage) => {
                self.takes_up &= usage.tokens() == 0;
                if let Some(context) = &mut self.context {
                    context.used += usage;
                }
                let usage = self.priced(usage);
                self.aside(RunStep::Spend(usage))
            }
            AgentEvent::Helped(usage) => self.aside(RunStep::Spend(usage)),
            AgentEvent::Session(id) => {
                let same = self.context.take().filter(|context| context.session == id);
                let new = || KeptContext { session: id.clone(), used: Usage::default() };
                self.context = Some(same.unwrap_or_else(new));
                self.aside(RunStep::Session(id))
            }
            AgentEvent::ToolStart { .. } => {
                (self.used_tool, self.takes_up) = (true, false);
                Next::Wait
            }
            AgentEvent::Promised => {
                self.promised = true;
                Next::Wait
            }
            _ => Next::Wait,
        }
    }

    fn priced(&self, usage: Usage) -> Usage {
        match self.rules.prices.get(self.agents.at_work()) {
            Some(Some(price)) => price.fill_in(usage),
            _ => usage,
        }
    }
}

impl Machine for Iterate {
    type Effect = Effect;
    type Ended = Ended;
    type Outcome = Stop;

    fn step(&mut self, now: Timestamp, input: Input<Ended>) -> Step {
        match input {
            Input::Begin => self.begin(now),
            Input::Ended(ended) => self.ended(now, ended),
            Input::Committed(reply) => self.committed(now, &reply),
            Input::Refused(refusal) => self.refused(&refusal),
            Input::Tick if self.by.is_some() => {
                self.aside(RunStep::Beat { lease_seconds: self.rules.lease_seconds })
            }
            Input::Tick => Next::Wait,
            Input::Told(event) => self.agent_event(event),
            Input::Interrupt => self.interrupted(),
            Input::Allowed(allowance) => self.allowed(now, allowance),
        }
    }
}
