//! Random input: a hook never panics, and ends as it may.

use std::{fs, path::Path};

use proptest::{prelude::*, test_runner::TestRunner};

use super::*;
use crate::render::{ColorWhen, Out};

const LEDGERS: [&str; 4] = [
    r#"{"version":2,"tasks":[{"id":"a","title":"A"},{"id":"b","status":"completed"}]}"#,
    r#"{"version":2,"tasks":[{"id":"a","status":"in_progress","claimed_by":"w"}],
       "session_config":{"concurrency_mode":"concurrent"}}"#,
    r#"{"version":2,"tasks":[{"id":"a","status":"completed"}]}"#,
    "{ broken",
];

fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
        Just("[[{}]]".to_owned()),
        Just("-1e400".to_owned()),
        Just("\"\"".to_owned()),
        Just("\"w\"".to_owned()),
        Just("\"/\"".to_owned()),
        any::<String>().prop_map(|text| Value::from(text).to_string()),
    ]
}

/// Bytes of any kind, and objects with the fields that hooks look at.
fn inputs() -> impl Strategy<Value = Vec<u8>> {
    let names = prop::sample::select(vec![
        "session_id",
        "stop_hook_active",
        "agent_type",
        "agent_id",
        "teammate_name",
        "transcript_path",
        "task_id",
        "hook_event_name",
        "other",
    ]);
    let fields = prop::collection::vec((names, values()), 0..6).prop_map(|fields| {
        let fields: Vec<_> = fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
        format!("{{{}}}", fields.join(",")).into_bytes()
    });
    prop_oneof![3 => fields, 1 => prop::collection::vec(any::<u8>(), 0..64)]
}

fn random_inputs(hook: Hook, cases: u32) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let env = Environment::of(&[("HARNESS_DAEMON", "off"), ("HARNESS_LOCK_TIMEOUT_SECONDS", "0")]);
    let out = Out::new(ColorWhen::Never, &env);
    let invocation =
        Invocation { out, env, plain: true, interrupt: crate::interrupt::Interrupt::Signals };
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    // A failing case is printed in full, which is all that its seed could tell.
    let ledger = prop::sample::select(LEDGERS.to_vec());
    let ran = TestRunner::new(config).run(&(inputs(), ledger), |(input, ledger)| {
        for marker in [project::ACTIVE, project::REFLECT] {
            fs::write(root.join(marker), "").unwrap();
        }
        fs::write(root.join(crate::root::LEDGER), ledger).unwrap();
        let payload = Payload::read(&input);
        let (_, answer) = call(&invocation, hook, &payload, Path::new(&root));
        prop_assert!(answer.ending == Ending::Done || hook == Hook::TeammateIdle);
        if !answer.stdout.is_empty() && hook != Hook::PreCompact {
            prop_assert!(
                serde_json::from_str::<Value>(&answer.stdout).is_ok_and(|v| v.is_object())
            );
        }
        if matches!(hook, Hook::Claim | Hook::Renew) {
            prop_assert!(!answer.stdout.is_empty());
        } else {
            prop_assert_eq!(fs::read_to_string(root.join(crate::root::LEDGER)).unwrap(), ledger);
        }
        Ok(())
    });
    ran.unwrap_or_else(|why| panic!("{}: {why}", hook.name()));
}

#[test]
fn no_input_breaks_a_hook_that_only_reads() {
    for hook in Hook::ALL.into_iter().filter(|hook| hook.marker().is_some()) {
        random_inputs(hook, 2_000);
    }
}

#[test]
fn no_input_breaks_claim_and_renew() {
    for hook in [Hook::Claim, Hook::Renew] {
        // Each that claims is a durable write.
        random_inputs(hook, 400);
    }
}
