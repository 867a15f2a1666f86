//! The lines of the editor.

use std::{
    io::{self, BufRead, Read as _},
    sync::mpsc::SyncSender,
    thread,
};

use super::server::Input;

/// A message may contain files.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads standard input in a thread of its own, because nothing can end a read.
pub(super) fn start(to: SyncSender<Input>) {
    thread::spawn(move || read(io::stdin().lock(), |input| to.send(input).is_ok()));
}

/// Reads until nothing more comes, or nobody takes it.
fn read(mut input: impl BufRead, mut give: impl FnMut(Input) -> bool) {
    loop {
        let mut line = Vec::new();
        match (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => {
                give(Input::Closed);
                return;
            }
            Ok(_) => {}
        }
        let is_whole = line.last() == Some(&b'\n') || (line.len() as u64) < LINE_BYTES_MAX;
        let taken = if is_whole {
            give(Input::Line(String::from_utf8_lossy(&line).into_owned()))
        } else {
            input.skip_until(b'\n').is_ok() && give(Input::TooLong)
        };
        if !taken {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_and_a_long_one_is_left_out() {
        let limit = usize::try_from(LINE_BYTES_MAX).unwrap();
        let mut bytes = b"one\n".to_vec();
        bytes.extend(vec![b'x'; 2 * limit]);
        bytes.extend(b"\nlast");
        let mut seen = Vec::new();
        read(&bytes[..], |input| {
            seen.push(match input {
                Input::Line(line) => line,
                Input::TooLong => "too long".to_owned(),
                Input::Closed => "closed".to_owned(),
                Input::Notice { .. } | Input::Ended { .. } => panic!("nothing else is read"),
            });
            true
        });
        assert_eq!(seen, ["one\n", "too long", "last", "closed"]);
    }
}
