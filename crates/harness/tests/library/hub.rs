//! Delivery, isolation, streams.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use harness::{Envelope, Event, Hub, hub::StreamItem};
use serde_json::Value;

fn event(kind: &str) -> Event {
    Event::custom(kind, Value::Null)
}

fn kinds(into: &Arc<Mutex<Vec<String>>>, who: &'static str) -> impl Fn(&Envelope) + use<> {
    let into = Arc::clone(into);
    move |e: &Envelope| into.lock().unwrap().push(format!("{who} {}", e.event.kind()))
}

#[test]
fn listeners_are_called_in_the_order_of_their_subscription() {
    let (hub, heard) = (Hub::new("s"), Arc::default());
    hub.subscribe("*", kinds(&heard, "a")).forever();
    hub.subscribe("*", kinds(&heard, "b")).forever();
    hub.emit(event("x"));
    assert_eq!(*heard.lock().unwrap(), ["a x", "b x"]);
}

#[test]
fn one_that_fails_or_panics_hurts_nobody_else() {
    let (hub, heard) = (Hub::new("s"), Arc::default());
    hub.subscribe("*", |_: &Envelope| Err("no")).forever();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    hub.subscribe("*", |_: &Envelope| -> () { panic!("never mind") }).forever();
    hub.subscribe("*", kinds(&heard, "c")).forever();
    hub.emit(event("x"));
    hub.emit(event("y"));
    std::panic::set_hook(hook);
    assert_eq!(*heard.lock().unwrap(), ["c x", "c y"]);
}

#[test]
fn all_see_the_same_order_also_of_what_listeners_emit() {
    let (hub, heard) = (Hub::new("s"), Arc::default());
    let again = hub.clone();
    hub.subscribe("first", move |_: &Envelope| again.emit(event("second"))).forever();
    hub.subscribe("*", kinds(&heard, "late")).forever();
    hub.emit(event("first"));
    assert_eq!(*heard.lock().unwrap(), ["late first", "late second"]);
}

#[test]
fn a_subscription_can_be_ended_and_made_by_a_listener() {
    let hub = Hub::new("s");
    let calls = Arc::new(AtomicU32::new(0));
    let subscription = Arc::new(Mutex::new(None::<harness::hub::Subscription>));
    let (own, counted, again) = (Arc::clone(&subscription), Arc::clone(&calls), hub.clone());
    *subscription.lock().unwrap() = Some(hub.subscribe("*", move |_: &Envelope| {
        counted.fetch_add(1, Ordering::Relaxed);
        // `try_lock`: the first event comes after the assignment.
        if let Ok(mut own) = own.try_lock() {
            drop(own.take());
        }
        again.subscribe("*", |_: &Envelope| ()).forever();
    }));
    hub.emit(event("x"));
    hub.emit(event("y"));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn events_of_many_threads_reach_all_in_one_order() {
    let (hub, one, two) = (Hub::new("s"), Arc::default(), Arc::default());
    hub.subscribe("*", kinds(&one, "")).forever();
    hub.subscribe("*", kinds(&two, "")).forever();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let hub = hub.clone();
            scope.spawn(move || (0..500).for_each(|i| hub.emit(event(&format!("{n}.{i}")))));
        }
    });
    let (one, two) = (one.lock().unwrap(), two.lock().unwrap());
    assert_eq!(one.len(), 2000);
    assert_eq!(*one, *two);
}

#[tokio::test]
async fn a_slow_stream_is_told_what_it_missed_and_holds_no_one_up() {
    let hub = Hub::new("s");
    let mut slow = hub.events();
    for n in 0..10_000 {
        hub.emit(event(&n.to_string()));
    }
    let Some(StreamItem::Lagged { missed, kinds }) = slow.next().await else { panic!("not told") };
    assert!(missed > 0 && missed < 10_000, "{missed}");
    assert_eq!(kinds.values().sum::<u64>(), missed);
    assert_eq!(kinds["0"], 1);
    let Some(StreamItem::Event(next)) = slow.next().await else { panic!() };
    assert_eq!(next.event.kind(), missed.to_string(), "the next is the oldest that is left");
}

#[tokio::test]
async fn a_flood_of_other_events_displaces_nothing() {
    let hub = Hub::new("s");
    let mut wanted = hub.events_matching("task:*");
    hub.emit(event("task:one"));
    for _ in 0..10_000 {
        hub.emit(event("agent:text"));
    }
    hub.emit(event("task:two"));
    for kind in ["task:one", "task:two"] {
        let Some(StreamItem::Event(next)) = wanted.next().await else { panic!("lost") };
        assert_eq!(next.event.kind(), kind);
    }
}

#[tokio::test]
async fn a_stream_waits_for_events_and_wakes() {
    let hub = Hub::new("s");
    let mut stream = hub.events();
    let emit = async {
        tokio::task::yield_now().await;
        hub.emit(event("x"));
    };
    let (item, ()) = tokio::join!(stream.next(), emit);
    assert!(matches!(item, Some(StreamItem::Event(_))));
}
