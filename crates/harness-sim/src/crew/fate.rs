//! The planned events of one process.

use crate::random::Random;

/// The kind of a point at which a process can die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before a step in git.
    Git,
    /// Before a commit, a script or an action of an agent.
    Effect,
    /// After a commit, before the answer.
    Answer,
}

/// The point at which a process dies.
#[derive(Debug, Clone, Copy)]
pub(super) enum Doom {
    /// The moment of this kind with this number.
    At(Moment, u32),
    /// A step of the disk.
    Disk(u32),
    /// The step of git with this name, when it comes for the n-th time.
    Step(&'static str, u32),
}

/// What stops in a freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frozen {
    /// The whole process, which goes on afterwards.
    Process,
    /// The process is killed, and its git command goes on afterwards.
    Command,
}

/// A freeze of a process before a step of git.
#[derive(Debug, Clone, Copy)]
pub(super) struct Freeze {
    /// The step; `None` for any.
    pub(super) step: Option<&'static str>,
    /// The number of such steps before.
    pub(super) after: u32,
    pub(super) what: Frozen,
    /// The time that passes before others act.
    pub(super) seconds: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fate {
    pub(super) doom: Option<Doom>,
    pub(super) freeze: Option<Freeze>,
    /// The number of moments until an interrupt.
    pub(super) interrupt: Option<u32>,
}

/// The steps around a landing, which are few among all steps. The move of the branch counts twice,
/// because most faults need a freeze exactly there.
const LANDING: [&str; 10] = [
    "set token",
    "lock main",
    "land file",
    "land index",
    "land ref",
    "land ref",
    "void token",
    "rebase branch",
    "agree file",
    "delete branch",
];

impl Fate {
    pub(super) fn any(random: &mut Random) -> Self {
        let landing = LANDING[random.below(LANDING.len())];
        let doom = match random.weighted(&[30, 14, 14, 10, 12, 20]) {
            0 => None,
            1 => Some(Doom::At(Moment::Git, random.below(90) as u32)),
            2 => Some(Doom::At(Moment::Effect, random.below(90) as u32)),
            3 => Some(Doom::At(Moment::Answer, random.below(60) as u32)),
            4 => Some(Doom::Disk(random.below(600) as u32)),
            _ => Some(Doom::Step(landing, random.below(4) as u32)),
        };
        Self {
            doom,
            freeze: random.percent(35).then(|| Freeze::any(random)),
            interrupt: random.percent(15).then(|| random.below(160) as u32),
        }
    }
}

impl Fate {
    /// Returns the fate of a process that works while another one is frozen. Some die after they took
    /// over a task, before anything else lands.
    pub(super) fn beside_a_freeze(random: &mut Random) -> Self {
        match random.weighted(&[40, 20, 40]) {
            0 => Self::default(),
            1 => Self { freeze: None, ..Self::any(random) },
            _ => {
                let soon = match random.percent(50) {
                    true => Doom::Step("task branch", 0),
                    false => Doom::At(Moment::Effect, 4 + random.below(12) as u32),
                };
                Self { doom: Some(soon), ..Self::default() }
            }
        }
    }
}

impl Freeze {
    fn any(random: &mut Random) -> Self {
        let landing = random.percent(65);
        let step = LANDING[random.below(LANDING.len())];
        let after = random.below(if landing { 3 } else { 80 }) as u32;
        let what = if random.percent(40) { Frozen::Command } else { Frozen::Process };
        // Less than the life of a place in the line, more than that, and more than a lease.
        let seconds = [5, 90, 400, 4000][random.below(4)];
        Self { step: landing.then_some(step), after, what, seconds }
    }
}
