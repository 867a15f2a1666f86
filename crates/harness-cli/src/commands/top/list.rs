//! The list: what needs a person, what works, what waits and what is done.

use harness::view::{Board, DoneEntry, Need, WaitEntry, WorkingEntry};

/// A part of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Needs,
    Working,
    Waiting,
    Done,
}

impl Section {
    pub(super) const ALL: [Self; 4] = [Self::Needs, Self::Working, Self::Waiting, Self::Done];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Needs => "Needs you",
            Self::Working => "Working",
            Self::Waiting => "Waiting",
            Self::Done => "Done",
        }
    }
}

/// An entry of the list, by its place in the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) section: Section,
    pub(super) index: usize,
}

/// An entry as a value.
pub(super) enum Item<'a> {
    Need(&'a Need),
    Working(&'a WorkingEntry),
    Waiting(&'a WaitEntry),
    Done(&'a DoneEntry),
}

impl Item<'_> {
    /// Returns the task of the entry.
    pub(super) fn task(&self) -> Option<&str> {
        match self {
            Self::Need(need) => need.task_id.as_ref().map(|id| id.as_str()),
            Self::Working(entry) => entry.task_id.as_deref(),
            Self::Waiting(entry) => entry.task_id.as_deref(),
            Self::Done(entry) => Some(entry.landed.id.as_str()),
        }
    }

    /// Returns the run whose transcript belongs to the entry, for an objective.
    pub(super) fn run(&self) -> Option<String> {
        let run = match self {
            Self::Need(need) => need.run_id.as_ref(),
            Self::Working(entry) => entry.run_id.as_ref(),
            Self::Waiting(entry) => entry.run_id.as_ref(),
            Self::Done(_) => None,
        };
        run.map(ToString::to_string)
    }

    /// Returns a name by which the entry is found in the next board.
    pub(super) fn key(&self) -> String {
        match (self.task(), self) {
            (Some(task), Self::Need(_)) => format!("need {task}"),
            (Some(task), _) => task.to_owned(),
            (None, Self::Need(need)) => format!("need {:?} {} {}", need.kind, need.next, need.text),
            (None, _) => self.run().unwrap_or_default(),
        }
    }

    /// Returns the text that the filter searches.
    fn haystack(&self) -> String {
        let own = match self {
            Self::Need(need) => need.text.clone(),
            Self::Working(entry) => {
                let worker = entry.worker.as_deref().unwrap_or_default();
                let agent = entry.agent.as_deref().unwrap_or_default();
                format!("{} {worker} {agent}", entry.title)
            }
            Self::Waiting(entry) => format!("{} {}", entry.title, entry.why),
            Self::Done(entry) => entry.landed.title.clone(),
        };
        format!("{} {own}", self.task().unwrap_or_default()).to_lowercase()
    }

    /// Returns the number of lines that the entry takes.
    pub(super) fn height(&self) -> usize {
        match self {
            Self::Working(_) => 2,
            Self::Need(_) | Self::Waiting(_) | Self::Done(_) => 1,
        }
    }
}

/// Returns the number of entries of a section.
fn count(board: &Board, section: Section) -> usize {
    match section {
        Section::Needs => board.needs.len(),
        Section::Working => board.working.len(),
        Section::Waiting => board.waiting.len(),
        Section::Done => board.done.len(),
    }
}

/// Returns the number of things in a section, those that are not listed among them.
pub(super) fn total(board: &Board, section: Section) -> usize {
    let more = match section {
        Section::Needs => board.left_out.needs,
        Section::Working => 0,
        Section::Waiting => board.left_out.waiting,
        Section::Done => board.left_out.done,
    };
    count(board, section) + more
}

/// Returns an entry of the board.
pub(super) fn item(board: &Board, entry: Entry) -> Option<Item<'_>> {
    match entry.section {
        Section::Needs => board.needs.get(entry.index).map(Item::Need),
        Section::Working => board.working.get(entry.index).map(Item::Working),
        Section::Waiting => board.waiting.get(entry.index).map(Item::Waiting),
        Section::Done => board.done.get(entry.index).map(Item::Done),
    }
}

/// Returns the entries that contain `filter`, in the order of the list.
pub(super) fn entries(board: &Board, filter: &str) -> Vec<Entry> {
    let wanted = filter.to_lowercase();
    let all = Section::ALL
        .into_iter()
        .flat_map(|section| (0..count(board, section)).map(move |index| Entry { section, index }));
    let fits = |entry: &Entry| {
        wanted.is_empty()
            || item(board, *entry).is_some_and(|item| item.haystack().contains(&wanted))
    };
    all.filter(fits).collect()
}
