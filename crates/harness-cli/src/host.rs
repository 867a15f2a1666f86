//! The socket of a root, for a run that wants to be its host.

use harness::{
    client::{ANSWER_WITHIN, Way, make_way as ask_to_yield},
    host::socket::{self, Bound, Places, SocketError},
};

use crate::{environment::Environment, failure::Result, root::StateRoot};

/// How often a run tries to be the host before it gives up.
const BINDS: usize = 5;

pub(crate) fn places(env: &Environment) -> Places {
    Places {
        socket: env.path("HARNESS_SOCKET").map(Into::into),
        runtime_dir: env.path("XDG_RUNTIME_DIR").map(Into::into),
    }
}

/// For a run: a daemon that is there makes way, or says who works on a task that it gave out.
pub(crate) fn make_way(root: &StateRoot, places: &Places) -> Result<Way> {
    Ok(ask_to_yield(root.path(), places, ANSWER_WITHIN)?)
}

/// Binds the socket for a run, which holds the lock by now. A daemon that somebody has started in
/// between makes way too.
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
