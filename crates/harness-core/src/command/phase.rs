//! Phases that people set: a stage of the work, its gate, and its place among the others.

use serde::{Deserialize, Serialize};

use super::{Change, Refusal, Reply};
use crate::{
    TaskId,
    fact::Fact,
    ledger::{Gate, Ledger, Phase},
    role::Author,
    task::problem_of_title,
};

/// Adds a phase, or changes the one of this name. `None` leaves a part unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditPhase {
    /// The name of the phase.
    pub name: String,
    /// The command of its gate, a line for `sh -c`. An empty text removes the gate.
    pub gate: Option<String>,
    /// The time limit of the gate; at least 1.
    pub gate_timeout_seconds: Option<u64>,
    /// Whether a person must approve the phase too.
    pub approve: Option<bool>,
    /// The phase that it is put before. A new phase is put at the end without this.
    pub before: Option<String>,
    /// The process that asked for it, if it is known. The log names it.
    pub by: Option<Author>,
}

/// Removes a phase that has no tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovePhase {
    /// The name of the phase.
    pub name: String,
    /// The process that asked for it, if it is known. The log names it.
    pub by: Option<Author>,
}

impl EditPhase {
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let mut head = ledger.head().clone();
        let known = head.phases.iter().position(|phase| phase.name == self.name);
        let before = known.map(|at| head.phases[at].clone());
        let mut phase = match &before {
            Some(phase) => phase.clone(),
            None => self.new_phase()?,
        };
        self.put_into(&mut phase)?;
        match known {
            Some(at) => head.phases[at] = phase.clone(),
            None => head.phases.push(phase.clone()),
        }
        if let Some(other) = &self.before {
            if *other == self.name {
                let problem = format!("phase {other:?} cannot be put before itself");
                return Err(Refusal::BadValue(problem));
            }
            let at = head.phases.iter().position(|phase| phase.name == self.name);
            let moved = head.phases.remove(at.unwrap_or_default());
            let there = position(&head.phases, other)?;
            head.phases.insert(there, moved);
        }
        if head.phases == ledger.head().phases {
            return Ok(Change::reply(Reply::Noted));
        }
        let facts = self.facts(before.as_ref(), &phase);
        Ok(Change { head: Some(head), rows: Vec::new(), facts, reply: Reply::Noted })
    }

    fn new_phase(&self) -> Result<Phase, Refusal> {
        let name = self.name.trim();
        let problem = match name.is_empty() || name != self.name {
            true => Some("must be a text that neither begins nor ends with a space".to_owned()),
            false => problem_of_title(name),
        };
        if let Some(problem) = problem {
            return Err(Refusal::BadValue(format!("name of a phase: {problem}")));
        }
        Ok(Phase {
            name: self.name.clone(),
            gate: None,
            approve: false,
            passed_at: None,
            held: None,
        })
    }

    fn put_into(&self, phase: &mut Phase) -> Result<(), Refusal> {
        match self.gate.as_deref() {
            None => {}
            Some(command) if command.trim().is_empty() => phase.gate = None,
            Some(command) => {
                let timeout_seconds = phase.gate.as_ref().and_then(|gate| gate.timeout_seconds);
                phase.gate = Some(Gate { command: command.to_owned(), timeout_seconds });
            }
        }
        match (self.gate_timeout_seconds, &mut phase.gate) {
            (None, _) => {}
            (Some(0), _) => {
                return Err(Refusal::BadValue("gate.timeout_seconds: must be at least 1".into()));
            }
            (Some(_), None) => {
                let name = &phase.name;
                return Err(Refusal::BadValue(format!("phase {name:?} has no gate to limit")));
            }
            (Some(seconds), Some(gate)) => gate.timeout_seconds = Some(seconds),
        }
        phase.approve = self.approve.unwrap_or(phase.approve);
        Ok(())
    }

    /// Returns a line of the log for each part that changed.
    fn facts(&self, before: Option<&Phase>, after: &Phase) -> Vec<Fact> {
        let command = |phase: &Phase| phase.gate.as_ref().map(|gate| gate.command.clone());
        let limit = |phase: &Phase| phase.gate.as_ref().and_then(|gate| gate.timeout_seconds);
        let parts = |phase: &Phase| {
            [
                ("gate", command(phase).unwrap_or_default()),
                ("timeout of the gate", limit(phase).map(|n| n.to_string()).unwrap_or_default()),
                ("approval", phase.approve.to_string()),
            ]
        };
        let (name, by) = (&self.name, of_author(self.by.as_ref()));
        let mut lines = Vec::new();
        let old = match before {
            Some(phase) => parts(phase),
            None => {
                lines.push(format!("phase {name:?} added{by}"));
                parts(&Phase {
                    name: name.clone(),
                    gate: None,
                    approve: false,
                    passed_at: None,
                    held: None,
                })
            }
        };
        let changed = old.into_iter().zip(parts(after)).filter(|(old, new)| old != new);
        lines.extend(changed.map(|((what, old), (_, new))| {
            format!("phase {name:?}: {what} changed{by}: {old:?} -> {new:?}")
        }));
        if lines.is_empty() {
            let other = self.before.as_deref().unwrap_or_default();
            lines.push(format!("phase {name:?} put before {other:?}{by}"));
        }
        lines.into_iter().map(|message| Fact::Warned { task: None, message }).collect()
    }
}

impl RemovePhase {
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let mut head = ledger.head().clone();
        head.phases.remove(position(&head.phases, &self.name)?);
        let of_phase = ledger.tasks().filter(|task| task.phase.as_ref() == Some(&self.name));
        let tasks: Vec<TaskId> = of_phase.map(|task| task.id.clone()).collect();
        if !tasks.is_empty() {
            return Err(Refusal::PhaseHasTasks { phase: self.name.clone(), tasks });
        }
        let message = format!("phase {:?} removed{}", self.name, of_author(self.by.as_ref()));
        let facts = vec![Fact::Warned { task: None, message }];
        Ok(Change { head: Some(head), rows: Vec::new(), facts, reply: Reply::Noted })
    }
}

fn position(phases: &[Phase], name: &str) -> Result<usize, Refusal> {
    let found = phases.iter().position(|phase| phase.name == name);
    found.ok_or_else(|| Refusal::NoSuchPhase { phase: name.to_owned() })
}

fn of_author(by: Option<&Author>) -> String {
    by.map(|author| format!(" by {author}")).unwrap_or_default()
}
