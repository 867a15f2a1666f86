//! One seed of a fleet.

use harness::store::Store as _;
use harness_core::{Command, Fact, Reply, Timestamp, database::Remembered};

use super::{
    annals::Annals,
    database::SimDatabase,
    flaw::FleetFlaw,
    host::{Ended, Host, LEASE, Sent},
    target::Target,
};
use crate::{
    checkers::Violation,
    random::Random,
    story::{Story, Tally},
};

const HOSTS: usize = 3;
const STEPS_MAX: usize = 200;
const START: i64 = 1_750_000_000;

pub struct FleetWorld {
    database: SimDatabase,
    hosts: Vec<Host>,
    annals: Annals,
    target: Target,
    random: Random,
    flaw: FleetFlaw,
    number: u64,
    tally: Tally,
    story: Story,
}

impl FleetWorld {
    pub fn new(seed: u64, flaw: FleetFlaw, story: Story) -> Result<Self, Violation> {
        let broken =
            || Violation { checker: "the_world_begins", what: "there is no database".to_owned() };
        // The worlds of one seed have nothing in common.
        let seed = seed.wrapping_mul(0x9E37_79B9).wrapping_add(0x46_4C_45);
        let database = SimDatabase::new(seed, flaw, START).ok_or_else(broken)?;
        let hosts = (1..=HOSTS).map(|number| Host::new(number, &database, None));
        let hosts = hosts.collect::<Option<Vec<_>>>().ok_or_else(broken)?;
        let random = Random::new(seed ^ 0x5EED);
        let (annals, tally) = (Annals::default(), Tally::default());
        let target = Target::new(flaw);
        Ok(Self { database, hosts, annals, target, random, flaw, number: 0, tally, story })
    }

    /// Returns the tally and the story.
    pub fn end(self) -> (Tally, Story) {
        (self.tally, self.story)
    }

    /// Runs the whole seed. At the end nothing disturbs the hosts, and each makes one more change.
    pub fn run(&mut self) -> Result<(), Violation> {
        let steps = 20 + self.random.below(STEPS_MAX);
        for _ in 0..steps {
            self.tally.steps += 1;
            self.happen();
            let server = self.database.server();
            self.annals.follow(&server);
            self.annals.acknowledged_is_stored(&server)?;
            drop(server);
            let host = self.random.below(HOSTS);
            self.step(host)?;
        }
        self.database.server().troubled = false;
        for host in 0..HOSTS {
            self.hosts[host].frozen = 0;
            self.hosts[host].store.rows_mut().cut_off = false;
            self.step(host)?;
        }
        let mut server = self.database.server();
        server.lock();
        self.annals.acknowledged_is_stored(&server)?;
        self.annals.commands_take_effect_once(&server)?;
        self.tally.landings += self.target.count() as u64;
        self.tally.faults += server.takeovers.len() as u64;
        self.tally.power_losses += server.crashes;
        Ok(())
    }

    /// Something happens to the server or to a host.
    fn happen(&mut self) {
        let (event, host) = (self.random.below(100), self.random.below(HOSTS));
        let mut server = self.database.server();
        server.clock += self.random.below(6) as i64;
        match event {
            0..4 => server.clock += self.random.below(2 * LEASE as usize) as i64,
            4..7 => {
                self.story.tell(|| "the server crashes".to_owned());
                server.crash();
            }
            7..8 => {
                server.take_over();
                let left = server.rows().order.version;
                self.story.tell(|| format!("a replica takes over with version {left}"));
            }
            8..14 => {
                self.story.tell(|| format!("host {} freezes", host + 1));
                self.tally.freezes += 1;
                self.hosts[host].frozen = 3 + self.random.below(25);
            }
            14..18 => {
                let rows = self.hosts[host].store.rows_mut();
                rows.cut_off = !rows.cut_off;
                let word = if rows.cut_off { "loses" } else { "has" };
                self.story.tell(|| format!("host {} {word} the network", host + 1));
            }
            18..24 => {
                drop(server);
                self.restart(host);
            }
            _ => {}
        }
    }

    /// Kills a host and starts it again. It remembers its last change.
    fn restart(&mut self, host: usize) {
        let remembered: Option<Remembered> = match self.flaw {
            FleetFlaw::RemembersNothing => None,
            _ => self.hosts[host].store.last_seen(),
        };
        self.tally.kills += 1;
        self.story.tell(|| format!("host {} is killed and starts again", host + 1));
        if let Some(anew) = Host::new(host + 1, &self.database, remembered) {
            self.hosts[host] = anew;
        }
    }

    /// A host looks, or sends a batch.
    fn step(&mut self, number: usize) -> Result<(), Violation> {
        if self.hosts[number].frozen > 0 {
            self.hosts[number].frozen -= 1;
            return Ok(());
        }
        if self.flaw == FleetFlaw::RemembersNothing && self.random.percent(50) {
            self.restart(number);
        }
        let host = &mut self.hosts[number];
        if self.random.percent(20) {
            // A notice of that look is a warning of the next transaction.
            _ = host.store.ledger().map(|ledger| ledger.len());
        }
        let now = self.database.server().clock;
        let of_database = Timestamp::from_seconds(now);
        let (target, number) = (&mut self.target, &mut self.number);
        let batch = host.batch(of_database, target, &mut self.random, number);
        let before = host.store.last_seen();
        let ended = host.send(now, &batch);
        let server = self.database.server();
        self.story.tell(|| told(&host.worker(0).to_string(), server.clock, &batch, &ended));
        if let Ended::Done(applied) = &ended {
            let (good, bad): (Vec<_>, Vec<_>) = applied.replies.iter().partition(|r| r.is_ok());
            self.tally.applied += good.len() as u64;
            self.tally.refused += bad.len() as u64;
            Annals::loss_is_noticed(&server, before, applied)?;
            for fact in &applied.facts {
                if let Fact::Recovered { task, action, .. } = fact
                    && action == "complete"
                    && let Some(title) = server.title(task)
                {
                    self.target.a_found_result_is_of_its_task(task, &title)?;
                    self.tally.restored += 1;
                }
            }
        }
        if matches!(ended, Ended::Unknown) {
            self.tally.lost_answers += 1;
        }
        let completed = |sent: &&Sent| matches!(sent.command, Command::Complete(_));
        self.tally.completed += batch.iter().filter(completed).count() as u64;
        self.annals.ended(&server, host, &batch, &ended)?;
        drop(server);
        host.believe(&batch, &ended, &mut self.target);
        self.target.nothing_lands_twice()
    }
}

/// Returns the batch with its answers on a few short lines.
fn told(host: &str, now: i64, batch: &[Sent], ended: &Ended) -> String {
    let mut line = format!("[{now}] {host}:");
    for (n, sent) in batch.iter().enumerate() {
        let asked = match &sent.command {
            Command::Add(add) => format!("add {:?}", add.title),
            Command::Claim(claim) => format!("claim for {}", claim.worker),
            Command::Renew(of) => format!("renew {:?}", of.holder),
            Command::Complete(of) => format!("complete {:?}", of.holder),
            other => format!("{other:?}"),
        };
        let answer = match ended {
            Ended::Failed => "failed".to_owned(),
            Ended::Unknown => "unknown".to_owned(),
            Ended::Done(applied) => match applied.replies.get(n) {
                Some(Ok(Reply::Claimed(claimed))) => {
                    let (task, end) = (&claimed.task.id, claimed.task.lease_expires_at());
                    format!("{task}, epoch {}, until {end:?}", claimed.epoch)
                }
                reply => format!("{reply:?}"),
            },
        };
        line.push_str(&format!("\n      {asked} → {answer}"));
    }
    if let Ended::Done(applied) = ended {
        applied
            .warnings
            .iter()
            .for_each(|warning| line.push_str(&format!("\n      WARN {warning}")));
    }
    line
}
