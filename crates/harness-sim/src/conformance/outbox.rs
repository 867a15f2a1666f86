//! The behaviour of the outbox of every record of runs.

use std::thread;

use harness::store::Runs;
use harness_core::{
    RunId,
    notify::{
        Delivery, Happening, Notice, OutboxStep, Outgoing, SETTLED_KEPT, SendFailure, WAITING_MAX,
    },
};

use super::runs::{Place, at};

const SENDERS: usize = 4;
const MESSAGES: u64 = 20;

/// Runs all cases. `fresh` creates a new, empty place for each.
pub(super) fn suite(fresh: impl Fn() -> Place) {
    a_message_is_found_by_the_next_process(&fresh());
    a_message_is_added_once_for_each_channel(&fresh());
    a_message_changes_in_its_place(&fresh());
    what_many_messages_push_out_is_gone(&fresh());
    two_senders_never_take_the_same_message(&fresh());
}

fn notice(number: u64) -> Notice {
    let prompt = format!("prompt-{number}");
    let asked =
        Happening::Asked { prompt: &prompt, question: "Ünïcode, or '\"; --?", phase: None };
    let run_id = Some(RunId::of_bits(7));
    Notice { run_id, ..Notice::of(asked, "shop", at(0)).unwrap() }
}

fn put(runs: &dyn Runs, second: i64, number: u64, channels: &[&str]) {
    let channels = channels.iter().map(|name| (*name).to_owned()).collect();
    let step = OutboxStep::Put { notice: notice(number), channels };
    assert_eq!(runs.post(at(second), &step).unwrap(), []);
}

fn take(runs: &dyn Runs, second: i64, channel: &str) -> Vec<Outgoing> {
    runs.post(at(second), &OutboxStep::Take { channel: channel.to_owned() }).unwrap()
}

fn a_message_is_found_by_the_next_process(place: &Place) {
    let runs = place();
    assert_eq!(runs.outbox().unwrap(), []);
    put(&*runs, 1, 1, &["phone"]);
    drop(runs);
    let runs = place();
    let found = runs.outbox().unwrap();
    assert_eq!((found.len(), &found[0].notice), (1, &notice(1)));
    let taken = take(&*runs, 2, "phone");
    assert_eq!((taken.len(), taken[0].tries), (1, 1));
    drop(runs);
    let runs = place();
    assert_eq!(take(&*runs, 3, "phone"), [], "it is on its way");
    let again = take(&*runs, 100, "phone");
    assert_eq!(again[0].tries, 2, "its sender died");
    runs.post(at(101), &OutboxStep::Sent(again[0].key())).unwrap();
    assert_eq!(place().outbox().unwrap()[0].delivery, Delivery::Sent);
}

fn a_message_is_added_once_for_each_channel(place: &Place) {
    let runs = place();
    put(&*runs, 1, 1, &["phone", "chat"]);
    put(&*runs, 2, 1, &["chat", "phone"]);
    put(&*runs, 3, 2, &["chat"]);
    let rows = runs.outbox().unwrap();
    let keys: Vec<_> = rows.iter().map(|row| (row.notice.id.as_str(), &*row.channel)).collect();
    let (one, two) = (notice(1).id, notice(2).id);
    assert_eq!(keys, [(&*one, "phone"), (&*one, "chat"), (&*two, "chat")], "in their order");
}

fn a_message_changes_in_its_place(place: &Place) {
    let runs = place();
    put(&*runs, 1, 1, &["phone"]);
    put(&*runs, 1, 2, &["phone"]);
    let taken = take(&*runs, 2, "phone");
    let failure = SendFailure { error: "HTTP 500".into(), pause_seconds: None, is_final: false };
    runs.post(at(3), &OutboxStep::Failed { key: taken[0].key(), failure }).unwrap();
    runs.post(at(3), &OutboxStep::Withdraw { id: notice(2).id }).unwrap();
    let rows = place().outbox().unwrap();
    assert_eq!(rows[0].error.as_deref(), Some("HTTP 500"));
    assert_eq!((rows[0].delivery, rows[0].due_at), (Delivery::Waiting, at(8)));
    assert_eq!(rows[1].delivery, Delivery::Dropped);
}

fn what_many_messages_push_out_is_gone(place: &Place) {
    let runs = place();
    for number in 0..(WAITING_MAX + SETTLED_KEPT + 5) as u64 {
        put(&*runs, 1, number, &["phone"]);
    }
    let rows = runs.outbox().unwrap();
    assert_eq!(rows.len(), WAITING_MAX + SETTLED_KEPT);
    assert_eq!(rows[0].notice.id, notice(5).id, "the oldest settled ones are forgotten");
    assert_eq!(rows[0].delivery, Delivery::Dropped);
    assert_eq!(rows.last().unwrap().delivery, Delivery::Waiting);
}

fn two_senders_never_take_the_same_message(place: &Place) {
    let runs = place();
    (0..MESSAGES).for_each(|number| put(&*runs, 1, number, &["phone"]));
    let taken: Vec<Outgoing> = thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                let runs = place();
                scope.spawn(move || take(&*runs, 2, "phone"))
            })
            .collect();
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
    });
    let mut ids: Vec<_> = taken.iter().map(|row| row.notice.id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((taken.len() as u64, ids.len() as u64), (MESSAGES, MESSAGES));
}
