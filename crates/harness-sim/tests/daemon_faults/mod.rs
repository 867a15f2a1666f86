//! Faults of a daemon, in its dispatch and in what it judges by.

use harness_sim::{
    daemon::DaemonFault,
    seeds::{run_daemon, run_daemon_killed_at, tell_daemon},
    story::Tally,
};

use super::SEEDS;

fn daemon_must_be_caught(fault: DaemonFault, by: &[&str]) {
    let failure = (1..=SEEDS).find_map(|seed| run_daemon(seed, fault).err());
    let Some(failure) = failure else { panic!("{fault:?}: {SEEDS} seeds saw nothing") };
    let (seed, violation) = (failure.seed, failure.violation);
    let checker = violation.checker;
    assert!(
        by.contains(&checker),
        "{fault:?} was caught by {checker} (seed {seed}), not {by:?}: {}",
        violation.what
    );
}

#[test]
fn an_answer_before_the_write() {
    daemon_must_be_caught(DaemonFault::AnswersFirst, &["acknowledged_is_kept"]);
}

#[test]
fn a_request_of_an_old_claim_that_counts() {
    daemon_must_be_caught(DaemonFault::FencesNobody, &["an_old_claim_is_refused"]);
}

#[test]
fn a_task_that_is_completed_by_two() {
    daemon_must_be_caught(DaemonFault::AnyoneRepeats, &["a_task_is_completed_once"]);
}

#[test]
fn a_completion_by_force() {
    let by = ["a_receipt_comes_first", "completed_means_checked", "an_old_claim_is_refused"];
    daemon_must_be_caught(DaemonFault::ForcesCompletions, &by);
}

#[test]
fn a_check_that_is_ignored() {
    daemon_must_be_caught(DaemonFault::IgnoresChecks, &["completed_means_checked"]);
}

#[test]
fn a_gate_that_is_ignored() {
    daemon_must_be_caught(DaemonFault::IgnoresGates, &["a_gate_comes_first"]);
}

#[test]
fn a_completion_that_leaves_no_receipt() {
    daemon_must_be_caught(DaemonFault::SkipsReceipt, &["a_receipt_comes_first"]);
}

#[test]
fn a_repeated_claim_that_gets_another_task() {
    let by = ["a_repeated_request_has_the_same_answer"];
    daemon_must_be_caught(DaemonFault::ForgetsWorkers, &by);
}

#[test]
fn a_claim_with_the_epoch_of_the_last_one() {
    daemon_must_be_caught(DaemonFault::RepeatsEpochs, &["epochs_grow"]);
}

#[test]
fn a_lease_that_ends_early() {
    daemon_must_be_caught(DaemonFault::HastyLeases, &["a_claim_is_for_one"]);
}

#[test]
fn a_seed_of_a_daemon_is_the_same_story_every_time() {
    for seed in 1..=60 {
        let [first, second] = [(); 2].map(|()| tell_daemon(seed).2);
        let differ = first.lines().iter().zip(second.lines()).find(|(a, b)| a != b);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first.lines().len(), second.lines().len(), "seed {seed}");
    }
}

/// The unmodified daemon passes, and much happens to it.
#[test]
fn a_sound_daemon() {
    let mut all = Tally::default();
    for seed in 1..=200 {
        match run_daemon(seed, DaemonFault::None) {
            Ok(tally) => all.add(&tally),
            Err(failure) => panic!("seed {seed}: {:?}", failure.violation),
        }
    }
    assert!(all.kills > 50 && all.power_losses > 20, "{all}");
    assert!(all.judged_for_clients > 100 && all.refused > 100, "{all}");
    assert!(all.vanished > 5 && all.lost_answers > 200, "{all}");
}

#[test]
fn a_daemon_that_is_killed_at_every_step() {
    let mut kills = 0;
    for (seed, step) in [3, 5, 8].into_iter().flat_map(|seed| (0..90).map(move |n| (seed, n))) {
        match run_daemon_killed_at(seed, step) {
            Ok(tally) => kills += tally.kills,
            Err(failure) => panic!("seed {seed}, step {step}: {:?}", failure.violation),
        }
    }
    assert!(kills > 150, "{kills}");
}
