//! The conformance suite of [`SharedRepository`](harness::workspace::shared::SharedRepository):
//! real git and the simulated one behave alike.
//!
//! A fixture starts as that of the suite of workspaces does: on `main`, with one commit that holds
//! `a.txt` ("a"), `b.txt` ("b") and a `.gitignore` that ignores `*.log`.

mod branch;
mod cut_short;
mod diversion;
mod fixture;
mod landing;
mod real;
mod rebase;
mod remote;
mod takeover;
mod target;
mod tree;

pub use self::{
    branch::*,
    cut_short::*,
    diversion::*,
    fixture::{
        LoggedCommit, MainTree, SharedFixture, begin, done, head, is_clean, main_files, main_tree,
        result, task, work, worker,
    },
    landing::*,
    rebase::*,
    remote::{OpenClone, RemoteClone},
    takeover::*,
    target::*,
    tree::*,
};

/// Calls a macro with the name of every case, so that each becomes a test of its own.
#[macro_export]
macro_rules! for_each_shared_case {
    ($instantiate:ident) => {
        $instantiate! {
            a_repository_without_a_commit_is_refused,
            a_branch_called_harness_is_refused,
            the_target_is_the_branch_of_the_main_tree,
            a_wanted_target_is_created_at_head,
            a_detached_head_gives_the_landed_branch,
            a_tip_is_the_commit_of_a_branch,
            a_branch_contains_its_history,
            files_between_two_commits_are_sorted,
            a_tree_starts_at_the_commit,
            a_tree_is_used_again,
            two_workers_have_two_trees,
            a_reset_saves_what_it_would_lose,
            a_reset_saves_commits_on_no_branch,
            a_reset_saves_what_ignore_rules_hid,
            a_clean_tree_is_not_saved,
            a_reset_keeps_ignored_files,
            a_reset_to_an_unknown_commit_is_refused,
            a_tree_of_another_process_is_refused,
            a_tree_of_a_process_that_ended_is_free,
            a_closed_tree_is_saved_and_removed,
            a_tree_can_be_closed_again_and_created_again,
            a_branch_starts_at_the_tree,
            a_branch_with_landed_work_is_deleted,
            a_branch_with_saved_work_is_deleted,
            a_branch_with_the_only_copy_is_saved_before_it_is_deleted,
            a_branch_that_is_gone_may_end_again,
            commits_are_put_on_top_with_a_trailer,
            a_squash_makes_one_commit,
            the_same_rebase_gives_the_same_commit,
            a_result_can_be_rebased_again,
            a_rebase_onto_the_base_adds_the_trailer,
            a_conflict_changes_nothing,
            no_work_gives_the_other_commit,
            work_that_is_there_already_gives_the_other_commit,
            merges_are_flattened,
            work_that_does_not_descend_is_refused,
            a_landing_moves_the_branch,
            a_landing_moves_the_main_tree,
            a_landing_keeps_untracked_files,
            a_landing_keeps_the_files_of_harness,
            a_changed_main_tree_is_not_touched,
            a_staged_change_is_not_touched,
            an_untracked_file_in_the_way_is_not_touched,
            a_target_in_another_tree_is_not_touched,
            without_a_token_nothing_lands,
            a_token_of_another_commit_lands_nothing,
            a_target_that_moved_is_not_moved,
            a_target_that_is_gone_is_not_created,
            a_landing_happens_once,
            results_are_found_by_their_trailers,
            tokens_are_listed_until_they_are_used,
            a_token_is_voided_once,
            a_token_of_another_commit_is_not_voided,
            a_landing_cut_short_before_the_swap_is_taken_back,
            a_landing_cut_short_after_the_swap_is_finished,
            a_landing_of_a_dead_process_is_taken_back_before_anybody_works,
            a_landing_of_a_dead_process_is_finished_before_anybody_works,
            a_tree_that_the_user_changed_is_not_finished,
            a_clean_tree_needs_no_finish,
            a_tree_on_another_branch_is_not_finished,
            a_diversion_starts_at_the_target,
            a_diversion_goes_on_where_it_is,
            results_land_beside_a_changed_tree,
            nothing_diverted_means_nothing_to_take_in,
            diverted_results_are_taken_in,
            a_changed_tree_takes_nothing_in,
            diverted_results_that_diverged_are_kept,
            diverted_results_that_the_user_merged_are_done,
            results_for_a_branch_elsewhere_are_taken_in,
            a_dead_workers_tree_is_taken_over,
            a_dead_worker_that_did_nothing_leaves_nothing_to_save,
            a_worker_takes_over_its_own_tree,
            a_tree_that_is_gone_cannot_be_taken_over,
            a_tree_that_does_not_descend_is_only_saved,
            a_rebase_keeps_the_original_work,
            a_result_on_its_way_is_taken_over_as_it_was,
            an_attempt_that_never_began_is_not_taken_over,
            the_init_script_is_due_until_it_ran,
        }
    };
}

/// Calls a macro with the name of every case that holds for a target on a remote too: all but those in
/// which the tree of the user moves with the target.
#[macro_export]
macro_rules! for_each_remote_case {
    ($instantiate:ident) => {
        $instantiate! {
            a_repository_without_a_commit_is_refused,
            a_branch_called_harness_is_refused,
            the_target_is_the_branch_of_the_main_tree,
            a_wanted_target_is_created_at_head,
            a_detached_head_gives_the_landed_branch,
            a_tip_is_the_commit_of_a_branch,
            a_branch_contains_its_history,
            files_between_two_commits_are_sorted,
            a_tree_starts_at_the_commit,
            a_tree_is_used_again,
            two_workers_have_two_trees,
            a_reset_saves_what_it_would_lose,
            a_reset_saves_commits_on_no_branch,
            a_reset_saves_what_ignore_rules_hid,
            a_clean_tree_is_not_saved,
            a_reset_keeps_ignored_files,
            a_reset_to_an_unknown_commit_is_refused,
            a_tree_of_another_process_is_refused,
            a_tree_of_a_process_that_ended_is_free,
            a_closed_tree_is_saved_and_removed,
            a_tree_can_be_closed_again_and_created_again,
            a_branch_starts_at_the_tree,
            a_branch_with_landed_work_is_deleted,
            a_branch_with_saved_work_is_deleted,
            a_branch_with_the_only_copy_is_saved_before_it_is_deleted,
            a_branch_that_is_gone_may_end_again,
            commits_are_put_on_top_with_a_trailer,
            a_squash_makes_one_commit,
            the_same_rebase_gives_the_same_commit,
            a_result_can_be_rebased_again,
            a_rebase_onto_the_base_adds_the_trailer,
            a_conflict_changes_nothing,
            no_work_gives_the_other_commit,
            work_that_is_there_already_gives_the_other_commit,
            merges_are_flattened,
            work_that_does_not_descend_is_refused,
            a_landing_moves_the_branch,
            without_a_token_nothing_lands,
            a_token_of_another_commit_lands_nothing,
            a_target_that_moved_is_not_moved,
            a_target_that_is_gone_is_not_created,
            a_landing_happens_once,
            results_are_found_by_their_trailers,
            tokens_are_listed_until_they_are_used,
            a_token_is_voided_once,
            a_token_of_another_commit_is_not_voided,
            a_diversion_starts_at_the_target,
            a_diversion_goes_on_where_it_is,
            results_land_beside_a_changed_tree,
            nothing_diverted_means_nothing_to_take_in,
            diverted_results_that_diverged_are_kept,
            diverted_results_that_the_user_merged_are_done,
            results_for_a_branch_elsewhere_are_taken_in,
            a_dead_workers_tree_is_taken_over,
            a_dead_worker_that_did_nothing_leaves_nothing_to_save,
            a_worker_takes_over_its_own_tree,
            a_tree_that_is_gone_cannot_be_taken_over,
            a_tree_that_does_not_descend_is_only_saved,
            a_rebase_keeps_the_original_work,
            a_result_on_its_way_is_taken_over_as_it_was,
            an_attempt_that_never_began_is_not_taken_over,
            the_init_script_is_due_until_it_ran,
        }
    };
}
