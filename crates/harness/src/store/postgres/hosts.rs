//! The hosts of a ledger: the processes that serve its roots, on all machines. Each is registered under
//! an id of its own, to which messages are addressed.

use std::path::Path;

use harness_core::database::{HostPlace, HostPresence};
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use super::{
    Database, DatabaseError,
    error::Trouble,
    rows::{count, get, text},
};
use crate::process::life::here;

/// A process that serves a root.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetHost {
    /// Its id, to which messages are addressed.
    pub id: Uuid,
    /// The name of its machine.
    pub machine: String,
    /// The boot of the machine, if it is known.
    pub boot: Option<String>,
    /// The root on that machine.
    pub root: String,
    /// The time since its last report.
    pub seen_seconds_ago: u64,
}

impl FleetHost {
    /// Returns its place.
    pub fn place(&self) -> HostPlace<'_> {
        HostPlace { machine: &self.machine, root: &self.root }
    }

    /// Returns whether it is there.
    pub fn presence(&self) -> HostPresence {
        HostPresence::of(self.seen_seconds_ago)
    }
}

/// Whether a host was registered when it reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// It was not, or no longer. Its questions are not shown to others.
    Anew,
    /// It was.
    Known,
}

const REPORT: &str = "INSERT INTO harness.host (ledger, id, machine, boot, root, pid, version) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (ledger, id) DO UPDATE SET seen_at = clock_timestamp() RETURNING xmax = 0";

const ALL: &str = "SELECT id, machine, boot, root, \
     greatest(0, floor(extract(epoch FROM clock_timestamp() - seen_at)))::bigint \
     FROM harness.host WHERE ledger = $1 ORDER BY machine, root, started_at";

/// The condition for hosts of this machine and root. `$3`, `$4` and `$5` are machine, boot and root.
pub(super) const HERE: &str = "h.machine = $3 AND h.boot IS NOT DISTINCT FROM $4 AND h.root = $5";

/// The place of this process, as columns.
pub(super) struct Here {
    pub(super) machine: String,
    pub(super) boot: Option<String>,
    pub(super) root: String,
}

impl Database {
    pub(super) fn here(&self, root: &Path) -> Here {
        let machine = text(&self.0.access.host);
        Here { machine, boot: here().boot_id.clone(), root: text(&root.to_string_lossy()) }
    }

    /// Returns whether `host` serves `root` on this machine.
    pub fn is_here(&self, host: &FleetHost, root: &Path) -> bool {
        let here = self.here(root);
        (&host.machine, &host.boot, &host.root) == (&here.machine, &here.boot, &here.root)
    }

    /// Reports that this process serves `root`.
    pub fn report_host(&self, root: &Path) -> Result<Reported, DatabaseError> {
        let (ledger, id, here) = (self.0.ledger(), self.0.id(), self.here(root));
        let (pid, version) = (i64::from(std::process::id()), env!("CARGO_PKG_VERSION"));
        self.0.side().again(|link| {
            let rows = link.query(
                REPORT,
                vec![
                    (&ledger, Type::INT8),
                    (&id, Type::UUID),
                    (&here.machine, Type::TEXT),
                    (&here.boot, Type::TEXT),
                    (&here.root, Type::TEXT),
                    (&pid, Type::INT8),
                    (&version, Type::TEXT),
                ],
            )?;
            let is_new = rows.first().map(|row| get::<bool>(row, 0)).transpose()?;
            Ok(if is_new == Some(false) { Reported::Known } else { Reported::Anew })
        })
    }

    /// Removes earlier hosts of `root` on this machine, with their questions. This process is the only
    /// one now.
    pub fn remove_earlier_hosts(&self, root: &Path) -> Result<(), DatabaseError> {
        let (ledger, id, here) = (self.0.ledger(), self.0.id(), self.here(root));
        let sql = format!("DELETE FROM harness.host h WHERE ledger = $1 AND id <> $2 AND {HERE}");
        self.0.side().again(|link| {
            let by = vec![
                (&ledger as _, Type::INT8),
                (&id as _, Type::UUID),
                (&here.machine as _, Type::TEXT),
                (&here.boot as _, Type::TEXT),
                (&here.root as _, Type::TEXT),
            ];
            link.query(&sql, by).map(|_| ())
        })
    }

    /// Removes this process from the hosts, with its questions.
    pub fn remove_host(&self) -> Result<(), DatabaseError> {
        let (ledger, id) = (self.0.ledger(), self.0.id());
        let sql = "DELETE FROM harness.host WHERE ledger = $1 AND id = $2";
        self.0.side().again(|link| {
            link.query(sql, vec![(&ledger, Type::INT8), (&id, Type::UUID)]).map(|_| ())
        })
    }

    /// Returns the registered hosts of all machines, also those that are gone.
    pub fn hosts(&self) -> Result<Vec<FleetHost>, DatabaseError> {
        let ledger = self.0.ledger();
        self.0
            .side()
            .again(|link| link.query(ALL, vec![(&ledger, Type::INT8)])?.iter().map(read).collect())
    }
}

fn read(row: &Row) -> Result<FleetHost, Trouble> {
    Ok(FleetHost {
        id: get(row, 0)?,
        machine: get(row, 1)?,
        boot: get(row, 2)?,
        root: get(row, 3)?,
        seen_seconds_ago: count(row, 4)?,
    })
}
