//! The socket of a root, for a run that becomes its host.

use harness::{
    client::{ANSWER_WITHIN, Way, make_way as ask_to_yield},
    host::socket::{self, Bound, Places, SocketError},
};

use crate::{environment::Environment, failure::Result, root::StateRoot};

/// The number of times that a run tries to become the host.
const BINDS: usize = 5;

pub(crate) fn places(env: &Environment) -> Places {
    Places {
        socket: env.path("HARNESS_SOCKET").map(Into::into),
        runtime_dir: env.path("XDG_RUNTIME_DIR").map(Into::into),
    }
}

/// Asks an existing daemon to make way for a run. It refuses if a worker holds one of its tasks.
pub(crate) fn make_way(root: &StateRoot, places: &Places) -> Result<Way> {
    Ok(ask_to_yield(root.path(), places, ANSWER_WITHIN)?)
}

/// Whether a process is the host of its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It writes the files, for others too.
    Host,
    /// Another process is the host.
    Beside,
}

/// Binds a socket for a process that works beside others: that of the host, if there is none, or else
/// one of its own.
pub(crate) fn bind_beside_others(root: &StateRoot, places: &Places) -> Result<(Bound, Standing)> {
    // A daemon that has given out tasks stays the host.
    if let Ok(Way::Free) = make_way(root, places) {
        match socket::bind(root.path(), places) {
            Err(SocketError::Running { .. } | SocketError::Taken { .. }) => {}
            bound => return Ok((bound?, Standing::Host)),
        }
    }
    Ok((socket::bind_beside(root.path(), places)?, Standing::Beside))
}

/// Binds the socket for a run, which already holds the lock. A daemon that was started in between
/// makes way too.
pub(crate) fn bind(root: &StateRoot, places: &Places) -> Result<Bound> {
    for _ in 0..BINDS {
        match socket::bind(root.path(), places) {
            Err(running @ SocketError::Running { .. }) => match make_way(root, places)? {
                Way::Free => {}
                Way::Silent => return Err(running.into()),
            },
            bound => return Ok(bound?),
        }
    }
    Ok(socket::bind(root.path(), places)?)
}
