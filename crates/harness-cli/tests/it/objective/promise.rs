//! Outputs that keep a promise and those that do not, and `--verify`.

use serde_json::json;

use super::stage::*;

#[test]
fn only_the_whole_token_in_the_final_text_completes() {
    for (says, kept) in [
        ("echo 'Done. TASK_COMPLETE'", true),
        ("echo '<promise>TASK_COMPLETE</promise>'", true),
        ("echo TASK_COMPLETE; echo 'The tests pass.'", true),
        ("echo 'not TASK_COMPLETE yet'", false),
        ("echo 'TASK_COMPLETE is what I say later'", false),
        ("echo TASK_COMPLETED", false),
        ("echo task_complete", false),
        // The prompt, the output of tools and standard error do not count.
        ("cat \"$HARNESS_PROMPT_FILE\"", false),
        ("cat \"$HARNESS_PROMPT_FILE\" | sed 's/$/\\r/'", false),
        ("echo TASK_COMPLETE >&2; echo not yet", false),
        (
            "echo '{\"type\":\"text\",\"text\":\"TASK_COMPLETE\"}' >> $HARNESS_EVENTS; echo no",
            false,
        ),
        // A promise of a failed agent does not count.
        ("echo TASK_COMPLETE; exit 3", false),
        // An agent that echoes its prompt may still keep the promise.
        ("cat \"$HARNESS_PROMPT_FILE\"; echo TASK_COMPLETE", true),
    ] {
        let env = stage();
        let (code, reason) = if kept { (0, "complete") } else { (3, "max_iterations") };
        came_to(go(&env, says, &["--max-iterations", "0"]), code, reason, 0);
    }
}

#[test]
fn the_older_match_takes_a_mention_too() {
    let env = stage();
    env.write("harness.toml", "promise_match = \"token\"\n");
    came_to(go(&env, "echo 'not TASK_COMPLETE yet'", &[]), 0, "complete", 0);
}

#[test]
fn a_mention_is_named_to_the_next_context() {
    let env = stage();
    let script =
        "if [ $n = 0 ]; then echo 'TASK_COMPLETE comes later'; else echo TASK_COMPLETE; fi";
    came_to(go(&env, script, &[]), 0, "complete", 1);
    assert!(prompt(&env, 1).contains("mentioned it within other text"), "{}", prompt(&env, 1));
}

#[test]
fn the_start_of_an_objective_says_whose_word_will_count() {
    let env = stage();
    let words = "no --verify: the agent's word alone will count as done";
    let ran = go(&env, "echo TASK_COMPLETE", &[]);
    assert!(ran.errors().contains(words), "{ran}");
    let env = stage();
    let ran = go(&env, "echo TASK_COMPLETE", &["--verify", "true"]);
    assert!(!ran.errors().contains(words), "{ran}");
}

#[test]
fn an_echoed_continuation_prompt_completes_nothing_either() {
    let env = stage();
    let echo = "cat \"$HARNESS_PROMPT_FILE\"; echo still at it";
    came_to(go(&env, echo, &["--max-iterations", "2"]), 3, "max_iterations", 2);
}

#[test]
fn the_stricter_match_takes_only_the_tag() {
    let env = stage();
    env.write("harness.toml", "promise_match = \"tag\"\n");
    let script =
        "if [ $n = 0 ]; then echo TASK_COMPLETE; else echo '<promise>TASK_COMPLETE</promise>'; fi";
    came_to(go(&env, script, &[]), 0, "complete", 1);
    assert!(prompt(&env, 0).contains("    <promise>TASK_COMPLETE</promise>\n"));
}

#[test]
fn another_promise_is_stored_told_and_looked_for() {
    let env = stage();
    let script = "if [ $n = 0 ]; then echo TASK_COMPLETE; else echo 'Ja, fertig!'; fi";
    came_to(go(&env, script, &["--completion-promise", " Ja, fertig "]), 0, "complete", 1);
    assert_eq!(run_row(&env)["completion_promise"], "Ja, fertig");
    assert!(prompt(&env, 0).contains("    Ja, fertig\n"));
}

#[test]
fn a_promise_counts_only_if_the_runs_own_check_agrees() {
    let env = stage();
    let verify = "echo \"saw $(tail -n 1 work.txt)\"; test $(tail -n 1 work.txt) -ge 2";
    came_to(go(&env, "echo TASK_COMPLETE", &["--verify", verify]), 0, "complete", 2);
    assert_eq!(run_row(&env)["verify"], verify);
    let second = prompt(&env, 1);
    assert!(second.contains("The last context gave it, but the validation failed."), "{second}");
    assert!(second.contains("exit code 1\nsaw 0\n"), "{second}");
    assert!(prompt(&env, 2).contains("saw 1\n"));
    // Without the promise the check does not run.
    let env = stage();
    let verify = "touch verified";
    came_to(
        go(&env, "echo no", &["--verify", verify, "--max-iterations", "0"]),
        3,
        "max_iterations",
        0,
    );
    assert!(!env.exists("verified"));
}

#[test]
fn a_check_that_can_not_be_run_is_for_a_person_and_loses_nothing() {
    let env = stage();
    let ran = go(&env, "echo TASK_COMPLETE", &["--verify", "no-such-checker --all"]);
    assert!(ran.errors().contains("no-such-checker"), "{ran}");
    came_to(ran, 1, "env_setup", 0);
    assert_eq!(outcomes(&env), [json!("finished")]);
    // The promised work is judged again, without another context.
    came_to(env.run(["run", "--resume", "--verify", "true", "--json"]), 0, "complete", 0);
    assert_eq!(env.read("work.txt"), "0\n");
    assert_eq!(run_row(&env)["verify"], "true");
}
