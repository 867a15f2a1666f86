//! The events of a run as lines of JSON on standard output, for a program that started the run.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use harness::{Envelope, Observer, host::prompts, hub::lagged};

/// The number of lines that wait for a reader. More are lost and counted: a program that stops
/// reading must not stop the run.
const WAITING: usize = 4096;
/// The longest wait for the reader at the end.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Writes from its own thread.
pub(super) struct EventLines {
    /// `None` after the end.
    open: Mutex<Option<Open>>,
    /// Disconnected when everything is written.
    written: Mutex<Receiver<()>>,
}

struct Open {
    lines: SyncSender<String>,
    /// The number of lost lines that the reader does not know of yet.
    missed: u64,
}

impl EventLines {
    pub(super) fn start() -> Self {
        Self::to(io::stdout())
    }

    fn to(mut out: impl io::Write + Send + 'static) -> Self {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (writing, written) = sync_channel::<()>(0);
        thread::spawn(move || {
            let _writing = writing;
            for line in waiting {
                // A reader that has left wants nothing more.
                if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        });
        Self { open: Mutex::new(Some(Open { lines, missed: 0 })), written: Mutex::new(written) }
    }
}

impl Open {
    fn put(&mut self, line: String) {
        if self.missed > 0 {
            let loss = lagged(Some(self.missed), &BTreeMap::new()).to_string();
            if self.lines.try_send(loss).is_ok() {
                self.missed = 0;
            }
        }
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            self.missed += 1;
        }
    }
}

impl Observer for EventLines {
    fn event(&self, envelope: &Envelope) {
        if let Some(open) = &mut *self.open.lock().unwrap_or_else(PoisonError::into_inner) {
            open.put(prompts::line(envelope).to_string());
        }
    }

    fn end(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Both a timeout and the end of the thread end the wait.
        _ = self.written.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(END_WITHIN);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc::channel};

    use harness::{Event, Hub};
    use serde_json::Value;

    use super::*;

    /// A reader that begins to read when the test lets it.
    struct Frozen(Receiver<()>, Arc<Mutex<Vec<u8>>>, bool);

    impl io::Write for Frozen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.2 {
                self.0.recv().map_err(io::Error::other)?;
                self.2 = true;
            }
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_frozen_reader_stops_nobody_and_learns_what_it_missed() {
        let ((thaw, thawed), shown) = (channel(), Arc::new(Mutex::new(Vec::new())));
        let lines = Arc::new(EventLines::to(Frozen(thawed, Arc::clone(&shown), false)));
        let (hub, seen) = (Hub::new("session"), Arc::clone(&lines));
        hub.subscribe("*", move |envelope: &Envelope| seen.event(envelope)).forever();
        let emit = |content: String| hub.emit(Event::AgentText { content, run_id: None });
        let count = WAITING + 100;
        (0..count).for_each(|number| emit(number.to_string()));
        thaw.send(()).unwrap();
        // There is room again as soon as the first line is written.
        while shown.lock().unwrap().is_empty() {
            thread::yield_now();
        }
        emit("the last".to_owned());
        lines.end();
        let shown = String::from_utf8(shown.lock().unwrap().clone()).unwrap();
        let shown: Vec<Value> = shown.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let missed: u64 = shown.iter().filter_map(|line| line["missed"].as_u64()).sum();
        let events = shown.iter().filter(|line| line["event"]["type"] == "agent:text").count();
        assert!(missed > 0, "{missed}");
        assert_eq!(events as u64 + missed, count as u64 + 1);
        assert_eq!(shown[0]["event"]["content"], "0");
    }
}
