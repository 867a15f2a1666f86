//! The row of the budget: at a usage event, before a start, by the clock; and the rows that precede
//! it.

use harness_core::{
    Iteration,
    agent::{AgentEvent, FailureKind, StoppedBy},
    check::Verdict,
    machine::{
        Input, gate,
        iterate::{Brief, Ended},
    },
    run::{Allowance, Ending, Price, RunLimits},
};

use crate::story::*;

fn with_limits(change: impl FnOnce(&mut RunLimits)) -> Brief {
    brief_with(|b| change(&mut b.purse.limits))
}

fn dollars(most: f64) -> Brief {
    with_limits(|l| l.max_cost_usd = Some(most))
}

fn tokens(most: u64) -> Brief {
    with_limits(|l| l.max_tokens = Some(most))
}

fn by_the_clock() -> Brief {
    brief_with(|b| b.purse.deadline = Some(at(START + 60)))
}

const MONEY: &str = "the budget is used up: 1.25 of 1.00 USD";

#[test]
fn the_usage_event_that_crosses_it_stops_the_agent() {
    Loop::at_work(dollars(1.0))
        .tell(used(5, Some(0.5)), "spend 5 for 0.5")
        .tell(spent(5, Some(0.5)), "wait")
        .tell(used(5, Some(0.75)), "spend 5 for 0.75")
        .tell(spent(10, Some(1.25)), "cancel Budget")
        .tell(worked(stopped(StoppedBy::Budget)), "stop budget")
        .ends_as("budget", MONEY);
    Loop::at_work(tokens(100))
        .tell(used(99, None), "spend 99")
        .tell(spent(99, None), "wait")
        .tell(used(1, None), "spend 1")
        .tell(spent(100, None), "cancel Budget")
        .tell(worked(stopped(StoppedBy::Budget)), "stop budget")
        .ends_as("budget", "the budget is used up: 100 of 100 tokens");
}

#[test]
fn what_others_spent_of_the_same_budget_counts() {
    // The reply of the store contains everything that the budget has paid.
    Loop::at_work(tokens(100))
        .tell(used(1, None), "spend 1")
        .tell(spent(700, None), "cancel Budget");
}

#[test]
fn an_agent_is_not_started_on_a_budget_that_is_gone() {
    let broke = || {
        brief_with(|b| {
            b.purse.limits.max_tokens = Some(10);
            b.purse.spent = usage(10, None);
        })
    };
    Loop::new(broke())
        .tell(Input::Begin, "look")
        .tell(looked("a"), "begin 0")
        .tell(ok(), "stop budget")
        .ends_as("budget", "the budget is used up: 10 of 10 tokens");
    // Neither a limit nor a blank turn starts one.
    let spends = || {
        Loop::at_work(tokens(10))
            .tell(used(10, None), "spend 10")
            .tell(spent(10, None), "cancel Budget")
    };
    spends().tell(worked(limited(None)), "stop budget");
    spends().ends(finished(" "), "finished").tell(ok(), "stop budget");
}

#[test]
fn the_clock_is_a_budget_too() {
    let work = "first until 1060";
    let at_work = || Loop::new(by_the_clock()).tell(Input::Begin, "look").begins(0, work);
    at_work()
        .after(60)
        .tell(worked(stopped(StoppedBy::Timeout)), "stop budget")
        .ends_as("budget", "the budget is used up: the time limit");
    // The time ends between two contexts.
    at_work().after(55).ends(finished("not yet"), "finished").tell(ok(), "stop budget");
    // A usage event or a tick after the end detects it as well.
    at_work().after(61).tell(Input::Tick, "beat 300").tell(ok(), "cancel Budget");
}

#[test]
fn waits_count_and_end_with_the_time() {
    Loop::new(by_the_clock())
        .tell(Input::Begin, "look")
        .begins(0, "first until 1060")
        .tell(worked(limited(Some(5000))), "wait until 5000")
        .tell(ok(), "warn: usage limit: waiting until 1970-01-01T01:23:20Z")
        .tell(ok(), "sleep until 1060")
        .after(60)
        .tell(woke(false), "wake")
        .tell(ok(), "stop budget");
}

#[test]
fn no_check_and_no_gate_goes_on_beyond_the_time() {
    let promised = |change: fn(&mut Brief)| {
        let mut brief = by_the_clock();
        change(&mut brief);
        let story = Loop::new(brief).tell(Input::Begin, "look").begins(0, "first until 1060");
        story.ends(finished("DONE"), "finished")
    };
    promised(|b| b.run.verify = Some("make check".into()))
        .tell(ok(), "verify make check until 1060")
        .after(50)
        .tell(verified(Verdict::TimedOut, ""), "stop budget")
        .ends_as("budget", "the budget is used up: the time limit");
    promised(|b| b.phases = vec![crate::phases::phase("plan")])
        .tell(ok(), "gate plan until 1060")
        .after(50)
        .tell(gated(gate::GateEnd::Interrupted), "stop budget")
        .ends_as("budget", "the budget is used up: the time limit");
}

#[test]
fn a_promise_goes_before_the_budget_and_the_budget_before_the_other_bounds() {
    let crossing = |brief: Brief| {
        Loop::at_work(brief)
            .tell(used(5, Some(1.25)), "spend 5 for 1.25")
            .tell(spent(5, Some(1.25)), "cancel Budget")
    };
    // The agent ended before it could be stopped.
    crossing(dollars(1.0)).ends(finished("DONE"), "finished").tell(ok(), "stop complete");
    crossing(dollars(1.0)).ends(finished("not yet"), "finished").tell(ok(), "stop budget");
    let mut at_the_end = dollars(1.0);
    at_the_end.run.limits.max_iterations = 0;
    crossing(at_the_end).ends(finished("not yet"), "finished").tell(ok(), "stop budget");
    // An agent that could not run takes precedence.
    crossing(dollars(1.0)).tell(worked(failed(FailureKind::Auth)), "stop env_setup");
    // A third failed end does not.
    let twice_failed = brief_with(|b| {
        b.purse.limits.max_cost_usd = Some(1.0);
        b.run.iteration_count = 2;
        let failed = |number| past(number, Ending::Crashed, "x");
        b.iterations = vec![failed(0), failed(1), Iteration::begun(2, at(START))];
    });
    Loop::new(twice_failed)
        .tell(Input::Begin, "look")
        .begins(2, "failed: x")
        .tell(used(5, Some(1.25)), "spend 5 for 1.25")
        .tell(spent(5, Some(1.25)), "cancel Budget")
        .ends(failed(FailureKind::Crashed), "crashed: boom")
        .tell(ok(), "stop budget")
        .ends_as("budget", MONEY);
}

#[test]
fn tokens_are_priced_by_the_list_of_the_agent_at_work() {
    let priced = || {
        brief_with(|b| {
            let price = |input| Some(Price { input, output: 10.0 });
            b.rules.prices = vec![price(2.0), price(4.0)];
            b.purse.limits.max_cost_usd = Some(1.0);
        })
    };
    Loop::at_work(priced())
        .tell(used(250_000, None), "spend 250000 for 0.5")
        .tell(spent(250_000, Some(0.5)), "wait")
        // A cost that the agent reports takes precedence over the price list.
        .tell(used(250_000, Some(0.25)), "spend 250000 for 0.25")
        .tell(spent(500_000, Some(0.75)), "wait")
        .tell(
            worked(limited(Some(5000))),
            "warn: usage limit of claude until 1970-01-01T01:23:20Z: codex takes over",
        )
        .tell(ok(), "work 0 first agent 1")
        .tell(used(250_000, None), "spend 250000 for 1")
        .tell(spent(750_000, Some(1.75)), "cancel Budget");
    // A helper of the agent has its own price, or none.
    let helped = |cost| Input::Told(AgentEvent::Helped(usage(250_000, cost)));
    Loop::at_work(priced())
        .tell(helped(None), "spend 250000")
        .tell(spent(250_000, None), "wait")
        .tell(helped(Some(2.0)), "spend 250000 for 2")
        .tell(spent(500_000, Some(2.0)), "cancel Budget");
}

#[test]
fn a_sign_of_life_and_the_agents_name_for_its_context_are_stored_on_the_way() {
    Loop::at_work(brief())
        .tell(Input::Tick, "beat 300")
        .tell(ok(), "wait")
        .tell(Input::Told(AgentEvent::Session("s-1".into())), "session s-1")
        .tell(ok(), "wait")
        .tell(Input::Told(AgentEvent::Text("x".into())), "wait")
        .ends(finished("DONE"), "finished");
    // An attempt has no lease of its own.
    Loop::at_work(brief_with(|b| b.by = None)).tell(Input::Tick, "wait");
}

fn allowed(most: u64, deadline: Option<i64>) -> Input<Ended> {
    let limits = RunLimits { max_tokens: Some(most), ..RunLimits::default() };
    Input::Allowed(Allowance { limits, deadline: deadline.map(at) })
}

#[test]
fn a_budget_that_is_raised_holds_at_once() {
    Loop::at_work(tokens(100))
        .tell(used(90, None), "spend 90")
        .tell(spent(90, None), "wait")
        .tell(allowed(200, None), "wait")
        .tell(used(20, None), "spend 20")
        .tell(spent(110, None), "wait")
        .tell(used(90, None), "spend 90")
        .tell(spent(200, None), "cancel Budget")
        .tell(worked(stopped(StoppedBy::Budget)), "stop budget")
        .ends_as("budget", "the budget is used up: 200 of 200 tokens");
}

#[test]
fn a_budget_that_is_lowered_below_what_was_spent_stops_the_agent() {
    Loop::at_work(tokens(100))
        .tell(used(50, None), "spend 50")
        .tell(spent(50, None), "wait")
        .tell(allowed(60, None), "wait")
        .tell(allowed(40, None), "cancel Budget")
        .tell(worked(stopped(StoppedBy::Budget)), "stop budget")
        .ends_as("budget", "the budget is used up: 50 of 40 tokens");
}

#[test]
fn an_agent_that_was_stopped_for_the_old_budget_goes_on_under_the_new_one() {
    for by in [StoppedBy::Budget, StoppedBy::Timeout] {
        Loop::at_work(tokens(100))
            .tell(allowed(1000, Some(START + 600)), "wait")
            .tell(worked(stopped(by)), "work 0 first until 1600");
    }
}
