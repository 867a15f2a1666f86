//! Determines the owner of the program that listens on a port of this machine.

use std::{fs, path::Path};

/// The state of a listening socket in the tables of the kernel.
const LISTEN: &str = "0A";
/// The addresses 127.0.0.1 and 0.0.0.0 in the tables, for machines of either byte order.
const REACHED_V4: [&str; 3] = ["0100007F", "7F000001", "00000000"];
/// The same for IPv6 sockets that accept IPv4 too.
const REACHED_V6: [&str; 4] = [
    "00000000000000000000000000000000",
    "0000000000000000FFFF00000100007F",
    "00000000000000000000FFFF7F000001",
    "0000000000000000FFFF000000000000",
];

/// The program that would receive data sent to 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listener {
    /// A program of this user.
    Ours,
    /// A program of another user, possibly one of several.
    Anothers,
    /// The owner is not visible.
    Unknown,
}

impl Listener {
    /// Looks the owner up in the tables below `proc` (`/proc`).
    pub(super) fn on(port: u16, proc: &Path) -> Self {
        let tables = [("net/tcp", &REACHED_V4[..]), ("net/tcp6", &REACHED_V6[..])];
        let mut owners = Vec::new();
        for (file, addresses) in tables {
            let table = fs::read_to_string(proc.join(file)).unwrap_or_default();
            owners.extend(table.lines().filter_map(|line| owner(line, port, addresses)));
        }
        let own = rustix::process::geteuid().as_raw();
        match owners.as_slice() {
            [] => Self::Unknown,
            all if all.iter().all(|uid| *uid == own) => Self::Ours,
            _ => Self::Anothers,
        }
    }
}

/// Returns the user of a line about a socket that listens there.
fn owner(line: &str, port: u16, addresses: &[&str]) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, uid) = (fields.get(1)?, fields.get(3)?, fields.get(7)?);
    let (address, at) = local.split_once(':')?;
    let is_there = *state == LISTEN
        && addresses.contains(&address)
        && u16::from_str_radix(at, 16).is_ok_and(|at| at == port);
    if is_there { uid.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn the_tables_of_this_machine_say_whose_a_port_is() {
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = bound.local_addr().unwrap().port();
        // Without such tables the owner is unknown.
        let expected = match Path::new("/proc/net/tcp").exists() {
            true => Listener::Ours,
            false => Listener::Unknown,
        };
        assert_eq!(Listener::on(port, Path::new("/proc")), expected);
    }

    #[test]
    fn a_second_listener_of_another_user_spoils_it() {
        let own = rustix::process::geteuid().as_raw();
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("net")).unwrap();
        let line = |address: &str, state: &str, uid: u32| {
            format!("1: {address}:2384 0:0 {state} 0:0 0:0 0 {uid} 0 7\n")
        };
        let v6 = "0000000000000000FFFF00000100007F";
        for (tcp, tcp6, expected) in [
            (line("0100007F", LISTEN, own), String::new(), Listener::Ours),
            (line("0100007F", "01", own), String::new(), Listener::Unknown),
            (line("0200A8C0", LISTEN, own + 1), String::new(), Listener::Unknown),
            (line("0100007F", LISTEN, own), line(v6, LISTEN, own + 1), Listener::Anothers),
            (String::new(), line(REACHED_V6[0], LISTEN, own), Listener::Ours),
        ] {
            fs::write(proc.path().join("net/tcp"), &tcp).unwrap();
            fs::write(proc.path().join("net/tcp6"), &tcp6).unwrap();
            assert_eq!(Listener::on(0x2384, proc.path()), expected, "{tcp}{tcp6}");
        }
    }
}
