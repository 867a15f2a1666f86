//! The conformance suite of [`Workspace`](harness::workspace::Workspace): real git and the
//! simulated one behave alike.
//!
//! A fixture starts as a repository on `main` with one commit that holds `a.txt` ("a"), `b.txt`
//! ("b") and a `.gitignore` that ignores `*.log`.

mod candidate;
mod commit;
mod evidence;
mod fixture;
mod foreign;
mod rescue;
mod rollback;
mod settings;
mod sight;

use std::collections::BTreeMap;

use harness::workspace::{Base, RolledBack, Sight};
use harness_core::{Epoch, TaskId, Timestamp};

pub use self::{
    candidate::*,
    commit::*,
    evidence::*,
    fixture::{AGENT, Fixture},
    foreign::*,
    rescue::*,
    rollback::*,
    settings::*,
    sight::*,
};

fn task() -> TaskId {
    TaskId::parse("task-1").unwrap()
}

const LONG_AGO: Timestamp = Timestamp::from_seconds(0);
const FAR_AHEAD: Timestamp = Timestamp::from_seconds(100_000_000_000);

pub fn claim(f: &dyn Fixture) -> Base {
    f.workspace().preflight().unwrap();
    Base { epoch: Some(Epoch(1)), ..f.workspace().base(&task(), Sight::Anew).unwrap() }
}

fn roll_back(f: &dyn Fixture, base: &Base) -> RolledBack {
    f.workspace().rollback(&task(), 1, base).unwrap()
}

fn rescued(f: &dyn Fixture) -> Vec<BTreeMap<String, String>> {
    let rescues = f.workspace().rescues(Some(&task())).unwrap();
    rescues.iter().map(|rescue| f.committed(&rescue.commit)).collect()
}

/// Plays an attempt that leaves changes of every kind.
pub fn busy_attempt(f: &dyn Fixture) {
    f.commit_file("done.txt", "committed", "some work");
    f.write_all(&[("a.txt", "changed"), ("staged.txt", "staged"), ("new.txt", "new")]);
    f.stage("staged.txt");
    f.remove("b.txt");
    f.write("notes.txt", "the agent was here");
    f.write("harness-progress.txt", "more log");
}

/// Writes the files that exist before a claim beside the commit.
pub fn before_claim(f: &dyn Fixture) {
    f.write_all(&[("notes.txt", "mine"), ("deep/er/todo.txt", "mine too"), ("x.log", "ignored")]);
    f.write_all(&[("harness-tasks.json", "{}"), ("harness-progress.txt", "log")]);
    f.write_all(&[(".harness/harness.db", "db"), ("state/handoff.json", "handoff")]);
}

/// Returns the work tree after the rollback of a [`busy_attempt`].
pub fn after_rollback(before: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut expected = before.clone();
    expected.insert("harness-progress.txt".to_owned(), "more log".to_owned());
    expected
}

/// Calls a macro with the name of every case, so that each becomes a test of its own.
#[macro_export]
macro_rules! for_each_workspace_case {
    ($instantiate:ident) => {
        $instantiate! {
            rollback_makes_the_tree_what_it_was_and_loses_nothing,
            a_repeated_rollback_changes_nothing,
            nothing_changed_means_no_rescue,
            a_rescue_changes_neither_tree_nor_index,
            a_rescue_never_replaces_another,
            a_state_saved_before_is_not_saved_again,
            staged_contents_that_are_nowhere_else_are_saved,
            deleted_untracked_files_come_back,
            untracked_files_that_the_agent_committed_come_back,
            ignored_files_stay,
            what_the_agents_ignore_rules_hid_is_saved,
            what_an_ignore_file_of_the_user_protects_survives_its_removal,
            a_file_that_the_agent_untracked_and_ignored_is_saved,
            own_files_survive_even_when_tracked,
            own_files_never_make_a_tree_dirty,
            status_tells_tracked_from_untracked,
            commit_takes_all_but_ours_and_earlier_untracked_files,
            nothing_to_commit_makes_no_commit,
            commit_brings_the_claimed_branch_along,
            commit_refuses_a_head_that_does_not_descend_from_the_base,
            a_completed_commit_is_kept_reachable,
            rollback_leaves_other_branches_alone,
            a_detached_head_stays_detached,
            commits_of_others_stay_and_the_attempts_are_reverted,
            commits_of_others_stay_when_there_is_nothing_to_revert,
            nothing_to_undo_touches_nothing,
            a_revert_that_conflicts_touches_nothing,
            an_undo_made_by_hand_is_found,
            commits_of_others_stay_on_the_claimed_branch_that_was_left,
            evidence_tells_the_attempts_commits_by_their_mark,
            a_missing_base_is_refused_before_anything_is_touched,
            a_candidate_is_the_tree_that_is_committed,
            changes_of_a_check_are_reported_and_its_new_files_removed,
            what_was_judged_can_be_put_back,
            a_commit_of_somebody_during_the_check_is_noticed,
            work_that_no_commit_can_hold_is_reported,
            settings_are_set_back_and_reported,
            without_a_record_no_setting_is_touched,
            flags_of_the_user_and_what_they_hide_survive_a_rollback,
            protected_files_are_read,
            evidence_of_no_work,
            evidence_of_uncommitted_work,
            evidence_of_commits,
            evidence_names_younger_stashes,
            equal_trees_have_equal_ids,
            touched_is_what_differs_from_the_claim,
            a_mark_changes_when_a_file_does,
            the_last_look_counts_until_something_has_run,
            what_a_commit_leaves_is_known_without_a_look,
            a_commit_has_a_tree_and_can_be_checked_out,
            restore_brings_a_rescue_back,
            restore_refuses_to_overwrite,
            a_forgotten_base_may_be_forgotten_again,
            rescues_are_listed_by_task,
        }
    };
}
