//! The graph of a plan: every dependency must exist, and no task may wait for itself.

use super::{Plan, PlanError};
use crate::TaskId;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Unseen,
    OnPath,
    Done,
}

impl Plan {
    /// Refuses dependencies that neither the plan nor `known` has, and cycles among the plan's
    /// tasks. The cycle is named by the first repeated node of a depth-first walk in plan order.
    ///
    /// Existing tasks cannot depend on new ones, so they close no cycle. A merged plan is checked
    /// without the tasks that the merge leaves unchanged.
    pub fn check_graph(&self, known: impl Fn(&TaskId) -> bool) -> Result<(), PlanError> {
        for (id, task) in &self.tasks {
            let exists = |d: &&TaskId| self.tasks.contains_key(*d) || known(d);
            if let Some(dependency) = task.dependencies.iter().find(|d| !exists(d)) {
                let (dependency, task) = (dependency.clone(), id.clone());
                return Err(PlanError::MissingDependency { dependency, task });
            }
        }
        let mut marks = vec![Mark::Unseen; self.tasks.len()];
        for start in 0..self.tasks.len() {
            self.walk(start, &mut marks)?;
        }
        Ok(())
    }

    /// Keeps the path on the heap, because a plan may be one chain of many thousand tasks.
    fn walk(&self, start: usize, marks: &mut [Mark]) -> Result<(), PlanError> {
        if marks[start] == Mark::Done {
            return Ok(());
        }
        marks[start] = Mark::OnPath;
        let mut path = vec![(start, self.tasks[start].dependencies.iter())];
        while let Some((node, dependencies)) = path.last_mut() {
            let Some(id) = dependencies.next() else {
                marks[*node] = Mark::Done;
                path.pop();
                continue;
            };
            let Some((next, _, task)) = self.tasks.get_full(id) else { continue };
            match marks[next] {
                Mark::OnPath => return Err(PlanError::Cycle(id.clone())),
                Mark::Done => {}
                Mark::Unseen => {
                    marks[next] = Mark::OnPath;
                    path.push((next, task.dependencies.iter()));
                }
            }
        }
        Ok(())
    }
}
