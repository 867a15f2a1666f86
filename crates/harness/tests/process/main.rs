//! Agents as processes: started, fed, read and ended, with everything that they leave behind.
//!
//! It has its own `main`, because this program is also the guard of its processes, and the harness
//! that is killed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acp;
mod adapters;
mod claude;
mod codex;
#[cfg(target_os = "linux")]
mod death;
mod ends;
mod flood;
mod output;
#[cfg(target_os = "linux")]
mod scripts;
mod stage;
#[cfg(target_os = "linux")]
mod trees;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// `tests![module: name, …]`
macro_rules! tests {
    ($($(#[$only:meta])? $module:ident: $($name:ident),+;)+) => {{
        let mut all = Vec::new();
        $($(#[$only])? {
            $(all.push(Trial::test(concat!(stringify!($module), "::", stringify!($name)), || {
                $module::$name();
                Ok(())
            }));)+
        })+
        all
    }};
}

fn main() -> ExitCode {
    // This is a program that starts agents without guards.
    if std::env::args().nth(1).as_deref() == Some("__unguarded") {
        return stage::be_harness();
    }
    harness::guard::init();
    match std::env::args().nth(1).as_deref() {
        Some("__harness") => return stage::be_harness(),
        #[cfg(target_os = "linux")]
        Some("__script") => return scripts::be_harness(),
        Some("__flood") => return flood::be_flooded(),
        _ => {}
    }
    let trials = tests![
        ends: exits_and_signals_are_told_as_they_are, what_can_not_start_is_said,
            the_environment_is_what_was_given, one_that_hears_term_ends_by_it,
            one_that_ignores_term_is_killed_after_the_grace, a_stopped_one_ends,
            time_is_up, silence_is_told_once_and_then_ended, silence_can_be_ignored,
            the_first_who_stops_it_is_named, the_record_goes_with_the_job;
        output: both_streams_come_apart, bytes_that_are_no_text_come_as_they_are,
            standard_input_is_written_while_output_is_read,
            one_that_never_reads_its_input_does_not_hang_us,
            a_line_of_100_megabytes_is_cut, only_three_descriptors_are_inherited,
            secrets_are_not_in_the_transcript, giving_up_a_wait_loses_nothing;
        adapters: shell_conforms, command_conforms, a_script_needs_instructions,
            a_command_gets_its_prompt, a_command_sees_no_more_than_it_may,
            a_command_tells_events, a_command_says_why_it_ended, a_missing_program_is_said,
            commands_and_scripts_work_on_whatever_people_say,
            the_final_text_is_the_end_of_the_output;
        acp: acp_conforms, a_turn_by_acp_is_told, acp_agents_are_allowed_what_they_need,
            acp_agents_are_taken_at_their_word,
            acp_agents_say_why_they_ended, a_session_of_acp_can_be_loaded_and_its_model_chosen,
            an_acp_agent_is_asked_to_stop_in_its_words,
            acp_agents_hear_what_people_say, a_silent_acp_agent_is_asked_to_stop, what_is_not_ours_is_not_counted,
            a_session_of_acp_that_is_gone_is_named, a_full_context_by_acp_is_handed_over;
        codex: codex_conforms, a_turn_of_codex_is_told, codex_says_why_it_ended,
            a_thread_of_codex_can_be_resumed, codex_works_on_whatever_people_say;
        claude: claude_conforms, claude_is_spoken_to, claude_hears_what_people_say, claude_is_interrupted_before_it_is_killed,
            a_silent_claude_is_interrupted,
            claude_sees_its_own_variables_and_no_others, claude_does_not_bypass_permissions_as_root,
            secrets_do_not_break_the_protocol_of_claude,
            what_claude_says_at_too_great_length_is_named;
        flood: a_gibibyte_takes_no_memory;
        #[cfg(target_os = "linux")]
        trees: children_that_outlive_the_agent_are_ended, one_that_holds_the_output_open_does_not_hang_us,
            a_stop_reaches_those_who_left_the_session, dropping_the_job_ends_the_tree,
            giving_up_the_start_ends_the_tree, a_killed_guard_leaves_nothing,
            a_guard_that_is_asked_to_end_takes_the_tree_with_it,
            a_guard_that_does_not_answer_is_replaced, orphans_are_reaped_while_the_agent_runs;
        #[cfg(target_os = "linux")]
        scripts: scripts_end_as_they_are_told, what_a_script_started_ends_with_it,
            a_script_that_is_stopped_takes_all_with_it,
            a_script_that_kills_its_guard_has_not_passed,
            the_command_line_of_a_guard_says_whose_it_is, a_script_ends_with_a_killed_harness;
        #[cfg(target_os = "linux")]
        death: nothing_survives_a_killed_harness, a_sweep_ends_what_a_killed_guard_left,
            a_sweep_ends_what_ran_without_a_guard, a_sweep_leaves_the_living_alone;
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
