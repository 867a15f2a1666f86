//! A terminal of its own for one test, with the program in its foreground: what is typed reaches it, and
//! what it shows is read as the terminal gets it, control sequences and all.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Stdio},
};

use nix::pty::{Winsize, openpty};

use crate::environment::TestEnvironment;

pub(crate) struct Terminal {
    child: Child,
    master: File,
    seen: Vec<u8>,
    read: usize,
}

impl Terminal {
    /// Starts `harness ARGS` on a terminal of 100 columns.
    pub(crate) fn start(env: &TestEnvironment, args: &[&str]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        // The program is started in a session of its own, with this terminal.
        let mut command = env.program("setsid");
        command.arg("--ctty").arg(env!("CARGO_BIN_EXE_harness")).args(args);
        command.stdin(Stdio::from(pty.slave.try_clone().unwrap()));
        command.stdout(Stdio::from(pty.slave.try_clone().unwrap()));
        let child = command.stderr(Stdio::from(pty.slave)).spawn().unwrap();
        Self { child, master: pty.master.into(), seen: Vec::new(), read: 0 }
    }

    pub(crate) fn type_line(&mut self, text: &str) {
        self.master.write_all(format!("{text}\n").as_bytes()).unwrap();
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn press_ctrl_c(&mut self) {
        self.master.write_all(b"\x03").unwrap();
    }

    /// Reads until `words` were shown, and returns what was shown since the last call.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) -> String {
        loop {
            let shown = String::from_utf8_lossy(&self.seen[self.read..]).into_owned();
            if let Some(at) = shown.find(words) {
                self.read += at + words.len();
                return shown[..at + words.len()].to_owned();
            }
            assert!(self.read_more(), "no {words:?} in\n{shown}");
        }
    }

    /// Reads until the screen, drawn cell by cell, contains `words`, and returns it.
    #[track_caller]
    pub(crate) fn until_drawn(&mut self, words: &str) -> String {
        loop {
            let drawn = drawn(&String::from_utf8_lossy(&self.seen));
            if drawn.contains(words) {
                return drawn;
            }
            assert!(self.read_more(), "no {words:?} in\n{drawn}");
        }
    }

    /// Returns whether anything came before the program closed the terminal.
    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.master.read(&mut buffer) {
            Ok(count) if count > 0 => {
                self.seen.extend_from_slice(&buffer[..count]);
                true
            }
            // The other side is closed.
            Ok(_) | Err(_) => false,
        }
    }

    /// Waits for the end. Returns the exit code, and everything that was shown.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        while self.read_more() {}
        let code = self.child.wait().unwrap().code();
        (code, String::from_utf8_lossy(&self.seen).into_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Returns the final screen: lines of text without those that were cleared.
pub(crate) fn screen(shown: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let mut row = 0;
    let mut column = 0;
    let mut chars = shown.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(String::new());
                }
            }
            '\r' => column = 0,
            '\x07' => {}
            '\x1b' => {
                assert_eq!(chars.next(), Some('['));
                let mut number = String::new();
                let ends = loop {
                    match chars.next().unwrap() {
                        digit if digit.is_ascii_digit() || digit == ';' => number.push(digit),
                        other => break other,
                    }
                };
                match ends {
                    'A' => row -= number.parse::<usize>().unwrap(),
                    'J' => {
                        lines.truncate(row + 1);
                        lines[row] = lines[row].chars().take(column).collect();
                    }
                    'm' => {}
                    other => panic!("the test knows no sequence {other:?}"),
                }
            }
            c => {
                let mut line: Vec<char> = lines[row].chars().collect();
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                lines[row] = line.into_iter().collect();
                column += 1;
            }
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Returns the screen of a program that moves the cursor to each cell that it changes. Other sequences
/// than those for the cursor, clearing, styles and modes must not occur.
fn drawn(shown: &str) -> String {
    let mut cells = vec![vec![' '; 100]; 24];
    let (mut row, mut column) = (0, 0);
    let mut chars = shown.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\x1b' {
            if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell = c;
            }
            column += 1;
            continue;
        }
        // The last sequence may not be whole yet.
        let Some(kind) = chars.next() else { break };
        assert_eq!(kind, '[', "no other kind of sequence");
        let mut numbers = String::new();
        let end = loop {
            match chars.next() {
                Some(c) if c.is_ascii_alphabetic() => break c,
                Some(c) => numbers.push(c),
                None => break 'm',
            }
        };
        match end {
            'H' => {
                let mut at = numbers.split(';').map(|n| n.parse::<usize>().unwrap_or(1) - 1);
                (row, column) = (at.next().unwrap_or(0), at.next().unwrap_or(0));
            }
            'J' => cells = vec![vec![' '; 100]; 24],
            'm' | 'h' | 'l' => {}
            other => panic!("the test knows no sequence {other:?}"),
        }
    }
    cells.into_iter().map(|row| row.into_iter().collect::<String>() + "\n").collect()
}
