//! Random histories over real git and the simulated one, side by side. Both must give the same
//! answers, so that the results of the simulator hold for git.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod simulated;

use harness::workspace::{Base, Sight, WorkspaceError};
use harness_core::{Epoch, TaskId, Timestamp};
use harness_sim::conformance::{
    repository::Repository,
    workspace::{AGENT, Fixture},
};
use simulated::Simulated;

const PATHS: [&str; 8] = [
    "a.txt",
    "b.txt",
    "d/e.txt",
    "n.txt",
    "x.log",
    ".gitignore",
    "harness-tasks.json",
    "state/handoff.json",
];
const TEXTS: [&str; 4] = ["*.log\n", "n.txt\n", "a.txt\nx.log\n", "plain"];

/// An xorshift generator, which is the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % 1_000_003).unwrap() % sides
    }
}

/// Performs one action of a user or an agent.
fn disturb(dice: &mut Dice, both: [&dyn Fixture; 2], number: usize) -> String {
    let path = PATHS[dice.below(PATHS.len())];
    let text = TEXTS[dice.below(TEXTS.len())];
    let exists = both[0].files().contains_key(path);
    let tracked = both[0].staged().iter().any(|name| name == path);
    let what = dice.below(12);
    for f in both {
        match what {
            0..=3 => f.write(path, text),
            4 | 5 if exists => f.remove(path),
            6 | 7 if exists || tracked => f.stage(path),
            8 if tracked => f.unstage(path),
            9 if number.is_multiple_of(3) => drop(f.commit("other")),
            9 if number.is_multiple_of(2) => drop(f.commit("task-1: x")),
            9 => drop(f.commit_as(AGENT, "marked")),
            10 if number.is_multiple_of(3) => f.create_branch(&format!("branch-{number}")),
            11 if number.is_multiple_of(5) => f.detach(),
            _ => {}
        }
    }
    format!("{what} {path} {text:?}")
}

#[track_caller]
fn agree(both: [&dyn Fixture; 2], bases: [&Base; 2], history: &[String]) {
    let task = TaskId::parse("task-1").unwrap();
    let [real, model] = [0, 1].map(|i| {
        let (f, workspace) = (both[i], both[i].workspace());
        let evidence = workspace.evidence(&task, bases[i], Timestamp::from_seconds(0)).unwrap();
        let candidate = workspace.candidate(bases[i], Sight::Anew).unwrap();
        let settled = workspace.settle(bases[i], &candidate.tree).unwrap();
        assert_eq!((&settled.tree, settled.changed.len()), (&candidate.tree, 0), "{history:#?}");
        let rescues = workspace.rescues(None).unwrap();
        let rescued: Vec<_> =
            rescues.iter().map(|r| (r.reference.clone(), f.committed(&r.commit))).collect();
        let counts = (evidence.task_commits.len(), evidence.foreign_commits.len());
        let mut status = workspace.status().unwrap();
        status.changed.sort();
        status.untracked.sort();
        let head = f.committed(&evidence.head);
        let mut staged = f.staged();
        staged.sort();
        (
            (f.files(), staged, f.current_branch(), head),
            ((evidence.uncommitted, evidence.untouched), counts, status, candidate.hidden),
            rescued,
        )
    });
    assert_eq!(real, model, "history: {history:#?}");
}

fn kind(result: Result<(), WorkspaceError>) -> String {
    result.err().map(|error| format!("{:?}", std::mem::discriminant(&error))).unwrap_or_default()
}

/// Returns the seeds. `HARNESS_SIM_SEEDS=100` runs more than a test run should.
fn seeds() -> std::ops::RangeInclusive<u64> {
    const USUAL: u64 = 3;
    let wanted = std::env::var("HARNESS_SIM_SEEDS").ok();
    1..=wanted.and_then(|count| count.parse().ok()).unwrap_or(USUAL)
}

#[test]
fn real_and_simulated_git_agree() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (real, model) = (Repository::new(), Simulated::new());
        let both: [&dyn Fixture; 2] = [&real, &model];
        let task = TaskId::parse("task-1").unwrap();
        let mut history = Vec::new();
        for number in 0..4 {
            history.push(disturb(&mut dice, both, number));
        }
        let epoch = Some(Epoch(1));
        let bases = both.map(|f| Base { epoch, ..f.workspace().base(&task, Sight::Anew).unwrap() });
        let bases = [&bases[0], &bases[1]];
        for round in 0..3 {
            for number in 0..6 {
                history.push(disturb(&mut dice, both, 100 * (round + 1) + number));
                agree(both, bases, &history);
            }
            let ends = dice.below(3);
            history.push(format!("end {ends}"));
            let [a, b] = [0, 1].map(|i| {
                let workspace = both[i].workspace();
                match ends {
                    0 => kind(workspace.commit(bases[i], "task-1: end").map(drop)),
                    1 => kind(workspace.rescue(&task, 1, bases[i]).map(drop)),
                    _ => {
                        // The ids of commits differ between the two.
                        let done = workspace.rollback(&task, 1, bases[i]).map(|done| {
                            let kind = std::mem::discriminant(&done.undone);
                            (kind, done.rescue, done.put_back)
                        });
                        format!("{:?}", done.map_err(|error| std::mem::discriminant(&error)))
                    }
                }
            });
            assert_eq!(a, b, "history: {history:#?}");
            agree(both, bases, &history);
        }
    }
}
