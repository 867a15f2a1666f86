//! The selection of the next task.
//!
//! The selection is an index over the ledger's tasks. It is built when it is first used and then
//! updated row by row, so that choosing costs the same among ten tasks and a hundred thousand.
//! `naive` is the same rule as one walk over everything. A property test holds the two equal.

mod applicant;
mod naive;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::OnceLock,
};

pub use applicant::{Applicant, LabelSet};
pub use naive::{naive, naive_of_run};

use crate::{
    TaskId, Timestamp, WorkerId, graph,
    head::{Head, Phase},
    task::{Status, Task, TaskHash, TaskMap, TaskState},
};

/// The position of a task in the queue. Each task is in exactly one place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// The task is pending, and all dependencies are completed.
    Ready(Bucket, ReadyKey),
    /// The task failed and can be tried again, and all dependencies are completed.
    Retry(Bucket, RetryKey),
    /// The task depends directly on a task that failed for good.
    Blocked,
    /// The task depends on a task that does not exist.
    Dangling,
    /// The task is claimed until this time.
    Claimed(Timestamp, Option<WorkerId>),
    /// The task waits for a dependency, or is finished.
    Aside,
}

/// Tasks that become eligible together: of one phase, for one role, with the same labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Bucket {
    phase: Option<usize>,
    role: Option<String>,
    requires: Vec<String>,
    /// Whether a run can judge the work. Only a run cares.
    has_check: bool,
}

/// Priority, position in an imported plan (tasks without one come last), id.
type ReadyKey = (u8, u64, TaskId);
/// Priority, time of the failure, position, id.
type RetryKey = (u8, Option<Timestamp>, u64, TaskId);

/// The indexes over the tasks of a ledger. They follow each row that changes.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The places of all tasks, except for those aside.
    places: HashMap<TaskId, Place, TaskHash>,
    /// The dependents of each task, in order. Most tasks have one or two.
    dependents: HashMap<TaskId, Vec<TaskId>, TaskHash>,
    ready: BTreeMap<Bucket, BTreeSet<ReadyKey>>,
    retry: BTreeMap<Bucket, BTreeSet<RetryKey>>,
    blocked: BTreeSet<TaskId>,
    dangling: BTreeSet<TaskId>,
    leases: BTreeSet<(Timestamp, TaskId)>,
    held: HashMap<WorkerId, BTreeSet<TaskId>>,
    /// Tasks that wait on themselves and have not been failed for it yet.
    cyclic: BTreeSet<TaskId>,
    phases: Vec<Phase>,
    /// The number of unfinished tasks in each phase.
    unfinished: Vec<usize>,
    /// The numbers of the `task-NNN` ids. `task-1` and `task-001` have the same number. Only the
    /// command that adds a task needs them, so they are collected on first use.
    numbers: OnceLock<BTreeSet<(u64, TaskId)>>,
}

type Tasks = TaskMap<Task>;

impl Selection {
    pub(crate) fn build(head: &Head, tasks: &Tasks) -> Self {
        let mut s = Self {
            phases: head.phases.clone(),
            unfinished: vec![0; head.phases.len()],
            dependents: HashMap::with_capacity_and_hasher(tasks.len(), TaskHash::default()),
            ..Self::default()
        };
        for task in tasks.values() {
            for dependency in &task.depends_on {
                s.dependents.entry(dependency.clone()).or_default().push(task.id.clone());
            }
            s.count(task);
        }
        for of in s.dependents.values_mut() {
            // The tasks of a plan are mostly in order.
            of.sort();
            of.dedup();
        }
        // Most tasks are ready, mostly in order. A set is built faster from all of them at once.
        let mut ready: BTreeMap<Bucket, Vec<ReadyKey>> = BTreeMap::new();
        for task in tasks.values() {
            match s.place(tasks, task) {
                Place::Ready(bucket, key) => {
                    s.places.insert(task.id.clone(), Place::Ready(bucket.clone(), key.clone()));
                    ready.entry(bucket).or_default().push(key);
                }
                other => s.seat_at(task, other),
            }
        }
        s.ready = ready.into_iter().map(|(b, keys)| (b, keys.into_iter().collect())).collect();
        s.cyclic = graph::waiting_on_themselves(tasks);
        s
    }

    /// Updates the indexes for one changed row. `tasks` already contains the new row.
    pub(crate) fn row_changed(
        &mut self,
        tasks: &Tasks,
        before: Option<&Task>,
        after: Option<&Task>,
    ) {
        let Some(id) = after.or(before).map(|t| t.id.clone()) else { return };
        if let Some(before) = before {
            self.unlink(before);
        }
        if let Some(after) = after {
            self.link(after);
        }
        self.leave(&id);
        if let Some(after) = after {
            self.seat(tasks, after);
        }
        let as_dependency =
            |t: Option<&Task>| t.map(|t| (t.status() == Status::Completed, t.failed_for_good()));
        if as_dependency(before) != as_dependency(after) {
            for dependent in self.dependents.get(&id).cloned().unwrap_or_default() {
                if let Some(task) = tasks.get(&dependent) {
                    self.leave(&dependent);
                    self.seat(tasks, task);
                }
            }
        }
        self.follow_cycles(tasks, before, after);
    }

    /// Returns the next task for a worker.
    pub fn next(&self, of: Applicant<'_>) -> Option<&TaskId> {
        self.first(|bucket| self.suits(bucket, of))
    }

    /// The next task for a run, which needs a check: those without one come last.
    pub fn next_of_run(&self, of: Applicant<'_>) -> Option<&TaskId> {
        let with_check = self.first(|bucket| bucket.has_check && self.suits(bucket, of));
        with_check.or_else(|| self.next(of))
    }

    /// The next task of a run that works on `chosen` only, by the same rule.
    pub fn next_among<'c>(
        &self,
        chosen: &'c BTreeSet<TaskId>,
        of: Applicant<'_>,
    ) -> Option<&'c TaskId> {
        let key = |id: &'c TaskId| match self.places.get(id)? {
            Place::Ready(bucket, (rank, position, _)) if self.suits(bucket, of) => {
                Some((!bucket.has_check, false, *rank, None, *position, id))
            }
            Place::Retry(bucket, (rank, at, position, _)) if self.suits(bucket, of) => {
                Some((!bucket.has_check, true, *rank, *at, *position, id))
            }
            Place::Ready(..)
            | Place::Retry(..)
            | Place::Blocked
            | Place::Dangling
            | Place::Claimed(..)
            | Place::Aside => None,
        };
        chosen.iter().filter_map(key).min().map(|(.., id)| id)
    }

    /// Returns the task, if the worker can claim it now.
    pub fn ready(&self, task: &TaskId, of: Applicant<'_>) -> Option<&TaskId> {
        let (id, place) = self.places.get_key_value(task)?;
        match place {
            Place::Ready(bucket, _) | Place::Retry(bucket, _) => {
                self.suits(bucket, of).then_some(id)
            }
            Place::Blocked | Place::Dangling | Place::Claimed(..) | Place::Aside => None,
        }
    }

    fn first(&self, suits: impl Fn(&Bucket) -> bool) -> Option<&TaskId> {
        let ready = self.ready.iter().filter(|(b, _)| suits(b)).filter_map(|(_, k)| k.first());
        if let Some((_, _, id)) = ready.min() {
            return Some(id);
        }
        let retry = self.retry.iter().filter(|(b, _)| suits(b)).filter_map(|(_, k)| k.first());
        retry.min().map(|(_, _, _, id)| id)
    }

    /// Returns all tasks that the worker could claim now, in the order of claiming.
    pub fn queue(&self, of: Applicant<'_>) -> Vec<&TaskId> {
        let suits = |b: &Bucket| self.suits(b, of);
        let ready = self.ready.iter().filter(|(b, _)| suits(b));
        let mut ready: Vec<_> = ready.flat_map(|(_, keys)| keys).collect();
        ready.sort_unstable();
        let retry = self.retry.iter().filter(|(b, _)| suits(b));
        let mut retry: Vec<_> = retry.flat_map(|(_, keys)| keys).collect();
        retry.sort_unstable();
        let ready = ready.into_iter().map(|(_, _, id)| id);
        ready.chain(retry.into_iter().map(|(_, _, _, id)| id)).collect()
    }

    fn suits(&self, bucket: &Bucket, of: Applicant<'_>) -> bool {
        of.has_role(bucket.role.as_deref())
            && of.has_labels(&bucket.requires)
            && bucket.phase.is_none_or(|p| self.phase_open(p))
    }

    /// Returns the earliest phase that `task` waits for.
    pub fn phase_before(&self, task: &Task) -> Option<&str> {
        let position = self.phase_of(task)?;
        let closed = (0..position).find(|p| self.unfinished[*p] > 0 || !passed(&self.phases[*p]));
        closed.map(|p| self.phases[p].name.as_str())
    }

    /// Returns the phase whose gate is due: all of its tasks are done, and the gates of all earlier
    /// phases passed.
    pub fn due_gate(&self) -> Option<&Phase> {
        let first = (0..self.phases.len()).find(|p| !passed(&self.phases[*p]))?;
        (0..=first).all(|p| self.unfinished[p] == 0).then(|| &self.phases[first])
    }

    /// Returns whether the tasks of the phase at this position may be worked on.
    pub fn phase_open(&self, position: usize) -> bool {
        (0..position).all(|p| self.unfinished[p] == 0 && passed(&self.phases[p]))
    }

    /// Returns the tasks that name `id` in `depends_on`.
    pub fn dependents(&self, id: &TaskId) -> impl Iterator<Item = &TaskId> {
        self.dependents.get(id).into_iter().flatten()
    }

    /// Returns the pending or retryable tasks that depend directly on a task that failed for good.
    pub fn blocked(&self) -> &BTreeSet<TaskId> {
        &self.blocked
    }

    /// Returns the unfinished tasks that depend on a task that does not exist.
    pub fn dangling(&self) -> &BTreeSet<TaskId> {
        &self.dangling
    }

    /// Returns the tasks that depend, directly or not, on themselves.
    pub fn cyclic(&self) -> &BTreeSet<TaskId> {
        &self.cyclic
    }

    /// Returns the claimed tasks of one worker, whatever their leases say.
    pub fn held_by(&self, worker: &WorkerId) -> impl Iterator<Item = &TaskId> {
        self.held.get(worker).into_iter().flatten()
    }

    /// Returns the claimed tasks whose lease has run out, the longest overdue first.
    pub fn expired(&self, now: Timestamp) -> impl Iterator<Item = &TaskId> {
        self.leases.iter().take_while(move |(end, _)| *end <= now).map(|(_, id)| id)
    }

    /// Returns all claimed tasks, ordered by the end of their leases.
    pub fn claimed(&self) -> impl Iterator<Item = &TaskId> {
        self.leases.iter().map(|(_, id)| id)
    }

    /// Returns the largest `NNN` of the `task-NNN` ids of `tasks`, which this index is over.
    pub(crate) fn highest_number(&self, tasks: &Tasks) -> u64 {
        let numbers = self.numbers.get_or_init(|| {
            tasks.keys().filter_map(|id| Some((id.number()?, id.clone()))).collect()
        });
        numbers.last().map_or(0, |(n, _)| *n)
    }

    fn link(&mut self, task: &Task) {
        for dependency in &task.depends_on {
            let of = self.dependents.entry(dependency.clone()).or_default();
            if let Err(at) = of.binary_search(&task.id) {
                of.insert(at, task.id.clone());
            }
        }
        if let (Some(numbers), Some(n)) = (self.numbers.get_mut(), task.id.number()) {
            numbers.insert((n, task.id.clone()));
        }
        self.count(task);
    }

    fn count(&mut self, task: &Task) {
        if task.unfinished()
            && let Some(p) = self.phase_of(task)
        {
            self.unfinished[p] += 1;
        }
    }

    fn unlink(&mut self, task: &Task) {
        for dependency in &task.depends_on {
            if let Some(of) = self.dependents.get_mut(dependency) {
                if let Ok(at) = of.binary_search(&task.id) {
                    of.remove(at);
                }
                if of.is_empty() {
                    self.dependents.remove(dependency);
                }
            }
        }
        if let (Some(numbers), Some(n)) = (self.numbers.get_mut(), task.id.number()) {
            numbers.remove(&(n, task.id.clone()));
        }
        if task.unfinished()
            && let Some(p) = self.phase_of(task)
        {
            self.unfinished[p] -= 1;
        }
    }

    fn phase_of(&self, task: &Task) -> Option<usize> {
        let name = task.phase.as_deref()?;
        self.phases.iter().position(|p| p.name == name)
    }

    fn place(&self, tasks: &Tasks, task: &Task) -> Place {
        let open = match &task.state {
            TaskState::Completed(_) => return Place::Aside,
            TaskState::Claimed(claim) => {
                let end = claim.lease_expires_at.unwrap_or(Timestamp::from_seconds(i64::MIN));
                return Place::Claimed(end, claim.by.clone());
            }
            TaskState::Failed(_) if task.failed_for_good() => return Place::Aside,
            TaskState::Pending | TaskState::Failed(_) => task,
        };
        let dependencies = || open.depends_on.iter().map(|d| tasks.get(d));
        if dependencies().any(|d| d.is_none()) {
            return Place::Dangling;
        }
        if dependencies().flatten().any(Task::failed_for_good) {
            return Place::Blocked;
        }
        if !dependencies().flatten().all(|d| d.status() == Status::Completed) {
            return Place::Aside;
        }
        let bucket = Bucket {
            phase: self.phase_of(open),
            role: open.role.clone(),
            requires: open.requires.clone(),
            has_check: open.check().is_some(),
        };
        let position = open.order.unwrap_or(u64::MAX);
        let rank = open.priority.rank();
        match open.failure() {
            Some(failure) => Place::Retry(bucket, (rank, failure.at, position, open.id.clone())),
            None => Place::Ready(bucket, (rank, position, open.id.clone())),
        }
    }

    fn seat(&mut self, tasks: &Tasks, task: &Task) {
        let place = self.place(tasks, task);
        self.seat_at(task, place);
    }

    fn seat_at(&mut self, task: &Task, place: Place) {
        let id = task.id.clone();
        match &place {
            Place::Ready(b, k) => {
                self.ready.entry(b.clone()).or_default().insert(k.clone());
            }
            Place::Retry(b, k) => {
                self.retry.entry(b.clone()).or_default().insert(k.clone());
            }
            Place::Blocked => {
                self.blocked.insert(id.clone());
            }
            Place::Dangling => {
                self.dangling.insert(id.clone());
            }
            Place::Claimed(end, worker) => {
                self.leases.insert((*end, id.clone()));
                if let Some(worker) = worker {
                    self.held.entry(worker.clone()).or_default().insert(id.clone());
                }
            }
            Place::Aside => return,
        }
        self.places.insert(id, place);
    }

    fn leave(&mut self, id: &TaskId) {
        match self.places.remove(id) {
            Some(Place::Ready(b, k)) => take_out(&mut self.ready, &b, &k),
            Some(Place::Retry(b, k)) => take_out(&mut self.retry, &b, &k),
            Some(Place::Blocked) => {
                self.blocked.remove(id);
            }
            Some(Place::Dangling) => {
                self.dangling.remove(id);
            }
            Some(Place::Claimed(end, worker)) => {
                self.leases.remove(&(end, id.clone()));
                if let Some(worker) = worker
                    && let Some(of) = self.held.get_mut(&worker)
                {
                    of.remove(id);
                    if of.is_empty() {
                        self.held.remove(&worker);
                    }
                }
            }
            Some(Place::Aside) | None => {}
        }
    }

    /// Updates the set of tasks on cycles. Commands refuse to close a cycle. It can only come with
    /// a ledger that was written by hand, or return when a task that failed for it becomes pending
    /// again.
    fn follow_cycles(&mut self, tasks: &Tasks, before: Option<&Task>, after: Option<&Task>) {
        fn edges(task: Option<&Task>) -> &[TaskId] {
            task.filter(|t| t.status() != Status::Completed).map_or(&[], |t| &t.depends_on)
        }
        if !self.cyclic.is_empty() && edges(before) != edges(after) {
            self.cyclic = graph::waiting_on_themselves(tasks);
            return;
        }
        let waits = |t: &Task| t.status() == Status::Pending || t.retryable();
        match after {
            Some(task) if waits(task) => {
                let was_waiting = before.is_some_and(waits);
                let suspicious = !was_waiting || edges(before) != edges(after);
                if suspicious
                    && self.dependents.contains_key(&task.id)
                    && graph::reaches_itself(tasks, &task.id)
                {
                    self.cyclic.insert(task.id.clone());
                }
            }
            Some(task) => {
                self.cyclic.remove(&task.id);
            }
            None => {
                if let Some(before) = before {
                    self.cyclic.remove(&before.id);
                }
            }
        }
    }
}

fn take_out<K: Ord>(from: &mut BTreeMap<Bucket, BTreeSet<K>>, bucket: &Bucket, key: &K) {
    if let Some(keys) = from.get_mut(bucket) {
        keys.remove(key);
        if keys.is_empty() {
            from.remove(bucket);
        }
    }
}

fn passed(phase: &Phase) -> bool {
    phase.passed_at.is_some() || (phase.gate.is_none() && !phase.approve)
}
