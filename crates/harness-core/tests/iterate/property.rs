//! Whatever the agent, the clock and people do, a loop ends within its bounds, asks for one thing
//! at a time, and stores what it reports.

use harness_core::{
    Command, Stop,
    agent::{AgentEvent, End, FailureKind, StoppedBy},
    check::Verdict,
    command::{RunStep, RunView},
    machine::{
        Input, Machine, Next, gate,
        iterate::{Effect, Ended, Iterate},
    },
    run::{RunLimits, StopReason},
};
use proptest::prelude::*;

use crate::{phases::phase, story::*};

/// An action of the world at one step.
#[derive(Debug, Clone)]
enum Act {
    /// The current effect ends. The number chooses the kind of end.
    End(u8),
    Usage(u64),
    Promised,
    Tool,
    Tick,
    Interrupt,
    /// Seconds pass.
    Pass(i64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        12 => any::<u8>().prop_map(Act::End),
        2 => (0_u64..40).prop_map(Act::Usage),
        1 => Just(Act::Promised),
        1 => Just(Act::Tool),
        2 => Just(Act::Tick),
        1 => Just(Act::Interrupt),
        3 => (0_i64..50).prop_map(Act::Pass),
    ];
    prop::collection::vec(act, 0..120)
}

#[derive(Debug, Clone)]
struct Setting {
    max_iterations: u32,
    max_tokens: Option<u64>,
    deadline: Option<i64>,
    stall_limit: u32,
    waits: bool,
    restarts: bool,
    agents: usize,
    phases: usize,
    verify: bool,
    until: Option<i64>,
}

fn settings() -> impl Strategy<Value = Setting> {
    let some = |range: std::ops::Range<i64>| prop::option::of(range);
    (
        (0_u32..6, prop::option::of(1_u64..200), some(1..500), 0_u32..4),
        (any::<bool>(), prop::bool::weighted(0.8), 1_usize..3),
        (0_usize..3, any::<bool>(), some(1..500)),
    )
        .prop_map(|(bounds, agents, rest)| Setting {
            max_iterations: bounds.0,
            max_tokens: bounds.1,
            deadline: bounds.2,
            stall_limit: bounds.3,
            waits: agents.0,
            restarts: agents.1,
            agents: agents.2,
            phases: rest.0,
            verify: rest.1,
            until: rest.2,
        })
}

/// The store of one run, and the current effect.
struct World {
    view: RunView,
    now: i64,
    flight: Option<Effect>,
    /// The number of agents that were started.
    started: u32,
    /// Iterations in the order of their first start.
    begun: Vec<u32>,
    interrupted: bool,
}

impl World {
    /// Decides as the real store does. No command of the loop may be refused.
    fn commit(&mut self, command: Command) -> Input<Ended> {
        let Command::Run(of_run) = command else { return ok() };
        let now = at(self.now);
        let change = of_run.decide(&self.view, now).unwrap_or_else(|r| panic!("{of_run:?}: {r}"));
        if let (RunStep::Begin { number, .. }, last) = (&of_run.step, self.begun.last())
            && last != Some(number)
        {
            self.begun.push(*number);
        }
        assert!(change.run.iteration_count >= self.view.run.iteration_count);
        self.view.run = change.run;
        if let Some(iteration) = change.iteration {
            self.view.last = Some(iteration);
        }
        Input::Committed(change.reply)
    }

    fn start(&mut self, effect: Effect) {
        assert!(self.flight.is_none(), "{:?} is under way, and now {effect:?}", self.flight);
        assert!(!self.interrupted, "somebody wanted it to stop, and now {effect:?}");
        if let Effect::Work(turn) = &effect {
            self.started += 1;
            // The start is durable before the agent works.
            let last = self.view.last.as_ref().unwrap();
            assert_eq!((last.number, last.ended_at), (turn.number, None));
            assert_eq!(self.view.run.iteration_count, turn.number);
            let most = self.view.run.limits.max_tokens;
            assert!(most.is_none_or(|m| self.view.run.usage.tokens() < m), "started on nothing");
            assert!(self.view.run.deadline.is_none_or(|d| at(self.now) < d), "started too late");
        }
        self.flight = Some(effect);
    }

    fn end(&mut self, how: u8) -> Ended {
        match self.flight.take().unwrap() {
            Effect::Look => {
                let mark = (!how.is_multiple_of(5)).then(|| format!("{}", how % 3));
                Ended::Looked { head: None, mark }
            }
            Effect::Work(_) => Ended::Worked(self.ending(how)),
            Effect::Gate { .. } => Ended::Gated(match how % 3 {
                0 => gate::GateEnd::Passed,
                1 => gate::GateEnd::Closed { why: "w".into(), output: "o".into() },
                _ => gate::GateEnd::Interrupted,
            }),
            Effect::Verify { .. } => {
                let red = Verdict::Red { why: "w".into() };
                let verdicts = [Verdict::Passed, red, Verdict::TimedOut, Verdict::Missing];
                let verdict = verdicts[usize::from(how % 4)].clone();
                Ended::Verified { verdict, output: String::new() }
            }
            Effect::Sleep { until } => {
                let kicked = how.is_multiple_of(4);
                if !kicked {
                    self.now = self.now.max(until.seconds());
                }
                Ended::Woke { kicked }
            }
        }
    }

    fn ending(&self, how: u8) -> End {
        match how % 16 {
            0 => finished("DONE"),
            1 => finished(" "),
            2 => limited(None),
            3 => limited(Some(self.now + i64::from(how))),
            4 => End::OutOfContext,
            5 => End::Refused,
            6 => failed(FailureKind::Crashed),
            7 => failed(FailureKind::Network),
            8 => failed(FailureKind::Protocol),
            9 => stopped(StoppedBy::Stall),
            10 => stopped(StoppedBy::Timeout),
            11 if how > 200 => failed(FailureKind::Auth),
            12 if how > 200 => stopped(StoppedBy::Budget),
            _ => finished("not yet"),
        }
    }
}

/// The steps after the last act within which the loop must end. Each restart takes at most seven.
const PATIENCE: usize = 200;

fn play(setting: &Setting, acts: &[Act]) -> (Stop, World) {
    let brief = brief_with(|b| {
        b.run.limits = RunLimits {
            max_iterations: setting.max_iterations,
            max_tokens: setting.max_tokens,
            ..RunLimits::default()
        };
        b.run.deadline = setting.deadline.map(|d| at(START + d));
        b.run.verify = setting.verify.then(|| "v".to_owned());
        b.purse.limits = b.run.limits;
        b.purse.deadline = b.run.deadline;
        b.rules.stall_limit = setting.stall_limit;
        b.rules.waits = setting.waits;
        b.rules.restarts = setting.restarts;
        b.rules.prices = vec![None; setting.agents];
        b.rules.until = setting.until.map(|d| at(START + d));
        b.phases = ["plan", "build"].into_iter().take(setting.phases).map(phase).collect();
    });
    let view = RunView { run: brief.run.clone(), last: None, parent: None };
    let mut world =
        World { view, now: START, flight: None, started: 0, begun: Vec::new(), interrupted: false };
    let mut machine = Iterate::new(brief);
    let mut next = machine.step(at(world.now), Input::Begin);
    // After the acts, the agent only reports that it is not done.
    let mut acts = acts.iter().cloned().chain(std::iter::repeat_n(Act::End(13), PATIENCE));
    loop {
        let input = match next {
            Next::Done(stop) => return (stop, world),
            Next::Commit(command) => world.commit(*command),
            Next::Start(effect) => {
                world.start(effect);
                happens(&mut world, &mut acts)
            }
            Next::Wait | Next::Cancel(_) => happens(&mut world, &mut acts),
        };
        next = machine.step(at(world.now), input);
    }
}

fn happens(world: &mut World, acts: &mut impl Iterator<Item = Act>) -> Input<Ended> {
    assert!(world.flight.is_some(), "it waits for nothing");
    let working = matches!(world.flight, Some(Effect::Work(_)));
    loop {
        match acts.next().unwrap_or_else(|| panic!("it goes on for ever")) {
            Act::Pass(seconds) => world.now += seconds,
            Act::End(how) => {
                world.now += 1;
                return Input::Ended(world.end(how));
            }
            Act::Tick => return Input::Tick,
            Act::Interrupt => {
                world.interrupted = true;
                return Input::Interrupt;
            }
            Act::Usage(tokens) if working => return used(tokens, None),
            Act::Promised if working => return Input::Told(AgentEvent::Promised),
            Act::Tool if working => {
                return Input::Told(AgentEvent::ToolStart { name: "t".into(), input: None });
            }
            // Only a working agent reports such events.
            Act::Usage(_) | Act::Promised | Act::Tool => {}
        }
    }
}

proptest! {
    #[test]
    fn every_loop_ends_within_its_bounds(setting in settings(), acts in acts()) {
        let (stop, world) = play(&setting, &acts);
        let run = &world.view.run;
        prop_assert_eq!(run.stop_reason, Some(stop.reason), "what is said is what is stored");
        prop_assert_eq!(run.status, stop.reason.status());
        prop_assert!(run.lease.is_none() && run.wake_at.is_none());
        let in_order: Vec<u32> = (0..).take(world.begun.len()).collect();
        prop_assert_eq!(&world.begun, &in_order, "none skipped, none counted twice");
        prop_assert!(world.begun.len() <= setting.max_iterations as usize + 1);
        prop_assert!(run.iteration_count <= setting.max_iterations);
        if stop.reason == StopReason::Complete {
            prop_assert!(world.view.last.as_ref().is_some_and(|last| last.ended_at.is_some()));
        }
        let again = play(&setting, &acts);
        prop_assert_eq!(again.0, stop, "the same inputs give the same answers");
    }
}

/// The generators must reach every end. Otherwise the property proves little.
#[test]
fn every_reason_to_stop_comes_up() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::HashSet::new();
    let mut restarted = false;
    for _ in 0..3000 {
        let (setting, acts) = (settings(), acts()).new_tree(&mut runner).unwrap().current();
        let (stop, world) = play(&setting, &acts);
        seen.insert(stop.reason);
        restarted |= world.started > 1;
    }
    use StopReason::*;
    for reason in [Complete, MaxIterations, Budget, Stalled, Limit, Cancelled, EnvSetup, Crashed] {
        assert!(seen.contains(&reason), "{reason} never came");
    }
    assert!(restarted);
}
