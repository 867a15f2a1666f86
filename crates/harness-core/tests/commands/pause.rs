//! Claiming can be paused, and what has begun goes on.

use harness_core::{
    WorkerId,
    command::{Claim, Pause, Resume},
    role::{Author, Role},
};

use super::*;

const PAUSED: &str = r#"{"version":2,"tasks":[{"id":"a"},{"id":"b","status":"in_progress",
    "claimed_by":"w","lease_expires_at":"2025-07-01T11:00:00Z","via":"client"}],
    "paused_at":"2025-07-01T09:00:00Z"}"#;

fn claim(worker: &str) -> Command {
    Command::Claim(Claim::new(WorkerId::parse(worker).unwrap()))
}

#[test]
fn a_pause_is_in_the_head_and_the_first_one_counts() {
    let by = Some(Author { role: Role::Operator, pid: 7, attempt: None });
    at_now(
        "[]",
        Command::Pause(Pause { by: by.clone() }),
        &[
            "noted",
            "log: WARN claiming is paused, asked for by operator (pid=7)",
            r#"head.paused_at: - -> "2025-07-01T10:00:00Z""#,
        ],
    );
    at_now(PAUSED, Command::Pause(Pause { by }), &["noted"]);
    at_now("[]", Command::Resume(Resume::default()), &["noted"]);
    at_now(
        PAUSED,
        Command::Resume(Resume::default()),
        &["noted", "log: WARN claiming goes on", r#"head.paused_at: "2025-07-01T09:00:00Z" -> -"#],
    );
}

#[test]
fn nothing_is_claimed_while_it_is_paused() {
    let lines = outcome(&ledger(PAUSED), time(NOW), &claim("x"));
    assert_eq!(lines, ["refused: claiming is paused since 2025-07-01T09:00:00Z"]);
    // A worker that holds a task gets it again.
    let lines = outcome(&ledger(PAUSED), time(NOW), &claim("w"));
    assert!(lines[0].contains('b'), "{lines:?}");
}
