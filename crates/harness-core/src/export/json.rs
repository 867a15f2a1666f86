//! The forms of tools that keep JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Contents, check, is_done, validate};
use crate::{
    Task, TaskId,
    task::{Priority, Status},
};

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn instructions(task: &Task) -> &str {
    task.instructions.as_deref().unwrap_or_default()
}

pub(super) fn prd(contents: &Contents<'_>) -> String {
    let story = |(n, task): (usize, &&Task)| {
        let mut story = json!({
            "id": task.id,
            "title": task.title,
            "description": instructions(task),
            "acceptanceCriteria": validate(task).into_iter().collect::<Vec<_>>(),
            "priority": n + 1,
            "passes": is_done(task),
            "notes": "",
        });
        if !task.depends_on.is_empty() {
            story["dependsOn"] = json!(task.depends_on);
        }
        story
    };
    let stories: Vec<Value> = contents.tasks.iter().enumerate().map(story).collect();
    pretty(&json!({
        "project": contents.goal,
        "description": contents.goal,
        "userStories": stories,
    }))
}

pub(super) fn taskmaster(contents: &Contents<'_>) -> String {
    let numbers: BTreeMap<&TaskId, usize> =
        contents.tasks.iter().enumerate().map(|(n, task)| (&task.id, n + 1)).collect();
    let one = |task: &&Task| {
        let waits: Vec<usize> =
            task.depends_on.iter().filter_map(|id| numbers.get(id).copied()).collect();
        let priority = match task.priority {
            Priority::P0 => "high",
            Priority::P1 | Priority::Unknown(_) => "medium",
            Priority::P2 => "low",
        };
        let status = match task.status() {
            Status::Completed => "done",
            Status::InProgress => "in-progress",
            Status::Pending | Status::Failed => "pending",
        };
        json!({
            "id": numbers[&task.id],
            "title": task.title,
            "description": task.title,
            "details": instructions(task),
            "testStrategy": validate(task).unwrap_or_default(),
            "priority": priority,
            "dependencies": waits,
            "status": status,
            "subtasks": [],
        })
    };
    let tasks: Vec<Value> = contents.tasks.iter().map(one).collect();
    let now = contents.now.to_string();
    let metadata = json!({ "created": now, "updated": now, "description": contents.goal });
    pretty(&json!({ "master": { "tasks": tasks, "metadata": metadata } }))
}

pub(super) fn beads(contents: &Contents<'_>) -> String {
    let now = contents.now.to_string();
    let one = |task: &&Task| {
        let waits: Vec<Value> = task
            .depends_on
            .iter()
            .map(|other| {
                json!({
                    "issue_id": task.id,
                    "depends_on_id": other,
                    "type": "blocks",
                    "created_at": now,
                })
            })
            .collect();
        let status = match task.status() {
            Status::Completed => "closed",
            Status::InProgress => "in_progress",
            Status::Pending | Status::Failed => "open",
        };
        let priority = match task.priority {
            Priority::P0 => 0,
            Priority::P1 | Priority::Unknown(_) => 2,
            Priority::P2 => 3,
        };
        let mut issue = json!({
            "id": task.id,
            "title": task.title,
            "description": instructions(task),
            "status": status,
            "priority": priority,
            "issue_type": "task",
            "created_at": now,
            "updated_at": now,
        });
        if let Some(command) = check(task) {
            issue["acceptance_criteria"] = format!("Validate: `{command}`").into();
        }
        if is_done(task) {
            let at = task.completed_at().unwrap_or(contents.now);
            issue["closed_at"] = at.to_string().into();
        }
        if !waits.is_empty() {
            issue["dependencies"] = waits.into();
        }
        format!("{issue}\n")
    };
    contents.tasks.iter().map(one).collect()
}
