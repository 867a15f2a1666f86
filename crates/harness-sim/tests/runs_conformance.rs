//! The suite of the records of runs over both implementations, and random histories that leave
//! equal rows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use harness::store::{MemoryRuns, RunStore, Runs};
use harness_core::{
    agent::Usage,
    command::{Anew, OfRun, RunStep, Take},
    run::{Ending, Owner, StopReason},
};
use harness_sim::conformance::runs::{Place, at, attempt, begin, end, id, owner, run, suite};
use proptest::prelude::*;

#[test]
fn in_a_database() {
    suite(|| -> Place {
        let root = tempfile::tempdir().unwrap();
        Box::new(move || Arc::new(RunStore::open(root.path()).unwrap()))
    });
}

#[test]
fn in_memory() {
    suite(|| -> Place {
        let runs = Arc::new(MemoryRuns::default());
        Box::new(move || runs.clone())
    });
}

fn owners() -> impl Strategy<Value = Option<Owner>> {
    prop_oneof![Just(None), (1..3_u32).prop_map(|pid| Some(owner(pid)))]
}

fn usages() -> impl Strategy<Value = Usage> {
    let tokens = || prop_oneof![4 => 0..1000_u64, 1 => Just(u64::MAX)];
    let cost = prop_oneof![
        Just(None),
        (0.0..5.0_f64).prop_map(Some),
        Just(Some(f64::NAN)),
        Just(Some(f64::MAX))
    ];
    (tokens(), tokens(), cost).prop_map(|(input_tokens, output_tokens, cost_usd)| Usage {
        input_tokens,
        output_tokens,
        cost_usd,
    })
}

fn takes() -> impl Strategy<Value = Take> {
    let anew = (
        proptest::option::of(0..4_u32),
        proptest::option::of(any::<u64>()),
        proptest::option::of("[a-z]{0,4}"),
    );
    (owners(), 0..50_u64, any::<bool>(), anew).prop_map(|(owner, lease_seconds, gone, anew)| Take {
        owner,
        lease_seconds,
        owner_is_gone: gone,
        anew: Anew {
            max_iterations: anew.0,
            max_duration_seconds: anew.1,
            verify: anew.2.clone(),
            agent_command: anew.2.map(Some),
            ..Anew::default()
        },
    })
}

fn steps() -> impl Strategy<Value = RunStep> {
    let reason = prop_oneof![
        Just(StopReason::Complete),
        Just(StopReason::Budget),
        Just(StopReason::Gate),
        Just(StopReason::Crashed)
    ];
    let ending = prop_oneof![Just(Ending::Finished), Just(Ending::Silent), Just(Ending::Crashed)];
    prop_oneof![
        3 => takes().prop_map(RunStep::Take),
        4 => (0..4_u32).prop_map(begin),
        4 => usages().prop_map(RunStep::Spend),
        4 => ending.prop_map(end),
        1 => proptest::option::of(0..99_i64).prop_map(|t| RunStep::WaitUntil(t.map(at))),
        1 => any::<bool>().prop_map(RunStep::AskHuman),
        1 => "\\PC{0,8}".prop_map(RunStep::Session),
        1 => (0..50_u64).prop_map(|lease_seconds| RunStep::Beat { lease_seconds }),
        1 => reason.prop_map(RunStep::Stop),
    ]
}

/// Generates histories. Runs 1 to 3 exist; 4 does not.
fn histories() -> impl Strategy<Value = Vec<(i64, OfRun)>> {
    let one = (0..20_i64, 1..=4_u64, owners(), steps());
    let one = one.prop_map(|(later, run, by, step)| (later, OfRun { run: id(run), by, step }));
    proptest::collection::vec(one, 1..40)
}

proptest! {
    // A failure prints its seed. Each step is a transaction that reaches the disk.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_history_leaves_the_same_rows(history in histories()) {
        let root = tempfile::tempdir().unwrap();
        let (database, memory) = (RunStore::open(root.path()).unwrap(), MemoryRuns::default());
        for opened in [run(1), attempt(2, 1, 1), attempt(3, 1, 2)] {
            prop_assert_eq!(database.open_run(&opened).unwrap(), memory.open_run(&opened).unwrap());
        }
        let mut second = 10;
        for (later, command) in &history {
            second += later;
            let of_database = database.apply(at(second), command).unwrap();
            prop_assert_eq!(of_database, memory.apply(at(second), command).unwrap());
        }
        let looked = RunStore::look(root.path()).unwrap().unwrap();
        prop_assert_eq!(looked.runs().unwrap(), memory.runs().unwrap());
        for number in 1..=4 {
            let of_memory = memory.iterations(&id(number)).unwrap();
            prop_assert_eq!(looked.iterations(&id(number)).unwrap(), of_memory);
        }
    }
}
