//! The right to see and to change: a code that works once, the session that it is exchanged for,
//! and the token for programs.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::secret::Secret;
use crate::failure::Result;

/// The time in which a code works.
const CODE_LIFE: Duration = Duration::from_secs(120);
/// The number of codes that work at the same time. A new one replaces the oldest.
const CODES_MAX: usize = 16;
/// The number of sessions. A new one replaces the oldest.
const SESSIONS_MAX: usize = 64;

/// The name of the cookie.
pub(super) const COOKIE: &str = "harness";

/// The secrets of one start of the server.
#[derive(Debug)]
pub(super) struct Access {
    /// The first part of every path that a browser uses. Cookies ignore ports, so the cookie is
    /// bound to this path, which no other server of this machine has.
    prefix: String,
    token: Secret<32>,
    issued: Mutex<Issued>,
}

#[derive(Debug, Default)]
struct Issued {
    codes: Vec<(Secret<16>, Instant)>,
    sessions: Vec<Secret<32>>,
}

impl Access {
    pub(super) fn new() -> Result<Self> {
        let prefix = Secret::<16>::random()?.reveal();
        Ok(Self { prefix, token: Secret::random()?, issued: Mutex::default() })
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the token for programs.
    pub(super) fn token(&self) -> String {
        self.token.reveal()
    }

    /// Returns a new code.
    pub(super) fn issue_code(&self, now: Instant) -> Result<String> {
        let code = Secret::random()?;
        let mut issued = self.issued();
        issued.codes.retain(|(_, since)| is_alive(*since, now));
        if issued.codes.len() >= CODES_MAX {
            issued.codes.remove(0);
        }
        issued.codes.push((code, now));
        Ok(code.reveal())
    }

    /// Exchanges a code for a session. Returns `None` if it is wrong, too old or already used.
    pub(super) fn redeem(&self, code: &str, now: Instant) -> Result<Option<String>> {
        let mut issued = self.issued();
        issued.codes.retain(|(_, since)| is_alive(*since, now));
        // All codes are compared, so that the time does not depend on the position.
        let matching = issued.codes.iter().map(|(known, _)| known.is(code));
        let Some(at) = matching.collect::<Vec<_>>().iter().position(|same| *same) else {
            return Ok(None);
        };
        issued.codes.remove(at);
        let session = Secret::random()?;
        if issued.sessions.len() >= SESSIONS_MAX {
            issued.sessions.remove(0);
        }
        issued.sessions.push(session);
        Ok(Some(session.reveal()))
    }

    /// Returns whether `text` is a session.
    pub(super) fn has_session(&self, text: &str) -> bool {
        self.issued().sessions.iter().fold(false, |found, session| session.is(text) | found)
    }

    pub(super) fn is_token(&self, text: &str) -> bool {
        self.token.is(text)
    }

    fn issued(&self) -> MutexGuard<'_, Issued> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_alive(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < CODE_LIFE
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_code_works_once_and_for_two_minutes() {
        let (access, start) = (Access::new().unwrap(), Instant::now());
        let code = access.issue_code(start).unwrap();
        assert_eq!(access.redeem("0123", start).unwrap(), None);
        let session = access.redeem(&code, start + Duration::from_secs(119)).unwrap().unwrap();
        assert!(access.has_session(&session) && !access.has_session(&code));
        assert_eq!(access.redeem(&code, start).unwrap(), None, "it works once");
        let late = access.issue_code(start).unwrap();
        assert_eq!(access.redeem(&late, start + CODE_LIFE).unwrap(), None);
        assert!(access.is_token(&access.token()) && !access.is_token(&session));
    }

    #[test]
    fn codes_and_sessions_are_limited() {
        let (access, now) = (Access::new().unwrap(), Instant::now());
        let codes: Vec<_> = (0..=CODES_MAX).map(|_| access.issue_code(now).unwrap()).collect();
        assert_eq!(access.redeem(&codes[0], now).unwrap(), None, "the oldest made room");
        let first = access.redeem(&codes[1], now).unwrap().unwrap();
        for _ in 0..SESSIONS_MAX {
            let code = access.issue_code(now).unwrap();
            access.redeem(&code, now).unwrap().unwrap();
        }
        assert!(!access.has_session(&first));
    }
}
