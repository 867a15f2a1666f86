//! Faults of hosts and servers that share a ledger.

use harness_sim::{
    fleet::FleetFlaw,
    seeds::{run_fleet, tell_fleet},
    story::Tally,
};

use super::SEEDS;

fn fleet_must_be_caught(flaw: FleetFlaw, by: &[&str]) {
    let failure = (1..=SEEDS).find_map(|seed| run_fleet(seed, flaw).err());
    let Some(failure) = failure else { panic!("{flaw:?}: {SEEDS} seeds saw nothing") };
    let (seed, violation) = (failure.seed, failure.violation);
    let checker = violation.checker;
    assert!(
        by.contains(&checker),
        "{flaw:?} was caught by {checker} (seed {seed}), not {by:?}: {}",
        violation.what
    );
}

#[test]
fn an_operation_that_is_not_read_back() {
    let by = ["commands_take_effect_once", "a_claim_is_for_one"];
    fleet_must_be_caught(FleetFlaw::ForgetsOperations, &by);
}

#[test]
fn an_operation_that_is_read_back_too_early() {
    fleet_must_be_caught(FleetFlaw::WaitsForNobody, &["commands_take_effect_once"]);
}

#[test]
fn a_takeover_after_which_epochs_do_not_jump() {
    fleet_must_be_caught(FleetFlaw::RemembersNothing, &["epochs_are_new"]);
}

#[test]
fn a_takeover_that_nobody_sees_who_was_there() {
    let by = ["epochs_are_new", "nothing_lands_twice"];
    fleet_must_be_caught(FleetFlaw::KnowsNoLines, &by);
}

#[test]
fn forgotten_results_that_nobody_looks_for() {
    fleet_must_be_caught(FleetFlaw::LooksForNothing, &["nothing_lands_twice"]);
}

#[test]
fn a_forgotten_landing_that_still_happens() {
    fleet_must_be_caught(FleetFlaw::KeepsTokens, &["nothing_lands_twice"]);
}

#[test]
fn an_answer_before_the_disk_has_the_change() {
    // A crash takes changes and renewals back.
    let by = ["acknowledged_is_stored", "a_claim_is_for_one"];
    fleet_must_be_caught(FleetFlaw::AnswersFirst, &by);
}

#[test]
fn a_host_that_trusts_its_own_clock() {
    fleet_must_be_caught(FleetFlaw::TrustsOwnClock, &["a_claim_is_for_one"]);
}

#[test]
fn a_seed_of_a_fleet_is_the_same_story_every_time() {
    for seed in 1..=10 {
        let [first, second] = [(); 2].map(|()| tell_fleet(seed).2);
        let differ = first.lines().iter().zip(second.lines()).find(|(a, b)| a != b);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first.lines().len(), second.lines().len(), "seed {seed}");
    }
}

/// The unmodified hosts pass, and much happens to them.
#[test]
fn a_sound_fleet() {
    let mut all = Tally::default();
    for seed in 1..=50 {
        match run_fleet(seed, FleetFlaw::None) {
            Ok(tally) => all.add(&tally),
            Err(failure) => panic!("seed {seed}: {:?}", failure.violation),
        }
    }
    assert!(all.faults > 100 && all.power_losses > 100, "{all}");
    assert!(all.kills > 100 && all.freezes > 50, "{all}");
    assert!(all.completed > 300 && all.lost_answers > 20, "{all}");
    assert!(all.landings > 50 && all.restored > 5, "{all}");
}
