//! Points that a person should look at: flags of attempts and alerts of the ledger.

use harness_core::{Flag, command::Raise};

use super::*;

fn raise(task: Option<&str>, flag: Flag) -> Command {
    let message = "seen".to_owned();
    Command::Raise(Raise { task: task.map(id), flag, message })
}

#[test]
fn a_flag_goes_to_the_attempt_in_progress() {
    let held = r#"[{"id":"a","status":"in_progress","flags":["unproven"]},{"id":"b"}]"#;
    at_now(
        held,
        raise(Some("a"), Flag::Verb),
        &["noted", "log: WARN [a] seen", r#"a.flags: ["unproven"] -> ["verb","unproven"]"#],
    );
    at_now(held, raise(Some("b"), Flag::Verb), &["noted", "log: WARN [b] seen"]);
    at_now(held, raise(Some("gone"), Flag::Verb), &["noted", "log: WARN [gone] seen"]);
}

#[test]
fn what_puts_doubt_on_the_ledger_is_an_alert_until_it_is_acknowledged() {
    at_now(
        "[]",
        raise(None, Flag::Edit),
        &[
            "noted",
            "log: WARN seen",
            r#"head.alerts: - -> [{"time":"2025-07-01T10:00:00Z","message":"seen"}]"#,
        ],
    );
    let alerted =
        r#"{"version":2,"tasks":[],"alerts":[{"time":"2025-07-01T09:00:00Z","message":"x"}]}"#;
    at_now(
        alerted,
        Command::Acknowledge,
        &[
            "noted",
            "log: WARN the operator acknowledged 1 alert(s)",
            r#"head.alerts: [{"time":"2025-07-01T09:00:00Z","message":"x"}] -> -"#,
        ],
    );
    at_now("[]", Command::Acknowledge, &["noted"]);
}

#[test]
fn a_completion_can_turn_out_to_be_unproven() {
    let done = r#"[{"id":"a","status":"completed"}]"#;
    let lines = outcome(&ledger(done), time(NOW), &raise(Some("a"), Flag::Unproven));
    assert!(lines.iter().any(|l| l == r#"a.flags: - -> ["unproven"]"#), "{lines:?}");
    let lines = outcome(&ledger(done), time(NOW), &raise(Some("a"), Flag::Config));
    assert!(!lines.iter().any(|l| l.starts_with("a.flags")), "{lines:?}");
}

#[test]
fn a_claim_clears_the_flags_of_the_last_attempt() {
    let failed = r#"[{"id":"a","status":"failed","attempts":1,"flags":["config"]}]"#;
    let lines = outcome(&ledger(failed), time(NOW), &Command::Claim(session("w")));
    assert!(lines.iter().any(|l| l == r#"a.flags: ["config"] -> -"#), "{lines:?}");
}
