//! The graph of dependencies: cycles and reachability. Nothing here recurses, so that a chain of a
//! hundred thousand tasks does not need a deep stack.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use crate::{
    TaskId,
    task::{Status, Task, TaskMap},
};

/// A cycle with more members than this is abbreviated.
const SHOWN_IN_FULL: usize = 20;
const SHOWN_AT_THE_START: usize = 10;

type Tasks = TaskMap<Task>;

/// Returns whether a task is not completed. Edges lead only through such tasks, because a completed
/// task blocks nobody.
fn open(tasks: &Tasks, position: usize) -> bool {
    tasks[position].status() != Status::Completed
}

fn edges(tasks: &Tasks, from: usize) -> impl Iterator<Item = usize> {
    let dependencies = if open(tasks, from) { tasks[from].depends_on.as_slice() } else { &[] };
    dependencies.iter().filter_map(|d| tasks.get_index_of(d)).filter(|p| open(tasks, *p))
}

/// Returns whether `task` still waits, and so can be failed for waiting on itself. A claimed task
/// is left to its holder.
fn waits(task: &Task) -> bool {
    task.status() == Status::Pending || task.retryable()
}

/// Returns the waiting tasks that are on a cycle.
pub(crate) fn waiting_on_themselves(tasks: &Tasks) -> BTreeSet<TaskId> {
    let members = knots(tasks).into_iter().flatten().map(|p| &tasks[p]);
    members.filter(|t| waits(t)).map(|t| t.id.clone()).collect()
}

pub(crate) fn reaches_itself(tasks: &Tasks, id: &TaskId) -> bool {
    let Some(start) = tasks.get_index_of(id) else { return false };
    let mut seen = vec![false; tasks.len()];
    let mut stack: Vec<usize> = edges(tasks, start).collect();
    while let Some(at) = stack.pop() {
        if at == start {
            return true;
        }
        if !std::mem::replace(&mut seen[at], true) {
            stack.extend(edges(tasks, at));
        }
    }
    false
}

/// Checks whether `task` would be on a cycle if it depended on `dependencies`. Returns the
/// dependency that would close the cycle.
pub(crate) fn closes_cycle<'a>(
    find: impl Fn(&TaskId) -> Option<&'a Task>,
    task: &TaskId,
    dependencies: &[TaskId],
) -> Option<TaskId> {
    // A task that was visited for an earlier dependency does not lead to `task`, so it is skipped.
    let mut seen = HashSet::new();
    for dependency in dependencies {
        let mut stack = vec![dependency.clone()];
        while let Some(at) = stack.pop() {
            if at == *task {
                return Some(dependency.clone());
            }
            let next = find(&at).filter(|t| t.status() != Status::Completed);
            if seen.insert(at) {
                stack.extend(next.into_iter().flat_map(|t| t.depends_on.iter().cloned()));
            }
        }
    }
    None
}

/// Returns, for each waiting task on a cycle, the text `a -> b -> a` that starts and ends with its
/// id.
pub(crate) fn cycle_texts(tasks: &Tasks) -> BTreeMap<TaskId, String> {
    let mut texts = BTreeMap::new();
    for knot in knots(tasks) {
        let within: BTreeSet<usize> = knot.iter().copied().collect();
        let simple = simple_cycle(tasks, &knot, &within);
        for (turn, member) in knot.iter().enumerate() {
            let member = simple.as_ref().map_or(*member, |ring| ring[turn]);
            if !waits(&tasks[member]) {
                continue;
            }
            let path = match &simple {
                Some(ring) => path_text(tasks, ring.len(), |n| ring[(turn + n) % ring.len()]),
                None => {
                    let path = shortest_cycle(tasks, member, &within);
                    path_text(tasks, path.len(), |n| path[n % path.len()])
                }
            };
            texts.insert(tasks[member].id.clone(), path);
        }
    }
    texts
}

fn path_text(tasks: &Tasks, length: usize, nth: impl Fn(usize) -> usize) -> String {
    let name = |n: usize| tasks[nth(n)].id.as_str();
    let mut parts: Vec<&str> = Vec::new();
    let shown = if length > SHOWN_IN_FULL { SHOWN_AT_THE_START } else { length };
    parts.extend((0..shown).map(name));
    let more = format!("… ({} more) …", length - shown);
    if shown < length {
        parts.push(&more);
    }
    parts.push(name(0));
    parts.join(" -> ")
}

/// Returns the members in the order in which they wait for each other, if each waits for exactly
/// one other. The text of every member is then a rotation of the same ring and needs no search.
fn simple_cycle(tasks: &Tasks, knot: &[usize], within: &BTreeSet<usize>) -> Option<Vec<usize>> {
    let mut ring = Vec::with_capacity(knot.len());
    let mut at = knot[0];
    for _ in 0..knot.len() {
        ring.push(at);
        let next: BTreeSet<usize> = edges(tasks, at).filter(|p| within.contains(p)).collect();
        if next.len() != 1 {
            return None;
        }
        at = *next.first()?;
    }
    (at == knot[0] && ring.iter().collect::<BTreeSet<_>>().len() == knot.len()).then_some(ring)
}

fn shortest_cycle(tasks: &Tasks, start: usize, within: &BTreeSet<usize>) -> Vec<usize> {
    let mut came_from: HashMap<usize, usize> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in edges(tasks, at).filter(|p| within.contains(p)) {
            if next == start {
                let mut path = vec![at];
                while let Some(&earlier) = path.last().and_then(|p| came_from.get(p)) {
                    path.push(earlier);
                }
                path.reverse();
                return path;
            }
            if next != start && !came_from.contains_key(&next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    vec![start]
}

/// Returns the strongly connected components that contain a cycle. This is Tarjan's algorithm with
/// an explicit stack.
fn knots(tasks: &Tasks) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let n = tasks.len();
    let (mut index, mut low) = (vec![UNSEEN; n], vec![0; n]);
    let mut on_stack = vec![false; n];
    let (mut stack, mut found, mut counter) = (Vec::new(), Vec::new(), 0);
    for root in 0..n {
        if index[root] != UNSEEN || !open(tasks, root) || tasks[root].depends_on.is_empty() {
            continue;
        }
        let mut visits: Vec<(usize, Vec<usize>)> = vec![(root, edges(tasks, root).collect())];
        (index[root], low[root]) = (counter, counter);
        counter += 1;
        stack.push(root);
        on_stack[root] = true;
        while let Some((at, ahead)) = visits.last_mut() {
            let at = *at;
            match ahead.pop() {
                Some(next) if index[next] == UNSEEN => {
                    (index[next], low[next]) = (counter, counter);
                    counter += 1;
                    stack.push(next);
                    on_stack[next] = true;
                    visits.push((next, edges(tasks, next).collect()));
                }
                Some(next) if on_stack[next] => low[at] = low[at].min(index[next]),
                Some(_) => {}
                None => {
                    visits.pop();
                    if let Some((above, _)) = visits.last() {
                        low[*above] = low[*above].min(low[at]);
                    }
                    if low[at] == index[at] {
                        let cut = stack.iter().rposition(|p| *p == at).unwrap_or(0);
                        let mut part = stack.split_off(cut);
                        part.iter().for_each(|p| on_stack[*p] = false);
                        part.sort_unstable();
                        if part.len() > 1 || edges(tasks, at).any(|p| p == at) {
                            found.push(part);
                        }
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::TaskState;

    fn tasks(edges: &[(&str, &[&str])]) -> Tasks {
        let id = |t: &str| TaskId::parse(t).unwrap();
        let task = |(name, on): &(&str, &[&str])| {
            let mut t = Task::new(id(name), *name);
            t.depends_on = on.iter().map(|d| id(d)).collect();
            (t.id.clone(), t)
        };
        edges.iter().map(task).collect()
    }

    fn texts(edges: &[(&str, &[&str])]) -> Vec<String> {
        cycle_texts(&tasks(edges)).into_values().collect()
    }

    #[test]
    fn each_member_tells_the_cycle_from_its_own_side() {
        assert_eq!(texts(&[("a", &["b"]), ("b", &["a"])]), ["a -> b -> a", "b -> a -> b"]);
        assert_eq!(texts(&[("a", &["a"])]), ["a -> a"]);
        assert_eq!(texts(&[("a", &["b"]), ("b", &[])]), Vec::<String>::new());
        // `c` depends on a member of the cycle, but is not on it.
        assert_eq!(texts(&[("a", &["b"]), ("b", &["a"]), ("c", &["a"])]).len(), 2);
        // The two cycles share a member.
        let shared = texts(&[("a", &["b", "c"]), ("b", &["a"]), ("c", &["a"])]);
        assert_eq!(shared, ["a -> b -> a", "b -> a -> b", "c -> a -> c"]);
    }

    #[test]
    fn a_completed_task_breaks_a_cycle() {
        let mut t = tasks(&[("a", &["b"]), ("b", &["a"])]);
        t[0].state = TaskState::Completed(Default::default());
        assert!(cycle_texts(&t).is_empty());
    }

    #[test]
    fn a_long_cycle_is_abbreviated_and_found_without_recursion() {
        let n = 50_000;
        let names: Vec<String> = (0..n).map(|i| format!("t{i}")).collect();
        let ring: Tasks = (0..n)
            .map(|i| {
                let mut t = Task::new(TaskId::parse(&names[i]).unwrap(), "t");
                t.depends_on = vec![TaskId::parse(&names[(i + 1) % n]).unwrap()];
                (t.id.clone(), t)
            })
            .collect();
        let texts = cycle_texts(&ring);
        assert_eq!(texts.len(), n);
        assert_eq!(
            texts[&TaskId::parse("t5").unwrap()],
            "t5 -> t6 -> t7 -> t8 -> t9 -> t10 -> t11 -> t12 -> t13 -> t14 -> … (49990 more) … -> t5"
        );
    }
}
