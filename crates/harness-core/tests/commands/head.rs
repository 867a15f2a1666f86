//! Commands that change the head of the ledger: phases and the settings of sessions.

use harness_core::{Ledger, Refusal, ledger::Gate};

use super::*;

fn phased() -> Ledger {
    ledger(
        r#"{"version": 2, "phases": [{"name": "A", "gate": {"command": "true"}}, {"name": "B"}],
            "tasks": [{"id": "a", "phase": "A"}]}"#,
    )
}

#[track_caller]
fn after(ledger: &Ledger, command: Command) -> Ledger {
    let change = decide(ledger, time(NOW), &command).unwrap();
    let mut after = ledger.clone();
    after.put_in(&change);
    after
}

fn phase(name: &str, change: impl FnOnce(&mut EditPhase)) -> Command {
    let mut edit = EditPhase { name: name.into(), ..EditPhase::default() };
    change(&mut edit);
    Command::EditPhase(edit)
}

fn names(ledger: &Ledger) -> Vec<&str> {
    ledger.head().phases.iter().map(|phase| phase.name.as_str()).collect()
}

#[test]
fn a_phase_comes_last_or_before_another_and_moves() {
    let before = phased();
    assert_eq!(names(&after(&before, phase("C", |_| ()))), ["A", "B", "C"]);
    let first = phase("C", |edit| edit.before = Some("A".into()));
    assert_eq!(names(&after(&before, first)), ["C", "A", "B"]);
    let moved = phase("B", |edit| edit.before = Some("A".into()));
    let change = decide(&before, time(NOW), &moved).unwrap();
    assert_eq!(change.facts.len(), 1, "a move is logged: {:?}", change.facts);
    assert_eq!(names(&after(&before, moved)), ["B", "A"]);
    let same = decide(&before, time(NOW), &phase("A", |edit| edit.gate = Some("true".into())));
    assert!(same.unwrap().is_empty());
}

#[test]
fn a_gate_passes_only_as_it_was_tried() {
    let gate = |command: &str| Gate { command: command.into(), timeout_seconds: Some(5) };
    let pass = |command: Option<&str>, asked: bool| {
        let (phase, gate) = ("A".to_owned(), command.map(gate));
        Command::PassGate(PassGate { phase, gate, asked, by: None })
    };
    let passes = |ledger: &Ledger, command: Command| decide(ledger, time(NOW), &command);
    let before = phased();
    assert!(passes(&before, pass(Some("true"), false)).is_ok(), "another limit does not matter");
    let changed = Refusal::GateChanged { phase: "A".into() };
    assert_eq!(passes(&before, pass(Some("false"), false)), Err(changed.clone()));
    assert_eq!(passes(&before, pass(None, true)), Err(changed.clone()));
    let asks = after(&before, phase("A", |edit| edit.approve = Some(true)));
    assert_eq!(passes(&asks, pass(Some("true"), false)), Err(changed));
    assert!(passes(&asks, pass(Some("true"), true)).is_ok());
    let without = after(&before, phase("A", |edit| edit.gate = Some(String::new())));
    assert!(passes(&without, pass(Some("true"), false)).is_ok(), "it was stricter");
    let gone = Command::RemovePhase(RemovePhase { name: "A".into(), by: None });
    let tasks = vec![id("a")];
    let refused = Err(Refusal::PhaseHasTasks { phase: "A".into(), tasks });
    assert_eq!(decide(&before, time(NOW), &gone), refused);
}

#[test]
fn another_mode_is_refused_while_a_run_has_a_claim() {
    let configure = |key, value: &str| {
        Command::ConfigureSession(ConfigureSession { key, value: Some(value.into()), by: None })
    };
    let mode = || configure(SessionKey::ConcurrencyMode, "concurrent");
    let claimed = ledger(&claimed(r#","via":"run""#));
    let (task, worker) = (id("a"), worker("w"));
    let refused = Err(Refusal::InProgress { task, worker });
    assert_eq!(decide(&claimed, time(NOW), &mode()), refused);
    assert!(decide(&claimed, time(NOW), &configure(SessionKey::MaxSessions, "9")).is_ok());
    // The mode brings what belongs to it.
    let several = after(&phased(), mode());
    let set = Command::SetMode(SetMode { mode: several.head().session_config.concurrency_mode });
    assert_eq!(several.head(), after(&phased(), set).head());
}
