//! Messages between the hosts of a ledger: which hosts are there, how they are named for people, and
//! which messages are still carried out.

/// The time after which a host or a worker that did not report counts as gone.
pub const SEEN_SECONDS: u64 = 60;

/// The age at which a message is no longer carried out. Its sender has stopped waiting long before, and
/// what it was about may have ended.
pub const MESSAGE_SECONDS_MAX: u64 = 300;

/// Whether a host is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPresence {
    /// It has reported.
    Present,
    /// It has not reported for too long.
    Gone,
}

impl HostPresence {
    /// Returns whether a host that reported this many seconds ago is there.
    pub const fn of(seen_seconds_ago: u64) -> Self {
        if seen_seconds_ago < SEEN_SECONDS { Self::Present } else { Self::Gone }
    }
}

/// The host that a message was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressee {
    /// The host that reads it.
    Reader,
    /// An earlier host of the same root, which has ended.
    Predecessor,
}

/// What a host does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailHandling {
    /// It is carried out.
    Act,
    /// It was sent to an earlier run or daemon. It must not reach this one.
    ForPredecessor,
    /// It is too old.
    TooOld {
        /// Its age.
        seconds: u64,
    },
}

impl MailHandling {
    /// Decides about a message of this age.
    pub const fn of(to: Addressee, seconds: u64) -> Self {
        match to {
            Addressee::Predecessor => Self::ForPredecessor,
            Addressee::Reader if seconds >= MESSAGE_SECONDS_MAX => Self::TooOld { seconds },
            Addressee::Reader => Self::Act,
        }
    }
}

/// The place of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPlace<'a> {
    /// The name of its machine.
    pub machine: &'a str,
    /// The root that it serves.
    pub root: &'a str,
}

impl HostPlace<'_> {
    /// Returns the name for people: that of the machine, with the root if the machine has several hosts
    /// among `all`.
    pub fn name(self, all: &[HostPlace<'_>]) -> String {
        let is_namesake =
            |other: &&HostPlace<'_>| other.machine == self.machine && other.root != self.root;
        match all.iter().find(is_namesake) {
            Some(_) => format!("{}:{}", self.machine, self.root),
            None => self.machine.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_there_while_it_reports() {
        for (seconds, expected) in [
            (0, HostPresence::Present),
            (59, HostPresence::Present),
            (60, HostPresence::Gone),
            (u64::MAX, HostPresence::Gone),
        ] {
            assert_eq!(HostPresence::of(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn a_message_is_carried_out_by_its_addressee_within_minutes() {
        use Addressee::{Predecessor, Reader};
        for (to, seconds, expected) in [
            (Reader, 0, MailHandling::Act),
            (Reader, 299, MailHandling::Act),
            (Reader, 300, MailHandling::TooOld { seconds: 300 }),
            (Predecessor, 0, MailHandling::ForPredecessor),
            (Predecessor, 9000, MailHandling::ForPredecessor),
        ] {
            assert_eq!(MailHandling::of(to, seconds), expected, "{to:?} {seconds}");
        }
    }

    #[test]
    fn hosts_of_one_machine_are_named_with_their_roots() {
        let place = |machine, root| HostPlace { machine, root };
        let all = [place("a", "/x"), place("a", "/y"), place("b", "/x"), place("b", "/x")];
        let names: Vec<String> = all.iter().map(|one| one.name(&all)).collect();
        assert_eq!(names, ["a:/x", "a:/y", "b", "b"]);
    }
}
