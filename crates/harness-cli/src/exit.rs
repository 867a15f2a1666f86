//! The end of a command, as the number that scripts see.

/// The exit codes of every command. They are a promise to scripts: a number never changes its
/// meaning, and a command ends with no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// Everything that was requested is done.
    Done = 0,
    /// It failed, or another session holds the lock.
    Error = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Stopped with work left: a limit or a budget.
    WorkLeft = 3,
    /// Finished, but some tasks failed for good, or something needs your attention.
    SomeFailed = 4,
    /// A person must fix something: the ledger, the configuration, trust.
    Config = 5,
    /// Ctrl-C.
    Interrupted = 130,
}

impl ExitCode {
    /// The table that `harness --help` ends with.
    pub(crate) const HELP: &'static str = "\
Exit codes:
  0    done
  1    error, or another session holds the lock
  2    wrong usage
  3    stopped with work left (a limit or a budget)
  4    finished, but some tasks failed for good or something needs your attention
  5    a person must fix something: ledger, configuration, trust
  130  interrupted";
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_code() {
        use ExitCode::*;
        for code in [Done, Error, Usage, WorkLeft, SomeFailed, Config, Interrupted] {
            let start = format!("  {:<5}", code as u8);
            assert!(ExitCode::HELP.lines().any(|line| line.starts_with(&start)), "{code:?}");
        }
    }
}
