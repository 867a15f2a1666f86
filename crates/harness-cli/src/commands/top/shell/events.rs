//! The events of the host: what agents do, and when to read the files again.

use std::{io, sync::PoisonError, thread, time::Duration};

use harness::{
    Client, ClientOptions,
    client::{EventLine, Hosts},
};

use super::{Common, reader::Asked};
use crate::{
    commands::top::state::{Input, Link},
    host::places,
};

/// The interval of attempts to reach a host.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) fn start(common: Common) -> io::Result<()> {
    thread::Builder::new().name("events".to_owned()).spawn(move || follow(&common))?;
    Ok(())
}

/// Follows one host after the other.
fn follow(common: &Common) {
    if common.env.get("HARNESS_DAEMON").is_some_and(|value| value == "off") {
        return;
    }
    let mut link = Link::Nobody;
    while !common.ends() {
        if let Some(lines) = subscribe(common) {
            change(common, &mut link, Link::Live);
            for notice in lines {
                let Ok(notice) = notice else { break };
                see(common, &notice);
                if common.ends() {
                    return;
                }
            }
            change(common, &mut link, Link::Lost);
        }
        thread::sleep(AGAIN);
    }
}

fn subscribe(common: &Common) -> Option<harness::client::EventLines> {
    let mut options = ClientOptions::default();
    options.hosts = Hosts::Asked;
    options.places = places(&common.env);
    Client::with(common.root.path(), options).ok()?.subscribe(&[], None).ok()
}

fn change(common: &Common, link: &mut Link, to: Link) {
    if *link != to {
        *link = to;
        common.tell(Input::Link(to));
        _ = common.asked.send(Asked::Board);
    }
}

fn see(common: &Common, notice: &EventLine) {
    let EventLine::Event { id, kind, event, context } = notice else {
        // Some events are missing, so everything is read again.
        _ = common.asked.send(Asked::Board);
        return;
    };
    if kind == "agent:thinking" {
        return;
    }
    common.activity.lock().unwrap_or_else(PoisonError::into_inner).see(*id, event, context);
    match kind.starts_with("agent:") {
        true => common.ask_activity(),
        false => _ = common.asked.send(Asked::Board),
    }
}
