//! Checkers that cannot fail prove nothing. Each of these tests breaks something on purpose, and a
//! checker must detect it. The messages contain the seeds.

mod crew_flaws;
mod daemon_faults;
mod fleet_flaws;

use harness::store::{Applied, Store, StoreError};
use harness_core::{Command, Holder, Ledger, Timestamp, decide, task::Status};
use harness_sim::{
    disk::{Quirk, SimDisk},
    run::Flaw,
    seeds::{
        Failure, Lived, run_liars, run_objective, run_session, run_with, tell_liars,
        tell_objective, tell_session,
    },
    story::Tally,
    world::{MakeStore, sound},
};

const SEEDS: u64 = 300;

/// Returns the first seed that detects the fault, and the checker.
fn caught(quirk: Quirk, make_store: MakeStore) -> Option<(u64, &'static str)> {
    (1..=SEEDS).find_map(|seed| {
        let failure = run_with(seed, quirk, make_store).err()?;
        Some((seed, failure.violation.checker))
    })
}

fn must_be_caught(quirk: Quirk, make_store: MakeStore, by: &[&str]) {
    let Some((seed, checker)) = caught(quirk, make_store) else {
        panic!("{quirk:?}: {SEEDS} seeds saw nothing");
    };
    assert!(by.contains(&checker), "{quirk:?} was caught by {checker} (seed {seed}), not {by:?}");
}

#[test]
fn a_ledger_whose_bytes_are_not_synced() {
    let by = ["ledger_or_backup_always_parses", "acknowledged_is_durable"];
    must_be_caught(Quirk::TmpUnsynced, sound, &by);
}

#[test]
fn names_that_are_not_synced() {
    let by = ["ledger_or_backup_always_parses", "acknowledged_is_durable"];
    must_be_caught(Quirk::RootUnsynced, sound, &by);
}

#[test]
fn a_log_that_is_not_synced() {
    must_be_caught(Quirk::LogUnsynced, sound, &["each_line_once_in_order"]);
}

#[test]
fn no_backup() {
    let by = ["ledger_or_backup_always_parses", "backup_restores"];
    must_be_caught(Quirk::NoBackup, sound, &by);
}

#[test]
fn a_ledger_written_in_place() {
    must_be_caught(Quirk::PublishInPlace, sound, &["ledger_or_backup_always_parses"]);
}

#[test]
fn a_ledger_that_forgets_its_log_lines() {
    must_be_caught(Quirk::ForgetsLogTail, sound, &["each_line_once_in_order"]);
}

#[test]
fn fields_of_others_dropped() {
    must_be_caught(Quirk::DropsUnknownFields, sound, &["outside_fields_survive"]);
}

#[test]
fn writes_of_others_not_noticed() {
    must_be_caught(Quirk::StaleIdentity, sound, &["all_or_nothing"]);
}

/// A store with one fault.
struct Broken<F> {
    store: Box<dyn Store>,
    apply: F,
}

impl<F> Store for Broken<F>
where
    F: FnMut(&mut dyn Store, Timestamp, &[Command]) -> Result<Applied, StoreError> + Send,
{
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        (self.apply)(&mut *self.store, now, commands)
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        self.store.ledger()
    }
}

/// Answers as decided, and writes only if it can.
fn answers_before_it_writes(disk: SimDisk) -> Box<dyn Store> {
    let apply = |store: &mut dyn Store, now: Timestamp, commands: &[Command]| {
        let decided = store.ledger().ok().cloned().map(|mut ledger| {
            let decide = |command| {
                let change = decide(&ledger, now, command)?;
                ledger.put_in(&change);
                Ok(change.reply)
            };
            commands.iter().map(decide).collect()
        });
        match (store.apply(now, commands), decided) {
            (Err(_), Some(replies)) => Ok(Applied { replies, ..Applied::default() }),
            (result, _) => result,
        }
    };
    Box::new(Broken { store: sound(disk), apply })
}

#[test]
fn an_answer_before_the_write() {
    let by = ["all_or_nothing", "acknowledged_is_durable"];
    must_be_caught(Quirk::None, answers_before_it_writes, &by);
}

/// Treats every caller as the holder.
fn does_not_fence(disk: SimDisk) -> Box<dyn Store> {
    let apply = |store: &mut dyn Store, now: Timestamp, commands: &[Command]| {
        let ledger = store.ledger()?.clone();
        let unfenced = |holder: &Holder| {
            let task = ledger.task(&holder.task).filter(|t| t.status() == Status::InProgress);
            let worker = task.and_then(|t| t.claimed_by().cloned());
            Holder {
                worker: worker.unwrap_or_else(|| holder.worker.clone()),
                epoch: None,
                ..holder.clone()
            }
        };
        let commands: Vec<Command> = commands
            .iter()
            .map(|command| match command {
                Command::Complete(c) => Command::Complete(harness_core::command::Complete {
                    holder: unfenced(&c.holder),
                    ..c.clone()
                }),
                other => other.clone(),
            })
            .collect();
        store.apply(now, &commands)
    };
    Box::new(Broken { store: sound(disk), apply })
}

#[test]
fn a_claim_that_fences_nobody() {
    let by = ["all_or_nothing", "completed_means_checked"];
    must_be_caught(Quirk::None, does_not_fence, &by);
}

/// Applies everything twice, as if after a lost answer.
fn stutters(disk: SimDisk) -> Box<dyn Store> {
    let apply = |store: &mut dyn Store, now: Timestamp, commands: &[Command]| {
        let first = store.apply(now, commands)?;
        let _again = store.apply(now, commands)?;
        Ok(first)
    };
    Box::new(Broken { store: sound(disk), apply })
}

#[test]
fn a_command_applied_twice() {
    let by = ["all_or_nothing", "each_line_once_in_order"];
    must_be_caught(Quirk::None, stutters, &by);
}

/// Writes although it refuses.
fn writes_on_refusal(disk: SimDisk) -> Box<dyn Store> {
    let apply = |store: &mut dyn Store, now: Timestamp, commands: &[Command]| {
        let applied = store.apply(now, commands)?;
        if applied.replies.iter().all(Result::is_err) {
            let end = harness_core::command::EndSession { pid: 1 };
            let _more = store.apply(now, &[Command::EndSession(end)])?;
        }
        Ok(applied)
    };
    Box::new(Broken { store: sound(disk), apply })
}

#[test]
fn a_refusal_that_changes_something() {
    let by = ["all_or_nothing", "refused_changes_nothing"];
    must_be_caught(Quirk::None, writes_on_refusal, &by);
}

type RunSeed = fn(u64, Flaw) -> Result<Tally, Box<Failure>>;

/// Requires that the first seed of `harness run` that detects the fault names one of these
/// checkers.
fn seen_by(run: RunSeed, flaw: Flaw, by: &[&str]) {
    let failure = (1..=SEEDS).find_map(|seed| run(seed, flaw).err());
    let Some(failure) = failure else { panic!("{flaw:?}: {SEEDS} seeds saw nothing") };
    let (seed, checker) = (failure.seed, failure.violation.checker);
    assert!(by.contains(&checker), "{flaw:?} was caught by {checker} (seed {seed}), not {by:?}");
}

fn run_must_be_caught(flaw: Flaw, by: &[&str]) {
    seen_by(run_session, flaw, by);
}

/// Does the same in the world of objectives.
fn objective_must_be_caught(flaw: Flaw, by: &[&str]) {
    seen_by(run_objective, flaw, by);
}

#[test]
fn a_session_that_works_without_a_number() {
    run_must_be_caught(Flaw::SkipsNumber, &["work_is_in_a_session"]);
}

#[test]
fn a_session_that_does_not_prepare() {
    run_must_be_caught(Flaw::PreparesOnce, &["each_session_prepares"]);
}

#[test]
fn a_run_that_completes_whatever_the_check_says() {
    run_must_be_caught(Flaw::EveryCheckPasses, &["completed_means_checked"]);
}

#[test]
fn a_client_whose_word_is_enough() {
    run_must_be_caught(Flaw::BelievesClients, &["completed_means_checked"]);
}

#[test]
fn a_completion_without_a_receipt() {
    run_must_be_caught(Flaw::SkipsReceipt, &["a_receipt_comes_first"]);
}

#[test]
fn a_context_that_is_started_for_ever() {
    objective_must_be_caught(Flaw::ForgetsStarts, &["starts_are_bounded"]);
}

#[test]
fn a_rollback_that_saves_nothing() {
    run_must_be_caught(Flaw::NoRescue, &["nothing_vanishes"]);
}

#[test]
fn a_rollback_that_leaves_the_users_file_changed() {
    run_must_be_caught(Flaw::KeepsScribbles, &["rolled_back_means_as_before"]);
}

#[test]
fn a_rollback_that_nobody_intended() {
    run_must_be_caught(Flaw::SkipsIntend, &["the_first_cause_is_recorded"]);
}

#[test]
fn a_marker_that_stays() {
    run_must_be_caught(Flaw::MarkerStays, &["no_marker_without_work"]);
}

#[test]
fn an_agent_that_works_without_a_row() {
    let by = ["an_agent_works_in_an_open_iteration", "iterations_are_counted_once"];
    run_must_be_caught(Flaw::SkipsBegin, &by);
    objective_must_be_caught(Flaw::SkipsBegin, &by);
}

#[test]
fn an_iteration_that_is_counted_twice() {
    objective_must_be_caught(Flaw::CountsTwice, &["iterations_are_counted_once"]);
}

#[test]
fn money_that_is_forgotten() {
    run_must_be_caught(Flaw::ForgetsSpending, &["sums_agree"]);
    objective_must_be_caught(Flaw::ForgetsSpending, &["sums_agree"]);
}

#[test]
fn attempts_that_nobody_pays_for() {
    run_must_be_caught(Flaw::ForgetsParent, &["the_parent_pays"]);
}

#[test]
fn a_budget_that_is_not_looked_at() {
    let by = ["budget_stops_at_one_event", "no_agent_without_budget"];
    objective_must_be_caught(Flaw::SpendsUnheard, &by);
}

#[test]
fn an_agent_that_spends_on() {
    objective_must_be_caught(Flaw::SpendsOn, &["budget_stops_at_one_event"]);
}

#[test]
fn a_budget_that_begins_anew_with_every_process() {
    objective_must_be_caught(Flaw::StartsAtNothing, &["no_agent_without_budget"]);
}

#[test]
fn an_end_that_is_not_stored() {
    objective_must_be_caught(Flaw::SkipsStop, &["the_outcome_is_stored"]);
}

#[test]
fn a_lie_that_is_asked_again_for_ever() {
    objective_must_be_caught(Flaw::RestartsForEver, &["restarts_are_bounded"]);
}

#[test]
fn a_promise_that_was_not_made() {
    let by = ["complete_means_promised"];
    run_must_be_caught(Flaw::AnyTextWillDo, &by);
    objective_must_be_caught(Flaw::AnyTextWillDo, &by);
}

#[test]
fn an_objective_whose_check_says_yes_to_everything() {
    let by = ["complete_means_verified", "complete_means_gates_passed"];
    objective_must_be_caught(Flaw::EveryCheckPasses, &by);
}

#[test]
fn an_objective_without_its_gates() {
    objective_must_be_caught(Flaw::NoPhases, &["complete_means_gates_passed"]);
}

#[test]
fn a_limit_that_burns_an_iteration() {
    run_must_be_caught(Flaw::BurnsLimits, &["a_limit_burns_no_iteration"]);
    objective_must_be_caught(Flaw::BurnsLimits, &["a_limit_burns_no_iteration"]);
}

#[test]
fn a_limit_that_is_not_waited_out() {
    run_must_be_caught(Flaw::HastyLimits, &["limits_are_waited_out"]);
    objective_must_be_caught(Flaw::HastyLimits, &["limits_are_waited_out"]);
}

#[test]
fn a_mute_agent_that_is_nudged_for_ever() {
    run_must_be_caught(Flaw::NudgesForEver, &["turns_are_bounded"]);
    objective_must_be_caught(Flaw::NudgesForEver, &["turns_are_bounded"]);
}

#[test]
fn an_interrupt_that_nobody_hears() {
    objective_must_be_caught(Flaw::Deaf, &["an_interrupt_is_heard"]);
}

/// Does the same among agents that lie.
fn liars_must_be_caught(flaw: Flaw, by: &[&str]) {
    seen_by(run_liars, flaw, by);
}

#[test]
fn a_tree_that_changed_after_its_check() {
    liars_must_be_caught(Flaw::KeepsWhatIsThere, &["completed_means_judged"]);
}

#[test]
fn work_that_git_does_not_see() {
    let by = ["completed_means_judged", "a_completion_tells_what_was_tried"];
    liars_must_be_caught(Flaw::KeepsSettings, &by);
}

#[test]
fn an_agent_that_is_taken_for_the_operator() {
    let by = [
        "completed_means_judged",
        "limits_hold",
        "attempts_count_ends",
        "nothing_of_the_ledger_is_lost",
    ];
    liars_must_be_caught(Flaw::AnyoneMay, &by);
}

#[test]
fn a_ledger_that_is_accepted_from_any_writer() {
    let by = [
        "no_forgery_is_believed",
        "every_forgery_is_reported",
        "attempts_count_ends",
        "completed_means_judged",
        "limits_hold",
    ];
    liars_must_be_caught(Flaw::BelievesLedger, &by);
}

#[test]
fn a_supervisor_that_is_killed_for_ever() {
    liars_must_be_caught(Flaw::ForgetsStarts, &["contexts_are_bounded", "starts_are_bounded"]);
}

#[test]
fn a_budget_that_an_agent_sets() {
    liars_must_be_caught(Flaw::BelievesRows, &["no_budget_falls"]);
}

#[test]
fn a_rollback_over_commits_of_the_person() {
    liars_must_be_caught(Flaw::ResetsForeign, &["foreign_commits_stay"]);
}

#[test]
fn a_rollback_that_leaves_commits() {
    liars_must_be_caught(Flaw::KeepsCommits, &["a_failed_attempt_leaves_nothing"]);
}

#[test]
fn a_rollback_that_leaves_scribbles_in_the_users_file() {
    liars_must_be_caught(Flaw::KeepsScribbles, &["the_users_files_stay"]);
}

#[test]
fn a_forgery_that_nobody_hears_of() {
    liars_must_be_caught(Flaw::Mute, &["every_forgery_is_reported"]);
}

#[test]
fn a_forgery_that_is_shrugged_off() {
    liars_must_be_caught(Flaw::ShrugsOff, &["a_forgery_is_no_plain_success"]);
}

#[test]
fn a_receipt_that_does_not_say_what_was_tried() {
    liars_must_be_caught(Flaw::ForgetsFlags, &["a_completion_tells_what_was_tried"]);
}

#[test]
fn a_seed_of_a_run_is_the_same_story_every_time() {
    for (seed, world) in (1..=60).flat_map(|seed| {
        let worlds: [fn(u64) -> Lived; 3] = [tell_session, tell_objective, tell_liars];
        worlds.map(|world| (seed, world))
    }) {
        let [first, second] = [(); 2].map(|()| world(seed).2);
        let differ = first.lines().iter().zip(second.lines()).find(|(a, b)| a != b);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first.lines().len(), second.lines().len(), "seed {seed}");
        assert!(first.lines().len() > 2, "seed {seed}");
    }
}

/// The unmodified product passes. `cargo xtask sim` runs many more seeds, optimised.
#[test]
fn the_sound_one() {
    for seed in 1..=40 {
        if let Err(failure) = harness_sim::seeds::run(seed) {
            panic!("seed {seed}: {:?}: cargo xtask sim --seed {seed}", failure.violation);
        }
    }
}
