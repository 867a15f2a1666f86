//! An agent on a terminal, as a person uses it.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

/// A program on a terminal of its own. Both are removed when this is dropped.
pub(crate) struct Terminal {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    pub(crate) fn start(mut command: Command) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
        tcsetwinsize(&theirs, Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        command.env("TERM", "xterm-256color");
        command.stdin(theirs.try_clone().unwrap());
        command.stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let child = command.spawn().unwrap();
        // The command holds the other end, and a terminal that is still open has no end to read.
        drop(command);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&shown);
        let mut screen = File::from(ours);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end is an error here: no process has the terminal open any more.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                into.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { child, shown, reader: Some(reader) }
    }

    /// Returns everything that was written to the terminal so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        // Processes of the agent may hold the terminal a little longer. The test does not wait for
        // them.
        drop(self.reader.take());
    }
}
