//! The lines on standard input and output.
//!
//! The transport of the crate silently drops a line that is not JSON, and reads through a pool of
//! threads that cannot be ended. Here one thread reads and another writes. Neither is waited for
//! when the other side is gone.

use std::{
    io::{self, BufRead, Read as _, Write},
    sync::mpsc as blocking,
    thread,
    time::Duration,
};

use rmcp::{
    RoleServer,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The limit of a message: the limit of a plan (`harness plan import`), and some reserve.
const LINE_BYTES_MAX: u64 = 9 * 1024 * 1024;
/// The limit of lines that wait to be read, on either side.
const WAITING: usize = 64;
/// The time that the other side has to read the rest.
const FAREWELL: Duration = Duration::from_secs(2);

/// A line of standard input.
enum Line {
    Text(Vec<u8>),
    TooLong,
}

pub(super) struct Wire {
    lines: mpsc::Receiver<Line>,
    answers: mpsc::Sender<String>,
    /// Cancelled when nothing more comes, or when the output is not read. A tool that waits for a
    /// person then gives up.
    ending: CancellationToken,
}

/// Waits until all output is written.
pub(super) struct Written(blocking::Receiver<()>);

impl Written {
    pub(super) fn wait(self) {
        _ = self.0.recv_timeout(FAREWELL);
    }
}

impl Wire {
    /// Opens the standard streams of this process.
    pub(super) fn open(ending: &CancellationToken) -> (Self, Written) {
        let (to_us, lines) = mpsc::channel(WAITING);
        thread::spawn(move || read(io::stdin().lock(), &to_us));
        let (answers, mut waiting) = mpsc::channel::<String>(WAITING);
        let (written, is_written) = blocking::channel();
        let nobody_reads = ending.clone();
        thread::spawn(move || {
            let mut out = io::stdout().lock();
            while let Some(answer) = waiting.blocking_recv() {
                if writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
                    nobody_reads.cancel();
                    return;
                }
            }
            _ = written.send(());
        });
        (Self { lines, answers, ending: ending.clone() }, Written(is_written))
    }
}

impl Transport<RoleServer> for Wire {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answers = self.answers.clone();
        async move {
            let line = serde_json::to_string(&message)?;
            answers.send(line).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    /// Returns the next message. If a caller stops waiting for it, nothing is lost.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let read = match self.lines.recv().await {
                None => {
                    self.ending.cancel();
                    return None;
                }
                Some(Line::TooLong) => Read::Bad(error(
                    Value::Null,
                    -32600,
                    &format!("a message has at most {LINE_BYTES_MAX} bytes"),
                )),
                Some(Line::Text(line)) => message(&line),
            };
            match read {
                Read::Message(message) => return Some(*message),
                Read::Bad(answer) => self.answers.send(answer.to_string()).await.ok()?,
                Read::Nothing => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A parsed line.
enum Read {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// The answer to an invalid line.
    Bad(Value),
    /// A blank line, or something that needs no answer.
    Nothing,
}

fn message(line: &[u8]) -> Read {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Read::Nothing;
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Read::Message(Box::new(message));
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(why) => return Read::Bad(error(Value::Null, -32700, &format!("no JSON: {why}"))),
    };
    match (&value["id"], &value["method"]) {
        (id @ (Value::String(_) | Value::Number(_)), _) => {
            Read::Bad(error(id.clone(), -32600, "no request of JSON-RPC 2.0"))
        }
        // An invalid notification has no answer.
        (Value::Null, Value::String(_)) if value.get("id").is_none() => Read::Nothing,
        _ => Read::Bad(error(Value::Null, -32600, "no message of JSON-RPC 2.0")),
    }
}

fn error(id: Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// Reads until nothing more comes, or nothing receives it.
fn read(mut input: impl BufRead, to: &mpsc::Sender<Line>) {
    loop {
        let mut line = Vec::new();
        match (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = if line.last() == Some(&b'\n') || (line.len() as u64) < LINE_BYTES_MAX {
            Line::Text(line)
        } else if input.skip_until(b'\n').is_ok() {
            Line::TooLong
        } else {
            return;
        };
        if to.blocking_send(line).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, code: i64, id: Value) {
        match message(line.as_bytes()) {
            Read::Bad(answer) => {
                assert_eq!((&answer["error"]["code"], &answer["id"]), (&code.into(), &id));
            }
            Read::Message(message) => panic!("{message:?}"),
            Read::Nothing => panic!("nothing is said of {line}"),
        }
    }

    #[test]
    fn what_makes_no_sense_is_answered_with_what_is_known_of_it() {
        check("hello", -32700, Value::Null);
        check("{\"jsonrpc\":\"2.0\",\"id\":1", -32700, Value::Null);
        check("[]", -32600, Value::Null);
        check("7", -32600, Value::Null);
        check("{}", -32600, Value::Null);
        check("{\"id\":7,\"method\":\"ping\"}", -32600, 7.into());
        check("{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"ping\"}", -32600, "a".into());
        check("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":5}", -32600, 7.into());
        for nothing in ["", " \r", "{\"method\":\"notifications/of_tomorrow\"}"] {
            assert!(matches!(message(nothing.as_bytes()), Read::Nothing), "{nothing}");
        }
        let ping = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r";
        assert!(matches!(message(ping.as_bytes()), Read::Message(_)));
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out() {
        let limit = usize::try_from(LINE_BYTES_MAX).unwrap();
        let mut bytes = b"one\n".to_vec();
        bytes.extend(vec![b'x'; 2 * limit]);
        bytes.extend(b"\nlast");
        let (to, mut lines) = mpsc::channel(8);
        read(&bytes[..], &to);
        drop(to);
        let mut seen = Vec::new();
        while let Some(line) = lines.blocking_recv() {
            seen.push(match line {
                Line::Text(text) => String::from_utf8(text).unwrap(),
                Line::TooLong => "too long".to_owned(),
            });
        }
        assert_eq!(seen, ["one\n", "too long", "last"]);
    }
}
