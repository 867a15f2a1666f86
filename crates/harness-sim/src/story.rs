//! The events of a simulated world as lines to read. They are recorded only if they will be read: a
//! failing seed is run a second time for its story.

use std::fmt;

#[derive(Debug, Default)]
pub struct Story {
    lines: Option<Vec<String>>,
    /// A text that differs from one replay to the next, and is left out.
    pub(crate) omitted: Option<String>,
}

impl Story {
    pub fn recorded() -> Self {
        Self { lines: Some(Vec::new()), omitted: None }
    }

    pub fn silent() -> Self {
        Self::default()
    }

    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let line = line();
            lines.push(match &self.omitted {
                Some(omitted) => line.replace(omitted, ""),
                None => line,
            });
        }
    }

    /// Prepends an earlier story.
    pub fn follow(&mut self, earlier: Self) {
        if let (Some(lines), Some(mut all)) = (&mut self.lines, earlier.lines) {
            all.append(lines);
            *lines = all;
        }
    }

    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// Returns the last `count` lines.
    pub fn end(&self, count: usize) -> &[String] {
        let lines = self.lines();
        &lines[lines.len().saturating_sub(count)..]
    }
}

/// The coverage of a run of seeds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub steps: u64,
    pub kills: u64,
    pub power_losses: u64,
    pub faults: u64,
    pub applied: u64,
    pub refused: u64,
    pub restored: u64,
    pub rollbacks: u64,
    pub interrupts: u64,
    pub completed: u64,
    /// Completions of clients.
    pub judged_for_clients: u64,
    /// Steps of runs that became durable.
    pub run_steps: u64,
    /// Iterations that began.
    pub contexts: u64,
    /// Executions of agents in those.
    pub executions: u64,
    /// Waits for a usage limit.
    pub waits: u64,
    /// Objectives that were completed.
    pub objectives: u64,
    /// Lies of agents, in actions and in requests.
    pub lies: u64,
    /// Requests that were refused.
    pub lies_refused: u64,
    /// Forged ledgers that were written back.
    pub written_back: u64,
    /// Writes of processes that agents left behind.
    pub late_writes: u64,
    /// Commits of the person while agents work.
    pub foreign_commits: u64,
    /// Clients of a daemon that vanished while their check ran.
    pub vanished: u64,
    /// Answers of a daemon that got lost, so that the request was repeated.
    pub lost_answers: u64,
    /// Results of workers that landed.
    pub landings: u64,
    /// Processes that were frozen.
    pub freezes: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.kills += other.kills;
        self.power_losses += other.power_losses;
        self.faults += other.faults;
        self.applied += other.applied;
        self.refused += other.refused;
        self.restored += other.restored;
        self.rollbacks += other.rollbacks;
        self.interrupts += other.interrupts;
        self.completed += other.completed;
        self.judged_for_clients += other.judged_for_clients;
        self.run_steps += other.run_steps;
        self.contexts += other.contexts;
        self.executions += other.executions;
        self.waits += other.waits;
        self.objectives += other.objectives;
        self.lies += other.lies;
        self.lies_refused += other.lies_refused;
        self.written_back += other.written_back;
        self.late_writes += other.late_writes;
        self.foreign_commits += other.foreign_commits;
        self.vanished += other.vanished;
        self.lost_answers += other.lost_answers;
        self.landings += other.landings;
        self.freezes += other.freezes;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} steps, {} kills, {} power losses, {} faults, {} interrupts, {} restores, {} rollbacks, {} completed, {} of them for clients; loops: {} contexts, {} executions, {} run steps, {} waits, {} objectives completed; lies: {} told, {} verbs refused, {} forgeries written back, {} late writes, {} foreign commits; daemons: {} clients vanished, {} answers lost; crews: {} landings, {} freezes; commands: {} applied, {} refused",
            self.steps,
            self.kills,
            self.power_losses,
            self.faults,
            self.interrupts,
            self.restored,
            self.rollbacks,
            self.completed,
            self.judged_for_clients,
            self.contexts,
            self.executions,
            self.run_steps,
            self.waits,
            self.objectives,
            self.lies,
            self.lies_refused,
            self.written_back,
            self.late_writes,
            self.foreign_commits,
            self.vanished,
            self.lost_answers,
            self.landings,
            self.freezes,
            self.applied,
            self.refused
        )
    }
}
