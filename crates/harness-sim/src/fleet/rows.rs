//! The port over the simulated database, with connections that die at any step.

use std::time::Instant;

use harness::store::{
    Store as _,
    postgres::{
        DatabaseAccess, DatabaseError, FleetStore,
        port::{
            ChangeRow, LedgerMoment, LedgerRows, LedgerSince, LedgerWhole, LedgerWrite, Trouble,
            Uuid,
        },
    },
};
use harness_core::{
    Command, Timestamp,
    command::Add,
    database::{ChangeHash, DatabaseUrl, LedgerName},
};

use super::{
    database::{Rows, Server, SimDatabase},
    flaw::FleetFlaw,
};

/// A caller gives up after so many tries.
const TRIES_MAX: u32 = 5;

/// A connection of a host.
pub(super) struct SimRows {
    database: SimDatabase,
    access: DatabaseAccess,
    /// The life of the server in which the transaction began.
    entered: Option<u64>,
    tries: u32,
    /// `true` for a host that is cut off.
    pub(super) cut_off: bool,
    /// `true` for one that only gets in between others.
    passing: bool,
}

impl SimRows {
    pub(super) fn new(database: &SimDatabase, host: usize) -> Option<Self> {
        let url = DatabaseUrl::parse("postgres://sim@localhost/sim").ok()?;
        let mut access = DatabaseAccess::new(url, LedgerName::parse("shop").ok()?);
        access.host = format!("host-{host}");
        let database = database.clone();
        Some(Self { database, access, entered: None, tries: 0, cut_off: false, passing: false })
    }

    /// Returns an error with a chance of one in `chance`, and if the host is cut off.
    fn reach(&self, server: &mut Server, chance: usize) -> Result<(), Trouble> {
        let dies = server.troubled && !self.passing && server.random.below(chance) == 0;
        if self.cut_off || dies { Err(lost("the connection died")) } else { Ok(()) }
    }

    /// Another host changes the ledger.
    fn intrude(&self) {
        let Some(mut rows) = Self::new(&self.database, 99) else { return };
        rows.passing = true;
        let number = self.database.server().next_number();
        _ = FleetStore::over(rows)
            .apply(Timestamp::from_seconds(0), &[add(&format!("other {number}"))]);
    }
}

/// Returns the command that adds a task with this title.
pub(super) fn add(title: &str) -> Command {
    Command::Add(Add::new(title))
}

fn lost(why: &str) -> Trouble {
    Trouble::Lost(why.to_owned())
}

fn whole(rows: &Rows, beat: i64, tasks: bool) -> LedgerWhole {
    let texts = rows.tasks.iter().filter(|_| tasks).map(|(_, text)| text.to_string());
    let leases = rows.leases.values().filter(|(_, at)| *at > beat);
    LedgerWhole { tasks: texts.collect(), leases: leases.map(|(lease, _)| lease.clone()).collect() }
}

fn after(rows: &Rows, version: u64) -> Vec<ChangeRow> {
    let newer = rows.changes.iter().filter(|change| change.version > version);
    // The real limit is larger than a seed has changes.
    newer.take(7).map(|change| (**change).clone()).collect()
}

fn moment(server: &Server, since: &LedgerSince) -> LedgerMoment {
    let rows = server.rows();
    let (changes, whole) = match since.known {
        Some((version, beat)) => (after(rows, version), whole(rows, beat, false)),
        None => (Vec::new(), whole(rows, -1, true)),
    };
    let at = since
        .remembered
        .filter(|_| since.known.is_none())
        .and_then(|version| rows.changes.iter().find(|change| change.version == version)?.hash);
    let line = server.line();
    LedgerMoment { order: rows.order.clone(), changes, whole, now: server.clock, at, line }
}

impl LedgerRows for SimRows {
    fn enter(&mut self, since: &LedgerSince) -> Result<Option<LedgerMoment>, Trouble> {
        let mut server = self.database.server();
        self.reach(&mut server, 25)?;
        server.lock();
        self.entered = Some(server.life);
        Ok(Some(moment(&server, since)))
    }

    fn look(&mut self, since: &LedgerSince) -> Result<Option<LedgerMoment>, Trouble> {
        let mut server = self.database.server();
        self.reach(&mut server, 25)?;
        let seen = moment(&server, since);
        server.flush();
        Ok(Some(seen))
    }

    fn glance(&mut self) -> Result<Option<(u64, ChangeHash, i64)>, Trouble> {
        let mut server = self.database.server();
        self.reach(&mut server, 40)?;
        let order = &server.rows().order;
        Ok(Some((order.version, order.hash, order.beat)))
    }

    fn changes_after(&mut self, version: u64) -> Result<Vec<ChangeRow>, Trouble> {
        let mut server = self.database.server();
        self.reach(&mut server, 40)?;
        Ok(after(server.rows(), version))
    }

    fn whole(&mut self) -> Result<LedgerWhole, Trouble> {
        let mut server = self.database.server();
        self.reach(&mut server, 40)?;
        Ok(whole(server.rows(), -1, true))
    }

    fn leave(&mut self) -> Result<(), Trouble> {
        let mut server = self.database.server();
        self.entered = None;
        self.reach(&mut server, 40)?;
        server.flush();
        Ok(())
    }

    fn write(&mut self, write: &LedgerWrite<'_>) -> Result<(), Trouble> {
        let mut server = self.database.server();
        if self.entered.take() != Some(server.life) {
            return Err(lost("the server has ended the transaction"));
        }
        self.reach(&mut server, 14)?;
        let Some(mut rows) = server.rows().after(write) else {
            let (server, why) = (self.access.server(), "a key exists".to_owned());
            return Err(DatabaseError::Refused { server, why }.into());
        };
        if matches!(write, LedgerWrite::Change(_)) {
            rows.order.line = server.line();
        }
        if self.reach(&mut server, 14).is_err() {
            server.leave_pending(rows);
            return Err(lost("the connection died while the server commits"));
        }
        server.commit(rows);
        if server.flaw == FleetFlaw::AnswersFirst {
            return Ok(());
        }
        self.reach(&mut server, 14)?;
        server.flush();
        self.reach(&mut server, 14)
    }

    fn took_effect(&mut self, operation: Uuid) -> Result<bool, Trouble> {
        let mut server = self.database.server();
        self.reach(&mut server, 6)?;
        match server.flaw {
            FleetFlaw::ForgetsOperations => return Ok(false),
            FleetFlaw::WaitsForNobody => {}
            _ => server.lock(),
        }
        let found = server.rows().operations.contains(&operation);
        server.flush();
        Ok(found)
    }

    fn find_again(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn committed(&mut self, _version: u64) {
        self.tries = 0;
    }

    fn close(&mut self) {
        self.entered = None;
    }

    fn pause(&mut self, _until: Instant, why: String) -> Result<(), DatabaseError> {
        self.tries += 1;
        let (gives_up, company) = {
            let mut server = self.database.server();
            server.suffer();
            (server.random.percent(8), server.troubled && server.random.percent(15))
        };
        if company {
            self.intrude();
        }
        if self.tries > TRIES_MAX || gives_up {
            self.tries = 0;
            return Err(DatabaseError::Unreachable { server: self.access.server(), why });
        }
        Ok(())
    }

    fn access(&self) -> &DatabaseAccess {
        &self.access
    }
}
