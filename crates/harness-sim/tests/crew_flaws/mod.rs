//! Deliberate faults of several workers. A checker must detect each.

use harness_sim::{
    crew::CrewFlaw,
    seeds::{run_crew, tell_crew},
};

const SEEDS: u64 = 300;

fn must_be_caught(flaw: CrewFlaw, by: &[&str]) {
    let failure = (1..=SEEDS).find_map(|seed| run_crew(seed, flaw).err());
    let Some(failure) = failure else { panic!("{flaw:?}: {SEEDS} seeds saw nothing") };
    let (seed, violation) = (failure.seed, failure.violation);
    let what = format!("{violation:?} (seed {seed})");
    assert!(by.contains(&violation.checker), "{flaw:?} was caught by {what}, not {by:?}");
}

#[test]
fn a_check_that_says_yes_to_everything() {
    must_be_caught(CrewFlaw::EveryCheckPasses, &["nothing_lands_unvalidated"]);
}

#[test]
fn a_landing_without_a_receipt() {
    must_be_caught(CrewFlaw::SkipsReceipt, &["nothing_lands_unvalidated"]);
}

#[test]
fn a_receipt_that_names_another_commit() {
    must_be_caught(CrewFlaw::MisnamesCommit, &["nothing_lands_unvalidated"]);
}

#[test]
fn a_landing_that_needs_no_token() {
    let by = ["nothing_lands_after_its_recovery", "nothing_lands_twice"];
    must_be_caught(CrewFlaw::NeedsNoToken, &by);
}

#[test]
fn a_token_that_stays() {
    let by = ["nothing_lands_after_its_recovery", "nothing_lands_twice"];
    must_be_caught(CrewFlaw::KeepsTokens, &by);
}

#[test]
fn a_target_that_is_moved_by_force() {
    // Where the main tree is on the target, it does not move with it.
    let by = ["the_target_moves_forward", "the_users_tree_stays"];
    must_be_caught(CrewFlaw::ForcesTarget, &by);
}

#[test]
fn work_that_is_not_rebased() {
    let by = ["the_line_never_stops", "the_target_moves_forward", "nothing_lands_unvalidated"];
    must_be_caught(CrewFlaw::SkipsRebase, &by);
}

#[test]
fn a_tree_that_is_moved_under_its_user() {
    must_be_caught(CrewFlaw::TramplesTree, &["the_users_tree_stays"]);
}

#[test]
fn a_tree_that_is_left_half_moved() {
    must_be_caught(CrewFlaw::LeavesTreeHalfMoved, &["the_users_tree_stays"]);
}

#[test]
fn trees_that_nobody_removes() {
    must_be_caught(CrewFlaw::KeepsTrees, &["nothing_is_left_behind"]);
}

#[test]
fn branches_that_nobody_deletes() {
    must_be_caught(CrewFlaw::KeepsBranches, &["nothing_is_left_behind"]);
}

#[test]
fn a_line_with_a_place_for_nobody() {
    must_be_caught(CrewFlaw::KeepsAPlaceFree, &["the_line_never_stops"]);
}

#[test]
fn a_reservation_that_nobody_heeds() {
    // The store refuses such a landing too, so that the worker tries again and again.
    let by = ["a_conflict_fails_nothing_for_good", "the_line_never_stops"];
    must_be_caught(CrewFlaw::IgnoresReservations, &by);
}

#[test]
fn a_reservation_that_protects_nothing() {
    must_be_caught(CrewFlaw::ReservesNothing, &["a_conflict_fails_nothing_for_good"]);
}

#[test]
fn a_completion_of_what_has_not_landed() {
    must_be_caught(CrewFlaw::SkipsSwap, &["completed_means_landed"]);
}

#[test]
fn a_completion_that_is_logged_twice() {
    must_be_caught(CrewFlaw::LogsTwice, &["completed_is_logged_once"]);
}

#[test]
fn work_of_a_dead_worker_that_is_left_behind() {
    must_be_caught(CrewFlaw::ForgetsWork, &["finished_work_is_not_forgotten"]);
}

#[test]
fn a_seed_of_several_workers_is_the_same_story_every_time() {
    for seed in 1..=15 {
        let [first, second] = [(); 2].map(|()| tell_crew(seed).2);
        let differ = first.lines().iter().zip(second.lines()).find(|(a, b)| a != b);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first.lines().len(), second.lines().len(), "seed {seed}");
    }
}
