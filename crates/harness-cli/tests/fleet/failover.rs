//! A replica that lacks the last changes takes over, behind an address that stays the same.

use harness_sim::postgres::{Cluster, Proxy, TestServer};

use crate::{
    Test,
    environment::TestEnvironment,
    stage::{Fleet, add, states},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_machine_that_landed_a_result_finds_it_again", a_machine_finds_its_result_again),
    ("another_machine_finds_what_has_landed", another_machine_finds_what_has_landed),
];

const RUN: [&str; 5] = ["run", "--agent", "shell", "--workers", "1"];

/// A server with a replica, behind a proxy.
struct Failover {
    primary: Cluster,
    replica: Cluster,
    fleet: Fleet,
    proxy: Proxy,
}

impl Failover {
    /// Makes the fleet. The replica has nothing of what happens from now on.
    fn begin(tasks: &[&str]) -> Self {
        let primary = Cluster::temporary("").unwrap();
        let fleet = Fleet::new(&primary.server());
        let proxy = Proxy::before(&fleet.database.url());
        let first = fleet.first("h0");
        let add_task =
            |id: &str| add(&first, id, &format!("echo > {id}"), &format!("test -f {id}"));
        add_task("before");
        first.run(RUN).success();
        tasks.iter().for_each(|id| add_task(id));
        // A copy has everything that was committed before it.
        let replica = primary.replica().unwrap();
        replica.stop().unwrap();
        Self { primary, replica, fleet, proxy }
    }

    /// Makes a clone that reaches the database through the proxy.
    fn clone_for(&self, worker: &str) -> TestEnvironment {
        let url = self.proxy.url(&self.fleet.database.url());
        let env = self.fleet.clone_for(worker).variable("HARNESS_DATABASE_URL", url.to_string());
        env.run(["trust", "--yes"]).success();
        env
    }

    fn happen(&self) {
        self.primary.stop().unwrap();
        self.replica.take_over().unwrap();
        self.proxy.lead_to(self.replica.server().url());
    }
}

fn a_machine_finds_its_result_again(_: &TestServer) {
    let failover = Failover::begin(&["a", "b"]);
    let env = failover.clone_for("h1");
    env.run(RUN).success();
    failover.happen();
    assert_eq!(open(&env), 2, "the replica knows of no result of these");
    env.run(RUN).success();
    assert_eq!(open(&env), 0);
    let mut landed = failover.fleet.landed();
    landed.sort();
    assert_eq!(landed, ["a", "b", "before"], "nothing landed twice");
    let ran = env.run(["log"]).success();
    let log = ran.output();
    assert!(log.contains("has forgotten changes"), "{log}");
    assert!(log.contains("2 forgotten results are on the target"), "{log}");
    // The receipts were still on this machine.
    assert!(!log.contains("its receipt was lost"), "{log}");
}

fn another_machine_finds_what_has_landed(_: &TestServer) {
    let failover = Failover::begin(&["a", "b"]);
    let (first, other) = (failover.clone_for("h1"), failover.clone_for("h2"));
    first.run(RUN).success();
    failover.happen();
    // This machine misses nothing itself.
    let ran = other.run(RUN);
    assert!(ran.ended_with(&[4]), "its receipt is on the other machine: {ran}");
    assert_eq!(open(&other), 0);
    let mut landed = failover.fleet.landed();
    landed.sort();
    assert_eq!(landed, ["a", "b", "before"], "nothing landed twice");
    let ran = other.run(["log"]).success();
    let log = ran.output();
    assert!(log.contains("another server has taken over"), "{log}");
    assert!(log.contains("its receipt was lost"), "{log}");
}

fn open(env: &TestEnvironment) -> usize {
    states(env).iter().filter(|(_, status)| status != "completed").count()
}
