//! Circles among the tasks of a source. A wait that only follows from the structure of the source, such
//! as the order of items or parts of a task, gives way to a wait that somebody wrote.

use std::collections::{BTreeMap, BTreeSet};

use super::Imported;

/// The task that waits, and the one that it waits for.
pub(super) type Wait = (String, String);

/// For each task the places of those that it waits for.
type Waits = Vec<Vec<usize>>;

/// Removes waits that nobody wrote from circles, and notes it. A circle of written ones stays, and is
/// refused later.
pub(super) fn open(found: &mut Imported, written: &BTreeSet<Wait>) {
    let places: BTreeMap<&str, usize> =
        found.tasks.iter().enumerate().map(|(n, task)| (task.name.as_str(), n)).collect();
    let place = |name: &String| places.get(name.as_str()).copied();
    let waits: Waits =
        found.tasks.iter().map(|task| task.depends_on.iter().filter_map(place).collect()).collect();
    let closed = in_circles(&waits);
    if closed.is_empty() {
        return;
    }
    let is_written = |from: usize, to: usize| {
        let name = |n: usize| found.tasks[n].name.clone();
        written.contains(&(name(from), name(to)))
    };
    let inner = |from: usize| waits[from].iter().copied().filter(|to| closed.contains(to));
    let mut kept: Waits = vec![Vec::new(); waits.len()];
    let mut others = Vec::new();
    for from in &closed {
        for to in inner(*from) {
            if is_written(*from, to) { kept[*from].push(to) } else { others.push((*from, to)) }
        }
    }
    let mut dropped = Vec::new();
    for (from, to) in others {
        if reaches(&kept, to, from) { dropped.push((from, to)) } else { kept[from].push(to) }
    }
    for (from, to) in dropped {
        let other = found.tasks[to].name.clone();
        let task = &mut found.tasks[from];
        task.depends_on.retain(|name| *name != other);
        let name = &task.name;
        found.notes.push(format!("{name}: it does not wait for {other}, which waits for it"));
    }
}

/// Returns the tasks that are in a circle, or between two of them.
fn in_circles(waits: &Waits) -> BTreeSet<usize> {
    let mut awaited: Waits = vec![Vec::new(); waits.len()];
    for (from, others) in waits.iter().enumerate() {
        others.iter().for_each(|to| awaited[*to].push(from));
    }
    let all: BTreeSet<usize> = (0..waits.len()).collect();
    let left = without_ends(all, waits, &awaited);
    without_ends(left, &awaited, waits)
}

/// Removes tasks as long as there is one that waits for none of the others.
fn without_ends(mut left: BTreeSet<usize>, waits: &Waits, awaited: &Waits) -> BTreeSet<usize> {
    let open = |n: usize| waits[n].iter().filter(|to| left.contains(to)).count();
    let mut counts: BTreeMap<usize, usize> = left.iter().map(|n| (*n, open(*n))).collect();
    let mut ends: Vec<usize> = left.iter().copied().filter(|n| counts[n] == 0).collect();
    while let Some(end) = ends.pop() {
        left.remove(&end);
        for from in &awaited[end] {
            if let Some(count) = counts.get_mut(from) {
                *count = count.saturating_sub(1);
                if *count == 0 && left.contains(from) {
                    ends.push(*from);
                }
            }
        }
    }
    left
}

fn reaches(waits: &Waits, from: usize, to: usize) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        if next == to {
            return true;
        }
        if seen.insert(next) {
            open.extend(&waits[next]);
        }
    }
    false
}
