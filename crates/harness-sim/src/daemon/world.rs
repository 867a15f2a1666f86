//! One seed of a daemon with clients: some tasks behind gates, and lives of daemons.

use std::{io, path::Path};

use harness::{
    protocol::{Answer, Refused, Request},
    store::{FileStore, Locking, Store as _, disk::File},
};
use harness_core::{
    Command, Ledger, TaskId, Timestamp,
    command::{Import, ImportMode},
    format,
    plan::{Plan, PlanPhase, PlanTask, PlanValidation},
};

use super::{
    annals::{Annals, repeated},
    client::Client,
    fault::DaemonFault,
    floor::Floor,
    life::{Delivery, Letter, Life, ROOT},
};
use crate::{
    checkers::Violation,
    disk::{CrashKind, SimDisk, Trouble},
    random::Random,
    story::{Story, Tally},
};

const LIVES_MAX: usize = 7;
const ROUNDS_MAX: usize = 14;
/// About as many steps of the disk as a life takes.
const STEPS_OF_A_LIFE: usize = 160;
const CLIENTS: usize = 3;

pub struct DaemonWorld {
    floor: Floor,
    clients: Vec<Client>,
    annals: Annals,
    lives: usize,
    /// The step of the disk at which the first daemon is killed; `None` for the choice of the seed.
    killed_at: Option<u32>,
    /// Numbers that never repeat.
    number: u64,
    /// A request whose answer got lost, with its client and the answer.
    lost: Option<(usize, Letter, Result<Answer, Refused>)>,
}

/// Whether a request was on its way together with another one.
#[derive(Debug, Clone, Copy)]
enum Company {
    Alone,
    Another,
}

impl DaemonWorld {
    pub fn new(seed: u64, fault: DaemonFault, story: Story) -> Result<Self, Violation> {
        // The worlds of one seed have nothing in common.
        let seed = seed.wrapping_mul(0x9E37_79B9).wrapping_add(0x44_41_45);
        let floor = Floor::new(seed, fault, story);
        let lives = {
            let mut state = floor.state();
            let disk = state.disk.clone();
            found(&disk, &mut state.random).map_err(broken)?;
            2 + state.random.below(LIVES_MAX - 1)
        };
        let clients = (1..=CLIENTS).map(Client::new).collect();
        Ok(Self {
            floor,
            clients,
            annals: Annals::default(),
            lives,
            killed_at: None,
            number: 0,
            lost: None,
        })
    }

    /// Kills the first daemon at this step of the disk.
    #[must_use]
    pub fn killed_at(self, step: u32) -> Self {
        Self { killed_at: Some(step), ..self }
    }

    /// Returns the tally and the story.
    pub fn end(self) -> (Tally, Story) {
        let mut state = self.floor.state();
        state.tally.steps += state.disk.steps();
        (state.tally, std::mem::take(&mut state.story))
    }

    /// Runs the whole seed. Nothing disturbs the last daemon.
    pub fn run(&mut self) -> Result<(), Violation> {
        for number in 1..=self.lives {
            let trouble = {
                let mut state = self.floor.state();
                let mut trouble = trouble(&mut state.random).filter(|_| number < self.lives);
                if let Some(step) = self.killed_at.take() {
                    trouble = Some((step, Trouble::Crash(CrashKind::Kill)));
                }
                state.hangs = number < self.lives;
                state.story.tell(|| format!("daemon {number} starts: {trouble:?}"));
                state.disk.begin(trouble);
                trouble
            };
            self.live(matches!(trouble, Some((_, Trouble::Fault(_)))))?;
        }
        self.annals.kept(&self.ledger()?)
    }

    fn live(&mut self, faulty: bool) -> Result<(), Violation> {
        let life = Life::start(&self.floor).map_err(broken)?;
        let rounds = 1 + self.floor.state().random.below(ROUNDS_MAX);
        let mut result = Ok(());
        for _ in 0..rounds {
            result = self.round(&life, faulty);
            if result.is_err() || self.floor.state().is_dead() {
                break;
            }
        }
        let crashed = self.floor.state().disk.crashed();
        let ended = life.end();
        let mut state = self.floor.state();
        match crashed {
            Some(CrashKind::Kill) => state.tally.kills += 1,
            Some(CrashKind::PowerLoss) => state.tally.power_losses += 1,
            None => ended.map_err(broken)?,
        }
        state.disk.begin(None);
        result
    }

    fn round(&mut self, life: &Life, faulty: bool) -> Result<(), Violation> {
        let before = self.ledger()?;
        let letters = self.letters();
        let sent: Vec<Letter> = letters.iter().map(|(_, letter)| letter.clone()).collect();
        sent.iter().for_each(|letter| self.annals.sent(letter));
        let misread = self.misread(&before, &sent);
        let heard = life.deliver(&misread);
        let after = self.ledger();
        {
            let mut state = self.floor.state();
            for ((client, letter), heard) in letters.iter().zip(&heard) {
                let now = harness::clock::Clock::now(&*state.clock);
                state.story.tell(|| {
                    format!("[{now}] client {client}: {:?}\n      → {heard:?}", letter.request)
                });
            }
            let all: Vec<_> = sent.iter().zip(&heard).collect();
            self.annals.answered(&state, after.as_ref().unwrap_or(&before), &all)?;
        }
        // A write that was cut off by a power loss may need the repair of the next daemon.
        if let Ok(after) = &after {
            self.annals.kept(after)?;
        }
        let first = self.lost.take();
        let company = if sent.len() > 1 { Company::Another } else { Company::Alone };
        for ((client, letter), heard) in letters.into_iter().zip(heard) {
            match (&first, &heard) {
                // The daemon died again, so the client repeats the request once more.
                (Some(_), None) => self.lost.clone_from(&first),
                (Some((_, _, first)), Some(second)) if !faulty => {
                    repeated(&letter.request, first, second)?;
                    self.receive(client, letter, heard, company);
                }
                (_, _) => self.receive(client, letter, heard, company),
            }
        }
        Ok(())
    }

    /// Returns the next requests with the numbers of their clients. A lost answer is asked for again
    /// before anything else happens.
    fn letters(&mut self) -> Vec<(usize, Letter)> {
        if let Some((client, letter, _)) = &self.lost {
            return vec![(*client, letter.clone())];
        }
        let mut state = self.floor.state();
        if state.random.percent(15) {
            let seconds = 20 + state.random.below(100) as i64;
            state.clock.step(seconds);
        }
        let first = state.random.below(CLIENTS);
        let second = state.random.percent(45).then(|| (first + 1) % CLIENTS);
        let mut letters = Vec::new();
        for client in std::iter::once(first).chain(second) {
            self.number += 1;
            let letter = self.clients[client].next(self.number, &mut state.random);
            if matches!(letter.request, Request::TaskComplete(_)) && state.random.percent(60) {
                let path = format!("work/{client}.txt");
                state.git.write(&path, self.number.to_string().as_bytes());
            }
            letters.push((client, letter));
        }
        letters
    }

    /// Returns the requests as the dispatch reads them, possibly with one fault.
    fn misread(&mut self, ledger: &Ledger, letters: &[Letter]) -> Vec<Letter> {
        let fault = self.floor.state().fault;
        let mut misread = Vec::new();
        for letter in letters {
            self.number += 1;
            misread.push(fault.misread(letter.clone(), ledger, self.number));
        }
        misread
    }

    fn receive(&mut self, client: usize, letter: Letter, heard: Delivery, company: Company) {
        let mut state = self.floor.state();
        match &heard {
            Some(Ok(Answer::Completed(_))) => state.tally.judged_for_clients += 1,
            Some(Ok(_)) => state.tally.applied += 1,
            Some(Err(_)) => state.tally.refused += 1,
            None if !state.is_dead() => state.tally.vanished += 1,
            None => {}
        }
        if let Some(answer) = &heard
            && state.random.percent(20)
        {
            state.story.tell(|| format!("      the answer to client {client} gets lost"));
            state.tally.lost_answers += 1;
            match company {
                Company::Alone => self.lost = Some((client, letter, answer.clone())),
                // The other request may change what the answer to this one is.
                Company::Another => self.clients[client].waits_in_vain(letter),
            }
            return;
        }
        self.clients[client].receives(letter, heard, &mut state.random);
    }

    fn ledger(&self) -> Result<Ledger, Violation> {
        let bytes = self.floor.state().disk.bytes(File::Ledger);
        format::read_ledger(&bytes).map_err(broken)
    }
}

fn trouble(random: &mut Random) -> Option<(u32, Trouble)> {
    let after = random.below(STEPS_OF_A_LIFE) as u32;
    let trouble = match random.weighted(&[50, 25, 10, 15]) {
        0 => Trouble::Crash(CrashKind::Kill),
        1 => Trouble::Crash(CrashKind::PowerLoss),
        2 => Trouble::Fault(io::ErrorKind::StorageFull),
        _ => return None,
    };
    Some((after, trouble))
}

/// Performs `harness init` and the import of a plan.
fn found(disk: &SimDisk, random: &mut Random) -> Result<(), harness::Error> {
    let mut store = FileStore::on(Path::new(ROOT), Box::new(disk.clone()), Locking::Elsewhere);
    let now = Timestamp::from_seconds(1_751_363_000);
    store.create(now)?;
    let phases: Vec<String> = (1..=random.below(3)).map(|n| format!("phase {n}")).collect();
    let mut plan = Plan { goal: "a simulated one".to_owned(), ..Plan::default() };
    for number in 1..=2 + random.below(4) as u64 {
        let task = PlanTask {
            description: format!("number {number}"),
            timeout_seconds: random.percent(30).then_some(90),
            validation: Some(PlanValidation {
                command: format!("check {number}"),
                ..PlanValidation::default()
            }),
            phase: random.pick(&phases).cloned(),
            max_attempts: Some(1 + random.below(4) as u32),
            ..PlanTask::default()
        };
        plan.tasks.insert(TaskId::numbered(number), task);
    }
    if !phases.is_empty() {
        let phase = |name: &String| PlanPhase {
            gate: Some(format!("gate of {name}")),
            name: name.clone(),
            ..PlanPhase::default()
        };
        plan.phases = Some(phases.iter().map(phase).collect());
    }
    let import = Import { plan, mode: ImportMode::Replace, by: None };
    let applied = store.apply(now, &[Command::Import(import)])?;
    if let Some(Err(refusal)) = applied.replies.first() {
        return Err(refusal.to_string().into());
    }
    disk.founded();
    Ok(())
}

fn broken(why: impl std::fmt::Display) -> Violation {
    Violation { checker: "no_error_but_a_kill", what: why.to_string() }
}
